"""A more general question beside the one that was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rag_lab.generation.queries import asking
from rag_lab.generation.queries.variations import step_back
from rag_lab.variants.stage import register
from rag_lab.variants.transforms.transform import Asked, Beside


@register
class StepBack(Beside):
    """Search by a more general question as well (Zheng et al. 2023).

    By rules: the first name with the head of what is asked (`generation.queries.variations.step_back`).
    """

    name: ClassVar[str] = "step_back"
    task: ClassVar[asking.Task] = "step_back"
    room: ClassVar[int] = 64

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """The more general query, where there is one."""
        found = step_back([one.text for one in asked], [one.language for one in asked])
        return [[text] * bool(text) for text in found]
