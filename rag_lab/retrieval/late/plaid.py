"""PLAID (Santhanam et al., CIKM 2022): which passages a query's tokens are near, by centroids alone.

A token vector is represented by its nearest centroid, and each centroid lists the passages that have a token there. A
query token visits the lists of its `cells` best centroids; a passage on several of them keeps the best score, and a
passage that a query token did not meet gets that token's score with the last cell it visited, for none of the
passage's centroids lies nearer. The sum over the query's tokens decides which passages are worth an exact
comparison. With all cells visited that sum is the score of the passage's centroids (PLAID's centroid interaction).

No compiler, child process or accelerator is needed, and the result does not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, IntArray
from rag_lab.retrieval.dense import top_positions
from rag_lab.retrieval.late import kmeans
from rag_lab.retrieval.late.vectors import RowArray, TokenVectors, ranges

VECTORS_A_CENTROID = 32
QUERY_TOKENS_A_BLOCK = 256


@dataclass(frozen=True, eq=False)
class Plaid:
    """centroids: ``[k, dimension]``; lists: for each centroid the passages that have a token there, ascending, one list
    after another; list_lengths: ``[k]``; passages: how many there are."""

    centroids: npt.NDArray[np.float32]
    lists: IntArray
    list_lengths: npt.NDArray[np.int64]
    passages: int

    @classmethod
    def build(cls, passages: TokenVectors, seed: int) -> tuple[Plaid, IntArray]:
        """Cluster the vectors of `passages`, of which there is one at least; and the centroid of each, ``[tokens]``."""
        total = len(passages.vectors)
        wanted = partitions(total)
        size = min(total, VECTORS_A_CENTROID * wanted)
        chosen = np.sort(np.random.default_rng(seed).choice(total, size, replace=False, shuffle=False))
        centroids = kmeans.cluster(np.asarray(passages.vectors[chosen]), wanted, seed)
        codes = kmeans.nearest(passages.vectors, centroids)
        lists, lengths = inverted_lists(codes, passages.lengths, len(centroids))
        return cls(centroids, lists, lengths, len(passages)), codes

    @property
    def cells(self) -> int:
        """How many centroids there are."""
        return len(self.centroids)

    def propose(
        self,
        queries: TokenVectors,
        cells: int,
        wanted: int,
        permitted: BoolArray | None = None,
    ) -> list[RowArray]:
        """For each query at most `wanted` passages (ascending ids) that are worth an exact comparison.

        `permitted` (``[passages]``) is applied before anything is scored.
        """
        starts = np.cumsum(self.list_lengths) - self.list_lengths
        column = np.empty(self.passages, dtype=np.intp)
        found = []
        for cell, score in self._nearest(queries, cells):
            lengths = self.list_lengths[cell.ravel()]
            entry = self.lists[ranges(starts[cell.ravel()], lengths)]
            place = np.repeat(np.arange(cell.size), lengths)
            if permitted is not None:
                kept = permitted[entry]
                entry, place = entry[kept], place[kept]
            met = np.zeros(self.passages, dtype=np.bool_)
            met[entry] = True
            ids = np.flatnonzero(met)
            if len(ids) > wanted:
                column[ids] = np.arange(len(ids))
                ids = ids[_best(score, place, column[entry], len(ids), wanted)]
            found.append(ids)
        return found

    def _nearest(self, queries: TokenVectors, cells: int) -> Iterator[tuple[RowArray, npt.NDArray[np.floating]]]:
        """For each query the best centroids of its tokens, worst first, and their scores: ``[tokens, cells]`` each."""
        edges = queries.offsets
        visited = min(cells, self.cells)
        for block in _whole_queries(edges):
            vectors = queries.vectors[edges[block.start] : edges[block.stop]]
            scores = vectors @ self.centroids.T
            best = top_positions(scores, visited)
            values = np.take_along_axis(scores, best, axis=1)
            order = np.argsort(values, axis=1, kind="stable")
            best, values = np.take_along_axis(best, order, axis=1), np.take_along_axis(values, order, axis=1)
            for query in range(block.start, block.stop):
                mine = slice(edges[query] - edges[block.start], edges[query + 1] - edges[block.start])
                yield best[mine], values[mine]


def _best(score: npt.NDArray[np.floating], place: RowArray, column: RowArray, size: int, wanted: int) -> RowArray:
    """The `wanted` best of `size` passages, ascending, from the cells that their tokens lie in.

    `score` ``[tokens, cells]`` is ascending in each row; `place` says in which of its values each entry of a list was
    met, `column` of which passage it is.
    """
    cells = score.shape[1]
    met = np.repeat(score[:, :1], size, axis=1)
    # Entries come in the order of cells, the best last, and of several values assigned to one place the last one stays.
    met[place // cells, column] = score.ravel()[place]
    total = met.sum(axis=0, dtype=np.float64)
    best: RowArray = top_positions(total[None], wanted)[0]
    return best


def _whole_queries(edges: npt.NDArray[np.int64]) -> list[range]:
    """Neighbouring queries in blocks of some `QUERY_TOKENS_A_BLOCK` tokens, at least one query each."""
    blocks: list[range] = []
    start = 0
    for stop in range(1, len(edges)):
        if stop + 1 == len(edges) or edges[stop + 1] - edges[start] > QUERY_TOKENS_A_BLOCK:
            blocks.append(range(start, stop))
            start = stop
    return blocks


def partitions(tokens: int) -> int:
    """How many centroids so many vectors get: the power of two below ``4 * sqrt(tokens)``, and never more than there
    are vectors. colbert-ai takes four times as many, because it also ranks by them."""
    return min(tokens, 2 ** math.floor(math.log2(4 * math.sqrt(tokens)))) if tokens else 0


def inverted_lists(codes: IntArray, lengths: IntArray, cells: int) -> tuple[IntArray, npt.NDArray[np.int64]]:
    """For each centroid the passages that have a token there, ascending, one list after another, and their lengths."""
    passage = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
    pairs = np.unique(codes.astype(np.int64) * len(lengths) + passage)
    return (pairs % len(lengths)).astype(np.int32), np.bincount(pairs // len(lengths), minlength=cells).astype(np.int64)
