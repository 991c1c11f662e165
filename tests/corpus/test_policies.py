"""The policy book: what it may say, who it admits when, and that whatever is wrong with it denies."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from rag_lab.contracts import Acl, Principal, RagLabError, Request
from rag_lab.corpus.policies import NO_POLICIES, UNREADABLE, PolicyBook
from rag_lab.corpus.rights import RightsClass, classify, scopes_of

BOOK = """
zone: Europe/Berlin
policies:
  - {id: hr-7, version: 1, groups: [hr], valid_until: 2026-03-31}
  - {id: hr-7, version: 2, groups: [hr, managers], valid_from: 2026-04-01}
  - {id: open, public: true}
  - {id: nobody}
"""
SPRING = datetime(2026, 3, 31, 21, 59, 59, tzinfo=UTC)
APRIL = datetime(2026, 3, 31, 22, 0, 0, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    written = tmp_path / "policies.yaml"
    written.write_text(BOOK, encoding="utf-8")
    return written


def seen(book: PolicyBook, *groups: str, time: datetime = SPRING, version: str | None = None) -> list[str]:
    """Names of the policies that admit a caller."""
    names = ["hr-7", "open", "nobody", "unknown", ""]
    classes, codes = classify([RightsClass("t", (Acl(public=not name, policy=name),)) for name in names])
    request = Request("r", "q", Principal("t", groups), "t", time, policy_version=version or book.version)
    rows = scopes_of([request], classes, codes, [str(i) for i in range(5)], book).rows(0)
    return [names[row] for row in np.flatnonzero(rows)]


def test_the_version_in_force_names_the_readers(path: Path) -> None:
    book = PolicyBook.load(path)
    assert seen(book, "hr") == ["hr-7", "open", ""]
    assert seen(book, "managers") == ["open", ""]
    assert seen(book, "managers", time=APRIL) == ["hr-7", "open", ""]
    assert book.at(APRIL)["hr-7"] == Acl(groups=("hr", "managers"))


def test_json_says_the_same(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "policies.json"
    other.write_text(
        '{"zone": "Europe/Berlin", "policies": [{"id": "open", "public": true}, {"id": "nobody"},'
        ' {"id": "hr-7", "version": "2", "groups": ["managers", "hr"], "valid_from": "2026-04-01"},'
        ' {"id": "hr-7", "version": "1", "groups": ["hr"], "valid_until": "2026-03-31"}]}'
    )
    assert PolicyBook.load(other).version == PolicyBook.load(path).version


def test_every_change_is_another_version(path: Path) -> None:
    versions = {PolicyBook.load(path).version}
    for old, new in (("[hr]", "[HR]"), ("2026-04-01", "2026-04-02"), ("public: true", "public: false"), ("open", "o")):
        path.write_text(BOOK.replace(old, new), encoding="utf-8")
        versions.add(PolicyBook.load(path).version)
    assert len(versions) == 5


def test_a_stale_authorisation_reads_nothing_at_all(path: Path) -> None:
    book = PolicyBook.load(path)
    assert seen(book, "hr", version="of last week") == []
    assert PolicyBook().version == NO_POLICIES
    assert seen(PolicyBook(), "hr", version=book.version) == []
    assert seen(PolicyBook(), "hr") == [""]


def test_a_policy_cannot_name_another() -> None:
    with pytest.raises(RagLabError, match=r"p, field policies\[1\]\.policy: unknown"):
        PolicyBook.read({"policies": [{"id": "a", "policy": "b"}]}, "p")


def test_a_broken_book_admits_nobody_and_says_why(path: Path) -> None:
    path.write_text(BOOK.replace("[hr]", "hr"), encoding="utf-8")
    book = PolicyBook.load_or_deny(path)
    assert book.fault == f"{path}, field policies[1].groups: 'hr' is not a list of names"
    assert book.version == UNREADABLE
    assert seen(book, "hr") == [""]
    assert PolicyBook.load_or_deny(path.with_name("none.yaml")) == PolicyBook()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "field policies: must be a list of policies"),
        ("policies: {}", "field policies: must be a list of policies"),
        ("policies: []\nrules: []", "field rules: unknown"),
        ("policies: []\nzone: Atlantis", "field zone: 'Atlantis' is not a time zone"),
        ("policies: [7]", r"field policies\[1\]: 7 is not a policy"),
        ("policies: [{groups: [a]}]", r"field policies\[1\]\.id: None is no name"),
        ("policies: [{id: a, version: []}]", r"policies\[1\]\.version: \[\] is no version"),
        ("policies: [{id: a, public: 'yes'}]", r"policies\[1\]\.public: 'yes' is neither true nor false"),
        ("policies: [{id: a, groups: [no]}]", r"policies\[1\]\.groups: \[False\] is not a list of names"),
        ("policies: [{id: a, group: [x]}]", r"policies\[1\]\.group: unknown"),
        ("policies: [{id: a, valid_until: soon}]", r"policies\[1\]\.valid_until: 'soon' is not a date"),
        ("policies: [{id: a, valid_from: 2026-02-01, valid_until: 2026-01-01}]", "is not after valid_from"),
        ("policies: [{id: a}, {id: a, version: 2}]", "policy a: versions 1 and 2 are in force at the same time"),
        ("policies: [{id: a, valid_until: 2026-01-01}, {id: a}]", "policy a: version 1 is there twice"),
        (
            "policies: [{id: a, valid_until: 2026-01-02}, {id: a, version: 2, valid_from: 2026-01-02}]",
            "versions 1 and 2 are in force at the same time",
        ),
        ("policies:\n - {id: a, groups: [x], groups: [y]}", r"line 2, field groups: is there twice"),
        ("policies: [", r" line \d+: not YAML"),
        ("policies: [{id: a, valid_from: 2026-02-30}]", r"policies.yaml: not YAML \(day is out of range for month\)"),
        ("&a [*a]", "must be a list of policies|not YAML"),
        (b"\xff\xfe\xff", "cannot be read"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = tmp_path / "policies.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RagLabError, match=message) as caught:
        PolicyBook.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
