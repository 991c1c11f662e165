"""A writer of small dataset folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

DOCUMENTS = (
    {"_id": "d1", "title": "One", "text": "alpha beta"},
    {"_id": "d2", "title": "Two", "text": "gamma delta"},
    {"_id": "d3", "text": "epsilon"},
)
QUERIES = ({"_id": "q1", "text": "first?"}, {"_id": "q2", "text": "second?"}, {"_id": "q3", "text": "third?"})
JUDGMENTS = {"test": (("q1", "d1", 1), ("q2", "d2", 2), ("q3", "d3", 1))}


def write(
    folder: Path,
    documents: Iterable[Mapping[str, Any]] = DOCUMENTS,
    queries: Iterable[Mapping[str, Any]] = QUERIES,
    judgments: Mapping[str, Iterable[tuple[Any, ...]]] = JUDGMENTS,
    answers: Iterable[Mapping[str, Any]] = (),
    stated: Mapping[str, Any] | None = None,
) -> Path:
    """A BEIR folder with the given records."""
    (folder / "qrels").mkdir(parents=True)
    for name, records in (("corpus", documents), ("queries", queries), ("answers", answers)):
        lines = [json.dumps(record) for record in records]
        if lines:
            (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for split, rows in judgments.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if stated is not None:
        (folder / "dataset.json").write_text(json.dumps(stated), encoding="utf-8")
    return folder


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """``written(name="tiny", documents=..., queries=..., judgments=..., answers=...)`` gives the folder's path."""

    def make(name: str = "tiny", **parts: Any) -> Path:
        return write(tmp_path / name, **parts)

    return make


@pytest.fixture(autouse=True)
def _no_data_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the caller's data root nor the user's cache takes part in a test."""
    monkeypatch.delenv("RAG_LAB_DATA", raising=False)
    monkeypatch.setenv("RAG_LAB_HOME", str(tmp_path / "cache"))
