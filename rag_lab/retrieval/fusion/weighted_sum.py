"""Weighted sum of normalised scores.

Formula: ``score(d) = sum over channels of weight * n(d)`` (CombSUM: Fox and Shaw, TREC-2 1994). Within each query, n is

* ``minmax``: ``(s - min) / (max - min)``. Where all scores are equal, a single result among them, each is 1.
* ``zscore``: ``(s - mean) / sd``, with the standard deviation of the population. Where all scores are equal, each is 0.

What a channel did not return gets that channel's lowest n for the query: 0 with min-max, as good as its last result
with z-scores; a channel that returned nothing for the query gives 0 to all. The two min-max rules are those of
pyserini's and Anserini's fusion ("normalize"); giving the channel's minimum is also what pyserini's `HybridSearcher`
does, and where this differs from ranx, which lets what is missing count as 0, the mean, with z-scores too.

A channel's minimum is that of what it returned, so scores depend on its depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from rag_lab.contracts import FloatArray, Ranking
from rag_lab.retrieval.fusion.pool import Pool

Normalisation: TypeAlias = Literal["minmax", "zscore"]


def weighted_sum(
    rankings: Sequence[Ranking], normalise: Normalisation = "minmax", weights: Sequence[float] | None = None
) -> Ranking:
    """Fuse rankings of one batch. The result keeps the rank that every channel gave an entry (0: not returned)."""
    weights = [1.0] * len(rankings) if weights is None else list(weights)
    pool = Pool.of("weighted_sum", rankings, weights)
    return pool.ranked("weighted_sum", combined(normalised_scores(pool, normalise), weights))


def combined(scores: FloatArray, weights: Sequence[float]) -> FloatArray:
    """Weighted sums of columns: ``[p, channels]`` to ``[p]``."""
    total = np.zeros(len(scores))
    for column, weight in zip(scores.T, weights, strict=True):
        total += weight * column
    return total


def normalised_scores(pool: Pool, normalise: Normalisation) -> FloatArray:
    """The normalised score that each channel gives each pair of the pool, ``[p, channels]``."""
    scores = np.empty((len(pool.chunk), len(pool.rankings)))
    for column, (ranking, at) in enumerate(zip(pool.rankings, pool.where, strict=True)):
        returned, missing = _normalised(ranking, normalise)
        scores[:, column] = missing[pool.query]
        scores[at, column] = returned
    return scores


def _normalised(ranking: Ranking, normalise: Normalisation) -> tuple[FloatArray, FloatArray]:
    """Normalised scores of the entries ``[entries]``, and what every query gives to chunks it lacks ``[size]``."""
    start, end = ranking.offsets[:-1], ranking.offsets[1:]
    some = start < end
    high, low, middle, spread = (np.zeros(ranking.size) for _ in range(4))
    high[some], low[some] = ranking.score[start[some]], ranking.score[end[some] - 1]
    varied = high > low
    if normalise == "minmax":
        middle, spread = low, high - low
    else:
        count = np.maximum(end - start, 1)
        middle = np.bincount(ranking.query, ranking.score, minlength=ranking.size) / count
        squares = (ranking.score - middle[ranking.query]) ** 2
        spread = np.sqrt(np.bincount(ranking.query, squares, minlength=ranking.size) / count)
    varied &= spread > 0
    spread[~varied] = 1
    equal = 1.0 if normalise == "minmax" else 0.0
    returned = np.where(varied[ranking.query], (ranking.score - middle[ranking.query]) / spread[ranking.query], equal)
    return returned, np.where(varied, (low - middle) / spread, 0.0)
