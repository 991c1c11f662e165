"""Intervals, paired tests and Holm against values worked by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.metrics import stats

scores = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=12)


def ids(n: int) -> list[str]:
    return [f"q{i:04}" for i in range(n)]


def test_s20a_two_questions_resample_to_their_extremes() -> None:
    """Means 1, 5, 9 with 1/4, 1/2, 1/4."""
    interval = stats.bootstrap_mean([1, 9], ["a", "b"])
    assert (interval.value[0], interval.low[0], interval.high[0], interval.n) == (5, 1, 9, 2)
    inner = stats.bootstrap_mean([1, 9], ["a", "b"], confidence=0.4)
    assert (inner.low[0], inner.high[0]) == (5, 5)


@pytest.mark.parametrize("value", [4.0, 0.1, 1 / 3, 0.0, 1e-9, 7e8])
def test_s20b_no_variance_is_one_point_and_flagged(value: float) -> None:
    interval = stats.bootstrap_mean([value] * 4, ids(4))
    assert interval.low[0] == interval.high[0] == interval.value[0] == pytest.approx(value, rel=1e-11)
    assert interval.notes == ("no variance",)


def test_s20c_repeats_of_a_question_are_one_question() -> None:
    interval = stats.bootstrap_mean([0] * 50 + [1] * 50, ["q1"] * 50 + ["q2"] * 50)
    assert (interval.low[0], interval.high[0], interval.value[0], interval.n) == (0, 1, 0.5, 2)


def test_s20_shuffled_rows_give_the_same_interval() -> None:
    generator = np.random.default_rng(1)
    values, names = generator.random((60, 3)), ids(60)
    order = generator.permutation(60)
    one = stats.bootstrap_mean(values, names, seed=5)
    other = stats.bootstrap_mean(values[order], [names[i] for i in order], seed=5)
    assert np.array_equal(one.low, other.low)
    assert np.array_equal(one.high, other.high)
    assert not np.array_equal(one.low, stats.bootstrap_mean(values, names, seed=6).low)


def test_columns_share_their_resamples() -> None:
    values = np.random.default_rng(2).random((40, 2))
    both = stats.bootstrap_mean(values, ids(40))
    alone = stats.bootstrap_mean(values[:, 1], ids(40))
    assert both.low[1] == alone.low[0]
    assert both.high[1] == alone.high[0]


def test_interval_agrees_with_the_normal_approximation() -> None:
    values = np.random.default_rng(3).normal(0.5, 0.1, 2000)
    interval = stats.bootstrap_mean(values, ids(2000))
    half = 1.959964 * values.std() / np.sqrt(2000)
    assert interval.low[0] == pytest.approx(values.mean() - half, abs=2e-4)
    assert interval.high[0] == pytest.approx(values.mean() + half, abs=2e-4)


def test_one_question_and_none() -> None:
    one = stats.bootstrap_mean([0.25], ["a"])
    assert (one.low[0], one.high[0], one.notes) == (0.25, 0.25, ("one question",))
    none = stats.bootstrap_mean(np.zeros((0, 2)), [])
    assert (none.n, none.notes) == (0, ("no questions", "no questions"))


def test_ratio_of_sums() -> None:
    interval = stats.bootstrap_ratio([1, 0, 1, 0], [1, 1, 1, 0], ids(4))
    assert interval.value[0] == pytest.approx(2 / 3)
    assert 0 <= interval.low[0] <= interval.value[0] <= interval.high[0] <= 1
    nothing = stats.bootstrap_ratio([0, 0], [0, 0], ids(2))
    assert (nothing.value[0], nothing.low[0], nothing.high[0], nothing.notes) == (0, 0, 0, ("no denominator",))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_no_number_names_its_question(bad: float) -> None:
    with pytest.raises(RagLabError, match="'q0001' is NaN or infinite"):
        stats.bootstrap_mean([0, bad, 1], ids(3))


def test_lengths_must_fit() -> None:
    with pytest.raises(RagLabError, match="3 rows of values but 2 query ids"):
        stats.bootstrap_mean([0, 1, 1], ids(2))


def test_enumerated_p_by_hand() -> None:
    """Differences 1, 1, 1: of the 8 sign patterns 2 have a sum as far from 0 as 3."""
    result = stats.compare([0, 0, 0], [[1], [1], [1]], ids(3))
    assert result.delta[0] == 1
    assert result.p[0] == 2 / 8
    assert np.isnan(result.effect[0])
    assert result.notes == ("constant difference",)


def test_enumeration_skips_questions_without_difference() -> None:
    """Differences 2, 1, 0 x 20: |±2 ±1| >= 3 for 2 of 4 patterns."""
    variants = np.zeros((22, 1))
    variants[:2, 0] = 2, 1
    result = stats.compare(np.zeros(22), variants, ids(22))
    assert result.p[0] == 0.5
    assert result.notes == ("exact test",)
    assert result.effect[0] == pytest.approx(variants.mean() / variants.std(ddof=1))


def test_ties_of_sums_count_despite_rounding() -> None:
    """In floats 0.1 + 0.2 + 0.3 - 0.3 exceeds 0.3; exchanges that tie by arithmetic must still count."""
    tenths = np.array([1, 2, 3, -3])
    signs = np.array(list(product([-1, 1], repeat=4)))
    by_hand = np.count_nonzero(np.abs(signs @ tenths) >= abs(tenths.sum())) / 16
    result = stats.compare(np.zeros(4), tenths[:, None] / 10, ids(4))
    assert by_hand == 12 / 16
    assert result.p[0] == by_hand


def test_identical_runs_have_p_one_and_a_flag() -> None:
    values = np.random.default_rng(0).random(50)
    result = stats.compare(values, values[:, None], ids(50))
    assert (result.p[0], result.delta[0], result.low[0], result.high[0]) == (1, 0, 0, 0)
    assert result.notes == ("identical runs",)
    assert np.isnan(result.effect[0])


def test_p_is_never_zero() -> None:
    """300 questions that all gain: no random exchange is as extreme, and p = 1 / (N + 1)."""
    gain = np.random.default_rng(0).uniform(0.4, 0.6, (300, 1))
    result = stats.compare(np.zeros(300), gain, ids(300), permutations=999)
    assert result.p[0] == 1 / 1000


def test_random_p_agrees_with_all_exchanges() -> None:
    generator = np.random.default_rng(4)
    difference = generator.normal(0.2, 0.5, 12)
    exact = stats.compare(np.zeros(12), difference[:, None], ids(12))
    drawn = stats.compare(np.zeros(12), difference[:, None], ids(12), permutations=4000)
    signs = np.array(list(product([-1, 1], repeat=12)))
    by_hand = (np.abs(signs @ difference) >= abs(difference.sum()) - 1e-12).mean()
    assert exact.notes == ("exact test",)
    assert exact.p[0] == by_hand
    assert drawn.notes == ("",)
    assert drawn.p[0] == pytest.approx(by_hand, abs=0.03)


def test_p_is_uniform_without_a_difference() -> None:
    generator = np.random.default_rng(5)
    result = stats.compare(np.zeros(40), generator.normal(0, 1, (40, 400)), ids(40), permutations=500, resamples=10)
    assert (result.p <= 0.05).mean() == pytest.approx(0.05, abs=0.03)
    assert (result.p <= 0.5).mean() == pytest.approx(0.5, abs=0.08)


def test_effect_and_detectable_difference_by_hand() -> None:
    """Differences 0, 1, 2: mean 1, deviation 1, and (1.96 + 0.8416) / sqrt(3)."""
    result = stats.compare([0, 0, 0], [[0], [1], [2]], ids(3))
    assert result.effect[0] == pytest.approx(1)
    assert result.detectable[0] == pytest.approx(2.801585 / np.sqrt(3), abs=1e-6)


def test_ratio_comparison_exchanges_numerator_and_denominator_together() -> None:
    """Baseline 1/2, variant 1/1; exchanging the one differing question gives the other ratio: p = 1."""
    result = stats.compare_ratio([1, 0], [1, 1], [[1], [0]], [[1], [0]], ids(2))
    assert result.delta[0] == 0.5
    assert result.p[0] == 1
    assert np.isnan(result.effect[0])


def test_one_question_cannot_show_a_difference() -> None:
    result = stats.compare([0.2], [[0.7]], ["a"])
    assert (result.p[0], result.n, result.notes) == (1, 1, ("one question",))
    empty = stats.compare([], np.zeros((0, 1)), [])
    assert (empty.p[0], empty.delta[0], empty.notes) == (1, 0, ("no questions",))


@pytest.mark.parametrize(
    "p, adjusted",
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.04, 0.01], [0.04, 0.02]),
        ([0.5, 0.9, 0.8], [1, 1, 1]),
        ([0.02], [0.02]),
        ([], []),
    ],
)
def test_holm_by_hand(p: list[float], adjusted: list[float]) -> None:
    assert stats.holm(p).tolist() == pytest.approx(adjusted)


def test_holm_refuses_what_is_no_probability() -> None:
    with pytest.raises(RagLabError, match="not between 0 and 1"):
        stats.holm([0.1, np.nan])


@given(scores, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_intervals_hold_the_range_and_are_ordered(values: list[float], seed: int) -> None:
    interval = stats.bootstrap_mean(values, ids(len(values)), resamples=200, seed=seed)
    assert min(values) - 1e-9 <= interval.low[0] <= interval.high[0] <= max(values) + 1e-9


@given(st.lists(st.tuples(st.floats(0, 1, width=32), st.floats(0, 1, width=32)), min_size=1, max_size=9))
@settings(max_examples=40, deadline=None)
def test_comparison_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    one, other = np.array(pairs).T
    forth = stats.compare(one, other[:, None], ids(len(one)), resamples=100)
    back = stats.compare(other, one[:, None], ids(len(one)), resamples=100)
    assert forth.p[0] == back.p[0]
    assert 0 < forth.p[0] <= 1
    assert forth.delta[0] == pytest.approx(-back.delta[0], abs=1e-12)
    assert forth.low[0] == pytest.approx(-back.high[0], abs=1e-11)


def test_figures_do_not_depend_on_threads() -> None:
    """Same numbers with one and with many BLAS threads, in fresh processes."""
    code = (
        "import numpy as np; from rag_lab.metrics import stats\n"
        "v = np.random.default_rng(0).random((301, 7)) / 3; q = [f'q{i}' for i in range(301)]\n"
        "b = stats.bootstrap_mean(v, q, resamples=3000); c = stats.compare(v[:, 0], v, q, resamples=3000)\n"
        "print([x.tobytes().hex() for x in (b.value, b.low, b.high, c.delta, c.low, c.high, c.p)])"
    )
    outputs = set()
    for threads in ("1", "2", "4"):
        environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        outputs.add(
            subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
        )
    assert len(outputs) == 1


def test_a_ratio_that_one_side_lacks_has_no_difference() -> None:
    abstained, right = np.array([1.0, 1, 1, 0]), np.array([1.0, 1, 0, 0])
    never = np.zeros(4)
    result = stats.compare_ratio(never, never, np.c_[right, never], np.c_[abstained, never], ids(4))
    assert np.isnan([result.delta, result.low, result.high]).all()
    assert result.p.tolist() == [1, 1]
    assert set(result.notes) == {"undefined for lack of a denominator"}
    defined = stats.compare_ratio(right, abstained, np.c_[right, never], np.c_[abstained, never], ids(4))
    assert defined.delta[0] == 0
    assert np.isnan(defined.delta[1])
