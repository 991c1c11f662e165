"""A question in the words of another language by a list of terms: what the list has, and what needs no translation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from rag_lab.generation.queries.facts import Kind, facts, plain
from rag_lab.generation.terms import CJK

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f](?:[\w.&'-]*[\w])?", re.ASCII)
_NUMERAL = re.compile(r"\d+(?:[.,:]\d+)*%?")
_Place: TypeAlias = tuple[int, int, str]


def translate(texts: Sequence[str], glossary: Mapping[str, str]) -> list[str]:
    """The terms of each text that the glossary has, translated and in order, with what is the same in every language.

    The longest term that fits counts, upper and lower case alike, in scripts with spaces whole words only. The same in
    every language are dates, numbers, identifiers and quoted phrases; in a Chinese text its Latin words, in another one
    its capitalised words, the first one left out. "" where the glossary has none of the terms. A list, and no sentence:
    it is meant for a search by words.
    """
    known = {_folded(term): translation for term, translation in glossary.items() if term.strip()}
    pattern = re.compile("|".join(_whole(term) for term in sorted(known, key=len, reverse=True)) or "(?!)")
    return [_translated(plain(text), known, pattern) for text in texts]


def _translated(text: str, known: Mapping[str, str], pattern: re.Pattern[str]) -> str:
    folded = text.casefold()
    if len(folded) != len(text):
        text = folded  # a letter that folds into two would move the places
    exact = list(_places(text, "date", "identifier", "quote"))
    terms = [(match.start(), match.end(), known[match[0]]) for match in pattern.finditer(folded)]
    terms = [term for term in terms if not any(_meet(term, fact) for fact in exact)]
    if not terms:
        return ""
    # A number whose unit is a term is put down by its digits alone, and the unit is translated.
    digits = [(match.start(), match.end(), match[0]) for match in _NUMERAL.finditer(text)]
    chinese = re.search(f"[{CJK}]", text) is not None
    words = [(match.start(), match.end(), match[0]) for match in _LATIN.finditer(text)]
    names = [word for word in words if chinese or (word[2][0].isupper() and word[0] > 0)]
    kept: list[_Place] = []
    for place in [*exact, *terms, *_places(text, "number", "acronym"), *digits, *names]:
        if not any(_meet(place, other) for other in kept):
            kept.append(place)
    return " ".join(words for _, _, words in sorted(kept))


def _places(text: str, *kinds: Kind) -> Iterator[_Place]:
    """Where the facts of these kinds stand in a text."""
    for fact in facts(text):
        start = text.find(fact.text)
        if start >= 0 and fact.kind in kinds:
            yield start, start + len(fact.text), fact.text


def _meet(one: _Place, other: _Place) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _folded(term: str) -> str:
    return plain(term).casefold()


def _whole(term: str) -> str:
    before = r"(?<![^\W_])" if re.match(r"[^\W_]", term[0]) and not re.match(f"[{CJK}]", term[0]) else ""
    after = r"(?![^\W_])" if re.match(r"[^\W_]", term[-1]) and not re.match(f"[{CJK}]", term[-1]) else ""
    return before + re.escape(term) + after
