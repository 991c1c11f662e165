"""Chains of passages, each found by what the one before it names, and how they and the first results become one list.

A chain is worth the share of the question that its passages cover together. A passage that adds less than `GAIN` to a
chain is no evidence of a further step, and does not lengthen it; nor does one that is in it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

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
    own, linked = iter(first), iter(dict.fromkeys(row for chain in chains for row in chain.rows))
    result: dict[int, None] = {}
    going = True
    while going:
        result.update(dict.fromkeys(_next(own, result)))
        found = _next(linked, result)
        result.update(dict.fromkeys(found))
        going = bool(found)
    result.update(dict.fromkeys([*own, *others]))
    return list(result)


def _next(rows: Iterator[int], seen: Mapping[int, None]) -> list[int]:
    """The next row that was not seen, alone; none where there is no such row."""
    return list(islice((row for row in rows if row not in seen), 1))
