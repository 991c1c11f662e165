"""Dates on which a sentence says that something takes effect."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rag_lab.generation.dates import announces, effective_dates, mentioned_dates

NOW = datetime(2026, 9, 10, 9, tzinfo=UTC)
CHANGE = datetime(2026, 9, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "The allowance is 600 per day from 15 September 2026.",
        "Effective 15 Sep 2026 it is 600.",
        "Starting on Tuesday, September 15th, 2026, it is 600.",
        "From 2026-09-15 it is 600.",
        "It takes effect on 15th of September 2026.",
        "It comes into force on September 15, 2026.",
        "It will rise to 600 on 15 September.",
        "自2026年9月15日起，补贴为600元。",
        "将于9月15日起执行。",
        "2026-09-15起生效。",
    ],
)
def test_an_announcement(text: str) -> None:
    assert effective_dates(text, 2026) == [CHANGE]
    assert announces(text, NOW)
    assert not announces(text, CHANGE)


@pytest.mark.parametrize(
    "text",
    [
        "Published 15 September 2026.",
        "From 10 to 12.",
        "from 32 May 2026",
        "from March 15000 people",
        "2026年9月15日发布。",
    ],
)
def test_no_announcement(text: str) -> None:
    assert [date for date in effective_dates(text, 2026) if date.day == 15 and date.month == 9] == []
    assert not announces(text, NOW)


def test_a_month_begins_on_its_first_day() -> None:
    assert effective_dates("from October 2026", 1999) == [datetime(2026, 10, 1, tzinfo=UTC)]
    assert effective_dates("2026年10月起", 1999) == [datetime(2026, 10, 1, tzinfo=UTC)]


def test_a_sentence_that_also_says_what_holds_now_announces_nothing_alone() -> None:
    assert not announces("From 1 January 2024 it is 500; from 15 September 2026 it is 600.", NOW)


def test_mentioned_dates_play_any_role() -> None:
    assert mentioned_dates("What holds on 15 September 2026?", 2026) == [CHANGE]
    assert mentioned_dates("2026年9月15日的标准", 2026) == [CHANGE]
    assert mentioned_dates("What holds?", 2026) == []
