"""A question in the language of the corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from rag_lab.contracts import RagLabError
from rag_lab.generation.queries import asking
from rag_lab.generation.queries.glossary import translate
from rag_lab.variants.stage import Batch, Stage, State, register
from rag_lab.variants.transforms.transform import Asked, Row, Transform, asked_of, for_channel


@register
class Translate(Transform):
    """Search words in the language of the corpus: what BM25 needs and a multilingual encoder does not.

    The corpus's language is that of most chunks that the caller may read; a question in another one is translated, and
    BM25 searches by the translation, and by the user's words as well where some chunks are in their language. By rules
    it takes a `glossary` of terms, for a dictionary is nothing that rules can make up.
    """

    name: ClassVar[str] = "translate"
    task: ClassVar[asking.Task] = "translate"
    serves: ClassVar[str] = "bm25"
    room: ClassVar[int] = 96
    replaces: ClassVar[bool] = True
    glossary: dict[str, str] = Field(default_factory=dict, description="terms and their translations, for rules")

    def check(self, place: str, before: Sequence[Stage]) -> None:  # noqa: ARG002 - one interface
        """Rules need a glossary, and a model takes none."""
        if self.writes == bool(self.glossary):
            raise RagLabError(
                f"{place}.{self.name}: give a glossary such as {{年假: annual leave}}, or set 'by: llm'; one of them"
            )

    def asked(self, state: State) -> list[Asked]:
        """With the languages of the chunks that the caller of each may read."""
        batch, spoken = state.batch, spoken_languages(state.batch)
        found = asked_of(state)
        for one in found:
            one.spoken = spoken[int(batch.scopes.of[one.number])]
        return found

    def applies(self, one: Asked) -> bool:
        """Only a question in another language than the corpus's, if that is one of the two that are translated."""
        return one.spoken[:1] in (("en",), ("zh",)) and one.spoken[0] != one.language

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """What the glossary has of each question."""
        found = translate([one.text for one in asked], self.glossary)
        for one, text in zip(asked, found, strict=True):
            if not text:
                self.say(one, "empty")
        return [[text] * bool(text) for text in found]

    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """The translation for BM25, with what it searched by where that may find something too."""
        mine, rest = for_channel(one.rows, self.serves)
        kept = mine if one.language in one.spoken else []
        return [*rest, (one.number, found[0], self.name, self.serves, ""), *kept]


def spoken_languages(batch: Batch) -> list[tuple[str, ...]]:
    """For each scope the languages of its chunks, that of most of them first."""
    names, language = np.unique(
        [code.lower().replace("_", "-").split("-")[0] for code in batch.snapshot.chunks.language], return_inverse=True
    )
    found = []
    for scope in batch.scopes.scopes:
        counts = np.bincount(language[scope.rows], minlength=len(names))
        order = np.argsort(-counts, kind="stable")
        found.append(tuple(str(names[i]) for i in order if counts[i] and names[i]))
    return found
