"""Delays of events and the targets that they are held to; values worked by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.corpus.catalogue import Event
from rag_lab.metrics.freshness import Targets, age_s, check, delays, summary

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOW = START + timedelta(seconds=30)


def event(kind: str, seconds: float | None, document_id: str = "d") -> Event:
    ended = None if seconds is None else (START + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
    return Event(kind, document_id, START.isoformat(), ended)


def test_delays_in_seconds() -> None:
    frame = delays(
        [event("searchable", 1.5, "a"), event("purged", None), event("lifted", 3), event("revoked", 0.002)], NOW
    )
    assert frame[["kind", "document_id"]].to_numpy().tolist() == [
        ["searchable", "a"],
        ["purged", "d"],
        ["revoked", "d"],
    ]
    assert frame["seconds"].tolist() == [1.5, 30, 0.002]
    assert frame["lasts"].tolist() == [False, True, False]
    assert delays([], NOW).empty


def test_percentiles_are_delays_that_occurred() -> None:
    frame = delays([event("searchable", s) for s in range(1, 21)] + [event("purged", None)], NOW)
    assert summary(frame) == [
        {"kind": "searchable", "n": 20, "open": 0, "p50": 10.0, "p95": 19.0, "max": 20.0},
        {"kind": "purged", "n": 1, "open": 1, "p50": None, "p95": None, "max": None},
    ]


def test_19_of_20_updates_in_time_meet_95_percent_and_18_do_not() -> None:
    targets = Targets(searchable_within_s=60)
    good = check(targets, delays([event("searchable", 60)] * 19 + [event("searchable", 61)], NOW), None)
    bad = check(targets, delays([event("searchable", 1)] * 18 + [event("searchable", 61)] * 2, NOW), None)
    assert [(c.measured, c.met) for c in good + bad] == [("19 of 20", True), ("18 of 20", False)]
    assert good[0].wanted == "95% within 60 s"


def test_the_first_load_is_no_update() -> None:
    (only,) = check(Targets(searchable_within_s=60), delays([event("loaded", 500)], NOW), None)
    assert (only.measured, only.n, only.met) == ("none happened", 0, None)


def test_every_revocation_counts_also_one_that_lasts() -> None:
    targets = Targets(revoked_at_once=True, purged_within_s=10)
    met = check(targets, delays([event("revoked", 0.01), event("purged", 10)], NOW), None)
    assert [c.met for c in met] == [True, True]
    late = check(targets, delays([event("revoked", 0.01), event("revoked", 1.01), event("purged", None)], NOW), None)
    assert [(c.name, c.measured, c.met) for c in late] == [
        ("revocations at once", "1 of 2", False),
        ("purges done in time", "0 of 1", False),
    ]


@pytest.mark.parametrize(
    ("waited", "measured", "met"), [(59, "19 of 19", True), (60, "19 of 19", True), (61, "19 of 21", False)]
)
def test_an_update_that_waits_is_missed_once_its_time_is_over(waited: int, measured: str, met: bool) -> None:
    events = [event("searchable", 1)] * 19 + [event("searchable", None)] * 2
    (only,) = check(Targets(searchable_within_s=60), delays(events, START + timedelta(seconds=waited)), None)
    assert (only.measured, only.met) == (measured, met)


@pytest.mark.parametrize("age, met", [(3600.0, True), (3600.5, False), (None, None)])
def test_the_age_of_the_index(age: float | None, met: bool | None) -> None:
    (only,) = check(Targets(index_age_s=3600), delays([], NOW), age)
    assert only.met is met
    assert age_s(START.isoformat(), START + timedelta(seconds=90)) == 90
    assert age_s(None, START) is None


def test_what_is_not_stated_is_not_checked() -> None:
    assert check(Targets(), delays([event("searchable", 1e9)], NOW), 1e9) == []
    assert Targets(share=0.5).plain() == {"share": 0.5}


@pytest.mark.parametrize(
    "given, message",
    [
        ({"searchable": 60}, r"freshness.searchable: unknown; use searchable_within_s, share"),
        ({"share": 0}, r"freshness.share: input should be greater than 0 \(found 0\)"),
        ({"index_age_s": "soon"}, r"freshness.index_age_s: input should be a valid number"),
    ],
)
def test_targets_that_cannot_be(given: dict, message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        Targets.read(given)
