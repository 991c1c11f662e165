from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from example_results import PASSAGE_EN, example

from rag_lab.reports.blocks import Document, Record, Table
from rag_lab.reports.document import build
from rag_lab.reports.losses import worst_questions
from rag_lab.reports.selection import select
from rag_lab.results import Results, frame


def words(value: Any) -> str:
    """All text of a part of a document."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "\n".join(words(item) for item in value)
    return "\n".join(words(getattr(value, f.name)) for f in fields(value)) if is_dataclass(value) else ""


def tables(document: Document) -> dict[str, Table]:
    return {b.caption: b for s in document.sections for b in s.blocks if isinstance(b, Table)}


def test_the_report_has_every_part(results: Results) -> None:
    document = build(results)
    assert [s.anchor for s in document.sections] == [
        "question", "equal", "scores", "differences", "budget", "cost", "groups", "funnel", "worst", "appendix",
        "reproduce",
    ]  # fmt: skip
    for table in tables(document).values():
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_scores_come_twice_where_the_budget_was_exceeded(results: Results) -> None:
    table = tables(build(results))["Retrieval"]
    row = next(r for r in table.rows if r[0].lines == ("hybrid",))
    assert row[1].lines[-1].startswith("within ")
    assert "counted as 0" in table.note
    plain = next(r for r in table.rows if r[0].lines == ("bm25",))
    assert not any(line.startswith("within") for c in plain for line in c.lines)


def test_n_failed_and_abstained_are_shown(results: Results) -> None:
    table = tables(build(results))["Answers"]
    assert [c.label for c in table.columns][-3:] == ["n", "failed", "abstained"]
    assert [c.lines[0] for c in table.rows[-1][-3:]] == ["216", "2", "18"]


def test_a_metric_with_other_counts_says_so(results: Results) -> None:
    chosen = (results.metrics["metric"] == "EM") & (results.metrics["variant"] == "bm25")
    results.metrics.loc[chosen & (results.metrics["group"] == "all"), "n"] = 100
    row = tables(build(results))["Answers"].rows[0]
    assert row[3].lines[-1] == "n 100"
    assert row[-3].lines == ("216",)


def test_cautions_name_what_happened(results: Results) -> None:
    said = "\n".join(build(results).cautions)
    assert "gold_context: 2 questions failed in stage generation (RuntimeError: out of memory)" in said
    assert "48 questions and 60 documents are in zh." in said
    assert "Went over budget: hybrid on 5 questions (latency (ms))" in said
    assert "The budget curtailed bm25 on 61 questions (context tokens in stage context)" in said
    assert "10 groups, of 24 questions" in said


def test_not_measured_gives_the_reason(results: Results) -> None:
    assert "the dense index is exact" in words(tables(build(results))["Not measured, and why"])


def test_worst_questions_follow_the_stated_rule(results: Results) -> None:
    frame_ = results.questions
    frame_.loc[frame_["metric"] == "nDCG@10", "value"] = 0.5
    for query, own, other in (("q003", 0.0, 0.9), ("q001", 0.1, 1.0), ("q002", 0.0, 0.9), ("q004", 0.0, 1.0)):
        chosen = (frame_["query_id"] == query) & (frame_["metric"] == "nDCG@10")
        frame_.loc[chosen, "value"] = other
        frame_.loc[chosen & (frame_["variant"] == "hybrid"), "value"] = own
    worst = worst_questions(results, select(results))
    assert list(worst["query_id"])[:4] == ["q004", "q002", "q003", "q001"]
    assert len(worst) == 10


def test_document_text_is_only_shown_with_the_questions(results: Results) -> None:
    document = build(results)
    for section in document.sections:
        assert (PASSAGE_EN[:40] in words(section)) == (section.anchor == "worst")


def test_evidence_was_in_the_context_of_that_question(hostile: Results) -> None:
    records = [b for b in build(hostile).sections[8].blocks if isinstance(b, Record)]
    assert len(records) == 10
    for record in records:
        query_id = record.title.split(". ")[1]
        own = hostile.outcomes[hostile.outcomes["query_id"] == query_id]
        allowed = {text for texts in own["context_texts"] for text in texts}
        for excerpt in record.excerpts:
            assert any(text.startswith(excerpt.text.removesuffix(" …")) for text in allowed)


def test_reproduction_holds_all_that_is_needed(results: Results) -> None:
    said = words(build(results).sections[-1])
    for part in (
        "seed", results.snapshot, results.dataset["fingerprint"], "0.1.0+g1234abc", "faiss-cpu", "1.15.1",
        "all-MiniLM-L6-v2", results.provenance["command"], "baseline: bm25", "中文与英文混合数据集", "prices.yaml",
        "10,000 bootstrap resamples", "Linux-6.1",
    ):  # fmt: skip
        assert part.lower() in said.lower()


def test_retrieval_alone() -> None:
    results = example(n=40, generation=False, variants=("bm25", "dense"))
    results.calibration = None
    results.curtailments = frame("curtailments", [])
    results.failures = []
    said = words(build(results))
    assert "not generated" in said
    assert "No stage was cut short by the budget." in said
    assert "No answers were generated" in said


def test_empty_frames_are_said_in_words() -> None:
    results = example(n=40, generation=False, variants=("bm25",))
    for name in ("comparisons", "curtailments", "funnel", "timings", "questions", "outcomes"):
        setattr(results, name, frame(name, []))
    results.metrics = results.metrics[results.metrics["group"] == "all"]
    said = words(build(results))
    assert "Only one variant was run: nothing to compare." in said
    assert "the place where evidence was lost cannot be told" in said
    assert "does not sort its questions into groups" in said
    assert "No score by question was kept." in said


@pytest.mark.parametrize("missing", ["correct", "answerable"])
def test_unknown_correctness_claims_nothing(results: Results, missing: str) -> None:
    results.outcomes[missing] = None
    results.outcomes["gold_answers"] = [[] for _ in range(len(results.outcomes))]
    said = words(build(results).sections[8])
    assert ("\nright\n" in said) == (missing == "answerable")
    assert "not known" in said
