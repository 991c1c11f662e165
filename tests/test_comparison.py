"""Two runs against each other, on results small enough to work by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_lab.comparison import compare_runs
from rag_lab.contracts import RagLabError
from rag_lab.results import COLUMNS, Results, frame

Values = Mapping[str, Mapping[str, Sequence[float]]]

FIRST: Values = {"bm25": {"RR": [1, 0, 0.5, 0], "Hit@5": [1, 0, 1, 0]}, "dense": {"RR": [1, 1, 1, 1]}}
SECOND: Values = {"bm25": {"RR": [1, 1, 1, 1], "Hit@5": [1, 1, 1, 1]}, "dense": {"RR": [1, 1, 1, 1]}}


def results(values: Values, **changes: Any) -> Results:
    """Results with these values for the questions q0, q1, ..., by variant and metric."""
    rows = [
        {"variant": variant, "budget": budget, "query_id": f"q{i}", "group": "all", "metric": metric, "value": value}
        for budget, scale in (("main", 1.0), ("context_tokens=200", 0.0))
        for variant, metrics in values.items()
        for metric, column in metrics.items()
        for i, value in enumerate(scale * np.array(column, dtype=float))
    ]
    frames = {name: frame(name, []) for name in COLUMNS} | {"questions": frame("questions", rows)}
    made = Results(
        **frames,
        dataset={"name": "small", "fingerprint": "f" * 32},
        snapshot="s1",
        seed=3,
        experiment={},
        variants={name: [{"bm25": {"depth": 10}}] for name in values},
        budgets={"main": {"context_tokens": 800}, "context_tokens=200": {"context_tokens": 200}},
        warnings=[],
        calibration=None,
        failures=[],
        provenance={
            "models": {"generator": "extractive 1"},
            "code_version": "0.1+a",
            "resamples": 1000,
            "permutations": 1000,
            "confidence": 0.95,
        },
    )
    return replace(made, **changes)


def row(found: Any, variant: str, metric: str) -> dict[str, Any]:
    table = found.table
    ((_, line),) = table[(table["variant"] == variant) & (table["metric"] == metric)].iterrows()
    return dict(line)


def test_deltas_are_second_minus_first_question_by_question() -> None:
    found = compare_runs(results(FIRST), results(SECOND), ("runs/a", "runs/b"))
    assert list(found.table.columns) == list(COLUMNS["comparisons"])
    assert [tuple(line) for line in found.table[["baseline", "variant", "budget", "metric"]].to_numpy()] == [
        ("runs/a", "bm25", "main", "RR"),
        ("runs/a", "bm25", "main", "Hit@5"),
        ("runs/a", "dense", "main", "RR"),
    ]
    # Differences 0, 1, 0.5, 1: mean 0.625. Of 16 exchanges those reach it that turn all three others or none: 2 x 2.
    better = row(found, "bm25", "RR")
    assert better["delta"] == 0.625
    assert better["n"] == 4
    assert better["p"] == 4 / 16
    assert better["ci_low"] <= 0.625 <= better["ci_high"]
    differences = np.array([0, 1, 0.5, 1])
    assert better["effect"] == pytest.approx(0.625 / differences.std(ddof=1))
    assert row(found, "bm25", "Hit@5")["delta"] == 0.5


def test_equal_runs_differ_by_nothing() -> None:
    same = row(compare_runs(results(FIRST), results(SECOND)), "dense", "RR")
    assert (same["delta"], same["ci_low"], same["ci_high"], same["p"], same["p_holm"]) == (0, 0, 0, 1, 1)
    assert same["note"] == "identical runs"
    found = compare_runs(results(FIRST), results(FIRST))
    assert found.differs == ()
    assert (found.table["delta"] == 0).all()


def test_holm_is_over_the_variants_of_a_metric() -> None:
    found = compare_runs(results(FIRST), results(SECOND))
    # Two variants on RR: p 0.25 and 1, so Holm takes 2 x 0.25 and 1. One variant on Hit@5: p stays.
    assert row(found, "bm25", "RR")["p_holm"] == 0.5
    assert row(found, "dense", "RR")["p_holm"] == 1
    assert row(found, "bm25", "Hit@5")["p_holm"] == row(found, "bm25", "Hit@5")["p"]


def test_the_order_of_rows_changes_nothing() -> None:
    first, second = results(FIRST), results(SECOND)
    shuffled = replace(second, questions=second.questions.iloc[::-1].reset_index(drop=True))
    assert compare_runs(first, second).table.equals(compare_runs(first, shuffled).table)


def test_swapping_the_runs_turns_the_sign() -> None:
    one = compare_runs(results(FIRST), results(SECOND)).table
    other = compare_runs(results(SECOND), results(FIRST)).table
    assert (one["delta"] == -other["delta"]).all()
    assert (one["p"] == other["p"]).all()


def test_other_questions_are_refused() -> None:
    other = results(SECOND, dataset={"name": "small", "fingerprint": "e" * 32})
    with pytest.raises(RagLabError, match="compare: a is on small ffffffffffff and b on small eeeeeeeeeeee; run both"):
        compare_runs(results(FIRST), other, ("a", "b"))


def test_runs_without_a_common_variant_are_refused() -> None:
    other = results({"hybrid": {"RR": [1, 1, 1, 1]}})
    with pytest.raises(RagLabError, match="no variant is in both runs; first has bm25, dense and second has hybrid"):
        compare_runs(results(FIRST), other)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"snapshot": "s2"}, "snapshot: s1 against s2"),
        ({"seed": 4}, "seed: 3 against 4"),
        ({"budgets": {"main": {}}}, "budget: {'context_tokens': 800} against {}"),
    ],
)
def test_what_was_not_equal_is_said(changes: dict[str, Any], said: str) -> None:
    assert said in compare_runs(results(FIRST), results(SECOND, **changes)).differs


def test_other_code_generators_and_stages_are_said() -> None:
    second = results(SECOND)
    second.provenance |= {"code_version": "0.1+b", "models": {"generator": "smollm2 1"}}
    second.variants["bm25"] = [{"bm25": {"depth": 20}}]
    assert compare_runs(results(FIRST), second).differs == (
        "generator: extractive 1 against smollm2 1",
        "code: 0.1+a against 0.1+b",
        "stages of bm25 differ",
    )


def test_variants_and_metrics_of_one_run_only_are_left_out_and_said() -> None:
    second = results({"bm25": {"RR": [1, 1, 1, 1], "AP": [1, 1, 1, 1]}, "hybrid": {"RR": [1, 1, 1, 1]}})
    found = compare_runs(results(FIRST), second)
    assert list(found.table["variant"]) == ["bm25"]
    assert list(found.table["metric"]) == ["RR"]
    assert found.differs == (
        "variant dense is only in the first",
        "variant hybrid is only in the second",
        "metric Hit@5 is only in the first",
        "metric AP is only in the second",
    )


def test_a_ratio_over_the_collection_has_no_value_per_question_and_is_left_out() -> None:
    values = {"bm25": {"AbstentionPrecision": [1, 0, 1, 0], "RR": [1, 1, 1, 1]}}
    assert list(compare_runs(results(values), results(values)).table["metric"]) == ["RR"]
