"""Results of a study that nobody ran, with round figures."""

from __future__ import annotations

from typing import Any

from rag_lab.ann.results import AnnResults, frame

SIZES = (1000, 50_000)


def search(size: int, index: str, breadth: int, recall: float, p50: float, **more: Any) -> dict[str, Any]:
    row = {"size": size, "index": index, "breadth": breadth, "k": 10, "recall": recall, "ci_low": recall - 0.01}
    row |= {"ci_high": min(1.0, recall + 0.01), "n": 300, "exact_queries": 0, "latency_ms_p50": p50}
    row |= {"latency_ms_p95": 2 * p50, "queries_per_s": 1000 / p50, "build_s": 3.0, "disk_bytes": 10**6}
    row |= {"ram_bytes": 10**6, "vector_bytes": size * 1536, "waiting": 0.0, "built": index, "note": ""}
    return row | more


def results(**changes: Any) -> AnnResults:
    """Two sizes, exact search and three indexes, 300 questions, 40,000 real vectors."""
    rows = []
    for size in SIZES:
        slow = size / 1000
        rows += [
            search(size, "Flat", 0, 1.0, 0.5 * slow, exact_queries=300, build_s=0.0, disk_bytes=0, ram_bytes=0),
            search(size, "HNSW32", 64, 0.94, 0.8, ram_bytes=90 * 10**6),
            search(size, "HNSW32", 128, 0.97, 1.2, ram_bytes=90 * 10**6),
            search(size, "IVF64,PQ48", 8, 0.9, 0.4, exact_queries=3, built="IVF25,PQ48", note="too few vectors"),
            search(size, "SQ8", 0, 0.99, 4.0, ram_bytes=20 * 10**6),
        ]
    likeness = [
        {"vectors": kind, "size": 20_000, "measure": name, "value": value, "ci_low": 0.0, "ci_high": 99.0, "n": 500}
        for kind, values in (("real", (12.4, 0.97, 0.9)), ("made", (12.2, 0.95, 0.93)))
        for name, value in zip(
            ("local dimension, passages", "recall@10, HNSW32 at 128", "recall@10, SQ8"), values, strict=True
        )
    ]
    given: dict[str, Any] = {
        "searches": frame("searches", rows),
        "likeness": frame("likeness", likeness),
        "study": {
            "name": "ann",
            "question": "Which <index>?",
            "seed": 1,
            "queries": 300,
            "snapshot": {"chunker": {"name": "window", "size": 64}, "encoder": "minilm"},
            "sizes": list(SIZES),
            "indexes": {"Flat": [], "HNSW32": [64, 128], "IVF64,PQ48": [8], "SQ8": []},
            "k": [10],
            "threads": 1,
        },
        "dataset": {"name": "scifact", "split": "test", "fingerprint": "abc"},
        "collection": {
            "real": 40_000,
            "dimension": 384,
            "queries": 300,
            "encoder": "minilm 1",
            "snapshot": "s1",
            "recipe": "manifold-parzen-1",
            "breadth_of": {"Flat": "", "HNSW32": "efSearch", "IVF64,PQ48": "nprobe", "SQ8": ""},
        },
        "warnings": [],
        "provenance": {
            "processor": "A processor, 2 cores",
            "code_version": "1+x",
            "python": "3.11",
            "platform": "Linux",
            "started": "2026-01-01",
            "seconds": 5,
            "packages": {"faiss-cpu": "1.15"},
            "command": "rag-lab ann experiments/ann.yaml",
        },
    }
    return AnnResults(**{**given, **changes})
