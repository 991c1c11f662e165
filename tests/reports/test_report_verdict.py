"""The verdict claims what interval and corrected p allow, and no more."""

from typing import Any

import pytest
from example_results import example

from rag_lab.reports.scoring import comparison_table
from rag_lab.reports.selection import decided, families, select
from rag_lab.reports.verdict import HEADLINE, sentences
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
    """The sentence with the numbers on the primary metric."""
    return next(s for s in sentences(results, select(results)) if "p_holm" in s).replace("\u00a0", " ")


def _headline(results: Results) -> str:
    return sentences(results, select(results))[0]


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


INSIDE_UNDECIDED = {"delta_within": 0.001, "ci_low_within": -0.05, "ci_high_within": 0.05, "p_holm_within": 0.9}
INSIDE_WORSE = {"delta_within": -0.4, "ci_low_within": -0.5, "ci_high_within": -0.3, "p_holm_within": 0.0002}
INSIDE_THE_SAME = {"delta_within": 0.03, "ci_low_within": 0.01, "ci_high_within": 0.05, "p_holm_within": 0.01}


def _over_budget(inside: dict[str, Any], row: dict[str, Any], within: float) -> Results:
    results = _results(dense={**row, **inside})
    everything = results.metrics["group"] == "all"
    for variant, value, counted in (("bm25", 0.5, 0.5), ("dense", 0.539, within)):
        chosen = everything & (results.metrics["variant"] == variant)
        results.metrics.loc[chosen, ["value", "value_within_budget"]] = [value, counted]
    return results


def test_a_claim_that_the_budget_turns_over_is_qualified() -> None:
    results = _over_budget(INSIDE_UNDECIDED, {}, 0.501)
    assert _headline(results) == "dense beats bm25 on nDCG@10, but not within the budget (dense)."
    assert _verdict(results) == (
        "dense beats bm25 by 0.039 nDCG@10 [0.020, 0.058], p_holm 0.003; but with questions beyond the budget counted "
        "as 0, on nDCG@10 dense is not distinguishable from bm25 (0.501 against 0.500, p_holm 0.900)."
    )
    assert _headline(results) == "dense beats bm25 on nDCG@10, but not within the budget (dense)."


def test_a_loss_that_only_the_budget_shows_is_told() -> None:
    undecided = {"delta": 0.01, "ci_low": -0.1, "ci_high": 0.1, "p_holm": 0.8}
    results = _over_budget(INSIDE_WORSE, undecided, 0.1)
    assert "not within the budget (dense)" in _headline(results)
    assert _verdict(results).endswith(
        "; but with questions beyond the budget counted as 0, on nDCG@10 dense falls short of bm25 (0.100 against "
        "0.500, p_holm < 0.001)."
    )
    remarks = [cell.aside for row in comparison_table(results, select(results), ("nDCG@10",), "").rows for cell in row]
    assert "(within the budget worse)" in remarks


def test_the_same_verdict_within_the_budget_needs_no_words() -> None:
    results = _over_budget(INSIDE_THE_SAME, {}, 0.53)
    assert "budget" not in " ".join(sentences(results, select(results)))


def test_each_budget_of_a_sweep_keeps_its_own_reservation() -> None:
    results = _compared({"nDCG@10": {"dense": {"@a": INSIDE_WORSE, "@main": INSIDE_THE_SAME}}}, budgets=("main", "a"))
    said = " ".join(sentences(results, select(results)))
    assert "At every budget" not in said
    assert "dense beats bm25, but not within the budget (dense)." in said


def test_a_headline_of_counts_keeps_what_the_budget_turns_over() -> None:
    names = [f"a_rather_long_name_{i}" for i in range(12)]
    results = _compared({"nDCG@10": {name: INSIDE_UNDECIDED if i < 2 else {} for i, name in enumerate(names)}})
    assert sentences(results, select(results))[0].endswith("; within the budget, 2 of these verdicts differ.")


def test_several_variants_without_a_comparison_are_not_called_one() -> None:
    results = example(n=60, variants=("bm25", "dense"))
    results.comparisons = frame("comparisons", [])
    assert "No other variant could be compared with it." in _headline(results)


@pytest.mark.parametrize(
    ("metrics", "scale"),
    [
        (["Correct"], "the same generator reaches Correct"),
        (["F1", "Recall@100"], "the same generator reaches F1"),
        (["AssembledRecall"], "the same generator reaches Correct"),
        (["CitationRecall"], "the same generator reaches CitationRecall"),
    ],
)
def test_the_scale_is_on_what_the_generator_does(metrics: list[str], scale: str) -> None:
    results = example(n=60)
    results.experiment["metrics"] = metrics
    assert f"For scale: {scale}" in " ".join(sentences(results, select(results)))


def test_without_a_generator_none_is_named() -> None:
    results = example(n=60, generation=False)
    said = " ".join(sentences(results, select(results)))
    assert "For scale: nDCG@10 is" in said
    assert "generator" not in said


def test_one_variant_alone_is_not_compared() -> None:
    results = _results()
    results.comparisons = frame("comparisons", [])
    assert "There is no other variant to compare it with." in _headline(results)


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
    assert said[0].startswith("At every budget, dense ")


def test_selection_follows_the_experiment() -> None:
    results = example(n=60)
    results.experiment["metrics"] = ["F1", "nDCG@10"]
    selection = select(results)
    assert selection.primary == "F1"
    assert selection.headline == ("F1", "nDCG@10", "AssembledRecall")
    assert selection.focal == "hybrid"
    assert selection.contenders == ("bm25", "dense", "hybrid")
    assert families(("nDCG@10", "F1", "Novel")) == {"Retrieval": ("nDCG@10",), "Answers": ("F1",), "Other": ("Novel",)}


def _compared(metrics: dict[str, dict[str, dict[str, Any]]], budgets: tuple[str, ...] = ("main",)) -> Results:
    """Results with these comparisons: metric -> variant -> what differs from ROW; a key "@BUDGET" is for one budget."""
    variants = tuple(next(iter(metrics.values())))
    results = example(n=60, budgets=budgets, variants=("bm25", *variants))
    rows = []
    for budget in budgets:
        for metric, by_variant in metrics.items():
            for variant, row in by_variant.items():
                own = {key: value for key, value in row.items() if not key.startswith("@")}
                base = {"baseline": "bm25", "budget": budget, "metric": metric, "variant": variant, "note": ""}
                rows.append({**base, **ROW, **own, **row.get(f"@{budget}", {})})
    results.comparisons = frame("comparisons", rows)
    results.metrics["value_within_budget"] = results.metrics["value"]
    return results


UNDECIDED: dict[str, Any] = {"delta": 0.01, "ci_low": -0.02, "ci_high": 0.04, "p_holm": 0.6}


def test_the_headline_has_no_numbers_and_names_the_answers() -> None:
    results = _compared({"nDCG@10": {"dense": {}, "hybrid": {}}, "Correct": {"dense": UNDECIDED, "hybrid": UNDECIDED}})
    first, second, third, *_ = sentences(results, select(results))
    assert first == "dense and hybrid beat bm25 on nDCG@10; on Correct, no variant is distinguishable from bm25."
    assert second.startswith("dense beats bm25 by 0.039 nDCG@10 [")
    assert "; hybrid beats bm25 by 0.039 [" in second
    assert third.startswith("dense and hybrid are not distinguishable from bm25 on Correct (differences +0.010 [")


def test_a_headline_keeps_to_two_lines_however_many_variants_there_are() -> None:
    names = [f"a_rather_long_name_{i}" for i in range(12)]
    results = _compared({"nDCG@10": {name: {} if i < 5 else UNDECIDED for i, name in enumerate(names)}})
    first = sentences(results, select(results))[0]
    assert first == "Of 12 variants, 5 beat bm25 on nDCG@10, 0 fall short of it."
    assert len(first) <= HEADLINE


def test_other_budgets_are_told_in_few_words_behind_the_verdict() -> None:
    worse = {"delta": -0.1, "ci_low": -0.15, "ci_high": -0.05}
    rows = {"dense": {"@a": UNDECIDED}, "hybrid": {"@a": worse, "@b": {"delta": 0.05}}}
    results = _compared({"nDCG@10": rows}, ("main", "a", "b"))
    for i, name in enumerate(("a", "b", "main")):
        results.budgets[name] = {"context_tokens": 100 * 2**i}
    said = sentences(results, select(results))
    assert said[0] == "dense and hybrid beat bm25 on nDCG@10, at 400 context tokens."
    assert said[1].startswith("At 400 context tokens, dense beats bm25 by ")
    assert said[1].endswith(
        "; at 100, hybrid falls short of bm25, dense is not distinguishable from bm25; at 200, the same verdict."
    )
    for i, name in enumerate(("a", "b", "main")):
        results.budgets[name] = {"llm_calls": 2**i}
    assert sentences(results, select(results))[1].startswith("At 4 LLM calls, dense beats bm25 by ")
