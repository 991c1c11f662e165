"""Metrics by name, what cannot be measured and why, and figures over groups of questions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from rag_lab.contracts import Abstention, Answer, Context, GoldSpan, Question, RagLabError, Reason
from rag_lab.metrics import DEFAULT, Observation, Scores, evaluate, metric, not_measured, stats
from rag_lab.metrics.scores import WHY_NOT
from rag_lab.metrics.summary import Settings, differences, summarise

QUICK = Settings(resamples=500, permutations=500)


def test_every_default_metric_says_what_it_means_and_needs() -> None:
    for name in DEFAULT:
        found = metric(name)
        assert found.name == name
        assert found.meaning.endswith(".")
        assert set(found.needs) <= set(WHY_NOT)


def test_unknown_metric_lists_the_known() -> None:
    with pytest.raises(RagLabError, match="unknown metric 'nDGC@10'; known are nDCG@10, "):
        metric("nDGC@10")


def test_what_cannot_be_measured_and_why() -> None:
    """A dataset with judgments alone, and a variant that generates nothing."""
    seen = Observation([Question("q", "?")], {"q": {"a": 1}}, {"q": ["a"]})
    assert list(evaluate(DEFAULT, seen)) == ["nDCG@10", "Recall@100", "RR", "AP", "P@5", "Hit@5"]
    why = not_measured(["RR", "EM", "AssembledRecall", "AbstentionRecall"], seen.offers())
    assert why == {
        "EM": "the dataset has no reference answers",
        "AssembledRecall": "the dataset names no gold evidence",
        "AbstentionRecall": "the dataset has no question that is known to be unanswerable",
    }
    assert not_measured(["RR"], Observation([], {"q": {"a": 1}}).offers()) == {"RR": "the variant retrieves nothing"}


def test_all_metrics_at_once_in_the_order_asked_for() -> None:
    questions = [
        Question("q1", "?", answers=("x",), answerable=True, gold=(GoldSpan("a"),)),
        Question("q2", "?", answerable=False),
    ]
    outcomes = [Answer("q1", "x", ()), Abstention("q2", Reason.INSUFFICIENT)]
    seen = Observation(questions, {"q1": {"a": 1}}, {"q1": ["a"], "q2": []}, [Context("q1"), Context("q2")], outcomes)
    names = ["F1", "RR", "AbstentionRecall", "AssembledRecall", "P@5"]
    found = evaluate(names, seen)
    assert list(found) == names
    assert [found[name].value for name in names] == [1, 1, 1, 0, 0.2]
    assert len(evaluate(DEFAULT, seen)) == len(DEFAULT)


def test_lengths_are_checked() -> None:
    with pytest.raises(RagLabError, match="0 outcomes for 1 questions"):
        Observation([Question("q", "?")], outcomes=[])


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(RagLabError, match="F1: 1 values are NaN"):
        Scores.mean("F1", [np.nan, 1], [True, True], [False, False])
    assert Scores.mean("F1", [np.nan, 1], [True, True], [True, False]).value == 0.5


def scores(name: str, values: list[float], eligible: list[bool], missing: list[bool] | None = None) -> Scores:
    return Scores.mean(name, values, eligible, missing or [False] * len(values))


def test_summaries_are_the_bootstrap_over_their_own_questions() -> None:
    """A missing result is 0 in the mean and counted: [1, missing] is 0.5 and not 1."""
    ids = ["a", "b", "c", "d"]
    one = scores("EM", [1, 0, 1, 9], [True, True, True, False], [False, True, False, False])
    other = scores("RR", [0.5, 0.5, 1, 1], [True] * 4)
    first, second = summarise([one, other], ids, settings=QUICK)
    assert (first.value, first.n, first.missing) == (pytest.approx(2 / 3), 3, 1)
    assert (second.value, second.n, second.missing) == (0.75, 4, 0)
    interval = stats.bootstrap_mean([1, 0, 1], ids[:3], resamples=500)
    assert (first.low, first.high) == (interval.low[0], interval.high[0])


def test_summary_of_a_group() -> None:
    one = scores("EM", [1, 0, 1, 0], [True] * 4, [False, True, False, True])
    rows = np.array([True, True, False, False])
    (group,) = summarise([one], ["a", "b", "c", "d"], rows, QUICK)
    assert (group.value, group.n, group.missing) == (0.5, 2, 1)
    (nothing,) = summarise([one], ["a", "b", "c", "d"], np.zeros(4, dtype=bool), QUICK)
    assert (nothing.value, nothing.n, nothing.note) == (0, 0, "no questions")


def test_summary_of_a_ratio_counts_its_denominator() -> None:
    ratio = Scores("P", np.array([1.0, 0, 0]), np.array([1.0, 1, 0]), np.ones(3, bool), np.zeros(3, bool))
    (found,) = summarise([ratio], ["a", "b", "c"], settings=QUICK)
    assert (found.value, found.n) == (0.5, 2)
    assert found.low == 0
    assert found.high == 1


def test_differences_of_several_variants() -> None:
    ids = [f"q{i}" for i in range(6)]
    base = scores("EM", [0, 0, 0, 1, 1, 0], [True] * 5 + [False])
    same, better = base, scores("EM", [1, 1, 1, 1, 1, 1], [True] * 5 + [False])
    equal, gain = differences(base, [same, better], ids, settings=QUICK)
    assert (equal.delta, equal.p, equal.note, equal.n) == (0, 1, "identical runs", 5)
    assert (gain.delta, gain.p, gain.note) == (0.6, 2 / 8, "exact test")
    with pytest.raises(RagLabError, match="not over the same questions"):
        differences(base, [scores("EM", [1] * 6, [True] * 6)], ids)


def test_scores_with_some_questions_counted_as_zero() -> None:
    one = scores("EM", [1, 1, 0], [True] * 3)
    assert one.with_zero(np.array([True, False, False])).value == pytest.approx(1 / 3)


def test_metrics_import_nothing_heavy() -> None:
    code = "import sys, rag_lab.metrics, rag_lab.metrics.summary; print([m for m in %r if m in sys.modules])"
    heavy = ["pytrec_eval", "pandas", "torch", "scipy", "matplotlib", "transformers"]
    output = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, check=True, text=True).stdout
    assert output.strip() == "[]"
