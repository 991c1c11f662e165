"""Comparisons as they came, and with the questions over budget counted as 0."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rag_lab.metrics.scores import Scores
from rag_lab.metrics.summary import Settings
from rag_lab.scoring import Scorer

N = 40


def _rows(over: int, *, who: str = "dense") -> dict[str, dict[str, Any]]:
    """Rows by variant. Right are bm25 on 10 of 40 questions, dense on all, late on none; `who` is over on the first."""
    scorer = Scorer.__new__(Scorer)
    scorer.dataset = SimpleNamespace(questions=[SimpleNamespace(query_id=f"q{i:02d}") for i in range(N)])  # type: ignore[assignment]
    scorer.metric_names, scorer.settings = ["Correct"], Settings(resamples=500, permutations=500)
    everything, none = np.ones(N, dtype=bool), np.zeros(N, dtype=bool)
    judged: list[Any] = [
        SimpleNamespace(
            variant=name,
            budget="main",
            over=np.arange(N) < (over if name == who else 0),
            scores={"Correct": Scores.mean("Correct", np.arange(N) < right, everything, none)},
        )
        for name, right in (("bm25", 10), ("dense", N), ("late", 0))
    ]
    return {row["variant"]: row for row in scorer._comparison_rows(judged, "bm25")}


def test_within_an_open_budget_the_comparison_is_the_same() -> None:
    for row in _rows(0).values():
        assert all(row[f"{name}_within"] == row[name] for name in ("delta", "ci_low", "ci_high", "p_holm"))


def test_questions_over_budget_count_as_zero_on_either_side() -> None:
    row = _rows(35)["dense"]
    assert (row["delta"], row["delta_within"]) == (0.75, pytest.approx(-0.125))
    assert row["ci_low_within"] < row["delta_within"] < row["ci_high_within"]
    assert row["p_holm"] < 0.01 < row["p_holm_within"]
    assert _rows(10, who="bm25")["dense"]["delta_within"] == 1
    assert _rows(10, who="bm25")["late"]["delta_within"] == 0
    assert _rows(10, who="bm25")["late"]["p_holm_within"] == 1
