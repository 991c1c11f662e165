"""A question of a conversation is made to stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from rag_lab.generation.queries import asking
from rag_lab.generation.queries.rewriting import rewrite
from rag_lab.variants.stage import register
from rag_lab.variants.transforms.transform import OWN, Asked, Row, Transform, compared


@register
class Rewrite(Transform):
    """Make a question of a conversation stand alone; the rewritten text searches, the user's own is answered.

    By rules: pronouns and what is left out are filled in from the turns before (`generation.queries.rewriting`).
    """

    name: ClassVar[str] = "rewrite"
    task: ClassVar[asking.Task] = "rewrite"
    room: ClassVar[int] = 64
    replaces: ClassVar[bool] = True
    keep_question: bool = Field(False, description="search by the user's own words as well")

    def applies(self, one: Asked) -> bool:
        """Only what has a history."""
        return bool(one.history)

    def turns(self, one: Asked) -> tuple[str, ...]:
        """All turns."""
        return one.history

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """The question with what it refers to."""
        texts = [one.text for one in asked]
        found = rewrite(texts, [one.history for one in asked], [one.language for one in asked])
        return [[new] * (new != old) for new, old in zip(found, texts, strict=True)]

    def new(self, one: Asked, texts: Sequence[str]) -> list[str]:
        """A question that stands alone already comes back as it is, and that is as it should be."""
        return [text for text in texts if compared(text) != compared(one.text)]

    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """The rewritten text in the place of the user's own, or before it."""
        rest = [row for row in one.rows if self.keep_question or row[2] not in OWN]
        return [(one.number, found[0], self.name, "", ""), *rest]
