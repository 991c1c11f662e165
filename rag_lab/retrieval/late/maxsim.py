"""Late interaction: a query's score of a passage is the sum, over the query's tokens, of the highest inner product with
any of the passage's tokens (Khattab and Zaharia, SIGIR 2020).

Inner products are exact (see `vectors`); sums are made in float64 and rounded to 6 decimals. So a score is the same in
every batch, on any number of threads and in whatever way the passage was found.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, IntArray, batches
from rag_lab.retrieval.dense import ordered, top_positions
from rag_lab.retrieval.late.vectors import RowArray, TokenVectors, ranges

DECIMALS = 6
PASSAGE_TOKENS_A_BLOCK = 1 << 14
QUERY_TOKENS_A_BLOCK = 256
SCORES_A_BLOCK = 1 << 22


def search(
    queries: TokenVectors, passages: TokenVectors, depth: int, rows: RowArray | None = None
) -> tuple[RowArray, FloatArray]:
    """The `depth` best of `rows` (ascending; None: all) for each query, best first, and their scores.

    Both are ``[queries, depth]``, narrower if there are not so many rows with a token.
    """
    lengths = passages.lengths
    rows = np.flatnonzero(lengths) if rows is None else rows[lengths[rows] > 0]
    best_rows, best_scores = np.empty((len(queries), 0), dtype=np.intp), np.empty((len(queries), 0))
    for part in batches(len(rows), max(1, SCORES_A_BLOCK // max(1, len(queries)))):
        here = rows[part]
        scores = np.empty((len(queries), len(here)))
        for block in _blocks_of_tokens(lengths[here]):
            scores[:, block] = _scores(queries, _vectors(passages, here[block]), lengths[here[block]])
        position = top_positions(scores, depth)
        best_rows = np.hstack([best_rows, here[position]])
        best_scores = np.hstack([best_scores, np.take_along_axis(scores, position, axis=1)])
        best_rows, best_scores = ordered(best_rows, best_scores, depth)
    return best_rows, best_scores


def pair_scores(
    queries: TokenVectors,
    passages: TokenVectors,
    query: npt.NDArray[np.integer],
    rows: npt.NDArray[np.integer],
) -> FloatArray:
    """The score of each pair of a query and a row, ``[pairs]``, 0 where one of them has no token."""
    scores = np.zeros(len(query))
    usable = (queries.lengths[query] > 0) & (passages.lengths[rows] > 0)
    order = np.argsort(np.where(usable, query, len(queries)), kind="stable")
    edges = np.searchsorted(query[order[: np.count_nonzero(usable)]], np.arange(len(queries) + 1))
    starts = queries.offsets
    for i in np.flatnonzero(np.diff(edges)):
        mine = order[edges[i] : edges[i + 1]]
        one = np.ascontiguousarray(queries.vectors[starts[i] : starts[i + 1]].T)
        for block in _blocks_of_tokens(passages.lengths[rows[mine]]):
            here = rows[mine[block]]
            best = np.maximum.reduceat(_vectors(passages, here) @ one, _starts(passages.lengths[here]), axis=0)
            scores[mine[block]] = best.sum(axis=1, dtype=np.float64).round(DECIMALS)
    return scores


def _scores(queries: TokenVectors, some: npt.NDArray[np.float32], lengths: IntArray) -> FloatArray:
    """Scores with passages that have a token each: ``[queries, passages]``, 0 for a query without tokens."""
    scores = np.zeros((len(queries), len(lengths)))
    with_tokens = np.flatnonzero(queries.lengths)
    offsets = queries.offsets
    best = np.empty((len(queries.vectors), len(lengths)), dtype=np.float32)
    for part in batches(len(queries.vectors), QUERY_TOKENS_A_BLOCK):
        best[part] = np.maximum.reduceat(queries.vectors[part] @ some.T, _starts(lengths), axis=1)
    if len(with_tokens):
        scores[with_tokens] = np.add.reduceat(best, offsets[with_tokens], axis=0, dtype=np.float64)
    return scores.round(DECIMALS)


def _starts(lengths: IntArray) -> RowArray:
    """Where each of several texts begins that lie one after another."""
    return np.cumsum(lengths, dtype=np.intp) - lengths


def _vectors(passages: TokenVectors, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    """The vectors of some passages, at least one, one passage after another."""
    import torch

    at = ranges(passages.offsets[rows], passages.lengths[rows])
    # torch widens float16 nine times as fast as numpy.
    wide: npt.NDArray[np.float32] = torch.from_numpy(passages.vectors.take(at, axis=0)).float().numpy()
    return wide


def _blocks_of_tokens(lengths: IntArray) -> list[slice]:
    """Neighbouring texts in blocks of some `PASSAGE_TOKENS_A_BLOCK` tokens, at least one text each."""
    if not len(lengths):
        return []
    block = (np.cumsum(lengths, dtype=np.int64) - 1) // PASSAGE_TOKENS_A_BLOCK
    edges = np.flatnonzero(np.diff(block, prepend=-1))
    return [slice(int(a), int(b)) for a, b in zip(edges, [*edges[1:], len(lengths)], strict=True)]
