from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from rag_lab.contracts import Acl, Principal, Request
from rag_lab.corpus.rights import RightsClass, classify, group_names, permits, scopes_of
from rag_lab.datasets.times import parse_instant

NOW = datetime(2026, 9, 10, tzinfo=UTC)


PUBLIC = Acl(public=True)


def reads(rights: RightsClass, principal: Principal | None, tenant: str, time: datetime) -> bool:
    return permits(rights, Request("r", "q", principal, tenant, time), {})


def rights(acl: Acl = PUBLIC, since: datetime | None = None, until: datetime | None = None) -> RightsClass:
    return RightsClass("t", (acl,), since, until)


S13_DOCUMENTS = {
    "pub": Acl(public=True),
    "hr": Acl(groups=("HR",)),
    "eq": Acl(groups=("E\u0301quipe",)),
    "none": Acl(),
    "emp": Acl(groups=()),
}


@pytest.mark.parametrize(
    ("groups", "seen"),
    [
        ((), {"pub"}),
        (("",), {"pub"}),
        (("*",), {"pub"}),
        (("hr",), {"pub"}),
        (("HR",), {"pub", "hr"}),
        (("\u00c9quipe",), {"pub", "eq"}),
    ],
)
def test_s13_groups_grant_only_what_they_name(groups: tuple[str, ...], seen: set[str]) -> None:
    caller = Principal("t", groups)
    assert {name for name, acl in S13_DOCUMENTS.items() if reads(rights(acl), caller, "t", NOW)} == seen


def test_s13_no_groups_at_all_is_not_no_condition() -> None:
    assert group_names(None) == frozenset()
    assert not reads(rights(Acl(groups=("*", ""))), Principal("t", ("*", "")), "t", NOW)


@pytest.mark.parametrize(
    ("principal", "tenant"),
    [(None, "t"), (None, ""), (Principal("u"), "t"), (Principal("t"), "u"), (Principal(""), ""), (Principal("u"), "u")],
)
def test_a_missing_or_foreign_identity_sees_nothing(principal: Principal | None, tenant: str) -> None:
    assert not reads(rights(), principal, tenant, NOW)


@pytest.mark.parametrize(
    ("name", "zone", "value", "inside", "outside"),
    [
        ("e", "Europe/Berlin", "2025-03-30", "2025-03-30T21:59:59+00:00", "2025-03-30T22:00:00+00:00"),
        ("f", "Europe/Berlin", "2025-10-26", "2025-10-26T22:30:00+00:00", "2025-10-26T23:00:00+00:00"),
    ],
)
def test_s12_the_last_day_is_valid_to_its_end(name: str, zone: str, value: str, inside: str, outside: str) -> None:
    until = parse_instant(value, zone, f"{name}.valid_until", bound="until")
    for moment, expected in ((inside, True), (outside, False)):
        assert reads(rights(until=until), Principal("t"), "t", datetime.fromisoformat(moment)) is expected


@pytest.mark.parametrize(
    "value", ["2025-01-01", "2025-01-01T00:00:00Z", "2025-01-01T01:00:00+01:00", "2025-01-01T00:00:00"]
)
def test_s12_one_instant_however_it_is_written(value: str) -> None:
    since = parse_instant(value, "UTC", "valid_from")
    assert reads(rights(since=since), Principal("t"), "t", datetime(2025, 1, 1, tzinfo=UTC))
    assert not reads(rights(since=since), Principal("t"), "t", datetime(2024, 12, 31, 23, 59, 59, tzinfo=UTC))


def test_equal_scopes_are_shared_and_a_request_can_only_narrow() -> None:
    classes, codes = classify([rights(), rights(Acl(groups=("hr",))), rights()])
    ids = ["a", "b", "c"]
    requests = [
        Request("1", "q", Principal("t"), "t", NOW),
        Request("2", "q", Principal("t", ("x",)), "t", NOW),
        Request("3", "q", Principal("t"), "t", NOW, scope=frozenset({"b", "c"})),
        Request("4", "q", Principal("t", ("hr",)), "t", NOW),
    ]
    scopes = scopes_of(requests, classes, codes, ids, {})
    seen = [[ids[row] for row in np.flatnonzero(scopes.rows(i))] for i in range(4)]
    assert seen == [["a", "c"], ["a", "c"], ["c"], ["a", "b", "c"]]
    assert scopes.of[0] == scopes.of[1]
    assert [scope.narrowed for scope in scopes.scopes] == [False, True, False]
    assert scopes.members(int(scopes.of[0])).tolist() == [0, 1]
    assert scopes.scopes[int(scopes.of[3])].whole


def test_an_empty_corpus_has_empty_scopes() -> None:
    scopes = scopes_of([Request("1", "q", Principal("t"), "t", NOW)], [], np.zeros(0, dtype=np.int32), [], {})
    assert scopes.scopes[0].empty
