"""Sentence splitting with offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.generation.sentences import is_lead_in, lead_ins, split_sentences


def pieces(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith paid $3.50, e.g. for tea. He left.", ["Dr. Smith paid $3.50, e.g. for tea.", "He left."]),
        ("J. K. Rowling wrote it. The U.S. Army came.", ["J. K. Rowling wrote it.", "The U.S. Army came."]),
        ("It is made by Acme Inc. The price is 5.", ["It is made by Acme Inc.", "The price is 5."]),
        ('"Really?" she asked. Yes!', ['"Really?" she asked.', "Yes!"]),
        ("Version 2.3.1 is out. See No. 5.", ["Version 2.3.1 is out.", "See No. 5."]),
        ("每天500元。不可以！为什么？", ["每天500元。", "不可以！", "为什么？"]),
        ("他说：“可以。”然后走了。", ["他说：“可以。”", "然后走了。"]),
        ("no full stop", ["no full stop"]),
        ("  \n ", []),
        ("", []),
    ],
)
def test_prose(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_rows_items_headings_and_code_are_sentences_of_their_own() -> None:
    text = "# Rates\n| City | Rate |\n|---|---|\n| Berlin | 120 |\n\n- one. two\n- three\n```\nx = a[3]\n```\n    y = 1"
    assert pieces(text) == [
        "# Rates",
        "| City | Rate |",
        "| Berlin | 120 |",
        "- one. two",
        "- three",
        "x = a[3]",
        "y = 1",
    ]


def test_hard_wrapped_prose_is_read_across_lines_and_short_lines_are_not() -> None:
    wrapped = "The allowance is paid for every day that is spent away\nfrom the usual place of work. It is taxed."
    assert pieces(wrapped) == [wrapped.split(". ")[0] + ".", "It is taxed."]
    assert pieces("Opening hours\nMonday 9-17") == ["Opening hours", "Monday 9-17"]


@given(st.text(alphabet="ab A.!?。\n|-#1中 \"”'", max_size=80))
def test_spans_are_ordered_trimmed_and_disjoint(text: str) -> None:
    before = 0
    for start, end in split_sentences(text):
        assert before <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        before = end


def test_every_row_and_item_knows_what_leads_to_it() -> None:
    table = "Daily rates:\n| City | Rate |\n| Berlin | 120 |\n| Paris | 140 |\n\n"
    text = table + "You need:\n- a pass\n- a badge\nIt is so. More."
    assert pieces(text)[5] == "- a pass"
    assert lead_ins(text) == (
        (-1, False),
        (0, True),
        (1, True),
        (1, True),
        (3, False),
        (4, True),
        (4, True),
        (6, False),
        (7, False),
    )


@pytest.mark.parametrize("sentence", ["# Heading", "You need:", "What is it?", "要求：", "**Rates:**"])
def test_lead_in(sentence: str) -> None:
    assert is_lead_in(sentence)


def test_a_statement_is_no_lead_in() -> None:
    assert not is_lead_in("It is 5.")
