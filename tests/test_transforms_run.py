"""Experiments whose variants transform queries, from a folder of questions to results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rag_lab
from rag_lab.contracts import RagLabError
from rag_lab.results import Results
from rag_lab.store import Store

DOCUMENTS = {
    "lee": "Ann Lee, who wrote the novel Blue Moon, died in Lima in 1950.",
    "ray": "Bob Ray, who directed the film Red Sun, died in Cairo in 1960.",
    "moon": "Blue Moon is a novel about the sea.",
    "sun": "Red Sun is a film about the desert.",
    "tea": "Tea is a drink that is made of leaves and hot water.",
    "sea": "The sea is salty and the tide moves it twice a day.",
}
QUESTIONS = [
    ("q1", "When did she die?", ["Who wrote Blue Moon?", "Ann Lee wrote Blue Moon."], "lee"),
    ("q2", "Where did he die?", ["Who directed Red Sun?", "Bob Ray directed Red Sun."], "ray"),
    ("q3", "What is tea made of?", [], "tea"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    at = tmp_path_factory.mktemp("chat")
    (at / "qrels").mkdir()
    corpus = [{"_id": name, "title": "", "text": text} for name, text in DOCUMENTS.items()]
    queries = [{"_id": name, "text": text, "history": history} for name, text, history, _ in QUESTIONS]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (at / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = [f"{name}\t{document}\t1" for name, _, _, document in QUESTIONS]
    (at / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")
    return at


def run(folder: Path, store: Store, **fields: Any) -> Results:
    given: dict[str, Any] = {
        "dataset": str(folder),
        "generator": "none",
        "statistics": {"resamples": 200, "permutations": 200},
        "metrics": ["nDCG@10", "RR"],
    }
    return rag_lab.run(progress=False, store=store, **{**given, **fields})


def test_a_rewritten_question_finds_what_the_users_words_do_not(folder: Path, tmp_path: Path) -> None:
    results = run(folder, Store(tmp_path), variants=["bm25", {"chat": ["rewrite", "bm25"]}])
    scores = results.questions.query("metric == 'RR'").pivot(index="query_id", columns="variant", values="value")
    assert scores["chat"].tolist() == [1.0, 1.0, 1.0]
    assert scores["bm25"]["q1"] < 1
    events = results.events.query("variant == 'chat'")
    assert events[["query_id", "stage", "kind", "text"]].to_numpy().tolist() == [
        ["q1", "rewrite", "query", "When did Ann Lee die?"],
        ["q2", "rewrite", "query", "Where did Bob Ray die?"],
    ]


@pytest.mark.parametrize(
    "stage", ["hyde", {"rewrite": {"by": "llm"}}, {"multi_query": {"by": "llm"}}, {"translate": {"by": "llm"}}]
)
def test_a_stage_that_asks_a_model_needs_a_writer_before_anything_runs(
    tmp_path: Path, stage: str | dict[str, Any]
) -> None:
    name = stage if isinstance(stage, str) else next(iter(stage))
    message = rf"^variants\.x\.{name}: asks a language model, and the experiment names none; set 'writer', such as"
    with pytest.raises(RagLabError, match=message):
        run(tmp_path / "nowhere", Store(tmp_path), variants=[{"x": [stage, "bm25", "dense", "rrf"]}])
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_does_not_write_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match=r"^writer: 'extractive' writes no text of its own"):
        run(folder, Store(tmp_path), writer="extractive", variants=[{"x": ["hyde", "dense"]}])


@pytest.mark.slow
def test_the_packaged_model_writes_queries_for_a_whole_variant(folder: Path, tmp_path: Path) -> None:
    """Whatever the model writes, every question is searched for, and what it took is within the caps."""
    caps = {"llm_calls": 3, "rounds": 2, "context_tokens": 1500, "output_tokens": 300}
    stages = [{"rewrite": {"by": "llm"}}, {"multi_query": {"by": "llm", "n": 2}}, "bm25", "dense", "rrf"]
    fields: dict[str, Any] = {
        "variants": [{"fused": [*stages, "assemble", "generate"]}],
        "generator": "smollm2",
        "writer": "smollm2",
        "budget": caps,
        "metrics": ["nDCG@10"],
    }
    results = run(folder, Store(tmp_path), **fields)
    assert results.failures == []
    usage = results.outcomes.set_index("query_id")
    assert usage["llm_calls"].to_dict() == {"q1": 3, "q2": 3, "q3": 2}
    assert usage["rounds"].to_dict() == {"q1": 2, "q2": 2, "q3": 1}
    assert (usage[list(caps)].max() <= list(caps.values())).all()
    kinds = {"query", "rejected", "empty", "repeated", "capped", "unreadable", "found"}
    assert set(results.events["kind"]) <= kinds
    again = run(folder, Store(tmp_path), **fields, baseline="fused")
    assert again.events.equals(results.events)
