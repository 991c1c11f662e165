"""Weights of a weighted sum from judged questions, which are never those that are scored.

All weights of a grid over the simplex (weights of at least 0 that sum to 1) are tried, equal ones first and those
nearest to equal next; the first of the best wins, so without evidence for others the weights stay equal. What is
maximised is the mean nDCG@10 of documents (linear gain; Jarvelin and Kekalainen 2002), a document having the score of
its best chunk and ties going by document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, IntArray, RagLabError
from rag_lab.retrieval.dense import ordered, top_positions
from rag_lab.retrieval.fusion.weighted_sum import combined

CUTOFF = 10
METRIC = f"nDCG@{CUTOFF}"
FINEST, MOST = 10, 300
"""The grid divides 1 into this many steps, or fewer where it would have more than so many points."""


@dataclass(frozen=True, slots=True)
class LearnedWeights:
    """The weights by channel, the mean of `METRIC` that they and equal weights reach, and over how many questions."""

    weights: tuple[float, ...]
    score: float
    equal: float
    questions: int


@dataclass(frozen=True, eq=False)
class Judgments:
    """Relevant documents of training questions, ``[j]`` each: question, document (-1: not searched), grade above 0."""

    query: npt.NDArray[np.int64]
    document: npt.NDArray[np.int64]
    grade: FloatArray


def learn_weights(scores: FloatArray, query: IntArray, document: IntArray, judgments: Judgments) -> LearnedWeights:
    """The best weights of the grid.

    Args:
        scores: what each channel gives each pair of a pool, normalised, ``[p, channels]``.
        query, document: of each pair, ascending by query and then document, ``[p]``; chunks of a document repeat it.

    Raises RagLabError without judgments.
    """
    if not len(judgments.query):
        raise RagLabError("no question has a judged document that is relevant")
    objective = _Objective.of(query, document, judgments)
    channels = scores.shape[1]
    best = (1 / channels,) * channels
    equal = reached = objective.mean(combined(scores, best))
    for weights in grid(channels):
        value = objective.mean(combined(scores, weights))
        if value > reached + 1e-12:
            best, reached = weights, value
    return LearnedWeights(best, reached, equal, len(objective.questions))


def grid(channels: int) -> Iterator[tuple[float, ...]]:
    """The points of the grid, those nearest to equal weights first."""
    steps = next(n for n in range(FINEST, 0, -1) if math.comb(n + channels - 1, n) <= MOST or n == 1)
    bars = combinations(range(steps + channels - 1), channels - 1)
    parts = [np.diff([-1, *chosen, steps + channels - 1]) - 1 for chosen in bars]
    points = [tuple((part / steps).tolist()) for part in parts]
    yield from sorted(points, key=lambda point: (round(sum((w - 1 / channels) ** 2 for w in point), 9), point))


@dataclass(frozen=True, eq=False)
class _Objective:
    """The documents of a pool in a table of one row a query.

    first: the place in the pool where each document begins, ``[d]``; row, column: its cell, ``[d]``; gain: grade of
    each cell; questions: rows with a relevant document; ideal: discounted gain of the best ranking, for each of those.
    """

    first: npt.NDArray[np.intp]
    row: IntArray
    column: npt.NDArray[np.int64]
    gain: FloatArray
    questions: npt.NDArray[np.int64]
    ideal: FloatArray

    @classmethod
    def of(cls, query: IntArray, document: IntArray, judgments: Judgments) -> _Objective:
        pairs = query.astype(np.int64) << 32 | document
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        row = query[first]
        column = np.arange(len(first)) - np.searchsorted(row, row)
        questions = np.unique(judgments.query)
        size = max(int(questions[-1]), int(row.max(initial=0))) + 1
        gain = np.zeros((size, max(CUTOFF, int(column.max(initial=0)) + 1)))
        judged = judgments.query << 32 | judgments.document
        _, place, which = np.intersect1d(pairs[first], judged, return_indices=True)
        gain[row[place], column[place]] = judgments.grade[which]
        order = np.lexsort((-judgments.grade, judgments.query))
        ranked, grade = judgments.query[order], judgments.grade[order]
        rank = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
        worth = np.where(rank < CUTOFF, grade / np.log2(rank + 2), 0)
        ideal = np.bincount(ranked, worth)[questions].astype(np.float64)
        return cls(first, row, column, gain, questions, ideal)

    def mean(self, score: FloatArray) -> float:
        """Mean nDCG@10 of the pool ranked by `score` ``[p]``."""
        table = np.full(self.gain.shape, -np.inf)
        if len(self.first):
            table[self.row, self.column] = np.maximum.reduceat(np.round(score, 12), self.first)
        places = top_positions(table, CUTOFF)
        places, _ = ordered(places, np.take_along_axis(table, places, axis=1), CUTOFF)
        reached = np.take_along_axis(self.gain, places, axis=1) @ (1 / np.log2(np.arange(CUTOFF) + 2))
        return float(np.mean(reached[self.questions] / self.ideal))
