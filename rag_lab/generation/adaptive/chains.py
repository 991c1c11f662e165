"""Chains of passages, each found by what the one before it names, and how they and the first results become one list.

A chain is worth the share of the question that its passages cover together. A passage that adds less than `GAIN` to a
chain is no evidence of a further step, and does not lengthen it; nor does one that is in it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rag_lab.generation.adaptive.evidence import Asked

GAIN = 0.02


@dataclass(frozen=True, slots=True)
class Chain:
    """Rows of passages in the order in which they were found, and the question's terms that they hold, as bits."""

    rows: tuple[int, ...]
    mask: int

    def extended(self, row: int, mask: int, asked: Asked) -> Chain | None:
        """The chain with a further passage, None where that adds too little."""
        if row in self.rows:
            return None
        longer = Chain((*self.rows, row), self.mask | mask)
        return longer if asked.coverage(longer.mask) - asked.coverage(self.mask) >= GAIN else None


def best_first(chains: Iterable[Chain], asked: Asked) -> list[Chain]:
    """Distinct chains by coverage, of equal ones the shorter first, then the one that was found earlier."""
    return sorted(dict.fromkeys(chains), key=lambda chain: (-asked.coverage(chain.mask), len(chain.rows)))


def merged(first: Sequence[int], chains: Sequence[Chain], others: Iterable[int] = ()) -> list[int]:
    """All evidence once: what the user's own words found and what the chains hold take turns, then the others follow.

    The user's words have the first place and every second one after it, so no chain of guesses can push out more than
    half of what they found.
    """
    linked = list(dict.fromkeys(row for chain in chains for row in chain.rows))
    result: dict[int, None] = {}
    turns = [iter(first), iter(linked)]
    waiting = len(turns)
    turn = 0
    while waiting:
        row = next((row for row in turns[turn] if row not in result), None)
        waiting = waiting - 1 if row is None else len(turns)
        if row is not None:
            result[row] = None
        turn = (turn + 1) % len(turns)
    result.update(dict.fromkeys(others))
    return list(result)
