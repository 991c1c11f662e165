"""Late interaction: a query's score of a passage is the sum, over the query's tokens, of the highest inner product with
any of the passage's tokens (Khattab and Zaharia, SIGIR 2020).

Inner products are exact (see `vectors`); sums are made in float64 and rounded to 6 decimals. So a score is the same in
every batch, on any number of threads and in whatever way the passage was found.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, IntArray, batches
from rag_lab.retrieval.dense import ordered, top_positions
from rag_lab.retrieval.encoders.packed import Linear
from rag_lab.retrieval.encoders.workers import each_on_one_thread
from rag_lab.retrieval.late.vectors import RowArray, TokenVectors, ranges

if TYPE_CHECKING:
    import torch

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
        blocks = [here[block] for block in _blocks_of_tokens(lengths[here])]
        scores = np.hstack(list(each_on_one_thread(partial(_scores, queries, passages), blocks)))
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
    usable = np.flatnonzero((queries.lengths[query] > 0) & (passages.lengths[rows] > 0))
    order = usable[np.argsort(query[usable], kind="stable")]
    edges = np.searchsorted(query[order], np.arange(len(queries) + 1))
    asked = np.flatnonzero(np.diff(edges)).tolist()

    def work(i: int) -> FloatArray:
        mine = order[edges[i] : edges[i + 1]]
        return np.concatenate(
            [
                _of_one(queries, i, passages, rows[mine[block]])
                for block in _blocks_of_tokens(passages.lengths[rows[mine]])
            ]
        )

    for i, found in zip(asked, each_on_one_thread(work, asked), strict=True):
        scores[order[edges[i] : edges[i + 1]]] = found
    return scores


def _of_one(queries: TokenVectors, query: int, passages: TokenVectors, rows: npt.NDArray[np.integer]) -> FloatArray:
    """The scores that one query gives to passages; it and each of them has a token: ``[rows]``."""
    start, stop = queries.offsets[query : query + 2]
    products = _products(queries.vectors[start:stop])(_vectors(passages, rows)).numpy()
    best = np.maximum.reduceat(products, _starts(passages.lengths[rows]), axis=0)
    scores: FloatArray = best.sum(axis=1, dtype=np.float64).round(DECIMALS)
    return scores


def _scores(queries: TokenVectors, passages: TokenVectors, rows: npt.NDArray[np.integer]) -> FloatArray:
    """The scores of passages that have a token each: ``[queries, rows]``, 0 for a query without tokens."""
    scores = np.zeros((len(queries), len(rows)))
    with_tokens = np.flatnonzero(queries.lengths)
    best = np.empty((len(queries.vectors), len(rows)), dtype=np.float32)
    products, starts = _products(_vectors(passages, rows)), _starts(passages.lengths[rows])
    for part in batches(len(queries.vectors), QUERY_TOKENS_A_BLOCK):
        best[part] = np.maximum.reduceat(products(_tensor(queries.vectors[part])).numpy(), starts, axis=1)
    if len(with_tokens):
        scores[with_tokens] = np.add.reduceat(best, queries.offsets[with_tokens], axis=0, dtype=np.float64)
    return scores.round(DECIMALS)


def _products(vectors: Any) -> Linear:
    """A function that gives the inner products of other vectors with these, ``[n, dimension] -> [n, vectors]``."""
    import torch

    weight = _tensor(vectors)
    return Linear(weight, torch.zeros(len(weight)), torch.float32)


def _vectors(passages: TokenVectors, rows: npt.NDArray[np.integer]) -> torch.Tensor:
    """The vectors of some passages, one passage after another, in float32."""
    at = ranges(passages.offsets[rows], passages.lengths[rows])
    return _tensor(passages.vectors.take(at, axis=0))


def _tensor(vectors: Any) -> torch.Tensor:
    """In float32; torch widens float16 nine times as fast as numpy."""
    import torch

    return torch.as_tensor(vectors).float()


def _starts(lengths: IntArray) -> RowArray:
    """Where each of several texts begins that lie one after another."""
    return np.cumsum(lengths, dtype=np.intp) - lengths


def _blocks_of_tokens(lengths: IntArray) -> list[slice]:
    """Neighbouring texts in blocks of some `PASSAGE_TOKENS_A_BLOCK` tokens, at least one text each."""
    if not len(lengths):
        return []
    block = (np.cumsum(lengths, dtype=np.int64) - 1) // PASSAGE_TOKENS_A_BLOCK
    edges = np.flatnonzero(np.diff(block, prepend=-1))
    return [slice(int(a), int(b)) for a, b in zip(edges, [*edges[1:], len(lengths)], strict=True)]
