"""Tokens and terms of English and Chinese."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.generation.terms import count_tokens, is_chinese, numbers, question_language, stem, terms, token_ends


def test_tokens_are_words_han_characters_and_punctuation_marks() -> None:
    assert count_tokens(["", "   ", "Pay 500 per day.", "每天500元。", "a-b"]).tolist() == [0, 0, 5, 5, 3]


@given(st.text(max_size=60), st.text(max_size=60))
def test_token_counts_add_up_over_white_space(one: str, other: str) -> None:
    joint, first, second = count_tokens([one + "\n" + other, one, other]).tolist()
    assert joint == first + second


@given(st.text(max_size=60))
def test_token_ends_ascend(text: str) -> None:
    ends = token_ends(text)
    assert len(ends) == count_tokens([text])[0]
    assert ends == sorted(set(ends))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("locations", "locat"),
        ("located", "locat"),
        ("policies", "policy"),
        ("running", "run"),
        ("classes", "class"),
        ("status", "status"),
        ("carried", "carry"),
        ("sing", "sing"),
        ("bed", "bed"),
        ("allowance", "allowanc"),
        ("allowances", "allowanc"),
    ],
)
def test_stem(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_terms_leave_out_function_words_and_fold_numbers() -> None:
    assert terms("When was the Normans' 10,000 men in ERR-4031?") == ("norman", "10000", "men", "err", "4031")
    assert terms("two rooms, 3.5 m") == ("2", "room", "3.5", "m")


def test_chinese_terms_are_bigrams_that_do_not_span_question_words() -> None:
    assert terms("补贴是多少？") == ("补贴",)
    assert terms("５００元") == ("500", "元")


def test_languages() -> None:
    assert is_chinese("USB接口的电压")
    assert not is_chinese("The word 中 means middle in this long English sentence")
    assert question_language("什么时候?") == "zh"
    assert question_language("什么时候?", "en-GB") == "en"
    assert question_language("Wann?", "de") == "en"


def test_numbers_know_words_and_separators() -> None:
    assert numbers("ten of 1,200 and 3.5") == {"10", "1200", "3.5"}
