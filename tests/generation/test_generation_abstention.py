"""Telling an abstention from an answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.generation.abstention import DETECTOR_VERSION, agreement, content, detect
from rag_lab.generation.citations import cited


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I could not find the parking rules; the index only holds their title [2].", "abstained"),
        ("Insufficient credit is the cause: the account holds 0 units [1].", "answered"),
        ("根据现有资料无法确定。", "abstained"),
        ("In den Unterlagen finde ich dazu nichts.", "abstained"),
        ("", "failed"),
        ("No.", "answered"),
        ("The text does not name the signer, but it was signed on 3 May 2021 [1].", "answered"),
    ],
)
def test_s18(text: str, expected: str) -> None:
    assert detect(text) == expected


def test_s18_an_abstention_may_cite() -> None:
    assert cited("I could not find the parking rules; the index only holds their title [2].", 3) == ({2}, 0)


def test_a_partial_answer_is_reduced_to_what_it_answers() -> None:
    partial = "The text does not name the signer, but it was signed on 3 May 2021."
    assert content(partial) == "it was signed on 3 May 2021"
    assert content("I don't know.") == "I don't know."


def test_agreement_with_the_labelled_answers() -> None:
    found = agreement()
    assert found.n >= 60
    assert found.version == DETECTOR_VERSION
    assert set(found.by_language) == {"de", "en", "zh"}
    assert found.share >= 0.95
    assert found.agreed == round(found.share * found.n)


@given(st.text(max_size=80))
def test_any_text_has_a_class(text: str) -> None:
    assert detect(text) in ("abstained", "answered", "failed")
