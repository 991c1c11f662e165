"""A passage that a language model makes up, in the place of the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from rag_lab.generation.queries import asking
from rag_lab.variants.query_encoding import HYPOTHETICAL
from rag_lab.variants.stage import register
from rag_lab.variants.transforms.transform import OWN, Asked, Row, Transform, for_channel


@register
class Hyde(Transform):
    """Search vectors by a passage that a language model makes up as an answer (HyDE: Gao et al. 2022).

    It is encoded as a passage. What it states is made up, so it is only compared and never shown, and channels that
    search by words keep the question's.
    """

    name: ClassVar[str] = "hyde"
    task: ClassVar[asking.Task] = "hyde"
    serves: ClassVar[str] = "dense"
    room: ClassVar[int] = 128
    by: Literal["llm"] = "llm"
    question: Literal["averaged", "beside", "none"] = Field(
        "averaged", description="whether the question's vector is averaged with the passage's, searches too, or neither"
    )

    def read(self, written: str) -> list[str] | None:
        """The whole passage."""
        found = asking.read_passage(written)
        return [found] * bool(found)

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """Nothing: no rule makes up an answer."""
        return [[]] * len(asked)

    def passes(self, one: Asked, text: str) -> bool:  # noqa: ARG002 - one interface
        """A made-up passage states what nobody said."""
        return True

    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """The passage for the dense channel, with its other queries; the rest as it was."""
        averaged = one.text if self.question == "averaged" else ""
        mine, rest = for_channel(one.rows, self.serves)
        kept = [row for row in mine if self.question == "beside" or row[2] not in OWN]
        return [*rest, *kept, (one.number, found[0], HYPOTHETICAL, self.serves, averaged)]
