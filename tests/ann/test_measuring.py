"""One index on one collection: recall by an independent count, bytes, times and threads."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path

import faiss
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from rag_lab.ann import measuring, resident
from rag_lab.ann.measuring import Cell, Task, measure
from rag_lab.ann.resident import available_bytes, resident_bytes
from rag_lab.ann.threads import threads
from rag_lab.contracts import RagLabError
from rag_lab.retrieval.encoders import Embeddings


def embeddings(count: int, seed: int) -> Embeddings:
    vectors = np.random.default_rng(seed).normal(size=(count, 24)).astype(np.float32)
    return Embeddings(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), "drawn", "1")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return Task.of(embeddings(2000, 0), embeddings(25, 1), [1, 10], 1, 7, tmp_path_factory.mktemp("work"))


def quiet(what: str) -> None:
    """Nothing is shown."""


def found_by_faiss(task: Task, factory: str, breadth: int) -> list[set[int]]:
    """The ten best rows of each query, by FAISS alone."""
    index = faiss.index_factory(24, factory, faiss.METRIC_INNER_PRODUCT)
    faiss.omp_set_num_threads(1)
    if "HNSW" in factory:
        index.hnsw.rng = faiss.RandomGenerator(7)
        index.hnsw.efSearch = breadth
    else:
        index.cp.seed = 7
        index.nprobe = breadth
    index.train(task.passages.vectors)
    index.add(task.passages.vectors)
    return [set(row) for row in index.search(task.queries.vectors, 10)[1].tolist()]


@pytest.mark.parametrize("factory, breadths", [("HNSW8", [10, 40]), ("IVF16,Flat", [4, 16])])
def test_recall_is_what_faiss_finds_of_the_nearest(task: Task, factory: str, breadths: list[int]) -> None:
    scores = task.queries.vectors.astype(np.float64) @ task.passages.vectors.astype(np.float64).T
    nearest = np.argsort(-scores, axis=1)[:, :10].tolist()
    cell = measure(task, factory, breadths, quiet)
    assert [search.breadth for search in cell.searches] == breadths
    for search in cell.searches:
        found = found_by_faiss(task, factory, search.breadth)
        wanted = [len(set(true) & rows) / 10 for true, rows in zip(nearest, found, strict=True)]
        assert search.recall["10"] == pytest.approx(wanted)
        assert search.recall["1"] == [float(true[0] in rows) for true, rows in zip(nearest, found, strict=True)]
        assert search.exact_queries == 0
        assert len(search.ms) == 25
        assert min(search.ms) > 0
        assert 0 <= search.waiting <= 1


def test_exact_search_and_an_index_that_is_too_small_find_everything_and_weigh_nothing(task: Task) -> None:
    cell = measure(task, "Flat", [], quiet)
    assert [search.breadth for search in cell.searches] == [0]
    assert cell.searches[0].recall == {"1": [1.0] * 25, "10": [1.0] * 25}
    assert cell.searches[0].exact_queries == 25
    assert (cell.built, cell.note, cell.disk_bytes, cell.ram_bytes) == ("Flat", "", 0, 0)


def test_what_was_built_in_place_of_what_was_asked_for_is_told(task: Task) -> None:
    cell = measure(task, "IVF1024,Flat", [1, 8], quiet, timed=False)
    assert cell.built == "IVF51,Flat"
    assert cell.note == "IVF1024,Flat made as IVF51,Flat: 2000 vectors, 39 a cluster"
    assert [search.ms for search in cell.searches] == [[], []]
    assert (cell.disk_bytes, cell.ram_bytes) == (0, 0)


def test_queries_that_an_index_leaves_short_are_counted(task: Task) -> None:
    """At nprobe 1 of 51 clusters about 40 rows are met, so half of the queries for 40 rows are left short."""
    deep = Task(task.passages, task.queries, task.truth, [40], 1, 7, task.work)
    search = measure(deep, "IVF51,Flat", [1], quiet, timed=False).searches[0]
    assert 5 < search.exact_queries < 20


def test_without_breadths_an_index_is_searched_as_everywhere(task: Task) -> None:
    assert [one.breadth for one in measure(task, "HNSW8", [], quiet, timed=False).searches] == [64]
    assert [one.breadth for one in measure(task, "IVF16,Flat", [], quiet, timed=False).searches] == [4]
    assert [one.breadth for one in measure(task, "SQ8", [], quiet, timed=False).searches] == [0]


def test_bytes_on_disk_and_in_memory(task: Task) -> None:
    """SQ8 keeps a byte for each of 24 dimensions."""
    cell = measure(task, "SQ8", [], quiet)
    assert 2000 * 24 <= cell.disk_bytes <= 2000 * 24 + 1000
    assert list(task.work.iterdir()) == []


def test_memory_is_what_a_fresh_process_grows_by(tmp_path: Path) -> None:
    index = faiss.IndexFlatIP(32)
    index.add(np.zeros((200_000, 32), dtype=np.float32))
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    assert resident_bytes(tmp_path / "index.faiss") == pytest.approx(200_000 * 32 * 4, rel=0.1)
    assert available_bytes() > 200_000 * 32 * 4


def test_an_index_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match=r"none.faiss: its memory cannot be measured") as refused:
        resident_bytes(tmp_path / "none.faiss")
    assert "\n" not in str(refused.value)


def test_a_process_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "LIMIT_S", 0.01)
    with pytest.raises(RagLabError, match=r"timed out after 0\.01 seconds"):
        resident_bytes(tmp_path / "none.faiss")


def test_a_cell_survives_its_plain_form(task: Task) -> None:
    cell = measure(task, "HNSW8", [10], quiet)
    assert Cell.read(cell.plain()) == cell


def test_searches_run_on_the_threads_of_the_study_and_the_setting_comes_back(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    search = measuring._search
    monkeypatch.setattr(measuring, "_search", lambda *given: seen.append(faiss.omp_get_max_threads()) or search(*given))
    with threads(2):
        measure(task, "SQ8", [], quiet, timed=False)
        assert faiss.omp_get_max_threads() == 2
    assert seen == [1]


def test_threads_are_limited_in_every_library_and_come_back_after_an_error() -> None:
    before = {one["filepath"]: one["num_threads"] for one in threadpool_info()}
    with suppress(ZeroDivisionError), threads(1):
        during = {one["num_threads"] for one in threadpool_info()}
        raise ZeroDivisionError
    assert during == {1}
    assert {one["filepath"]: one["num_threads"] for one in threadpool_info()} == before


@pytest.mark.parametrize("count, clock", [(1, "process_time"), (2, "perf_counter")])
def test_one_thread_is_timed_by_the_processor_and_several_by_the_wall(
    task: Task, count: int, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is 10 s later every time it is asked."""
    several = Task(task.passages, task.queries, task.truth, task.k, count, task.seed, task.work)
    usual = measure(several, "SQ8", [], quiet).searches[0]
    assert max(*usual.ms, 1000 * usual.batch_s) < 10_000
    later = itertools.count(10, 10)
    monkeypatch.setattr(measuring.time, clock, lambda: float(next(later)))
    asked = measure(several, "SQ8", [], quiet).searches[0]
    assert min(*asked.ms, 1000 * asked.batch_s) >= 10_000
