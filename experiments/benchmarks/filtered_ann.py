"""How many of the true neighbours approximate indexes find among the permitted rows, and at what cost.

    python experiments/benchmarks/filtered_ann.py [--rows 50000] [--dimension 64] [--queries 50] [--depth 100]

Vectors are drawn in clusters, as texts of topics are. A filter permits rows at random, or whole topics, which is what a
tenant or a department is, and leaves the questions of other topics only far neighbours. Each line has, for one kind of
index and one filter, the recall and the time of

* an index of the permitted rows alone, searched without a filter: what a filtered search is held to,
* a search in proportion: as many permitted rows are met as that index meets, and nothing else is done,
* a search of rag_lab as if comparing all permitted rows were never faster: wider (`ann.default_breadth`), and exact for
  questions around which little is permitted (`ann.shut_off`),
* a search of rag_lab, which compares all permitted rows where that takes no longer (`dense.exact_rows`).

A question that the index leaves short is compared with all rows in each of the last three. Times are processor time, as
a multiple of exact search over the permitted rows.
"""

from __future__ import annotations

import argparse
import math
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

SHARES = (0.99, 0.9, 0.7, 0.5, 0.3, 0.1, 0.02)
NARROWEST = 0.05  # below, an index visits nearly everything, and takes minutes
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
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES)
    parser.add_argument("--factories", nargs="+", default=FACTORIES)
    given = parser.parse_args()
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(TOPICS, given.dimension))
    topics = draw.integers(TOPICS, size=given.rows)
    passages = embed(centres[topics] + 0.8 * draw.normal(size=(given.rows, given.dimension)))
    asked = draw.integers(TOPICS, size=given.queries)
    queries = embed(centres[asked] + 0.8 * draw.normal(size=(given.queries, given.dimension)))
    print(f"{given.rows} rows, {given.dimension} dimensions, {given.queries} queries, depth {given.depth}")
    print(f"{'index':12} {'filter':7} {'share':>6} | permitted alone, in proportion, wider, as rag_lab searches")
    for factory in given.factories:
        index = DenseIndex.build(passages, factory)
        for kind in ("random", "topics"):
            for share in given.shares:
                allowed = permit(kind, share, topics, draw)
                measure(index, queries, given.depth, allowed, f"{factory:12} {kind:7} {allowed.mean():6.1%}")


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


def measure(index: DenseIndex, queries: Embeddings, depth: int, allowed: Flags, label: str) -> None:
    """Print recall and relative time of the four ways to search."""
    exact, share = index.exactly(), float(allowed.mean())
    truth, base = timed(partial(exact.search, queries, depth, allowed))
    few = Embeddings(index.vectors[allowed], index.card.encoder, index.card.version)
    alone = DenseIndex.build(few, index.card.factory)
    shown = [figure(alone.exactly().search(queries, depth), depth, base, partial(alone.search, queries, depth))]
    usual = ann.default_breadth(index._index, depth, 1.0, filtered=False)
    search = partial(index.search, queries, depth, allowed)
    never = mock.patch.object(dense, "exact_rows", return_value=0)
    nobody = mock.patch.object(ann, "shut_off", return_value=np.zeros(len(queries), dtype=bool))
    if share < NARROWEST:
        shown += [f"{'-':>13}"] * 2
    else:
        with never, nobody:
            shown.append(figure(truth, depth, base, partial(search, math.ceil(usual / share))))
        with never:
            shown.append(figure(truth, depth, base, search))
    shown.append(figure(truth, depth, base, search))
    print(f"{label} | {'  '.join(shown)}", flush=True)


def figure(truth: DenseHits, depth: int, base: float, search: Callable[[], DenseHits]) -> str:
    """Recall of a search, and its time as a multiple of `base`."""
    hits, seconds = timed(search)
    recall = neighbour_recall(hits.ranking, truth.ranking, depth).values.mean()
    return f"{recall:6.1%} x{seconds / base:<5.2f}"


def timed(search: Callable[[], DenseHits]) -> tuple[DenseHits, float]:
    """What a search finds, and the least processor time of three runs in seconds."""
    times = []
    for _ in range(3):
        began = time.process_time()
        hits = search()
        times.append(time.process_time() - began)
    return hits, min(times)


if __name__ == "__main__":
    main()
