"""The verdict claims what interval and corrected p allow, and no more."""

from typing import Any

import pytest
from example_results import example

from rag_lab.reports.selection import decided, families, select
from rag_lab.reports.verdict import sentences
from rag_lab.results import Results, frame

ROW = {"delta": 0.039, "ci_low": 0.02, "ci_high": 0.058, "p": 0.001, "p_holm": 0.003, "effect": 0.2, "n": 300}


def _results(**rows: dict[str, Any]) -> Results:
    results = example(n=60, variants=("bm25", *rows), generation=False)
    base = {"baseline": "bm25", "budget": "main", "metric": "nDCG@10", "note": ""}
    results.comparisons = frame("comparisons", [{**base, **ROW, "variant": v, **row} for v, row in rows.items()])
    results.metrics = results.metrics[results.metrics["metric"] == "nDCG@10"].copy()
    results.metrics["value_within_budget"] = results.metrics["value"]
    return results


def _verdict(results: Results) -> str:
    return sentences(results, select(results))[0].replace("\u00a0", " ")


def test_better_and_undecided_in_one_sentence() -> None:
    undecided = {"delta": -0.034, "ci_low": -0.07, "ci_high": 0.001, "p_holm": 0.08}
    assert _verdict(_results(dense=undecided, hybrid={})) == (
        "hybrid beats bm25 by 0.039 nDCG@10 [0.020, 0.058], p_holm 0.003; dense is not distinguishable from bm25 on "
        "nDCG@10 (difference −0.034 [−0.070, +0.001], p_holm 0.080)."
    )


def test_a_worse_variant_falls_short_by_the_size_of_the_difference() -> None:
    worse = {"delta": -0.1, "ci_low": -0.15, "ci_high": -0.05, "p_holm": 0.0001}
    assert (
        _verdict(_results(dense=worse)) == "dense falls short of bm25 by 0.100 nDCG@10 [0.050, 0.150], p_holm < 0.001."
    )


@pytest.mark.parametrize(
    ("row", "sense"),
    [
        ({}, 1),
        ({"p_holm": 0.05}, 0),
        ({"p_holm": 0.049}, 1),
        ({"ci_low": 0.0}, 0),
        ({"delta": -0.1, "ci_low": -0.2, "ci_high": -0.01}, -1),
        ({"p_holm": float("nan")}, 0),
        ({"ci_low": None}, 0),
    ],
)
def test_a_difference_needs_interval_and_corrected_p(row: dict[str, Any], sense: int) -> None:
    assert decided({**ROW, **row}, 0.05) == sense


def test_few_questions_are_named() -> None:
    assert "on only 12 questions" in _verdict(_results(dense={"n": 12}))


def test_what_cannot_be_compared_is_said() -> None:
    found = _verdict(_results(dense={}, hybrid={"delta": float("nan")}))
    assert found.endswith("hybrid cannot be compared with bm25 on nDCG@10.")


def test_a_claim_that_the_budget_turns_over_is_qualified() -> None:
    results = _results(dense={})
    everything = results.metrics["group"] == "all"
    for variant, value, within in (("bm25", 0.5, 0.5), ("dense", 0.539, 0.45)):
        chosen = everything & (results.metrics["variant"] == variant)
        results.metrics.loc[chosen, ["value", "value_within_budget"]] = [value, within]
    assert _verdict(results).endswith(
        "as it came, but with questions beyond the budget counted as 0 it is 0.450 against 0.500."
    )


def test_one_variant_alone_is_not_compared() -> None:
    results = _results()
    results.comparisons = frame("comparisons", [])
    assert "There is no other variant to compare it with." in _verdict(results)


def test_bounds_are_a_scale_and_not_contenders() -> None:
    results = example(n=60)
    said = " ".join(sentences(results, select(results)))
    assert "For scale: the same generator reaches Correct" in said
    assert "gold_context beats" not in said


def test_what_holds_at_every_budget_is_said_once_and_caps_name_the_budgets() -> None:
    results = example(n=60, budgets=("roomy", "main"), variants=("bm25", "dense"))
    results.budgets = {"roomy": {"context_tokens": 600}, "main": {"context_tokens": 300}}
    first = results.comparisons[results.comparisons["budget"] == "main"]
    results.comparisons = frame(
        "comparisons",
        [{**r, "budget": b} for b in ("roomy", "main") for r in first[first["metric"] == "nDCG@10"].to_dict("records")],
    )
    results.metrics["value_within_budget"] = results.metrics["value"]
    selection = select(results)
    assert selection.budgets == ("main", "roomy")
    assert selection.reference == "main"
    assert selection.where("roomy") == " at 600 context tokens"
    said = [s for s in sentences(results, selection) if "nDCG@10" in s]
    assert len(said) == 1
    assert said[0].startswith("At every budget: ")


def test_selection_follows_the_experiment() -> None:
    results = example(n=60)
    results.experiment["metrics"] = ["F1", "nDCG@10"]
    selection = select(results)
    assert selection.primary == "F1"
    assert selection.headline == ("F1", "nDCG@10", "AssembledRecall")
    assert selection.focal == "hybrid"
    assert selection.contenders == ("bm25", "dense", "hybrid")
    assert families(("nDCG@10", "F1", "Novel")) == {"Retrieval": ("nDCG@10",), "Answers": ("F1",), "Other": ("Novel",)}
