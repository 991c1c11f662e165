"""What one index finds in one collection of vectors, and what it costs to build, keep and search.

Work on one thread is timed in processor time, which other work on the machine does not lengthen, unless by taking the
cache; searches on several threads are timed by the clock on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.ann.resident import resident_bytes
from rag_lab.ann.threads import threads
from rag_lab.metrics.ann import neighbour_recall
from rag_lab.retrieval import ann
from rag_lab.retrieval.dense import DenseHits, DenseIndex
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.store import temporary


@dataclass(frozen=True, slots=True)
class Search:
    """The questions searched at one breadth, 0 where every row is visited.

    recall: for each k the recall of each question; exact_queries: how many of them were compared with every row because
    the index returned too little; ms: of each question by itself; batch_s: of all in one batch; waiting: the share of
    the wall's time, one by one, in which this process had no processor.
    """

    breadth: int
    recall: dict[str, list[float]]
    exact_queries: int
    ms: list[float]
    batch_s: float
    waiting: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One index on one collection. `built` is what was made, `note` says why it is not what was asked for."""

    built: str
    note: str
    build_s: float
    disk_bytes: int
    ram_bytes: int
    searches: tuple[Search, ...]

    def plain(self) -> dict[str, Any]:
        """The form that JSON keeps."""
        return asdict(self)

    @classmethod
    def read(cls, data: dict[str, Any]) -> Cell:
        """The inverse of `plain`."""
        return cls(**{**data, "searches": tuple(Search(**one) for one in data["searches"])})


@dataclass(frozen=True, eq=False)
class Task:
    """Vectors to index, questions to search them with, and the true neighbours; what is equal for all indexes."""

    passages: Embeddings
    queries: Embeddings
    truth: DenseHits
    k: Sequence[int]
    threads: int
    seed: int
    work: Path

    @classmethod
    def of(cls, passages: Embeddings, queries: Embeddings, k: Sequence[int], count: int, seed: int, work: Path) -> Task:
        """The task with its true neighbours, found by comparing each question with every vector."""
        truth = DenseIndex.build(passages).search(queries, max(k))
        return cls(passages, queries, truth, k, count, seed, work)


def measure(
    task: Task, factory: str, breadths: Sequence[int], step: Callable[[str], object], timed: bool = True
) -> Cell:
    """Build an index of the task's vectors, weigh it, and search it at each breadth; `step` is told what begins.

    Not `timed`: only what is found is measured.
    """
    step("build")
    started = time.process_time()
    index = DenseIndex.build(task.passages, factory, task.seed)
    build_s = time.process_time() - started
    disk, ram = _weigh(index, task.work) if timed else (0, 0)
    chosen = _breadths(index, task, breadths)
    searches = []
    for breadth in chosen:
        step(f"search {breadth}" if breadth else "search")
        with threads(task.threads):
            searches.append(_search(index, task, breadth, timed))
    return Cell(index.card.built, index.note, build_s, disk, ram, tuple(searches))


def _weigh(index: DenseIndex, work: Path) -> tuple[int, int]:
    """Bytes of an index on disk and in memory, without the vectors, which lie beside every index; 0 without one."""
    if index.exact:
        return 0, 0
    with temporary(work) as folder:
        index.save(folder)
        path = folder / "index.faiss"
        return path.stat().st_size, resident_bytes(path)


def _breadths(index: DenseIndex, task: Task, breadths: Sequence[int]) -> list[int]:
    """Those asked for, or the one that rag_lab takes by itself; 0 for an index that visits every row."""
    if not ann.breadth_of(index.card.built, index.card.dimension):
        return [0]
    return list(dict.fromkeys(breadths)) or [index.usual_breadth(max(task.k))]


def _search(index: DenseIndex, task: Task, breadth: int, timed: bool) -> Search:
    """Search all questions in one batch; then, to be timed, each by itself and all in one batch again."""
    depth = max(task.k)
    hits = index.search(task.queries, depth, breadth=breadth or None)
    recall = {str(k): neighbour_recall(hits.ranking, task.truth.ranking, k).values.tolist() for k in task.k}
    if not timed:
        return Search(breadth, recall, hits.exact_queries, [], 0.0, 0.0)
    clock = time.process_time if task.threads == 1 else time.perf_counter
    ms, waiting = _one_by_one(index, task.queries, depth, breadth, clock)
    started = clock()
    index.search(task.queries, depth, breadth=breadth or None)
    return Search(breadth, recall, hits.exact_queries, ms, clock() - started, waiting)


def _one_by_one(
    index: DenseIndex, queries: Embeddings, depth: int, breadth: int, clock: Callable[[], float]
) -> tuple[list[float], float]:
    """Milliseconds of each question searched alone, and the share of the wall's time without a processor."""
    ones = [Embeddings(queries.vectors[i : i + 1], queries.encoder, queries.version) for i in range(len(queries))]
    ms = np.empty(len(ones))
    wall, busy = time.perf_counter(), time.process_time()
    for i, one in enumerate(ones):
        started = clock()
        index.search(one, depth, breadth=breadth or None)
        ms[i] = (clock() - started) * 1000
    wall, busy = time.perf_counter() - wall, time.process_time() - busy
    return ms.tolist(), max(0.0, 1 - busy / wall)
