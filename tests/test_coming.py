"""What is not in force yet: kept out by default, shown as coming where the experiment asks for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rag_lab
from rag_lab.store import Store

OLD = "The travel allowance is 500 euros a day."
NEW = "The travel allowance is 600 euros a day."


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "allowance"
    (folder / "qrels").mkdir(parents=True)
    rights = {"tenant": "acme", "public": True}
    documents = [
        {"_id": "old", "text": OLD, "metadata": rights | {"valid_until": "2026-09-14"}},
        {"_id": "new", "text": NEW, "metadata": rights | {"valid_from": "2026-09-15"}},
    ]
    asked = {"principal": {"tenant": "acme", "groups": []}, "time": "2026-09-10T09:00:00Z"}
    questions = [{"_id": "q", "text": "What is the travel allowance?", "metadata": asked}]
    for name, records in (("corpus", documents), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\told\t1\n")
    return folder


@pytest.mark.parametrize(("days", "seen"), [(0, ["old"]), (4, ["old"]), (5, ["new", "old"]), (30, ["new", "old"])])
def test_the_horizon_lets_in_what_is_coming(dataset: Path, tmp_path: Path, days: int, seen: list[str]) -> None:
    results = rag_lab.run(
        dataset=str(dataset),
        variants=["bm25"],
        generator={"name": "extractive", "options": {"threshold": 0.0}},
        coming_days=days,
        store=Store(tmp_path / "store"),
        progress=False,
    )
    (outcome,) = results.outcomes.to_dict("records")
    assert sorted(outcome["context_documents"]) == seen
    first, *rest = outcome["answer"].splitlines()
    assert first.startswith(OLD.rstrip("."))
    assert any("600" in line for line in rest) == ("new" in seen)
