"""What passages cover of a question: the weighted share of its terms that they hold together.

A term of the question weighs ``log((n + 1) / (df + 0.5))`` over the n passages that the user's own words found first,
df of which hold it: what stands in all of them tells nothing apart. No figure of the corpus beyond what was retrieved
for the question goes in, so it does not depend on what the caller may not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rag_lab.contracts import FloatArray
from rag_lab.generation.terms import stem, terms

_ASKING = ("name", "year", "date", "kind", "type", "many", "called", "known", "list", "tell", "give", "please")
ASKED = frozenset(map(stem, _ASKING))
"""Terms that ask, and that no passage has to hold."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The terms of a question and their weights, which sum to 1 where there are any; ``weights [terms]``."""

    terms: tuple[str, ...]
    weights: FloatArray

    @classmethod
    def of(cls, question: str, passages: Sequence[str]) -> Asked:
        """Weigh the terms of a question over the passages that were found for it first."""
        every = terms(question)
        kept = tuple(term for term in every if term not in ASKED) or every
        held = [frozenset(terms(text)) for text in passages]
        frequency = np.array([sum(term in own for own in held) for term in kept], dtype=np.float64)
        weights = np.log((len(passages) + 1) / (frequency + 0.5))
        total = weights.sum()
        return cls(kept, weights / total if total > 0 else weights)

    def mask(self, text: str) -> int:
        """The terms that a text holds, as bits in the order of `terms`."""
        held = frozenset(terms(text))
        return sum(1 << number for number, term in enumerate(self.terms) if term in held)

    def coverage(self, mask: int) -> float:
        """The weight of some terms, given as bits: 0 for none, 1 for all."""
        return round(float(sum(self.weights[number] for number in bits(mask))), 6)

    def share(self, mask: int) -> float:
        """How many of the terms a mask has, all weighing the same: 0 for none, 1 for all."""
        return round(mask.bit_count() / len(self.terms), 6) if self.terms else 0.0

    def missing(self, mask: int) -> tuple[str, ...]:
        """The terms that a mask lacks."""
        return tuple(term for number, term in enumerate(self.terms) if not mask >> number & 1)


def bits(mask: int) -> Iterable[int]:
    """Positions of the bits of a mask, ascending."""
    return (number for number in range(mask.bit_length()) if mask >> number & 1)
