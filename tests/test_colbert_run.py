"""Experiments with late interaction: when token vectors are made, by which model, and what is told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rag_lab
from rag_lab.contracts import RagLabError
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.results import Results
from rag_lab.store import Store

SHORT = {
    "dataset": "handbook",
    "generator": "none",
    "limit": 8,
    "time": "2026-09-10",
    "metrics": ["nDCG@10"],
    "statistics": {"resamples": 200, "permutations": 200},
}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch, hash_encoder: Any, hash_late_encoder: Any) -> list[str]:
    """Names of the late-interaction encoders that were loaded."""
    asked: list[str] = []

    def load(name: str) -> Any:
        asked.append(name)
        return hash_late_encoder

    monkeypatch.setattr("rag_lab.retrieval.late.load_late_encoder", load)
    monkeypatch.setattr("rag_lab.preparation.load_encoder", lambda name: hash_encoder)
    return asked


def run(tmp_path: Path, **fields: Any) -> Results:
    return rag_lab.run(SHORT, store=Store(tmp_path / "store"), progress=False, **fields)


def test_nothing_is_encoded_by_token_unless_a_variant_searches_it(tmp_path: Path, named: list[str]) -> None:
    results = run(tmp_path, variants=["dense"])
    assert named == []
    assert "colbert" not in results.provenance["models"]
    assert Snapshot(Store(tmp_path / "store"), results.snapshot).facts["late"] is None
    assert not (tmp_path / "store" / "token_vectors").exists()


def test_token_vectors_are_made_once_for_all_variants_and_runs(tmp_path: Path, named: list[str]) -> None:
    variants = ["colbert", {"near": [{"colbert": {"index": "plaid"}}]}, {"few": [{"colbert": {"depth": 3}}]}]
    first = run(tmp_path, variants=variants)
    assert named == ["multilingual-e5"]  # the handbook is in English and Chinese
    assert first.provenance["models"] == {"colbert": "hash-late hash-late-1"}
    chunks = first.provenance["snapshots"]["main"]["chunks"]
    caches = first.provenance["caches"]
    assert caches["token vectors"]["hits"] + caches["token vectors"]["misses"] == chunks
    assert caches["query"] == {"hits": 2, "misses": 1}
    assert first.runs["near"] == first.runs["colbert"]
    assert first.runs["few"] == {name: ranked[:3] for name, ranked in first.runs["colbert"].items()}
    metric = first.metrics.query("metric == 'NeighbourRecall@10' and group == 'all'")
    assert metric[["variant", "value"]].to_numpy().tolist() == [["near", 1.0]]
    again = run(tmp_path, variants=[*variants, {"deep": [{"colbert": {"depth": 30}}]}])
    assert again.provenance["caches"]["token vectors"] == {"hits": chunks, "misses": 0}
    assert again.provenance["caches"]["query"] == {"hits": 1, "misses": 0}
    assert again.runs["colbert"] == first.runs["colbert"]


def test_a_model_is_named_for_each_snapshot(tmp_path: Path, named: list[str]) -> None:
    snapshots = {"small": {"colbert": "minilm"}, "large": {"colbert": "org/model"}}
    results = run(tmp_path, variants=["colbert"], snapshots=snapshots)
    assert named == ["minilm", "org/model"]
    assert results.runs.keys() == {"colbert@small", "colbert@large"}


def test_a_language_that_the_model_does_not_know_is_warned_of(
    tmp_path: Path, named: list[str], hash_late_encoder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(hash_late_encoder), "languages", frozenset({"en"}))
    warning = (
        "colbert encoder hash-late does not know the corpus language zh: its scores say little; use colbert "
        "multilingual-e5"
    )
    assert warning in run(tmp_path, variants=["colbert"]).warnings
    assert named == ["multilingual-e5"]


def test_a_model_that_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="late encoder 'no/such/model'") as error:
        run(tmp_path, variants=["colbert"], snapshot={"colbert": "no/such/model"})
    assert "\n" not in str(error.value)
