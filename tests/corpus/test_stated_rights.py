"""Who decides who reads a document: its keeper, by rights.yaml and options; its author can only narrow."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from rag_lab.contracts import Acl, Principal, RagLabError
from rag_lab.corpus import ingestion
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.discovery import Options, discover
from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import ParseError
from rag_lab.corpus.rights import admits, group_names
from rag_lab.corpus.stated import Statement, narrowed, read_rules
from rag_lab.store import Store

PUBLIC = "{tenant: acme, public: true}"
STAFF, HR, STRANGER = Principal("acme"), Principal("acme", ("hr",)), Principal("other")


def parse_here(sources, workers=1):
    for name, data in sources:
        try:
            yield name, parse(data, name)
        except ParseError as error:
            yield name, error


@pytest.fixture
def added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder) -> Callable:
    """Add one file below a folder with rules; who of staff, HR and a stranger reads it, why it failed, and warnings."""
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr(ingestion, "parse_guarded", parse_here)

    def add(name: str, text: str, rules: str = f'  "*": {PUBLIC}\n', **options):
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        if rules:
            (tmp_path / "docs" / "rights.yaml").write_text(f"rules:\n{rules}")
        with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as corpus:
            report = corpus.add(tmp_path / "docs", **options)
            readers = [bool(corpus.chunks(name, who)) for who in (STAFF, HR, STRANGER)] if report.added else None
        return readers, report.failed.get(name, ""), report.warnings

    return add


def page(front: str) -> str:
    return f"---\n{front}\n---\n# Pay\n\nNobody earns enough.\n"


@pytest.mark.parametrize(
    ("front", "rules", "readers"),
    [
        ("public: true", "{tenant: acme, groups: [hr]}", [False, True, False]),
        ("public: true", "{tenant: acme, public: false}", [False, False, False]),
        ("groups: [staff]", "{tenant: acme, groups: [hr]}", [False, False, False]),
        ("groups: [hr]", "{tenant: acme, groups: [hr, staff]}", [False, True, False]),
        ("groups: [hr]", PUBLIC, [False, True, False]),
        ("groups: []", PUBLIC, [False, False, False]),
        ('policy: ""', PUBLIC, [False, False, False]),
        ("policy: unknown", PUBLIC, [False, False, False]),
        ("tenant: acme\npublic: true", "{status: retired}", [True, True, False]),
        ("valid_until: 2999-12-31", "{tenant: acme, public: true, valid_until: 2020-12-31}", [False, False, False]),
        ("valid_until: 2020-12-31", "{tenant: acme, public: true, valid_until: 2999-12-31}", [False, False, False]),
        ("valid_from: 2000-01-01", "{tenant: acme, public: true, valid_from: 2999-01-01}", [False, False, False]),
    ],
)
def test_a_document_only_narrows_what_its_keeper_states(added: Callable, front: str, rules: str, readers) -> None:
    assert added("pay.md", page(front), f'  "*": {rules}\n')[:2] == (readers, "")


@pytest.mark.parametrize(
    ("front", "why"),
    [
        ("tenant: global\npublic: true", "field tenant: a document cannot place itself in 'global'"),
        ("tenant: other", "field tenant: 'other' is not 'acme', as stated for it"),
        ("Groups: [hr]", "field Groups: unknown; write it as groups"),
        ("valid-until: 2020-12-31", "field valid-until: unknown; write it as valid_until"),
        ("acl: [hr]", "field acl: unknown; write it as groups"),
        ("rights:\n  groups: [hr]", "field rights: groups is not read inside of it"),
        ('public: "true"', "field public: 'true' is neither true nor false"),
        ("groups: hr", "field groups: 'hr' is not a list of names"),
        ("groups:\n  - hr\ntitle: a: b: c", "begins like front matter with 'groups'"),
    ],
)
def test_a_right_that_would_go_unread_fails_its_document(added: Callable, front: str, why: str) -> None:
    readers, failed, _ = added("pay.md", page(front))
    assert readers is None
    assert why in failed


@pytest.mark.parametrize(
    "text", ["---\ngroups: [hr]\n\nNo end.\n", "\n---\ngroups: [hr]\n---\nText.\n", "+++\ngroups: [hr\n+++\nText.\n"]
)
def test_front_matter_that_is_none_and_names_readers_fails(added: Callable, text: str) -> None:
    assert "begins like front matter with 'groups'" in added("pay.md", text)[1]


def test_a_rule_above_a_text_is_no_front_matter(added: Callable) -> None:
    assert added("pay.md", "---\n\nA text between rules.\n\n---\n\nGroups of people: many.\n")[:2] == (
        [True, True, False],
        "",
    )


def test_only_the_keeper_places_documents_in_the_tenant_of_everybody(added: Callable) -> None:
    assert added("pay.md", page("tenant: global"), '  "*": {tenant: global, public: true}\n')[0] == [True, True, True]


def test_options_are_the_keepers_word_as_well(added: Callable) -> None:
    assert added("pay.md", page("public: true"), "", tenant="acme", groups=["hr"])[0] == [False, True, False]


def test_the_lower_standing_counts() -> None:
    keeper = [Statement("rules", {"tenant": "acme", "status": "retired", "trust": "copy"})]
    own = Statement("file", {"status": "active", "authority": "article", "trust": "primary", "version": "7"})
    found = narrowed(own, keeper)
    standing = found.standing
    assert (standing.status, standing.authority, standing.source_trust) == ("retired", "article", "copy")
    assert (found.tenant, found.version) == ("acme", "7")


def test_validities_without_a_common_instant_are_an_error() -> None:
    own = Statement("file", {"valid_until": "2020-12-31"})
    with pytest.raises(RagLabError, match="file: its validity and the one stated for it have no instant in common"):
        narrowed(own, [Statement("rules", {"valid_from": "2021-01-01"})])
    whole = narrowed(own, [Statement("rules", {"valid_from": "2020-12-31"})])
    assert (whole.valid_from, whole.valid_until) == (
        datetime(2020, 12, 31, tzinfo=UTC),
        datetime(2021, 1, 1, tzinfo=UTC),
    )


def test_both_sides_of_every_pair_have_to_admit() -> None:
    """All pairs of readers by all sets of groups: narrowed rights admit exactly whom each side admits."""
    policies = {"p": Acl(groups=("a",))}
    sides = [
        {"public": True},
        {"public": False},
        {"groups": ["a"]},
        {"groups": ["a", "b"]},
        {"policy": "p"},
        {"groups": []},
    ]
    for own, keeper in product(sides, sides):
        found = narrowed(Statement("file", own), [Statement("rules", keeper)])
        each = [narrowed(None, [Statement("one", side)]).acl for side in (own, keeper)]
        for groups in ((), ("a",), ("b",), ("a", "b")):
            names = group_names(groups)
            said = admits(found.acl, names, policies) and (found.also is None or admits(found.also, names, policies))
            assert said == all(admits(acl, names, policies) for acl in each), (own, keeper, groups)


def test_patterns_are_compared_in_nfc_and_idle_ones_are_warned_of(added: Callable) -> None:
    rules = f'  "*": {PUBLIC}\n  "geh\u00e4lter/*": {{groups: [hr]}}\n  "/geh\u00e4lter/*": {{groups: [board]}}\n'
    readers, _, warnings = added("geh\u00e4lter/pay.txt", "Nobody earns enough.", unicodedata.normalize("NFD", rules))
    assert readers == [False, True, False]
    (warning,) = warnings
    assert warning.endswith("rule '/geh\u00e4lter/*': matches no file; correct or remove it")


@pytest.mark.parametrize("name", ["rights.yml", "Rights.yaml", ".rights.yaml"])
def test_a_misnamed_file_of_rights_is_refused(added: Callable, tmp_path: Path, name: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / name).write_text('rules:\n  "*": {groups: [hr]}\n')
    with pytest.raises(RagLabError, match="states no rights under this name"):
        added("sub/pay.txt", "Nobody earns enough.", "", tenant="acme", public=True)


def test_a_link_to_no_rights_is_refused(added: Callable, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "rights.yaml").symlink_to(tmp_path / "gone.yaml")
    with pytest.raises(RagLabError, match="is no file, or a link to none"):
        added("sub/pay.txt", "Nobody earns enough.", "", tenant="acme", public=True)


def test_a_name_that_is_no_text_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder
) -> None:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr(ingestion, "parse_guarded", parse_here)
    (tmp_path / "docs").mkdir()
    for name in (b"\xff\xfe.txt", b"plain.txt"):
        (tmp_path / "docs" / os.fsdecode(name)).write_text("Some words.")
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as corpus:
        report = corpus.add(tmp_path / "docs", tenant="acme", public=True)
    assert (report.added, report.skipped) == (["plain.txt"], {"files whose name is not UTF-8": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("zone: Mars/One\nrules: {}\n", r"rights\.yaml, field zone: 'Mars/One' is not a time zone"),
        (
            "rules:\n  '*': {tenant: acme, valid_from: 2026-02-30}\n",
            r"rights\.yaml: cannot be read \(day is out of range for month\)",
        ),
    ],
)
def test_rules_that_cannot_be_meant_name_their_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rights.yaml").write_text(text)
    with pytest.raises(RagLabError, match=message):
        read_rules(tmp_path)


def test_rules_of_what_was_added_before_hold_for_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder
) -> None:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr(ingestion, "parse_guarded", parse_here)
    docs = tmp_path / "docs"
    (docs / "hr" / "bands").mkdir(parents=True)
    (docs / "hr" / "bands" / "pay.txt").write_text("Nobody earns enough.")
    (docs / "rights.yaml").write_text(f'rules:\n  "*": {PUBLIC}\n  "hr/*": {{groups: [hr]}}\n')
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as corpus:
        corpus.add(docs)
        for part in ("hr/bands/pay.txt", "hr/bands", "hr"):
            report = corpus.add(docs / part, tenant="acme", public=True)
            assert report.failed == {}
            assert [bool(corpus.chunks("hr/bands/pay.txt", who)) for who in (STAFF, HR)] == [False, True]
        assert not corpus.status().drift
        (docs / "rights.yaml").write_text(f'rules:\n  "*": {PUBLIC}\n')
        corpus.update()
        assert corpus.chunks("hr/bands/pay.txt", STAFF)


def test_rules_of_folders_without_files_of_their_own_are_read_once(tmp_path: Path) -> None:
    for name in ("archive/old.md", "hr/pay/bands.md"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("text")
    rules = "".join(f"  '{pattern}': {PUBLIC}\n" for pattern in ("archive/*", "hr/*", "hr/pay/bands.md", "cn/*"))
    (tmp_path / "rights.yaml").write_text(f"rules:\n{rules}")
    found = discover({str(tmp_path): Options()})
    assert [rule.partition("rule ")[2] for rule in found.idle] == ["'cn/*'"]
