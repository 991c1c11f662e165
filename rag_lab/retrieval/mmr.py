"""Maximal marginal relevance: what ranks next is relevant and unlike what ranks above it.

Formula (Carbonell and Goldstein, SIGIR 1998): of the candidates that are not chosen yet, the next one has the highest

    ``l * relevance(d) - (1 - l) * max over the chosen s of similarity(d, s)``,

so l = 1 is the ranking as it was, and near l = 0 little but novelty counts. Here l is 1 - `diversity`. Relevance is the
ranking's own score, put to [0, 1] within each query by min-max (1 where all scores are equal); similarity is the cosine
of passage vectors, and a negative one counts as 0, like that to nothing before the first choice. A tie goes by row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, FloatArray, Ranking, batches
from rag_lab.retrieval.dense import DECIMALS
from rag_lab.retrieval.fusion import Pool, normalised_scores

VALUES_A_BLOCK = 1 << 22


def marginal_relevance(ranking: Ranking, vectors: npt.NDArray[np.float32], diversity: float) -> FloatArray:
    """The value that each entry of the ranking had when it was chosen, ``[entries]``.

    By value and then by row the entries stand in the order in which they were chosen, since no candidate's value ever
    rises. `vectors` are unit vectors by row, ``[rows, dimension]``; only those of the ranking's rows are read.
    """
    pool = Pool.of("mmr", [ranking], [1.0])
    relevance = normalised_scores(pool, "minmax")[:, 0].round(12)
    query, rows = pool.query, pool.chunk
    column = np.arange(len(query)) - np.searchsorted(query, query)
    width = int(column.max(initial=-1)) + 1
    found = np.empty(len(query))
    for block in batches(ranking.size, max(1, VALUES_A_BLOCK // max(1, width * vectors.shape[-1]))):
        mine = slice(*np.searchsorted(query, [block.start, block.stop]).tolist())
        cell = (query[mine] - block.start, column[mine])
        shape = (block.stop - block.start, width)
        there, worth = np.zeros(shape, dtype=bool), np.zeros(shape)
        passages = np.zeros((*shape, vectors.shape[-1]))
        there[cell], worth[cell], passages[cell] = True, relevance[mine], vectors[rows[mine]]
        found[mine] = _chosen(there, worth, passages, diversity)[cell]
    return found[pool.where[0]]


def _chosen(there: BoolArray, relevance: FloatArray, passages: FloatArray, diversity: float) -> FloatArray:
    """The value of each candidate when it was chosen, ``[queries, width]``; candidates are by row from left to right.

    passages: ``[queries, width, dimension]``; there: which cells hold a candidate.
    """
    queries, width = relevance.shape
    every = np.arange(queries)
    alike = np.zeros((queries, width))
    taken = np.zeros((queries, width))
    left = there.copy()
    for _ in range(width):
        value = np.where(left, (1 - diversity) * relevance - diversity * alike, -np.inf)
        best = value.argmax(axis=1)
        some = left[every, best]
        taken[every[some], best[some]] = value[every[some], best[some]]
        left[every, best] = False
        one = passages[every, best][:, :, None]
        alike = np.maximum(alike, (passages @ one)[:, :, 0].round(DECIMALS))
    return taken
