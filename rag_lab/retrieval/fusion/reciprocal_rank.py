"""Reciprocal rank fusion.

Formula: ``score(d) = sum over channels of weight / (k + rank)``, ranks from 1, nothing for a channel that did not
return d (Cormack, Clarke and Buettcher, SIGIR 2009). A channel gives a chunk one share, at its best rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rag_lab.contracts import IntArray, Queries, Ranking
from rag_lab.retrieval.fusion.pool import Pool


def reciprocal_rank_fusion(rankings: Sequence[Ranking], k: int = 60, weights: Sequence[float] | None = None) -> Ranking:
    """Fuse rankings of one batch. The result keeps the rank that every channel gave an entry (0: not returned)."""
    weights = [1.0] * len(rankings) if weights is None else list(weights)
    pool = Pool.of("rrf", rankings, weights)
    score = np.zeros(len(pool.chunk))
    for ranking, at, weight in zip(rankings, pool.where, weights, strict=True):
        score[at] += weight / (k + ranking.rank)
    return pool.ranked("rrf", score)


def fuse_queries(ranking: Ranking, queries: Queries, k: int = 60) -> tuple[Ranking, IntArray]:
    """One ranking a question from the rankings of its queries, by reciprocal rank, all queries weighing the same.

    The second value is, for each entry, the position of the query that ranked it best (the earlier one of two).
    """
    pool = queries.of[ranking.query].astype(np.int64) << 32 | ranking.chunk
    keys, where = np.unique(pool, return_inverse=True)
    score = np.bincount(where, 1 / (k + ranking.rank), minlength=len(keys))
    best = np.lexsort((ranking.query, ranking.rank, where))
    found_by = ranking.query[best[np.searchsorted(where[best], np.arange(len(keys)))]]
    question, chunk = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
    fused = Ranking.from_scores(
        ranking.channel, queries.size, question, chunk, np.round(score, 12), {"found_by": found_by.astype(np.int32)}
    )
    return replace(fused, ranks={}), fused.ranks["found_by"]
