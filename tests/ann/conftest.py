"""A small dataset for studies of indexes, with vectors from hashed words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_lab.ann.results import AnnResults
from rag_lab.ann.sweep import ann_study
from rag_lab.contracts import Encoder
from rag_lab.store import Store

WORDS = [f"word{number}" for number in range(200)]
STUDY: dict[str, Any] = {
    "sizes": [200, 300, 900],
    "indexes": ["Flat", {"HNSW8": [10, 40]}, {"IVF64,Flat": [1, 4]}, "SQ8"],
    "k": [1, 10],
    "queries": 15,
    "seed": 3,
}


@pytest.fixture(scope="session")
def words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 documents of ten words, and twenty questions of three, each judged on one document."""
    at = tmp_path_factory.mktemp("words")
    draw = np.random.default_rng(0)
    documents = [{"_id": f"d{i:03}", "text": " ".join(draw.choice(WORDS, 10))} for i in range(300)]
    questions = [{"_id": f"q{i:02}", "text": " ".join(draw.choice(WORDS, 3))} for i in range(20)]
    for name, rows in (("corpus", documents), ("queries", questions)):
        (at / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (at / "qrels").mkdir()
    judged = [f"{question['_id']}\td{i:03}\t1" for i, question in enumerate(questions)]
    (at / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")
    return at


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def study(
    words: Path, store: Store, hash_encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AnnResults]:
    """Run the study on the small dataset, with some fields changed."""
    monkeypatch.setattr("rag_lab.preparation.load_encoder", lambda name: hash_encoder)
    # Twenty parents of the 100 vectors that are compared: enough for a test.
    monkeypatch.setattr("rag_lab.ann.sweep.FEWEST_PARENTS", 20)

    def run(**fields: Any) -> AnnResults:
        given = {"dataset": words, "store": store, "progress": False, **STUDY, **fields}
        return ann_study(**given)

    return run
