"""Complex questions as simpler ones, by rules: what is asked twice, compared, or asked about something described.

*Parallel* parts stand for themselves (``Who is older, A or B?``). A *dependent* part names the answer of an earlier one
by ``#1`` (``When was #1 born?`` after ``Who directed X?``). Where the parts are dependent, the last one asks what the
user asked; where they are compared, the user's question is to be answered from all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag_lab.generation.queries import chinese_parts, english_parts
from rag_lab.generation.queries.parts import expand, unquoted
from rag_lab.generation.terms import question_language

LONGEST = 600
"""Characters of the longest question that is taken apart; what is longer is a text, and no question."""

_REFERENCE = re.compile(r"#(\d+)")


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A part of a question. `needs`: numbers, from 1, of the parts that ``#1``, ``#2`` in the text refer to."""

    text: str
    needs: tuple[int, ...] = ()

    @classmethod
    def of(cls, text: str) -> SubQuestion:
        """A part that needs what its text refers to."""
        return cls(text, tuple(sorted({int(number) for number in _REFERENCE.findall(text)})))

    def filled(self, answers: Sequence[str]) -> str:
        """The text with answers, by number, in the place of what it refers to."""
        return _REFERENCE.sub(lambda found: answers[int(found[1]) - 1], self.text)


def decompose(texts: Sequence[str], languages: Sequence[str]) -> list[list[SubQuestion]]:
    """The parts of each question, two or more, each after those that it needs; [] where the rules see only one part.

    `languages` are the declared ones ("en", "zh", "" for unknown), ``[n]``.
    """
    return [
        [SubQuestion.of(part) for part in _parts(text, question_language(text, language))]
        for text, language in zip(texts, languages, strict=True)
    ]


def _parts(text: str, language: str) -> list[str]:
    if len(text) > LONGEST:
        return []
    rules = chinese_parts if language == "zh" else english_parts
    plain, restore = unquoted(text)
    split: Callable[[str], list[str]] = rules.split
    nested: Callable[[str], list[str]] = rules.nested
    found = expand(split(plain) or [plain], nested)
    return [restore(part) for part in found] if len(found) > 1 else []
