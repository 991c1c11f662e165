from __future__ import annotations

import time
from datetime import UTC, datetime

import numpy as np
import pytest

from rag_lab.contracts import (
    Acl,
    Block,
    BlockKind,
    Document,
    Principal,
    RagLabError,
    Ranking,
    Request,
    SectionRights,
    Span,
)
from rag_lab.corpus.policies import PolicyBook
from rag_lab.corpus.rights import RightsClass, Scope, Scopes, classify, group_names, permits, scopes_of
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
    scopes = scopes_of(requests, classes, codes, ids, PolicyBook())
    seen = [[ids[row] for row in np.flatnonzero(scopes.rows(i))] for i in range(4)]
    assert seen == [["a", "c"], ["a", "c"], ["c"], ["a", "b", "c"]]
    assert scopes.of[0] == scopes.of[1]
    assert [scope.narrowed for scope in scopes.scopes] == [False, True, False]
    assert scopes.members(int(scopes.of[0])).tolist() == [0, 1]
    assert scopes.scopes[int(scopes.of[3])].whole


def test_an_empty_corpus_has_empty_scopes() -> None:
    scopes = scopes_of([Request("1", "q", Principal("t"), "t", NOW)], [], np.zeros(0, dtype=np.int32), [], PolicyBook())
    assert scopes.scopes[0].empty


def test_denied_documents_leave_every_scope_and_others_make_no_difference() -> None:
    classes, codes = classify([rights(), rights(), rights(Acl(groups=("hr",))), rights()])
    ids = ["a", "a", "b", "c"]
    requests = [Request("1", "q", Principal("t"), "t", NOW), Request("2", "q", Principal("t", ("hr",)), "t", NOW)]

    def scopes(*denied: str):
        return scopes_of(requests, classes, codes, ids, PolicyBook(), frozenset(denied))

    assert [scopes("a").rows(i).tolist() for i in range(2)] == [[False, False, False, True], [False, False, True, True]]
    assert all(scope.narrowed for scope in scopes("a").scopes)
    assert not any(scope.narrowed for scope in scopes("x").scopes)
    assert scopes("x", "a").denied == {"x", "a"}


HR, PAY = Acl(groups=("hr",)), Acl(groups=("pay",))
MARKDOWN = """# Manual

Intro.

## Pay

Bands.

### Bonus

Every May.

## Leave

Thirty days.
"""


def span_of(text: str) -> Span:
    start = MARKDOWN.index(text)
    return start, start + len(text)


def class_of(text: str, *sections: tuple[str, Acl], title: str = "", blocks: tuple[Block, ...] = ()) -> set[Acl]:
    """The ACLs of a chunk of `text`, where sections are given by a piece of their text."""
    stated = tuple(SectionRights(span_of(piece), acl) for piece, acl in sections)
    document = Document("d", MARKDOWN, title=title, acl=PUBLIC, sections=stated, blocks=blocks)
    return set(RightsClass.of(document, [span_of(text)]).acls)


BLOCKS = tuple(
    Block(BlockKind.HEADING, span_of(text), path, level)
    for text, path, level in (
        ("# Manual", ("Manual",), 1),
        ("## Pay", ("Manual", "Pay"), 2),
        ("### Bonus", ("Manual", "Pay", "Bonus"), 3),
        ("## Leave", ("Manual", "Leave"), 2),
    )
)


@pytest.mark.parametrize("blocks", [(), BLOCKS])
def test_a_subsection_inherits_the_right_of_the_headings_above_it(blocks: tuple[Block, ...]) -> None:
    pay, bonus = ("## Pay\n\nBands.", HR), ("### Bonus", PAY)
    assert class_of("Intro.", pay, bonus, blocks=blocks) == {PUBLIC}
    assert class_of("Bands.", pay, bonus, blocks=blocks) == {PUBLIC, HR}
    assert class_of("Every May.", pay, blocks=blocks) == {PUBLIC, HR}
    assert class_of("Every May.", pay, bonus, blocks=blocks) == {PUBLIC, HR, PAY}
    assert class_of("Thirty days.", pay, bonus, blocks=blocks) == {PUBLIC}
    assert class_of("Thirty days.", ("# Manual", HR), blocks=blocks) == {PUBLIC, HR}


@pytest.mark.parametrize("blocks", [(), BLOCKS])
def test_a_title_that_is_a_restricted_heading_restricts_every_chunk(blocks: tuple[Block, ...]) -> None:
    assert class_of("Intro.", ("## Pay", HR), title="Pay", blocks=blocks) == {PUBLIC, HR}
    assert class_of("Intro.", ("## Pay", HR), title="**Pay**", blocks=blocks) == {PUBLIC, HR}
    assert class_of("Intro.", ("## Pay", HR), title="Manual", blocks=blocks) == {PUBLIC}


@pytest.mark.parametrize("title", ["Pay of `staff`", "Pay of staff"])
def test_a_title_is_a_restricted_heading_with_markup_or_without(title: str) -> None:
    text = "Intro.\n\n## Pay of `staff`\n\nBands.\n"
    section = SectionRights((text.index("##"), len(text)), HR)
    made = RightsClass.of(Document("d", text, title=title, acl=PUBLIC, sections=(section,)), [(0, 6)])
    assert set(made.acls) == {PUBLIC, HR}


def test_an_open_section_does_not_widen_a_closed_document() -> None:
    text = "Bands."
    section = SectionRights((0, len(text)), PUBLIC, valid_from=NOW, valid_until=None)
    inner = SectionRights((0, len(text)), PUBLIC, valid_until=NOW)
    made = RightsClass.of(Document("d", text, acl=HR, tenant="t", sections=(section, inner)), [(0, 3)])
    assert set(made.acls) == {HR, PUBLIC}
    assert (made.valid_from, made.valid_until) == (NOW, NOW)
    assert not reads(made, Principal("t"), "t", NOW)


def test_a_global_document_is_read_from_every_tenant_as_far_as_its_acl_admits() -> None:
    everywhere = RightsClass("global", (PUBLIC,))
    assert reads(everywhere, Principal("t"), "t", NOW)
    assert not reads(everywhere, Principal("t"), "u", NOW)
    assert not reads(everywhere, None, "t", NOW)
    assert not reads(RightsClass("global", (HR,)), Principal("t"), "t", NOW)


def test_a_horizon_shows_what_comes_and_nothing_that_is_over() -> None:
    until = datetime(2026, 12, 1, tzinfo=UTC)

    def shown(rights_class: RightsClass, horizon: datetime | None) -> bool:
        return permits(rights_class, Request("r", "q", Principal("t"), "t", NOW, horizon=horizon), {})

    coming, over = rights(since=until), rights(until=NOW)
    assert [shown(coming, horizon) for horizon in (None, NOW, until)] == [False, False, True]
    assert not shown(over, until)
    assert shown(rights(), datetime(2020, 1, 1, tzinfo=UTC))


def test_a_section_s_rights_end_where_the_next_heading_begins() -> None:
    text = "# A\n\nopen\n\n## B\n\nclosed\n\n## C\n\nopen again\n"
    section = SectionRights((text.index("## B"), text.index("closed") + 6), Acl(groups=("hr",)))
    document = Document("d", text, tenant="t", acl=Acl(public=True), sections=(section,))
    found = {word: RightsClass.of(document, [(text.index(word), len(text))]).acls for word in ("## C", "open again")}
    assert found == dict.fromkeys(found, (Acl(public=True),))
    assert len(RightsClass.of(document, [(text.index("closed"), text.index("closed") + 6)]).acls) == 2


def test_a_check_compares_each_request_with_its_own_scope() -> None:
    rows = np.eye(3, dtype=bool)
    scopes = Scopes(np.array([2, 0, 2, 1], dtype=np.int32), tuple(Scope(row, row) for row in rows), "1")
    own = Ranking.from_scores("x", 4, [0, 1, 2, 3], [2, 0, 2, 1], np.ones(4))
    assert scopes.check(own) is own
    for request, row in ((0, 0), (1, 2), (2, 1), (3, 2)):
        strange = Ranking.from_scores("x", 4, [*own.query, request], [*own.chunk, row], np.ones(5))
        with pytest.raises(RagLabError, match="x: the index returned chunks outside the caller's scope"):
            scopes.check(strange)


def test_a_check_takes_no_longer_because_every_request_has_a_scope_of_its_own() -> None:
    requests, depth = 4000, 250
    wide = np.ones(depth + 1, dtype=bool)
    wide[-1] = False
    query, row = np.repeat(np.arange(requests), depth), np.tile(np.arange(depth), requests)
    ranking = Ranking("x", requests, query.astype(np.int32), row.astype(np.int32), np.ones(len(query)))
    scopes = Scopes(np.arange(requests, dtype=np.int32), (Scope(wide, wide),) * requests, "1")
    began = time.process_time()
    scopes.check(ranking)
    assert time.process_time() - began < 1
