"""How many of the true neighbours approximate indexes find among few permitted rows, and at what cost.

    python experiments/benchmarks/filtered_ann.py [--rows 50000] [--dimension 64] [--queries 50] [--depth 100]

Vectors are drawn in clusters, as texts of topics are. A filter permits rows at random, or whole topics, which is what a
tenant or a department is, and leaves the questions of other topics only far neighbours. Each line compares, for one
index and one filter: the usual breadth of search, breadth in inverse proportion to the share of permitted rows
(`ann.default_breadth`), and what a search of rag_lab does, which compares all permitted rows when there are at most
`dense.EXACT_ROWS` of them. A question that the index leaves short is compared with all rows in each of the three.
Times are quoted as a multiple of exact search over the permitted rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy as np
import numpy.typing as npt

from rag_lab.metrics.ann import neighbour_recall
from rag_lab.retrieval import ann, dense
from rag_lab.retrieval.dense import DenseHits, DenseIndex
from rag_lab.retrieval.encoders import Embeddings

SHARES = (0.9, 0.5, 0.3, 0.1, 0.02, 0.005)
WIDEST = 0.1  # for smaller shares the wider search visits nearly everything, and takes minutes
FACTORIES = ("HNSW32", "IVF256,Flat")
TOPICS = 200
Flags = npt.NDArray[np.bool_]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--depth", type=int, default=100)
    given = parser.parse_args()
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(TOPICS, given.dimension))
    topics = draw.integers(TOPICS, size=given.rows)
    passages = embed(centres[topics] + 0.8 * draw.normal(size=(given.rows, given.dimension)))
    asked = draw.integers(TOPICS, size=given.queries)
    queries = embed(centres[asked] + 0.8 * draw.normal(size=(given.queries, given.dimension)))
    exact = DenseIndex.build(passages)
    print(f"{given.rows} rows, {given.dimension} dimensions, {given.queries} queries, depth {given.depth}")
    print(f"{'index':12} {'filter':7} {'share':>6} | recall and time: usual breadth, wider, as rag_lab searches")
    for factory in FACTORIES:
        index = DenseIndex.build(passages, factory)
        for kind in ("random", "topics"):
            for share in SHARES:
                allowed = permit(kind, share, topics, draw)
                measure(index, exact, queries, given.depth, allowed, f"{factory:12} {kind:7} {allowed.mean():6.1%}")


def embed(vectors: npt.NDArray[np.float64]) -> Embeddings:
    """Unit vectors under the name of a drawn encoder."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return Embeddings(unit.astype(np.float32), "drawn", "1")


def permit(kind: str, share: float, topics: npt.NDArray[np.int64], draw: np.random.Generator) -> Flags:
    """Which rows are permitted: some drawn ones, or those of some topics."""
    if kind == "random":
        return draw.random(len(topics)) < share
    chosen = draw.permutation(TOPICS)[: max(1, round(share * TOPICS))]
    return np.isin(topics, chosen)


def measure(index: DenseIndex, exact: DenseIndex, queries: Embeddings, depth: int, allowed: Flags, label: str) -> None:
    """Print recall and relative time of the three ways to search."""
    truth, base = timed(partial(exact.search, queries, depth, allowed))
    usual = ann.default_breadth(index._index, depth, 1.0)
    ways: list[tuple[int, int | None]] = [(0, usual), (0, None), (dense.EXACT_ROWS, None)]
    shown = []
    for exact_rows, breadth in ways:
        if breadth is None and not exact_rows and allowed.mean() < WIDEST / 2:
            shown.append(f"{'-':>13}")
            continue
        with mock.patch.object(dense, "EXACT_ROWS", exact_rows):
            hits, seconds = timed(partial(index.search, queries, depth, allowed, breadth))
        recall = neighbour_recall(hits.ranking, truth.ranking, depth).values.mean()
        shown.append(f"{recall:6.1%} x{seconds / base:<5.2f}")
    print(f"{label} | {'  '.join(shown)}", flush=True)


def timed(search: Callable[[], DenseHits]) -> tuple[DenseHits, float]:
    """What a search finds, and the shortest of three times in seconds."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        hits = search()
        times.append(time.perf_counter() - began)
    return hits, min(times)


if __name__ == "__main__":
    main()
