"""Approximate nearest neighbours by FAISS: making an index from a factory string, and searching it under a filter."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, RagLabError

VectorArray = npt.NDArray[np.float32]

# FAISS's own advice: fewer training vectors than this for each cluster leave the clusters to chance.
VECTORS_A_CLUSTER = 39
# A product quantiser of 8 bits learns 256 codes for each part of a vector, and cannot from fewer vectors.
VECTORS_FOR_CODES = 256
MIN_EF_SEARCH = 64
# How many times as wide as in proportion to the permitted share a search under a filter is; see `default_breadth`.
WIDER = 4


def fit_factory(factory: str, count: int) -> tuple[str, str]:
    """The factory string that `count` vectors can train, and a note of what was changed and why ("" if nothing was).

    IVF gets at most one cluster for every 39 vectors. A factory that learns codes or a rotation (PQ, OPQ, PCA, ...)
    becomes "Flat" below 256 vectors, and so does everything when there is no vector at all.
    """
    if count == 0:
        return "Flat", "" if factory == "Flat" else f"{factory} made as Flat: there is no vector"
    if count < VECTORS_FOR_CODES and re.search(r"PQ|RQ|LSQ|SQ|PCA|ITQ|RR|LSH|L2norm", factory):
        return "Flat", f"{factory} made as Flat: {count} vectors, training it takes {VECTORS_FOR_CODES}"
    match = re.search(r"IVF(\d+)", factory)
    clusters = max(1, count // VECTORS_A_CLUSTER)
    if match and int(match[1]) > clusters:
        built = factory.replace(match[0], f"IVF{clusters}")
        return built, f"{factory} made as {built}: {count} vectors, {VECTORS_A_CLUSTER} a cluster"
    return factory, ""


def build(vectors: VectorArray, factory: str, seed: int) -> Any:
    """A trained and filled `faiss.Index` for the inner product.

    It is built on one thread, because the graph of HNSW depends on the order in which threads get to insert.
    Raises `RagLabError` for a factory string that FAISS does not know, or whose index cannot be filtered.
    """
    faiss = _faiss()
    try:
        index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        _prepare(index, seed)
        with _one_thread():
            index.train(vectors)
            index.add(vectors)
        search(index, vectors[:1], 1, np.ones(len(vectors), dtype=bool), breadth=1)
    except RuntimeError as error:
        raise _refusal(factory, f"{len(vectors)} vectors", vectors.shape[1], error) from None
    return index


def breadth_of(factory: str, dimension: int) -> str:
    """What makes a search in an index of this kind wider: "efSearch", "nprobe", or "" where it visits every row.

    Raises `RagLabError` for a factory string that FAISS does not know for vectors of this dimension.
    """
    faiss = _faiss()
    try:
        inner = _innermost(faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT))
    except RuntimeError as error:
        raise _refusal(factory, "vectors", dimension, error) from None
    kinds = {"efSearch": faiss.IndexHNSW, "nprobe": faiss.IndexIVF}
    return next((name for name, kind in kinds.items() if isinstance(inner, kind)), "")


def _refusal(factory: str, vectors: str, dimension: int, error: RuntimeError) -> RagLabError:
    why = str(error).strip(": \n").rpartition(": ")[2]
    return RagLabError(
        f"dense index: {factory!r} does not work for {vectors} of {dimension} dimensions ({why}); take Flat, HNSW32 or "
        "IVF64,Flat"
    )


def search(
    index: Any, queries: VectorArray, depth: int, allowed: BoolArray | None, breadth: int
) -> npt.NDArray[np.int64]:
    """What FAISS returns: ``[queries, depth]`` rows, -1 where it found no more.

    `allowed` (``[n]``) is applied inside the search. `breadth` is efSearch or nprobe.
    Raises `RagLabError` if a row outside `allowed` comes back all the same.
    """
    faiss = _faiss()
    selector = None if allowed is None else faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
    _, found = index.search(np.ascontiguousarray(queries), depth, params=_parameters(index, breadth, selector))
    rows: npt.NDArray[np.int64] = found
    if allowed is not None and not allowed[rows[rows >= 0]].all():
        raise RagLabError("dense index: FAISS returned rows that the filter forbids; nothing was kept")
    return rows


def default_breadth(index: Any, depth: int, share: float, filtered: bool) -> int:
    """How widely to search when a `share` of the ids may come back; `filtered`: because a filter says so.

    Both kinds walk through ids that they may not return, so to meet as many that they may they go further, in inverse
    proportion to the share: efSearch (HNSW) starts from max(64, depth), nprobe (IVF) from the square root of the number
    of clusters. Under a filter that is not enough to find what an index of the permitted rows alone finds, and they
    start from `WIDER` times that.

    Measured (``experiments/benchmarks/filtered_ann.py``: HNSW32, 64 dimensions, recall@100 at default effort): an index
    of the permitted rows alone, a search in proportion, and one 4 times as wide. Of 50,000 rows, 50 % permitted at
    random 99.8, 99.6, 99.8 %; 30 % 94.6, 91.7, 99.0 %; 10 % 98.2, 87.8, 99.2 %. Of 200,000 rows, 90 % 94.4, 94.0,
    98.2 %; 50 % 97.3, 97.9, 98.2 %; 30 % 99.7, 98.0, 98.4 %, and there all are compared (`compared`). Of 50,000
    rows with 384 dimensions, 90 % 99.7, 99.6, 99.7 %; 70 % 99.9, 99.7, 99.7 %, the one case where a little is missing.
    """
    faiss = _faiss()
    clusters = _innermost(index).nlist if isinstance(_innermost(index), faiss.IndexIVF) else 0
    start = math.ceil(math.sqrt(clusters)) if clusters else max(MIN_EF_SEARCH, depth)
    limit = clusters or max(1, index.ntotal)
    return min(limit, math.ceil((WIDER if filtered else 1) * start / max(share, 1e-9)))


def shut_off(index: Any, queries: VectorArray, depth: int, allowed: BoolArray) -> BoolArray:
    """Which queries (``[queries]``) a graph cannot serve under a filter: around them less than half as many rows are
    permitted as there are anywhere.

    A walk that is led by nearness stays among the forbidden rows there. The nearest rows are counted and not returned.
    Measured as in `default_breadth`, with whole topics permitted: an index of the permitted rows alone, a search in
    proportion, a wider one, and a wider one with these queries compared with all permitted rows. Of 50,000 rows, 70 %
    permitted 83.4, 94.6, 92.4, 100.0 %; 30 % 74.4, 73.0, 92.2, 100.0 %. Of 200,000 rows, 90 % 87.4, 92.4, 90.6, 98.5 %;
    50 % 67.9, 91.2, 71.9, 96.1 %. (In proportion, more queries come back short, and are then compared with all.)
    """
    if not isinstance(_innermost(index), _faiss().IndexHNSW):
        return np.zeros(len(queries), dtype=bool)
    share = float(allowed.mean())
    near = min(max(MIN_EF_SEARCH, depth), index.ntotal)
    found = search(index, queries, near, None, default_breadth(index, near, 1.0, filtered=False))
    shut: BoolArray = np.mean(allowed[found] & (found >= 0), axis=1) < share / 2
    return shut


def compared(index: Any, breadth: int) -> int:
    """How many rows exact search compares in the time that HNSW takes at a breadth (efSearch); 0 for other kinds.

    A step of the walk compares those neighbours that were not met before, which are scattered in memory. Measured with
    50 questions at a time, a step of HNSW32, with up to 64 neighbours, takes as long as 26 to 80 rows of exact search;
    taken are three quarters of the neighbours. IVF compares a part of the permitted rows, so it is never slower.
    """
    inner = _innermost(index)
    return breadth * (3 * inner.hnsw.nb_neighbors(0) // 4) if isinstance(inner, _faiss().IndexHNSW) else 0


def _faiss() -> Any:
    """The module, imported when it is needed. Its type stubs describe C++ constructors, not the Python ones."""
    import faiss

    return faiss


def _innermost(index: Any) -> Any:
    faiss = _faiss()
    return _innermost(faiss.downcast_index(index.index)) if isinstance(index, faiss.IndexPreTransform) else index


def _parameters(index: Any, breadth: int, selector: Any) -> Any:
    faiss = _faiss()
    if isinstance(index, faiss.IndexPreTransform):
        inner = _parameters(faiss.downcast_index(index.index), breadth, selector)
        return faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=breadth, sel=selector)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=breadth, sel=selector)
    return faiss.SearchParameters(sel=selector)


def _prepare(index: Any, seed: int) -> None:
    """Seed what draws at random (clustering, codes, levels of the graph), and leave out training nobody uses."""
    faiss = _faiss()
    inner = _innermost(index)
    for clustering in (getattr(inner, "cp", None), getattr(getattr(inner, "pq", None), "cp", None)):
        if clustering is not None:
            clustering.seed = seed
            # Too few vectors are the business of `fit_factory`; FAISS would only print a warning.
            clustering.min_points_per_centroid = 1
    if hasattr(inner, "do_polysemous_training"):
        # Polysemous codes take most of the training time, and serve a kind of search that is not used here.
        inner.do_polysemous_training = False
    if isinstance(inner, faiss.IndexHNSW):
        inner.hnsw.rng = faiss.RandomGenerator(seed)


@contextmanager
def _one_thread() -> Iterator[None]:
    """FAISS on one thread; the caller's setting comes back afterwards."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
