from dataclasses import fields, is_dataclass
from typing import Any

import pandas as pd
import pytest
from example_results import PASSAGE_EN, example

from rag_lab.reports.blocks import Document, Record, Table
from rag_lab.reports.document import build
from rag_lab.reports.selection import select
from rag_lab.reports.worst import worst_questions
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
    assert row[3].aside.endswith("], n 100")
    assert row[-3].lines == ("216",)


def test_cautions_name_what_happened(results: Results) -> None:
    said = "\n".join(build(results).cautions)
    assert "gold_context: 2 questions failed in stage generation (RuntimeError: out of memory)" in said
    assert "48 questions and 60 documents are in zh." in said
    assert "Went over budget: hybrid on 5 questions (latency)" in said
    assert "The budget made variants do less: context tokens (61 questions each of bm25, dense and hybrid)." in said
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
    record = next(b for s in build(results).sections for b in s.blocks if isinstance(b, Record))
    assert [c.label for c in record.table.columns] == ["variant", "nDCG@10", "evidence"]
    assert "not retrieved" in words(record)
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


def records(document: Document) -> list[Record]:
    return [b for s in document.sections for b in s.blocks if isinstance(b, Record)]


def test_a_sweep_is_in_one_section_and_all_else_at_one_budget(sweep: Results) -> None:
    document = build(sweep)
    section = next(s for s in document.sections if s.anchor == "budgets")
    (table,) = (b for b in section.blocks if isinstance(b, Table))
    assert [c.label for c in table.columns] == ["what", "variant", "300 context tokens", "600 context tokens"]
    assert [row[0].lines[0] for row in table.rows].count("Correct") == 5
    assert {"questions curtailed", "questions abstained", "questions failed"} <= {r[0].lines[0] for r in table.rows}
    assert "tables/*.parquet" in words(section)
    for other in document.sections:
        if other.anchor not in ("budgets", "equal"):
            assert "budget" not in [c.label for b in other.blocks if isinstance(b, Table) for c in b.columns]
    assert len(tables(document)["Retrieval"].rows) == 4


def test_metrics_that_do_not_feel_the_budget_are_not_repeated(sweep: Results) -> None:
    first = sweep.metrics[(sweep.metrics["metric"] == "nDCG@10") & (sweep.metrics["budget"] == "tight")]
    others = sweep.metrics[sweep.metrics["metric"] != "nDCG@10"]
    both = [first, first.assign(budget="roomy")]
    sweep.metrics = pd.concat([others, *both], ignore_index=True)
    section = next(s for s in build(sweep).sections if s.anchor == "budgets")
    (table,) = (b for b in section.blocks if isinstance(b, Table))
    assert "nDCG@10" not in {row[0].lines[0] for row in table.rows}
    assert "nDCG@10 does not change with the cap on context tokens" in words(section)


def test_one_budget_has_no_section_on_budgets(results: Results) -> None:
    assert "budgets" not in [s.anchor for s in build(results).sections]


def test_a_variant_that_abstained_did_not_answer_wrong(hostile: Results) -> None:
    frame_ = hostile.outcomes
    frame_["lost_at"] = "generation"
    frame_["state"] = frame_["variant"].map({"bm25": "abstained", "hybrid": "answered"}).fillna("failed")
    places = {row[0].lines[0]: row[-1].lines[0] for row in records(build(hostile))[1].table.rows}
    assert places == {
        "bm25": "in context, abstained",
        "dense": "in context, failed",
        "hybrid": "in context, answer wrong",
        "no_retrieval": "no context",
        "gold_context": "in context, failed",
    }


def test_passages_are_the_gold_one_and_two_of_the_focal_variant(hostile: Results) -> None:
    for record in records(build(hostile)):
        assert len(record.excerpts) <= 3
        assert sum("(gold" in e.source for e in record.excerpts) <= 1
        assert all("context of hybrid" in e.source for e in record.excerpts if "(gold" not in e.source)


def test_notes_stand_under_what_they_are_about(results: Results) -> None:
    results.provenance["notes"] = [
        "nDCG@10, AP (bm25, dense): 52 questions without a positive judgment are not counted",
        "funnel (bm25): 3 questions have no reference answer: any answer passes generation",
    ]
    said = {s.anchor: words(s) for s in build(results).sections}
    assert "52 questions without a positive judgment are not counted." in said["scores"]
    assert "Funnel (bm25): 3 questions have no reference answer: any answer passes generation." in said["funnel"]
    assert "reference answer" not in said["scores"]
    assert "positive judgment" not in said["funnel"]


def test_calibration_and_detector_are_held_equal_in_the_open(results: Results) -> None:
    assert results.calibration is not None
    results.calibration |= {"variants": ["bm25", "dense"], "score": 0.6948, "auc": 0.7204}
    results.provenance["abstention_detector"] = {"version": "2", "agreement": 0.9375, "n": 64}
    said = words(next(s for s in build(results).sections if s.anchor == "equal"))
    assert "40 questions of bm25 and dense that are not scored" in said
    assert "reached 0.695, AUC of the confidence 0.720" in said
    assert "detector 2; it agrees with the labels in 93.8 % on 64 labelled answers" in said


def test_what_was_learned_is_told_with_what_it_was_learned_on(results: Results) -> None:
    results.provenance["learned"] = [
        {
            "variant": "fusion",
            "stage": "weighted_sum",
            "split": "train",
            "questions": 1809,
            "metric": "nDCG@10",
            "weights": {"bm25": 0.3, "dense": 0.7},
            "score": 0.7412,
            "equal": 0.7301,
        },
        {"variant": "v", "stage": "router", "split": "dev", "questions": 12},
    ]
    said = words(next(s for s in build(results).sections if s.anchor == "equal"))
    assert (
        "weighted_sum of fusion: weights bm25 0.300 and dense 0.700, learned on 1,809 training questions of split "
        "'train', none of which is scored. nDCG@10 there: 0.741, with equal weights 0.730."
    ) in said
    assert "router of v, learned on 12 training questions of split 'dev', none of which is scored." in said


def test_no_retrieval_has_no_place_in_the_funnel(results: Results) -> None:
    section = next(s for s in build(results).sections if s.anchor == "funnel")
    (table,) = (b for b in section.blocks if isinstance(b, Table))
    assert [row[0].lines[0] for row in table.rows] == ["bm25", "dense", "hybrid", "gold_context"]
    assert "no_retrieval looks for no evidence" in words(section)


def test_the_family_of_the_correction_is_named(results: Results) -> None:
    said = words(next(s for s in build(results).sections if s.anchor == "differences"))
    assert "Holm over the variants compared on one metric under one budget" in said


def test_a_failure_at_every_budget_is_said_once(sweep: Results) -> None:
    sweep.failures = [{**sweep.failures[0], "budget": name} for name in ("tight", "roomy")]
    said = [c for c in build(sweep).cautions if "failed" in c]
    assert said == [
        "gold_context at every budget: 2 questions failed in stage generation (RuntimeError: out of memory) and count "
        "as 0."
    ]
