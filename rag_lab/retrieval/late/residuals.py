"""What is left of a vector beside its centroid, in a few bits a dimension, packed as colbert-ai packs it.

A residual is a difference of two values of the grid of passages, so there are some 8,000 different ones, and a table
says for each in which bucket it lies. Buckets hold equal shares of a sample's residuals (quantiles).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import IntArray, batches
from rag_lab.retrieval.late.vectors import PASSAGE_GRID

BITS = (4, 2, 1)
VECTORS_A_BLOCK = 1 << 14

Values = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Buckets:
    """`cutoffs` ``[2^bits - 1]`` lie between the buckets, `weights` ``[2^bits]`` stand for them; `mean` is the mean
    absolute residual."""

    cutoffs: Values
    weights: Values
    mean: float

    @classmethod
    def of(cls, residuals: Values, bits: int) -> Buckets:
        """Quantiles of a sample of residuals, in any shape."""
        share = np.arange(2**bits) / 2**bits
        cutoffs = np.quantile(residuals, share[1:]).astype(np.float32)
        weights = np.quantile(residuals, share + 0.5 / 2**bits).astype(np.float32)
        return cls(cutoffs, weights, float(np.abs(residuals).mean()))

    @property
    def bits(self) -> int:
        """Bits a dimension."""
        return len(self.weights).bit_length() - 1

    def pack(self, vectors: npt.NDArray[np.floating], codes: IntArray, centroids: Values) -> npt.NDArray[np.uint8]:
        """The bucket of each residual, ``[n, dimension * bits / 8]``: first dimension and lowest bit first."""
        bits, parts = self.bits, 8 // self.bits
        steps = np.arange(-2 * PASSAGE_GRID, 2 * PASSAGE_GRID + 1)
        bucket = np.searchsorted(self.cutoffs, (steps / PASSAGE_GRID).astype(np.float32)).astype(np.uint8)
        table = np.zeros(len(steps), dtype=np.uint8)
        for bit in range(bits):
            table |= (bucket >> bit & 1) << (bits - 1 - bit)
        whole = _steps(centroids)
        packed = np.empty((len(vectors), vectors.shape[1] // parts), dtype=np.uint8)
        for block in batches(len(vectors), VECTORS_A_BLOCK):
            found = table[_steps(vectors[block]) - whole[codes[block]] + 2 * PASSAGE_GRID]
            packed[block] = 0
            for part in range(parts):
                packed[block] |= found[:, part::parts] << (8 - bits * (part + 1))
        return packed


def bits_for(dimension: int) -> int:
    """The most bits, up to 4, with which colbert-ai can pack so many dimensions; 0 where it can with none."""
    return next((bits for bits in BITS if dimension % (8 * bits) == 0), 0)


def _steps(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.int16]:
    """Values as multiples of the grid's step, those beyond 1 as 1."""
    return np.clip(np.rint(vectors.astype(np.float32) * PASSAGE_GRID), -PASSAGE_GRID, PASSAGE_GRID).astype(np.int16)
