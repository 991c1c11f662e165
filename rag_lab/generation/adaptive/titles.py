"""Which documents a text names: titles of the corpus that stand in it, word by word and in the same case.

A passage that names the title of another document is a link to it, in an encyclopedia as in a handbook. What a title
adds in brackets to tell it from others, as in *Sinister (film)*, is left out of what is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag_lab.contracts import Span
from rag_lab.generation.terms import CJK, STOPWORDS

SHORTEST, SHORTEST_HAN = 4, 2
"""Letters of the shortest title of one word, and characters of the shortest Chinese one; others stand everywhere."""

_BRACKETS = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_TOKEN = re.compile(rf"[{CJK}]|[^\W_{CJK}]+")
_WORD = re.compile(rf"[^\W{CJK}]")


def plain_title(title: str) -> str:
    """A title on one line, without what it adds in brackets; as it is where nothing else is left."""
    flat = " ".join(title.split())
    return _BRACKETS.sub("", flat) or flat


@dataclass(frozen=True, slots=True)
class Mention:
    """A title in a text: where it stands, and the rows that bear it."""

    title: str
    span: Span
    rows: tuple[int, ...]


class Titles:
    """The titles of a corpus by their first words.

    Args:
        titles: of each row, ``[rows]``; equal ones follow each other or not, empty ones name nothing.
    """

    def __init__(self, titles: Sequence[str]) -> None:
        rows: dict[str, list[int]] = {}
        for row, title in enumerate(titles):
            rows.setdefault(title, []).append(row)
        self._rows: dict[str, list[int]] = {}
        for title, found in rows.items():
            plain = plain_title(title)
            if _can_be_found(plain):
                self._rows.setdefault(plain, []).extend(found)
        self._by_start: dict[tuple[str, ...], list[str]] = {}
        for plain in sorted(self._rows, key=lambda title: (-len(title), title)):
            self._by_start.setdefault(tuple(_TOKEN.findall(plain)[:2]), []).append(plain)

    def mentions(self, text: str) -> list[Mention]:
        """The titles in a text in order; where they overlap, the longest of those that begin first."""
        found: list[Mention] = []
        tokens = list(_TOKEN.finditer(text))
        after = 0
        for number, token in enumerate(tokens):
            if token.start() < after:
                continue
            first, second = token[0], tokens[number + 1][0] if number + 1 < len(tokens) else ""
            for title in (*self._by_start.get((first, second), ()), *self._by_start.get((first,), ())):
                begin = token.start() - _first_token(title)
                if begin >= 0 and _stands(text, title, begin):
                    after = begin + len(title)
                    found.append(Mention(title, (begin, after), tuple(self._rows[title])))
                    break
        return found


def _first_token(title: str) -> int:
    """Where the first word begins, after a quotation mark for one."""
    match = _TOKEN.search(title)
    return match.start() if match else 0


def _can_be_found(title: str) -> bool:
    tokens = _TOKEN.findall(title)
    if not tokens:
        return False
    if re.match(f"[{CJK}]", tokens[0]):
        return len(tokens) >= SHORTEST_HAN
    capital = any(character.isupper() for character in title)
    if len(tokens) > 1:
        return capital
    return len(tokens[0]) >= SHORTEST and capital and title.lower() not in STOPWORDS


def _stands(text: str, title: str, begin: int) -> bool:
    """Whether a title stands at a place, and not as a part of longer words."""
    end = begin + len(title)
    if not text.startswith(title, begin):
        return False
    opens = begin > 0 and _WORD.match(text[begin - 1]) and _WORD.match(title[0])
    closes = end < len(text) and _WORD.match(text[end]) and _WORD.match(title[-1])
    return not opens and not closes
