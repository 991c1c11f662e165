"""From what was measured to the rows of the frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rag_lab.ann.likeness import Shape
from rag_lab.ann.measuring import Cell, Search
from rag_lab.metrics.stats import bootstrap_mean

LONG_WAIT = 0.1


def search_rows(
    size: int, dimension: int, factory: str, cell: Cell, query_ids: Sequence[str], seed: int
) -> list[dict[str, Any]]:
    """Rows of the frame `searches` for one index at one size."""
    shared = {
        "size": size,
        "index": factory,
        "build_s": cell.build_s,
        "disk_bytes": cell.disk_bytes,
        "ram_bytes": cell.ram_bytes,
        "vector_bytes": size * 4 * dimension,
        "built": cell.built,
        "note": cell.note,
    }
    rows = []
    for search, k, recall in _recalls(cell, query_ids, seed):
        p50, p95 = np.percentile(search.ms, [50, 95]).tolist()
        found = {"recall": recall.value, "ci_low": recall.low, "ci_high": recall.high, "n": recall.n}
        times = {"latency_ms_p50": p50, "latency_ms_p95": p95, "queries_per_s": len(query_ids) / search.batch_s}
        waits = {"exact_queries": search.exact_queries, "waiting": search.waiting}
        rows.append({**shared, "breadth": search.breadth, "k": k, **found, **times, **waits})
    return rows


def likeness_rows(
    vectors: str, size: int, measured: Sequence[Shape], cells: Mapping[str, Cell], query_ids: Sequence[str], seed: int
) -> list[dict[str, Any]]:
    """Rows of the frame `likeness` for one kind of vectors: their measures, and the recall of each index in them."""
    recalls = [
        Shape(_name(factory, search, k), recall.value, recall.low, recall.high, recall.n)
        for factory, cell in cells.items()
        for search, k, recall in _recalls(cell, query_ids, seed)
    ]
    return [
        {
            "vectors": vectors,
            "size": size,
            "measure": one.measure,
            "value": one.value,
            "ci_low": one.low,
            "ci_high": one.high,
            "n": one.n,
        }
        for one in (*measured, *recalls)
    ]


def _name(factory: str, search: Search, k: int) -> str:
    return f"recall@{k}, {factory}" + (f" at {search.breadth}" if search.breadth else "")


def _recalls(cell: Cell, query_ids: Sequence[str], seed: int) -> list[tuple[Search, int, Shape]]:
    """Each search and k with its mean recall over the questions and the bootstrap interval of that."""
    columns = [(search, int(k), values) for search in cell.searches for k, values in search.recall.items()]
    interval = bootstrap_mean(np.column_stack([values for _, _, values in columns]), query_ids, seed=seed)
    figures = zip(interval.value.tolist(), interval.low.tolist(), interval.high.tolist(), strict=True)
    return [
        (search, k, Shape("recall", *found, interval.n)) for (search, k, _), found in zip(columns, figures, strict=True)
    ]


def waiting_warnings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A warning where other work kept the processor from the study."""
    measured = {(row["size"], row["index"]): 0.0 for row in rows}
    for row in rows:
        measured[row["size"], row["index"]] = max(measured[row["size"], row["index"]], row["waiting"])
    late = sum(share > LONG_WAIT for share in measured.values())
    if not late:
        return []
    return [
        f"other work had the processor for more than {LONG_WAIT:.0%} of the time in which {late} of {len(measured)} "
        "indexes were searched, so times may be too long: best run the study where nothing else runs"
    ]
