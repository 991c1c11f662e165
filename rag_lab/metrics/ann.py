"""How many of the true neighbours an approximate index finds."""

from __future__ import annotations

import numpy as np

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.metrics.scores import Scores


def neighbour_recall(approximate: Ranking, exact: Ranking, k: int) -> Scores:
    """Share of the exact top k that is in the approximate top k, per query ``[n]``.

    Where exact search itself finds fewer than k (a small scope), those it finds are all; a query of which it finds none
    is not eligible.
    """
    if approximate.size != exact.size:
        raise RagLabError(f"neighbour recall: {approximate.size} approximate and {exact.size} exact queries")
    found, true = approximate.top(k), exact.top(k)
    hit = np.isin(_keys(true), _keys(found))
    hits = np.bincount(true.query, weights=hit, minlength=exact.size)
    wanted = np.bincount(true.query, minlength=exact.size)
    share = np.divide(hits, wanted, out=np.zeros(exact.size), where=wanted > 0)
    return Scores.mean(f"NeighbourRecall@{k}", share, wanted > 0, np.zeros(exact.size, dtype=bool))


def _keys(ranking: Ranking) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return ranking.query.astype(np.int64) << 32 | ranking.chunk
