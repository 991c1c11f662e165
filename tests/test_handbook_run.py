"""The embedded handbook through the main path: rights, validity dates, and the travel allowance."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rag_lab
from rag_lab.results import Results
from rag_lab.store import Store

HANDBOOK = Path(__file__).parent.parent / "data" / "handbook"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return rag_lab.run(
        progress=False,
        store=Store(tmp_path_factory.mktemp("handbook")),
        dataset="handbook",
        snapshot={"chunker": {"name": "blocks", "size": 160}},
        generator={"name": "extractive", "options": {"threshold": 0.0}},
        variants=["bm25", "gold_context"],
        budget={"candidates": 200, "context_tokens": 800, "output_tokens": 96},
    )


def records(name: str) -> dict[str, dict[str, object]]:
    lines = (HANDBOOK / name).read_text(encoding="utf-8").splitlines()
    return {row["_id"]: row for row in map(json.loads, lines)}


@pytest.mark.parametrize("variant", ["bm25", "gold_context"])
@pytest.mark.parametrize(
    ("number", "says", "upcoming"),
    [
        ("01", "CNY 450 per day", None),
        ("02", "CNY 500 per day", None),
        ("03", "CNY 500 per day", "CNY 600 per day from 15 September 2026"),
        ("04", "CNY 500 per day", "CNY 600 per day from 15 September 2026"),
        ("05", "CNY 600 per day", None),
        ("06", "CNY 600 per day", None),
    ],
)
def test_the_travel_allowance_follows_the_time(
    results: Results, variant: str, number: str, says: str, upcoming: str | None
) -> None:
    row = results.outcomes.query(f"variant == '{variant}' and query_id == 'qm-time-dependent-{number}'").iloc[0]
    answer, _, coming = row["answer"].partition("\n[upcoming] ")
    assert says in answer
    assert (upcoming in coming) if upcoming else not coming
    assert row["correct"]


def test_nothing_denied_or_out_of_force_is_ever_in_a_context(results: Results) -> None:
    dataset = rag_lab.load_dataset("handbook")
    documents = {document.document_id: document for document in dataset.documents}
    questions = {question.query_id: question for question in dataset.questions}
    answers = records("answers.jsonl")
    seen = 0
    for row in results.outcomes.itertuples():
        question = questions[row.query_id]
        assert question.principal is not None
        for name in row.context_documents:
            document = documents[name]
            seen += 1
            assert name not in (answers[row.query_id].get("denied") or [])
            assert document.tenant == question.principal.tenant
            assert document.acl.public or set(document.acl.groups) & set(question.principal.groups)
            assert document.valid_from is None or document.valid_from <= question.time
            assert document.valid_until is None or question.time < document.valid_until
    assert seen > 500


def test_permitted_evidence_of_every_question_is_in_scope(results: Results) -> None:
    funnel = results.funnel.query("variant == 'bm25'").set_index("stage")["lost"]
    assert funnel["ingest"] == 0
    assert funnel["scope"] == 0
    gold = results.funnel.query("variant == 'gold_context'").set_index("stage")["lost"]
    assert gold[["ingest", "scope", "candidates", "cut", "assembly"]].sum() == 0


@pytest.mark.parametrize("group", ["rights-limited", "time-dependent", "just-updated"])
def test_retrieval_finds_the_version_that_may_be_read_and_is_in_force(results: Results, group: str) -> None:
    row = results.metrics.query(f"variant == 'bm25' and metric == 'Recall@100' and group == '{group}'").iloc[0]
    assert row["value"] >= 0.95


def test_a_denied_question_has_no_gold_and_counts_as_unanswerable(results: Results) -> None:
    denied = [name for name, row in records("answers.jsonl").items() if row.get("denied") and row["split"] == "test"]
    assert len(denied) >= 10
    rows = results.outcomes[results.outcomes["query_id"].isin(denied)]
    assert not rows["answerable"].any()
    assert set(rows["lost_at"]) == {""}
