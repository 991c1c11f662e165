"""Texts as a model reads them: in one piece each, or in several where they are longer than its window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rag_lab.contracts import BoolArray, IntArray
from rag_lab.retrieval.encoders.texts import VectorArray

TEXTS_A_BLOCK = 4096
"""Texts that are read at once."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Token ids of texts that all differ.

    ids: those of each piece, with one special token before and one behind those of its text; text: which text each
    piece belongs to, ascending, ``[pieces]``; own: which of all tokens are the text's, not special and not of a prefix,
    ``[tokens]``.
    """

    ids: list[list[int]]
    text: IntArray
    own: BoolArray

    @cached_property
    def lengths(self) -> IntArray:
        """Tokens of each piece, ``[pieces]``."""
        return np.fromiter((len(ids) for ids in self.ids), dtype=np.int32, count=len(self.ids))

    def joined(self, means: VectorArray) -> VectorArray:
        """The mean of each text, ``[texts, hidden]``, from those of its pieces.

        Pieces are weighted by their tokens without the two special ones.
        """
        firsts = np.flatnonzero(np.diff(self.text, prepend=-1))
        if len(firsts) == len(self.ids):
            return means
        weights = np.maximum(self.lengths - 2, 1).astype(np.float32)
        sums, totals = np.add.reduceat(means * weights[:, None], firsts), np.add.reduceat(weights, firsts)
        return (sums / totals[:, None]).astype(np.float32)


def length_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Positions of pieces, longest first, in batches of at most `budget` tokens; a longer piece goes alone."""
    result: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if lengths[i] > room or not result:
            result.append([])
            room = budget
        result[-1].append(i)
        room -= lengths[i]
    return result
