"""The parts of a complex question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from rag_lab.generation.queries import asking
from rag_lab.generation.queries.decomposition import decompose
from rag_lab.variants.stage import register
from rag_lab.variants.transforms.transform import MOST, REFERENCE, Asked, Beside


@register
class Decompose(Beside):
    """Search by the parts of a complex question as well.

    Parts that need the answer of another one (``#1``) cannot be searched by before that is answered, so they are put
    down as events and left out; the stage `adaptive` follows them.
    """

    name: ClassVar[str] = "decompose"
    task: ClassVar[asking.Task] = "decompose"
    room: ClassVar[int] = 160
    parts: int = Field(4, ge=1, le=MOST, description="parts that are searched by, at most")

    @property
    def most(self) -> int:
        """So many parts."""
        return self.parts

    def read(self, written: str) -> list[str] | None:
        """One a line."""
        return asking.read_lines(written)

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """The parts by the rules of both languages."""
        found = decompose([one.text for one in asked], [one.language for one in asked])
        return [[part.text for part in parts] for parts in found]

    def checked(self, one: Asked) -> list[str]:
        """The parts that stand for themselves."""
        for text in one.proposed:
            if REFERENCE.search(text):
                self.say(one, "dependent", text)
        one.proposed = [text for text in one.proposed if not REFERENCE.search(text)]
        return super().checked(one)
