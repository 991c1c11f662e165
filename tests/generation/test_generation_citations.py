"""Citation markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.generation.citations import CitedText, cited, find_markers, split_claims, without_markers


@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        ("A [1][2].", {1, 2}, 0),
        ("A [1, 2].", {1, 2}, 0),
        ("A [1,2].", {1, 2}, 0),
        ("A [1，2]。", {1, 2}, 0),
        ("A [2-4].", {2, 3, 4}, 0),
        ("A [2–4].", {2, 3, 4}, 0),
        ("A 【3】。", {3}, 0),
        ("A 【3†source】。", {3}, 0),
        ("A ［3］。", {3}, 0),
        ("A [^3].", {3}, 0),
        ("A [5,7].", {5}, 1),
        ("A [4-2].", set(), 1),
        ("A [1-999].", set(), 1),
        ("A [].", set(), 0),
        ("A [x].", set(), 0),
    ],
)
def test_s17_markers(text: str, valid: set[int], invalid: int) -> None:
    assert cited(text, 5) == (valid, invalid)


@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        ("A [0].", set(), 1),
        ("Use array[3] to read it [1].", {1}, 0),
        ("`row [3]` is set [2].", {2}, 0),
        ("```\nx = [3]\n```\nDone [1].", {1}, 0),
        ("grid[1][2] = 3", set(), 0),
        ("rates[3] = 5", set(), 0),
        ("f_x[2] and itemList[2] and x[2]", set(), 0),
        ("It is in Paris[1].", {1}, 0),
        ("Paris[1][2] is the capital", {1, 2}, 0),
        ("In 1999[1].", {1}, 0),
        ("首都是巴黎[2]。", {2}, 0),
        ("A [99999999999999999999].", set(), 1),
    ],
)
def test_family_27_what_is_a_citation(text: str, valid: set[int], invalid: int) -> None:
    assert cited(text, 5) == (valid, invalid)


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("One is. [1] Two is. [2]", [("One is.", (1,)), ("Two is.", (2,))]),
        ("One is [1]. Two is [2, 3].", [("One is.", (1,)), ("Two is.", (2, 3))]),
        ("One is.[1] Two is.", [("One is.", (1,)), ("Two is.", ())]),
        ("[1] One is. Two is [2].", [("One is.", (1,)), ("Two is.", (2,))]),
        ("One is.\n[2] Two is.", [("One is.", ()), ("Two is.", (2,))]),
        ("One is.\n[1]\nTwo is.", [("One is.", (1,)), ("Two is.", ())]),
        ("一句。[1] 二句[2]。", [("一句。", (1,)), ("二句。", (2,))]),
        ("[1]", []),
        ("", []),
    ],
)
def test_family_27_a_marker_belongs_to_its_sentence(text: str, claims: list[tuple[str, tuple[int, ...]]]) -> None:
    assert split_claims(text, 5) == [CitedText(said, numbers, 0) for said, numbers in claims]


def test_invalid_markers_stay_with_their_sentence() -> None:
    assert split_claims("One is [7]. Two is [1].", 5) == [CitedText("One is.", (), 1), CitedText("Two is.", (1,), 0)]


def test_text_without_markers() -> None:
    assert without_markers("One [1]. Two 【2†x】, three.", 5) == "One. Two, three."
    assert without_markers("a[3] = 1") == "a[3] = 1"


@given(st.text(alphabet="A a[]1234,-–【】†^.\n`", max_size=40), st.integers(0, 5))
def test_only_passages_of_the_context_are_credited(text: str, passages: int) -> None:
    for marker in find_markers(text, passages):
        assert set(marker.numbers) <= set(range(1, passages + 1))
        assert marker.numbers or marker.invalid
    split_claims(text, passages)
