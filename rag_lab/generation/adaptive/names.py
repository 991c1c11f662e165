"""The names in a text: quoted phrases and runs of capitalised words; in Chinese, what stands in quotation marks.

A small rule in place of a tagger: it sees *Sir Matt Busby* and *“1984”*, and it misses names in lower case.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rag_lab.generation.terms import CJK, STOPWORDS

MOST_WORDS = 8
"""Words of the longest name; a longer run of capitals is a headline."""

_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|《([^》\n]+)》|〈([^〉\n]+)〉")
_LINKS = frozenset(["of", "the", "de", "la", "le", "du", "von", "van", "der", "del", "da", "di", "al", "el", "&"])
_TOKEN = re.compile(rf"[^\s{CJK}]+")
_EDGES = ".,;:?!()[]'\"“”‘’"
_POSSESSIVE = re.compile(r"['’]s?$")
_STOPS = re.compile(r"[.,;:?!)\]]+[\"”’']*$")
_INITIAL = re.compile(r"(?:[A-Z]\.)+|(?:St|Mt|Dr|Mr|Mrs|Ms|Jr|Sr)\.")


@lru_cache(maxsize=50_000)
def names(text: str) -> tuple[str, ...]:
    """Distinct names, quoted ones first, then in order of appearance.

    A word that begins a sentence counts when the next one has a capital as well, or when it is no function word and the
    text has more than one word.
    """
    quoted = [next(filter(None, match)).strip() for match in _QUOTED.findall(text)]
    runs: list[str] = []
    run: list[str] = []
    first = True
    for match in _TOKEN.finditer(_QUOTED.sub(" . ", text)):
        token = match[0]
        word = _POSSESSIVE.sub("", token.strip(_EDGES))
        capital = bool(word) and (word[0].isupper() or word[0].isdigit())
        if capital and not (first and word.lower() in STOPWORDS):
            run.append(word if not _INITIAL.fullmatch(token) else token)
        elif run and word in _LINKS:
            run.append(word)
        else:
            runs.append(_closed(run))
            run = []
        ends = bool(_STOPS.search(token)) and not _INITIAL.fullmatch(token)
        if ends or token.endswith(("'s", "’s")):
            runs.append(_closed(run))
            run = []
        first = ends and token.rstrip("\"”’'")[-1:] in ".?!"
    runs.append(_closed(run))
    return tuple(dict.fromkeys(name for name in (*quoted, *runs) if name))


def _closed(run: list[str]) -> str:
    """The words of a run without links at its ends; "" for what is no name: a number alone, or a headline."""
    while len(run) > 1 and (run[0] in _LINKS or (run[0].isdigit() and run[1] in _LINKS)):
        run = run[1:]
    while run and run[-1] in _LINKS:
        run = run[:-1]
    if not any(word[0].isupper() for word in run) or len(run) > MOST_WORDS:
        return ""
    return " ".join(run)
