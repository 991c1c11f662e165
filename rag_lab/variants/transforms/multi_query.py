"""Several wordings of a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from rag_lab.generation.queries import asking
from rag_lab.generation.queries.variations import variations
from rag_lab.variants.stage import register
from rag_lab.variants.transforms.transform import MOST, Asked, Beside


@register
class MultiQuery(Beside):
    """Search by several wordings, fused by reciprocal rank (RAG-Fusion: Rackauckas 2024).

    By rules: key words, what the question states, its names (`generation.queries.variations`), three at most.
    """

    name: ClassVar[str] = "multi_query"
    task: ClassVar[asking.Task] = "multi_query"
    room: ClassVar[int] = 160
    n: int = Field(3, ge=1, le=MOST, description="queries beside the question, at most")

    @property
    def most(self) -> int:
        """So many wordings."""
        return self.n

    def read(self, written: str) -> list[str] | None:
        """One a line."""
        return asking.read_lines(written)

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """Other wordings."""
        return variations([one.text for one in asked], [one.language for one in asked], self.n)
