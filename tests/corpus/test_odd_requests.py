"""Requests, rights and ids that are not as they should be: what cannot be meant grants nothing."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_stated_rights import parse_here

from rag_lab.contracts import Acl, Principal, Request
from rag_lab.corpus import ingestion
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.policies import Policy, PolicyBook
from rag_lab.corpus.rights import RightsClass, group_names, permits, scopes_of
from rag_lab.store import Store

NOW = datetime(2026, 9, 10, tzinfo=UTC)
READER = Principal("t", ("hr",))


def permitted(rights: RightsClass, **fields: Any) -> bool:
    given = {"principal": READER, "tenant": "t", "time": NOW, **fields}
    return permits(rights, Request("r", "q", **given), {})


@pytest.mark.parametrize(
    "acl", [Acl(public="false"), Acl(public=1), Acl(groups="hr"), Acl(groups=(None, 7)), Acl(policy=" ")]
)
def test_an_acl_of_odd_values_admits_nobody(acl: Acl) -> None:
    assert not permitted(RightsClass("t", (acl,)), principal=Principal("t", ("hr", "h", "r")))


def test_a_text_in_place_of_groups_is_no_groups() -> None:
    assert group_names("hr") == frozenset()  # type: ignore[arg-type]
    assert not permitted(RightsClass("t", (Acl(groups=("h",)),)), principal=Principal("t", "hr"))


@pytest.mark.parametrize("time", [None, datetime(2026, 9, 10), "2026-09-10", 0])
def test_without_a_time_with_a_zone_nothing_is_read(time: Any) -> None:
    assert permitted(RightsClass("t", (Acl(public=True),)))
    assert not permitted(RightsClass("t", (Acl(public=True),)), time=time)
    if time is not None:
        assert not permitted(RightsClass("t", (Acl(public=True),)), horizon=time)


def test_a_request_without_a_time_does_not_stop_the_others() -> None:
    book = PolicyBook((Policy("p", "1", Acl(groups=("hr",)), valid_from=NOW),))
    requests = [
        Request(str(i), "q", READER, "t", time, policy_version=book.version) for i, time in enumerate([None, NOW])
    ]
    found = scopes_of(requests, [RightsClass("t", (Acl(policy="p"),))], np.zeros(1, dtype=np.int32), ["d"], book)
    assert [found.rows(i).tolist() for i in range(2)] == [[False], [True]]


def test_edges_of_validity_belong_to_the_beginning() -> None:
    tick = timedelta(microseconds=1)
    rights = RightsClass("t", (Acl(public=True),), NOW, NOW + tick)
    moments = [NOW - tick, NOW, NOW + tick]
    assert [permitted(rights, time=moment) for moment in moments] == [False, True, False]
    assert permitted(rights, time=NOW - tick, horizon=NOW)
    assert not permitted(rights, time=NOW + tick, horizon=NOW)


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder):
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr(ingestion, "parse_guarded", parse_here)
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as made:
        yield made


@pytest.mark.parametrize("before", [True, False])
def test_an_id_is_denied_in_whatever_form_it_is_typed(corpus: Corpus, tmp_path: Path, before: bool) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    typed = unicodedata.normalize("NFD", "caf\u00e9.txt")
    (folder / "caf\u00e9.txt").write_text("The menu of the day.")
    if before:
        assert corpus.revoke([typed], "a test").unknown == ["caf\u00e9.txt"]
    corpus.add(folder, tenant="t", public=True)
    if not before:
        assert corpus.chunks("caf\u00e9.txt", READER)
        assert corpus.revoke([typed], "a test").unknown == []
    else:
        corpus.update()
        assert corpus.catalogue.live() == {}  # what was revoked before it came is not even read
        return
    assert corpus.chunks("caf\u00e9.txt", READER) == []
    corpus.lift([typed])
    assert corpus.chunks("caf\u00e9.txt", READER)


@pytest.mark.parametrize("denial", ["revoke", "delete"])
def test_a_renamed_file_of_a_denied_document_is_warned_of(corpus: Corpus, tmp_path: Path, denial: str) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "pay.txt").write_text("Nobody earns enough.")
    (folder / "menu.txt").write_text("Soup and bread.")
    corpus.add(folder, tenant="t", public=True)
    getattr(corpus, denial)(["pay.txt"], "a test")
    corpus.purge()
    (folder / "pay.txt").rename(folder / "wages.txt")
    (warning,) = corpus.update().warnings
    assert warning == "wages.txt has the content of pay.txt, which is denied, and is not: revoke it as well"
    corpus.revoke(["wages.txt"], "a test")
    assert corpus.chunks("wages.txt", READER) == []
    assert corpus.update().warnings == ()
