"""Reciprocal rank fusion of rankings over the same snapshot.

Formula: ``score(d) = sum over channels of weight / (k + rank)``, ranks from 1, nothing for a channel that did not
return d (Cormack, Clarke and Buettcher, SIGIR 2009). A channel gives a chunk one share, at its best rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rag_lab.contracts import IntArray, Queries, RagLabError, Ranking


def reciprocal_rank_fusion(rankings: Sequence[Ranking], k: int = 60, weights: Sequence[float] | None = None) -> Ranking:
    """Fuse rankings of one batch. The result keeps the rank that every channel gave an entry (0: not returned)."""
    weights = [1.0] * len(rankings) if weights is None else list(weights)
    if not rankings or len(weights) != len(rankings):
        raise RagLabError(f"rrf: {len(rankings)} rankings and {len(weights)} weights; give one weight a ranking")
    if len({ranking.size for ranking in rankings}) != 1 or len({ranking.channel for ranking in rankings}) != len(
        rankings
    ):
        raise RagLabError("rrf: the rankings must be of one batch and of different channels")
    keys = [ranking.query.astype(np.int64) << 32 | ranking.chunk for ranking in rankings]
    pool, where = np.unique(np.concatenate(keys), return_inverse=True)
    score = np.zeros(len(pool))
    ranks = {}
    start = 0
    for ranking, weight in zip(rankings, weights, strict=True):
        at = where[start : start + len(ranking.chunk)]
        start += len(ranking.chunk)
        score[at] += weight / (k + ranking.rank)
        ranks[ranking.channel] = np.zeros(len(pool), dtype=np.int32)
        ranks[ranking.channel][at] = ranking.rank
    query, chunk = (pool >> 32).astype(np.int32), (pool & 0xFFFFFFFF).astype(np.int32)
    return Ranking.from_scores("rrf", rankings[0].size, query, chunk, np.round(score, 12), ranks)


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
