"""What several rankings list together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, IntArray, RagLabError, Ranking


@dataclass(frozen=True, eq=False)
class Pool:
    """Every pair of a query and a chunk that one of the `rankings` lists, once, by query and then row, ``[p]``.

    where: for each ranking the places of its entries in the pool, ``[entries]``.
    """

    rankings: tuple[Ranking, ...]
    query: IntArray
    chunk: IntArray
    where: tuple[npt.NDArray[np.intp], ...]

    @classmethod
    def of(cls, fusion: str, rankings: Sequence[Ranking], weights: Sequence[float]) -> Pool:
        """Pool the rankings. Raises RagLabError, in the name of `fusion`, for what cannot be fused."""
        if not rankings or len(weights) != len(rankings):
            raise RagLabError(
                f"{fusion}: {len(rankings)} rankings and {len(weights)} weights; give one weight a ranking"
            )
        channels = {ranking.channel for ranking in rankings}
        if len({ranking.size for ranking in rankings}) != 1 or len(channels) != len(rankings):
            raise RagLabError(f"{fusion}: the rankings must be of one batch and of different channels")
        keys = [ranking.query.astype(np.int64) << 32 | ranking.chunk for ranking in rankings]
        pool, where = np.unique(np.concatenate(keys), return_inverse=True)
        edges = np.cumsum([len(key) for key in keys])[:-1]
        query, chunk = (pool >> 32).astype(np.int32), (pool & 0xFFFFFFFF).astype(np.int32)
        return cls(tuple(rankings), query, chunk, tuple(np.split(where, edges)))

    def ranked(self, fusion: str, score: FloatArray) -> Ranking:
        """The pool as a ranking by `score` ``[p]``, with the rank that every channel gave (0: not returned).

        Scores are rounded to 12 decimals, so that the order of a sum decides no tie.
        """
        ranks = {}
        for ranking, at in zip(self.rankings, self.where, strict=True):
            ranks[ranking.channel] = np.zeros(len(self.chunk), dtype=np.int32)
            ranks[ranking.channel][at] = ranking.rank
        return Ranking.from_scores(fusion, self.rankings[0].size, self.query, self.chunk, np.round(score, 12), ranks)
