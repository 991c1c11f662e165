"""Choosing the threshold of a reader."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.generation.calibration import calibrate


def test_worked_example() -> None:
    # right .9 .7 .4, unanswerable .5 .2, answerable but wrong .95 (neutral). Between .2 and .4: 3/3 and 1/2, .75;
    # between .5 and .7: 2/3 and 2/2, .8333.
    chosen = calibrate([0.9, 0.7, 0.4, 0.5, 0.2, 0.95], [1, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 1])
    assert chosen.value == pytest.approx(0.6)
    assert chosen.score == pytest.approx(5 / 6)
    assert chosen.auc == pytest.approx(5 / 6)
    assert (chosen.right, chosen.unanswerable, chosen.neutral) == (3, 2, 1)


def test_the_lowest_of_equally_good_thresholds_wins() -> None:
    assert calibrate([0.5, 0.5], [1, 0], [1, 0]).value == 0.0


def test_a_threshold_above_all_is_possible() -> None:
    chosen = calibrate([0.1, 0.9], [1, 0], [1, 0])
    assert chosen.score == 0.5
    assert chosen.value == 0.0


def test_right_means_nothing_for_an_unanswerable_question() -> None:
    assert calibrate([0.9, 0.1], [1, 1], [1, 0]).unanswerable == 1


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans(), st.booleans()), min_size=2, max_size=40))
def test_no_other_cut_is_better(rows: list[tuple[int, bool, bool]]) -> None:
    confidence = np.array([value / 20 for value, _, _ in rows])
    answerable = np.array([a for _, _, a in rows])
    right = np.array([r for _, r, _ in rows]) & answerable
    if not right.any() or answerable.all():
        with pytest.raises(RagLabError, match="not one"):
            calibrate(confidence, right, answerable)
        return
    chosen = calibrate(confidence, right, answerable)
    for cut in np.arange(-0.5, 22) / 20:
        score = ((confidence[right] >= cut).mean() + (confidence[~answerable] < cut).mean()) / 2
        assert score <= chosen.score + 1e-12


@pytest.mark.parametrize(
    ("confidences", "right", "answerable", "message"),
    [
        ([0.5], [1, 0], [1], "three lists of one length"),
        ([float("nan"), 0.5], [1, 0], [1, 0], "NaN"),
        ([0.5, 0.6], [0, 0], [1, 0], "not one question answered rightly"),
        ([0.5, 0.6], [1, 1], [1, 1], "not one unanswerable"),
    ],
)
def test_errors(confidences: list[float], right: list[int], answerable: list[int], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        calibrate(confidences, right, answerable)
