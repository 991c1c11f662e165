"""Experiments whose variants rerank, from a folder of questions to results and report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tiny_cross_encoder import WORDS, make

import rag_lab
from rag_lab.contracts import RagLabError
from rag_lab.results import Results
from rag_lab.store import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A document for each pair of words, 18 of 30 hold one of two; a question asks for a pair in both orders."""
    at = tmp_path_factory.mktemp("words")
    pairs = [(one, other) for one in WORDS for other in WORDS if one != other]
    documents = [{"_id": f"{one}-{other}", "title": "", "text": f"The {one} of the {other}."} for one, other in pairs]
    queries = [
        {"_id": f"q{i}", "text": f"Where is the {one} of the {other}?"} for i, (one, other) in enumerate(pairs[:8])
    ]
    judged = [
        f"q{i}\t{document}\t1"
        for i, (one, other) in enumerate(pairs[:8])
        for document in (f"{one}-{other}", f"{other}-{one}")
    ]
    (at / "qrels").mkdir()
    for name, rows in (("corpus", documents), ("queries", queries)):
        (at / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (at / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")
    return at


def run(folder: Path, store: Store, scorer: Any, **fields: Any) -> Results:
    given: dict[str, Any] = {
        "dataset": str(folder),
        "generator": "none",
        "statistics": {"resamples": 200, "permutations": 200},
        "metrics": ["nDCG@10", "nDCG@3", "Recall@100"],
        "variants": [
            "bm25",
            *({f"rerank{d}": ["bm25", {"rerank": {"scorer": str(scorer), "depth": d}}]} for d in (1, 4, 30)),
        ],
    }
    return rag_lab.run(progress=False, store=store, **{**given, **fields})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "cross", "BertForSequenceClassification")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def results(folder: Path, store: Store, model: Path) -> Results:
    return run(folder, store, model)


def test_the_ceiling_stands_beside_every_variant_that_reranks(results: Results) -> None:
    table = results.table()
    assert list(table.columns) == [
        "nDCG@10",
        "nDCG@3",
        "Recall@100",
        "CeilingNDCG@10",
        "CeilingNDCG@3",
        "CandidateRecall",
    ]
    assert table.loc["bm25", ["CeilingNDCG@10", "CandidateRecall"]].isna().all()
    deep = table.loc["rerank30"]
    assert (deep["CeilingNDCG@10"], deep["CeilingNDCG@3"], deep["CandidateRecall"]) == (1.0, 1.0, 1.0)
    assert table["CandidateRecall"].dropna().is_monotonic_increasing
    rows = results.metrics[(results.metrics["metric"] == "CandidateRecall") & (results.metrics["variant"] == "rerank4")]
    assert rows[["n", "n_failed"]].values.tolist() == [[8, 0]]
    assert (rows["ci_low"] <= rows["value"]).all()
    assert (rows["value"] <= rows["ci_high"]).all()


def test_no_question_is_above_its_ceiling(results: Results) -> None:
    values = results.questions.pivot(index=["variant", "query_id"], columns="metric", values="value").dropna()
    assert len(values) == 24
    for cutoff in (3, 10):
        assert (values[f"nDCG@{cutoff}"] <= values[f"CeilingNDCG@{cutoff}"] + 1e-12).all()


def test_the_pairs_are_on_the_bill_and_the_model_in_the_record(results: Results, model: Path) -> None:
    use = results.budget_use[results.budget_use["resource"] == "rerank_pairs"]
    assert dict(zip(use["variant"], use["mean"], strict=True)) == {"rerank1": 1.0, "rerank4": 4.0, "rerank30": 18.0}
    assert str(model) in results.provenance["models"]
    shared = results.timings[(results.timings["stage"] == "bm25") & (results.timings["variant"] == "rerank4")]
    assert shared["shared_with"].tolist() == [["bm25", "rerank1", "rerank30"]]


def test_a_capped_run_reranks_less_and_says_so(folder: Path, store: Store, model: Path) -> None:
    capped = run(folder, store, model, budget={"rerank_pairs": 4})
    same = capped.table().loc["rerank30"].tolist()
    assert same == pytest.approx(capped.table().loc["rerank4"].tolist())
    cuts = capped.curtailments[["variant", "stage", "resource", "questions", "wanted", "granted"]].values.tolist()
    assert cuts == [["rerank30", "rerank", "rerank_pairs", 8, 18.0, 4.0]]


def test_another_model_in_the_same_folder_is_another_result(folder: Path, store: Store, tmp_path: Path) -> None:
    at = make(tmp_path / "model", "BertForSequenceClassification")
    first = run(folder, store, at)
    assert run(folder, store, at).provenance["key"] == first.provenance["key"]
    for file in make(tmp_path / "other", "BertForSequenceClassification", activation="torch.nn.Identity").iterdir():
        file.replace(at / file.name)
    assert run(folder, store, at).provenance["key"] != first.provenance["key"]


def test_a_checkpoint_of_the_wrong_kind_stops_the_run_before_it_begins(folder: Path, tmp_path: Path) -> None:
    place = Store(tmp_path / "store")
    with pytest.raises(RagLabError, match="is no cross-encoder: it is a BertModel"):
        run(folder, place, make(tmp_path / "model", "BertModel"))
    assert not list((tmp_path / "store").glob("snapshots/*"))


def test_listwise_needs_a_writer(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="writer"):
        run(folder, Store(tmp_path / "store"), "listwise")
