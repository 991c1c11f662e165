"""Instants from dates, zoned and local times."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.datasets.times import EARLIEST, LATEST, parse_instant

NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)
S12_STARTS = ["2025-01-01", "2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", "2025-01-01T00:00:00"]


@pytest.mark.parametrize("value", S12_STARTS)
def test_s12_one_instant_in_four_ways(value):
    assert parse_instant(value, "UTC", "valid_from") == NEW_YEAR


def test_s12_comparisons_agree_for_every_pair():
    instants = [parse_instant(value) for value in S12_STARTS]
    assert all(a <= b and a >= b and a == b for a, b in product(instants, instants))


@pytest.mark.parametrize(
    "day, last_second, end",
    [
        ("2025-03-30", "2025-03-30T21:59:59Z", "2025-03-30T22:00:00Z"),
        ("2025-10-26", "2025-10-26T22:59:59Z", "2025-10-26T23:00:00Z"),
    ],
)
def test_s12_the_last_day_is_included_across_the_clock_change(day, last_second, end):
    until = parse_instant(day, "Europe/Berlin", "valid_until", "until")
    assert datetime.fromisoformat(last_second) < until == datetime.fromisoformat(end)


def test_s12_half_past_ten_on_the_long_day_is_still_valid():
    until = parse_instant("2025-10-26", "Europe/Berlin", "valid_until", "until")
    assert datetime(2025, 10, 26, 22, 30, tzinfo=UTC) < until


@pytest.mark.parametrize("value", ["2025-13-01", "soon", "2025-02-30", 20250101, 1.5, True, ["2025-01-01"]])
def test_s12_what_is_no_date_is_refused_by_name(value):
    with pytest.raises(RagLabError, match=r"document 'g', field valid_until: .* is not a date"):
        parse_instant(value, "UTC", "document 'g', field valid_until", "until")


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_value_is_open(value):
    assert parse_instant(value) is None


def test_an_explicit_end_is_the_first_instant_that_is_not_valid():
    assert parse_instant("2025-01-01T12:00", "UTC", bound="until") == datetime(2025, 1, 1, 12, tzinfo=UTC)


def test_dates_and_datetimes_are_taken_as_they_are():
    assert parse_instant(date(2025, 7, 1), "Asia/Shanghai") == datetime(2025, 6, 30, 16, tzinfo=UTC)
    assert parse_instant(datetime(2025, 7, 1), "Asia/Shanghai") == datetime(2025, 6, 30, 16, tzinfo=UTC)


def test_the_end_of_the_calendar_is_an_end_and_not_a_crash():
    assert parse_instant("9999-12-31", "UTC", bound="until") == LATEST
    assert parse_instant("9999-12-31T23:00:00", "America/New_York", bound="until") == LATEST
    assert parse_instant("0001-01-01", "Asia/Shanghai") == EARLIEST


def test_a_local_time_that_occurs_twice_is_the_first_and_one_that_never_occurs_is_after_the_gap():
    assert parse_instant("2025-10-26T02:30", "Europe/Berlin") == datetime(2025, 10, 26, 0, 30, tzinfo=UTC)
    assert parse_instant("2025-03-30T02:30", "Europe/Berlin") == datetime(2025, 3, 30, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "../etc/passwd", ""])
def test_an_unknown_zone_is_named(zone):
    with pytest.raises(RagLabError, match="is not a time zone"):
        parse_instant("2025-01-01", zone)


@given(st.dates(date(1970, 1, 2), date(2100, 1, 1)), st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo"]))
def test_a_day_ends_where_the_next_begins(day, zone):
    end = parse_instant(day.isoformat(), zone, bound="until")
    assert end == parse_instant((day + timedelta(days=1)).isoformat(), zone)
