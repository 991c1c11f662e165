import math

import pytest

from rag_lab.reports import numbers

NBSP = "\u00a0"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.6789, "0.679"), (1, "1.000"), (0, "0.000"), (-0.0344, "−0.034"), (0.0004, "0.0004"), (-0.00042, "−0.0004")],
)
def test_score_keeps_three_decimals_and_never_hides_a_difference_from_zero(value: float, text: str) -> None:
    assert numbers.score(value) == text


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_missing_number_is_a_dash(value: float | None) -> None:
    assert numbers.score(value) == numbers.signed(value) == numbers.count(value) == numbers.p_value(value) == "–"
    assert numbers.interval(value, 1.0) == ""


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0001, "<0.001"), (0.003, "0.003"), (0.04996, "0.0500"), (0.05, "0.050"), (0.0503, "0.0503"), (1.0, "1")],
)
def test_p_says_on_which_side_of_the_level_it_lies(p: float, text: str) -> None:
    assert numbers.p_value(p) == text


def test_clauses_stay_on_one_line() -> None:
    assert numbers.interval(-0.02, 0.06, sign=True) == f"[−0.020,{NBSP}+0.060]"
    assert numbers.p_clause(0.0001) == f"p_holm{NBSP}<{NBSP}0.001"


@pytest.mark.parametrize(
    ("value", "resource", "text"),
    [
        (1234.5, "context_tokens", "1,234"),
        (18.44, "output_tokens", "18.4"),
        (0.003840, "usd", "3.84"),
        (6.00049e-08, "usd", "0.000060"),
        (1.5e-03, "usd", "1.50"),
        (1.3e-10, "usd", "<0.000001"),
        (0, "usd", "0"),
        (100, "candidates", "100"),
    ],
)
def test_amounts(value: float, resource: str, text: str) -> None:
    assert numbers.amount(value, resource) == text


def test_money_is_for_a_thousand_questions_and_says_so() -> None:
    assert numbers.resource_heading("usd") == "USD per 1,000 questions"
    assert numbers.quantity(0.0005, "usd") == "0.50 USD per 1,000 questions"
    assert numbers.quantity(200, "context_tokens") == "200 context tokens"
    assert numbers.quantity(1000, "latency_ms") == "1,000 ms"


@pytest.mark.parametrize(
    ("names", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_in_a_sentence(names: list[str], text: str) -> None:
    assert numbers.listed(names) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (0.004, "<0.01"), (0.28, "0.28"), (2.16, "2.2"), (283.2, "283")])
def test_durations(value: float, text: str) -> None:
    assert numbers.duration(value) == text
