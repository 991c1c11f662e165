"""A corpus from its first document to the last denial: what is published, what it costs, who sees what and when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from rag_lab.contracts import Principal, RagLabError
from rag_lab.corpus import ingestion, publisher
from rag_lab.corpus.catalogue import Event
from rag_lab.corpus.corpus import Corpus, corpora
from rag_lab.corpus.kept import KIND as KEPT
from rag_lab.corpus.kept import Part, rewrite_part
from rag_lab.corpus.status import drift_of, status_of, timed
from rag_lab.metrics.freshness import Targets, check
from rag_lab.store import Store

STAFF = Principal("acme")
HR = Principal("acme", ("hr",))
RULES = 'rules:\n  "*": {tenant: acme, public: true}\n  "hr/*": {groups: [hr]}\n'


class Counted:
    """The hashing encoder, which remembers what it was asked to encode."""

    def __init__(self, encoder) -> None:
        self._encoder = encoder
        self.texts: list[str] = []

    def __getattr__(self, name: str):
        return getattr(self._encoder, name)

    def encode_passages(self, texts):
        self.texts += texts
        return self._encoder.encode_passages(texts)


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch, hash_encoder) -> Counted:
    counted = Counted(hash_encoder)
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: counted)
    return counted


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "hr").mkdir(parents=True)
    (folder / "leave.md").write_text("# Leave\n\nTwenty days a year.\n")
    (folder / "travel.txt").write_text("The allowance is 500 euros.")
    (folder / "hr" / "pay.txt").write_text("Salary bands start at 3000.")
    (folder / "rights.yaml").write_text(RULES)
    return folder


@pytest.fixture
def corpus(tmp_path: Path, encoder: Counted) -> Iterator[Corpus]:
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none") as made:
        yield made


def visible(corpus: Corpus, principal: Principal | None, generation: int | None = None, **at) -> set[str]:
    """Documents of which a principal may read something."""
    names = corpus.snapshot(generation).documents
    return {name for name in names if corpus.chunks(name, principal, generation=generation, **at)}


def texts(corpus: Corpus, document_id: str, principal: Principal) -> list[str]:
    table = corpus.snapshot().chunks
    return [table.text[row] for row in corpus.chunks(document_id, principal)]


# --- adding and updating ---------------------------------------------------------------------------------------------


def test_what_was_added_is_read_by_whom_it_was_stated_for(corpus: Corpus, docs: Path) -> None:
    report = corpus.add(docs)
    assert (report.generation, report.added) == (1, ["hr/pay.txt", "leave.md", "travel.txt"])
    assert (report.updated, report.removed, report.failed, report.admits_nobody) == ([], [], {}, [])
    assert visible(corpus, STAFF) == {"leave.md", "travel.txt"}
    assert visible(corpus, HR) == {"leave.md", "travel.txt", "hr/pay.txt"}
    assert visible(corpus, Principal("other", ("hr",))) == set()
    assert visible(corpus, None) == set()
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 500 euros."]


def test_unchanged_sources_cost_no_parsing_no_encoding_and_no_generation(
    corpus: Corpus, docs: Path, encoder: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add(docs)
    encoded = len(encoder.texts)
    monkeypatch.setattr(ingestion, "parse_guarded", lambda *a, **b: pytest.fail("parsed again"))
    for report in (corpus.update(), corpus.add(docs), corpus.add(docs / "leave.md")):
        assert (report.generation, report.unchanged > 0, report.parsed, report.parse_hits) == (None, True, 0, 0)
    os.utime(docs / "leave.md", ns=(1, 1))
    assert corpus.update().generation is None
    assert len(encoder.texts) == encoded
    assert [row.number for row in corpus.catalogue.generations()] == [1]


def test_an_update_costs_what_changed(corpus: Corpus, docs: Path, encoder: Counted) -> None:
    corpus.add(docs)
    encoder.texts.clear()
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    (docs / "new.txt").write_text("A canteen opens.")
    report = corpus.update()
    assert (report.generation, report.added, report.updated, report.unchanged) == (2, ["new.txt"], ["travel.txt"], 2)
    assert report.parsed == 2
    assert sorted(encoder.texts) == ["A canteen opens.", "The allowance is 600 euros."]
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 600 euros."]


def test_equal_contents_are_parsed_once_by_one_version_of_a_parser(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add(docs)
    for name in ("copy.txt", "leave2.md", "leave3.md"):
        (docs / name).write_bytes((docs / "travel.txt").read_bytes())
    report = corpus.update()
    assert (report.parsed, report.parse_hits) == (1, 2)  # as Markdown once, as text not again
    versions = corpus.catalogue.live(["copy.txt", "travel.txt"])
    assert len({(v.part, v.position) for v in versions.values()}) == 1
    monkeypatch.setattr(ingestion, "parser_version", lambda kind: f"{kind}-next")
    again = corpus.update()
    assert (again.generation, again.parsed, again.parse_hits) == (None, 4, 2)  # the texts come out as they were
    assert corpus.update().parsed == 0


def test_rights_that_change_are_published_without_parsing(corpus: Corpus, docs: Path, encoder: Counted) -> None:
    corpus.add(docs)
    encoder.texts.clear()
    (docs / "rights.yaml").write_text(RULES.replace("[hr]", "[payroll]"))
    report = corpus.update()
    assert (report.generation, report.updated, report.parsed, encoder.texts) == (2, ["hr/pay.txt"], 0, [])
    assert visible(corpus, HR) == {"leave.md", "travel.txt"}
    assert visible(corpus, Principal("acme", ("payroll",))) == {"leave.md", "travel.txt", "hr/pay.txt"}


def test_nothing_stated_admits_nobody_and_is_reported(corpus: Corpus, docs: Path) -> None:
    (docs / "rights.yaml").unlink()
    report = corpus.add(docs)
    assert report.admits_nobody == ["hr/pay.txt", "leave.md", "travel.txt"]
    assert visible(corpus, HR) == set()
    assert corpus.add(docs, public=True).admits_nobody == ["hr/pay.txt", "leave.md", "travel.txt"]  # of which tenant?
    assert corpus.add(docs, tenant="acme", public=True).admits_nobody == []
    assert visible(corpus, STAFF) == {"hr/pay.txt", "leave.md", "travel.txt"}
    assert corpus.add(docs).generation is None  # what was stated before holds


def test_a_bad_document_fails_alone_and_its_old_version_stays(corpus: Corpus, docs: Path) -> None:
    (docs / "broken.txt").write_bytes(b"\x00\x01\x02\x03 binary")
    report = corpus.add(docs)
    assert list(report.failed) == ["broken.txt"]
    assert "is binary and of no known format" in report.failed["broken.txt"]
    assert "\n" not in report.failed["broken.txt"]
    assert visible(corpus, STAFF) == {"leave.md", "travel.txt"}
    (docs / "travel.txt").write_bytes(b"\x00\x01\x02\x03")
    report = corpus.update()
    assert (report.generation, sorted(report.failed)) == (None, ["broken.txt", "travel.txt"])
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 500 euros."]
    assert corpus.catalogue.source("travel.txt").status == "failed"
    (docs / "travel.txt").write_text("The allowance is 500 euros.")
    report = corpus.update()
    assert (report.generation, list(report.failed)) == (None, ["broken.txt"])
    assert corpus.catalogue.source("travel.txt").status == "active"


def test_a_source_that_was_read_in_part_is_searchable_and_listed(corpus: Corpus, docs: Path) -> None:
    (docs / "stock.jsonl").write_text('{"item": "chairs", "number": 12}\n{"item": "tables", \n')
    report = corpus.add(docs)
    assert list(report.partial) == ["stock.jsonl"]
    assert "line 2 is no JSON" in report.partial["stock.jsonl"]
    assert "stock.jsonl" in visible(corpus, STAFF)
    assert list(corpus.update().partial) == ["stock.jsonl"]
    assert corpus.status().sources == {"active": 3, "partial": 1}


def test_a_date_that_cannot_be_read_fails_its_document_alone(corpus: Corpus, docs: Path) -> None:
    (docs / "leave.md").write_text("---\nvalid_until: 2025-13-01\n---\n# Leave\n\nTwenty days.\n")
    report = corpus.add(docs)
    assert list(report.failed) == ["leave.md"]
    assert "field valid_until" in report.failed["leave.md"]
    assert report.added == ["hr/pay.txt", "travel.txt"]


def test_front_matter_comes_before_rights_yaml_and_options(corpus: Corpus, docs: Path) -> None:
    (docs / "leave.md").write_text("---\ngroups: [hr]\nstatus: retired\n---\n# Leave\n\nTwenty days.\n")
    (docs / "rights.yaml").write_text('rules:\n  "*.md": {tenant: acme, public: true}\n')
    corpus.add(docs, tenant="other", groups=["staff"])
    assert visible(corpus, STAFF) == set()
    assert visible(corpus, HR) == {"leave.md"}
    assert visible(corpus, Principal("other", ("staff",))) == {"hr/pay.txt", "travel.txt"}
    (document,) = corpus.documents(["leave.md"])
    assert document.status == "retired"


def test_a_section_has_rights_of_its_own(corpus: Corpus, docs: Path) -> None:
    (docs / "leave.md").write_text("# Leave\n\nTwenty days.\n\n## Bonus\n\nTen more.\n\n## Travel\n\nBy train.\n")
    (docs / "rights.yaml").write_text(RULES + '  "leave.md": {sections: {Bonus: {groups: [hr]}}}\n')
    corpus.add(docs)
    read = " ".join(texts(corpus, "leave.md", STAFF))
    assert "Twenty days" in read
    assert "By train" in read
    assert "Ten more" not in read
    assert "Ten more" in " ".join(texts(corpus, "leave.md", HR))
    (docs / "leave.md").write_text("# Leave\n\nTwenty days. Ten more as a bonus.\n")
    report = corpus.update()
    assert "has no heading 'Bonus', for which rights are stated" in report.failed["leave.md"]
    assert "Ten more" not in " ".join(texts(corpus, "leave.md", STAFF))


def test_what_expires_later_is_listed_and_stays_active(corpus: Corpus, docs: Path) -> None:
    (docs / "rights.yaml").write_text('rules:\n  "*": {tenant: acme, public: true, valid_until: 2999-12-31}\n')
    corpus.add(docs)
    assert corpus.expire(datetime(3000, 1, 1, tzinfo=UTC)) == (["hr/pay.txt", "leave.md", "travel.txt"], None)
    assert {row.status for row in corpus.catalogue.sources()} == {"active"}


def test_validity_is_a_matter_of_the_request_and_expiry_of_the_corpus(corpus: Corpus, docs: Path) -> None:
    end = datetime(2026, 3, 31, 22, tzinfo=UTC)  # the end of that day in Berlin
    (docs / "rights.yaml").write_text(
        'zone: Europe/Berlin\nrules:\n  "*": {tenant: acme, public: true}\n  "travel.txt": {valid_until: 2026-03-31}\n'
    )
    corpus.add(docs)
    assert "travel.txt" in visible(corpus, STAFF, moment=end - timedelta(seconds=1))
    assert "travel.txt" not in visible(corpus, STAFF, moment=end)
    assert corpus.expire(end - timedelta(seconds=1)) == ([], None)
    assert corpus.expire(end) == (["travel.txt"], None)
    assert corpus.catalogue.source("travel.txt").status == "expired"
    ended, report = corpus.expire(end, remove=True)
    assert (ended, report.generation, report.removed) == (["travel.txt"], 2, ["travel.txt"])
    assert "travel.txt" not in corpus.snapshot().documents
    assert corpus.update().generation is None
    (docs / "travel.txt").write_text("The allowance is 700 euros.")
    assert corpus.update().added == ["travel.txt"]


def test_files_that_are_left_out_are_counted(corpus: Corpus, docs: Path) -> None:
    (docs / "photo.jpg").write_bytes(b"\xff\xd8")
    (docs / ".hidden.txt").write_text("x")
    (docs / "link.txt").symlink_to(docs / "travel.txt")
    (docs / "loop").symlink_to(docs)
    report = corpus.add(docs)
    assert report.skipped == {".jpg files": 1, "hidden files": 1, "links": 1, "links to folders": 1}
    assert len(report.added) == 3
    other = Corpus.create(corpus.store, "flat", encoder="hash", analyzer="none")
    assert other.add(docs, recursive=False).added == ["leave.md", "travel.txt"]


def test_one_id_never_names_two_files(corpus: Corpus, docs: Path, tmp_path: Path) -> None:
    corpus.add(docs)
    other = tmp_path / "other"
    other.mkdir()
    (other / "leave.md").write_text("# Other\n")
    with pytest.raises(
        RagLabError, match=r"document id 'leave\.md': would name both .*docs/leave\.md and .*other/leav"
    ):
        corpus.add(other)
    assert corpus.catalogue.active.number == 1
    (docs / "e\u0301.txt").write_text("decomposed")
    (docs / "\u00e9.txt").write_text("composed")
    with pytest.raises(RagLabError, match="would name both"):
        corpus.update()


def test_a_file_keeps_its_id_when_the_folder_above_is_added(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs / "hr" / "pay.txt", tenant="acme", public=True)
    assert list(corpus.catalogue.live()) == ["pay.txt"]
    corpus.add(docs)
    assert sorted(corpus.catalogue.live()) == ["leave.md", "pay.txt", "travel.txt"]
    assert visible(corpus, STAFF) == {"leave.md", "travel.txt"}


def test_a_dataset_brings_its_own_ids_texts_and_rights(corpus: Corpus) -> None:
    from rag_lab.datasets import load

    report = corpus.add("dataset:handbook")
    known = {document.document_id: document for document in load("handbook").documents}
    assert set(report.added) == known.keys()
    assert report.parsed == 0
    kept = {document.document_id: document for document in corpus.documents()}
    for name, document in known.items():
        again = kept[name]
        assert (again.text, again.title, again.acl, again.tenant) == (
            document.text,
            document.title,
            document.acl,
            document.tenant,
        )
        assert (again.valid_from, again.valid_until, again.language) == (
            document.valid_from,
            document.valid_until,
            document.language,
        )
    assert corpus.update().generation is None
    with pytest.raises(RagLabError, match="dataset:handbook: declares the rights of its documents; leave out public"):
        corpus.add("dataset:handbook", public=True)


def test_what_cannot_be_added(corpus: Corpus, docs: Path) -> None:
    with pytest.raises(RagLabError, match="no such file or folder; name one, or a dataset as dataset:NAME"):
        corpus.add(docs / "nowhere")
    with pytest.raises(RagLabError, match="nothing to add"):
        corpus.add([])
    with pytest.raises(RagLabError, match="options, field policy: a policy names the readers by itself"):
        corpus.add(docs, tenant="acme", policy="p", public=True)
    (docs / "rights.yaml").write_text("rules:\n  '*': {tennant: acme}\n")
    with pytest.raises(RagLabError, match=r"rights\.yaml, rule '\*', field tennant: unknown; use public, groups"):
        corpus.add(docs)
    (docs / "rights.yaml").write_text("rules:\n  '*': {tenant: acme, public: true}\n  '*': {groups: [hr]}\n")
    with pytest.raises(RagLabError, match=r"rights\.yaml line 3, field \*: is there twice; remove one"):
        corpus.add(docs)
    assert corpus.catalogue.active is None


# --- sources that go, deletion, revocation ---------------------------------------------------------------------------


def test_a_file_that_is_gone_is_denied_and_taken_out_and_comes_back_with_its_file(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    text = (docs / "travel.txt").read_text()
    (docs / "travel.txt").unlink()
    report = corpus.update()
    assert (report.generation, report.removed) == (2, ["travel.txt"])
    assert visible(corpus, STAFF) == {"leave.md"}
    assert visible(corpus, STAFF, generation=1) == {"leave.md"}
    assert corpus.update().generation is None
    (docs / "travel.txt").write_text(text)
    assert corpus.update().added == ["travel.txt"]
    assert visible(corpus, STAFF) == {"leave.md", "travel.txt"}


def test_a_folder_that_is_gone_keeps_its_documents_and_is_warned_of(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    docs.rename(docs.with_name("away"))
    report = corpus.update()
    assert report.generation is None
    assert report.warnings == (f"{docs}: is not there any more, its documents stay; delete them, or bring it back",)
    assert visible(corpus, STAFF) == {"leave.md", "travel.txt"}


def test_what_was_deleted_comes_back_only_with_other_content(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    report = corpus.delete(["travel.txt"], "asked for")
    assert (report.generation, report.removed) == (2, ["travel.txt"])
    assert visible(corpus, STAFF, generation=1) == {"leave.md"}
    assert corpus.update().generation is None
    again = corpus.add(docs)
    assert (again.generation, again.asleep) == (None, ["travel.txt"])
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    assert corpus.update().generation is None  # an update never undoes a deletion
    assert corpus.add(docs).added == ["travel.txt"]
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 600 euros."]
    assert visible(corpus, STAFF, generation=1) == {"leave.md"}
    (docs / "travel.txt").write_text("The allowance is 500 euros.")
    report = corpus.update()
    assert report.warnings == ("1 published document is denied (travel.txt): unread until lifted",)
    assert texts(corpus, "travel.txt", STAFF) == []
    corpus.lift(["travel.txt"])
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 500 euros."]


def test_deleting_what_is_not_there_deletes_nothing(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    with pytest.raises(RagLabError, match="corpus kb: has no document 'nobody'; nothing was deleted"):
        corpus.delete(["travel.txt", "nobody"])
    with pytest.raises(RagLabError, match=r"'travel\.txt' is one id; give a list"):
        corpus.delete("travel.txt")
    assert visible(corpus, STAFF) == {"leave.md", "travel.txt"}


def test_every_version_of_a_deleted_document_is_denied(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    corpus.update()
    assert visible(corpus, STAFF, generation=1) == {"leave.md", "travel.txt"}
    corpus.delete(["travel.txt"])
    assert [visible(corpus, STAFF, generation=n) for n in (1, 2, 3)] == [{"leave.md"}] * 3


def test_a_revocation_holds_at_once_in_every_generation_and_through_updates(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    (docs / "new.txt").write_text("news")
    corpus.update()
    assert corpus.revoke(["travel.txt"], "leaked", by="ann").unknown == []
    assert [visible(corpus, HR, generation=n) for n in (1, 2)] == [
        {"leave.md", "hr/pay.txt"},
        {"leave.md", "hr/pay.txt", "new.txt"},
    ]
    (docs / "travel.txt").write_text("other text")
    assert corpus.update().generation == 3
    assert "travel.txt" not in visible(corpus, HR)
    assert corpus.catalogue.source("travel.txt").status == "revoked"
    corpus.activate(1)
    assert "travel.txt" not in visible(corpus, HR)
    assert corpus.add(docs, tenant="acme", public=True).updated == ["travel.txt"]
    assert "travel.txt" not in visible(corpus, HR)
    corpus.lift(["travel.txt"])
    assert "travel.txt" in visible(corpus, HR)
    assert corpus.catalogue.source("travel.txt").status == "active"
    with pytest.raises(RagLabError, match=r"document 'travel\.txt' is not denied"):
        corpus.lift(["travel.txt"])


def test_unknown_ids_are_revoked_too_and_named(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs / "travel.txt", tenant="acme", public=True)
    assert corpus.revoke(["travel.txt", "leave.md"], "leaked").unknown == ["leave.md"]
    corpus.add(docs / "leave.md", tenant="acme", public=True)
    assert visible(corpus, STAFF) == set()


def test_a_revoked_document_can_be_deleted_as_well(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    corpus.revoke(["travel.txt"], "leaked")
    assert corpus.delete(["travel.txt"]).removed == ["travel.txt"]
    assert "travel.txt" not in corpus.snapshot().documents
    corpus.lift(["travel.txt"])
    assert corpus.update().added == ["travel.txt"]
    assert visible(corpus, STAFF) == {"leave.md", "travel.txt"}


def test_revoking_does_not_wait_for_a_publication(
    corpus: Corpus, docs: Path, encoder: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add(docs)
    encoding, go_on = threading.Event(), threading.Event()

    def slow(texts):
        encoding.set()
        assert go_on.wait(30)
        return encoder._encoder.encode_passages(texts)

    monkeypatch.setattr(encoder, "encode_passages", slow)
    (docs / "travel.txt").write_text("The allowance is 600 euros.")

    def publish() -> None:
        with Corpus.open(corpus.store, "kb") as mine:
            mine.update()

    thread = threading.Thread(target=publish)
    thread.start()
    assert encoding.wait(30)
    started = time.perf_counter()
    corpus.revoke(["travel.txt"], "leaked")
    assert time.perf_counter() - started < 1
    assert visible(corpus, STAFF) == {"leave.md"}
    with pytest.raises(RagLabError, match=r"another publisher has been at work for 0\.1 s"):
        corpus.update(wait_s=0.1)
    go_on.set()
    thread.join()
    assert corpus.catalogue.active.number == 2
    assert visible(corpus, STAFF) == {"leave.md"}
    assert corpus.catalogue.source("travel.txt").status == "revoked"


# --- generations -----------------------------------------------------------------------------------------------------


def test_going_back_and_forth_between_generations(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    corpus.update()
    assert corpus.activate(1).number == 3
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 500 euros."]
    assert corpus.documents(["travel.txt"])[0].text == "The allowance is 500 euros."
    assert corpus.activate(3).number == 3
    report = corpus.update()
    assert (report.generation, report.updated, report.parsed) == (4, ["travel.txt"], 0)
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 600 euros."]


def test_only_the_last_generations_stay_unless_pinned(tmp_path: Path, docs: Path, encoder: Counted) -> None:
    store = Store(tmp_path / "store")
    corpus = Corpus.create(store, "kb", encoder="hash", analyzer="none", keep=2)
    corpus.add(docs)
    with corpus.pinned() as (number, pinned):
        for n in range(4):
            (docs / "travel.txt").write_text(f"The allowance is {n} euros.")
            corpus.update()
        assert number == 1
        assert visible(corpus, STAFF, generation=1) == {"leave.md", "travel.txt"}
        assert [bool(row.snapshot) for row in corpus.catalogue.generations()] == [True, False, False, True, True]
        pinned.verify()
    (docs / "travel.txt").write_text("The allowance is 9 euros.")
    corpus.update()
    assert [bool(row.snapshot) for row in corpus.catalogue.generations()] == [False] * 4 + [True] * 2
    assert len(store.entries("snapshots")) == 2
    assert corpus.status().orphans == {}
    with pytest.raises(RagLabError, match="generation 1: is retired and its snapshot is gone"):
        corpus.activate(1)
    with pytest.raises(RagLabError, match="generation 1: is retired and its snapshot is gone"):
        corpus.snapshot(1)
    corpus.snapshot().verify()
    corpus.snapshot(5).verify()


def test_a_pin_of_a_dead_process_does_not_count(tmp_path: Path, docs: Path, encoder: Counted) -> None:
    corpus = Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none", keep=1)
    corpus.add(docs)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    corpus.catalogue.pin(1, ended.pid)
    (docs / "travel.txt").write_text("changed")
    corpus.update()
    assert [bool(row.snapshot) for row in corpus.catalogue.generations()] == [False, True]


def test_a_publication_that_breaks_off_leaves_the_old_generation(
    corpus: Corpus, docs: Path, encoder: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add(docs)
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    with monkeypatch.context() as patch:
        patch.setattr(encoder, "encode_passages", lambda texts: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            corpus.update()
    assert [row.state for row in corpus.catalogue.generations()] == ["active", "failed"]
    assert texts(corpus, "travel.txt", STAFF) == ["The allowance is 500 euros."]
    report = corpus.update()
    assert (report.generation, report.updated, report.parsed, report.parse_hits) == (3, ["travel.txt"], 0, 1)


def test_nothing_that_no_snapshot_names_stays_behind(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    for n in range(9):  # new segments are put together with older ones in the same publication
        (docs / f"n{n}.txt").write_text(f"Number {n} says {'so ' * n}")
        corpus.update()
        assert corpus.status(drift=False).orphans == {}
    assert corpus.catalogue.made() == set()


def test_a_new_version_of_the_encoder_publishes_everything_anew(
    corpus: Corpus, docs: Path, encoder: Counted, monkeypatch: pytest.MonkeyPatch, hash_encoder
) -> None:
    corpus.add(docs)

    class Later(type(hash_encoder)):
        version = "hash-2"

    later = Counted(Later())
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: later)
    assert corpus.update().generation is None
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    report = corpus.update()
    assert (report.generation, report.updated, report.parsed) == (2, ["travel.txt"], 1)
    assert sorted(corpus.snapshot().documents) == ["hr/pay.txt", "leave.md", "travel.txt"]
    assert corpus.snapshot().facts["encoder"]["version"] == "hash-2"
    assert len(later.texts) == len(corpus.snapshot().chunks)


def test_a_damaged_snapshot_is_not_activated(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    corpus.update()
    old = corpus.snapshot(1)
    kind, key = old.parts[0]
    (file,) = corpus.store.path(kind, key).glob("chunks.parquet")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(RagLabError, match="checksum differs from the manifest"):
        corpus.activate(1)
    assert corpus.catalogue.active.number == 2


def test_another_encoder_is_compared_before_it_is_switched_to(
    corpus: Corpus, docs: Path, hash_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wider(type(hash_encoder)):
        name, version, dimension = "wider", "wider-1", 256

    loaded = {"hash": hash_encoder, "wider": Wider()}
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", loaded.__getitem__)
    corpus.add("dataset:handbook")
    done = corpus.migrate("wider", "handbook", limit=60)
    assert (done.generation, done.encoder, done.questions, done.switched) == (2, ("hash", "wider"), 60, False)
    assert [row.metric for row in done.rows] == ["nDCG@10", "Recall@100"]
    for row in done.rows:
        assert row.difference.delta == pytest.approx(row.after.value - row.before.value)
        assert row.difference.low <= row.difference.delta <= row.difference.high
        assert 0 < row.difference.p <= row.p_holm <= 1
    assert done.rows[0].after.value != done.rows[0].before.value
    assert not done.enough
    assert not done.not_worse
    assert corpus.catalogue.active.number == 1
    assert corpus.snapshot(2).facts["encoder"]["name"] == "wider"
    assert corpus.activate(2).number == 2
    assert corpus.catalogue.settings["encoder"] == "wider"
    corpus.add(docs)
    assert corpus.snapshot().facts["encoder"]["name"] == "wider"
    assert corpus.activate(1).settings["encoder"] == "hash"
    assert corpus.migrate("wider", "handbook", limit=20, switch=True).switched
    assert corpus.snapshot().facts["encoder"]["name"] == "wider"
    with pytest.raises(RagLabError, match="--encoder wider: is the present one"):
        corpus.migrate("wider", "handbook")


def test_another_encoder_is_not_worse_when_enough_questions_show_it(
    corpus: Corpus, hash_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Twin(type(hash_encoder)):
        name, version = "twin", "twin-1"

    class Worse(type(hash_encoder)):
        name, version, dimension = "worse", "worse-1", 8

    loaded = {"hash": hash_encoder, "twin": Twin(), "worse": Worse()}
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", loaded.__getitem__)
    corpus.add("dataset:handbook")
    few = corpus.migrate("twin", "handbook", limit=60, if_not_worse=True)
    assert [row.difference.low for row in few.rows] == [0, 0]
    assert (few.enough, few.not_worse, few.switched) == (False, False, False)
    worse = corpus.migrate("worse", "handbook", limit=200, if_not_worse=True)
    assert min(row.difference.low for row in worse.rows) <= -0.01
    assert (worse.enough, worse.not_worse, worse.switched) == (True, False, False)
    same = corpus.migrate("twin", "handbook", limit=200, if_not_worse=True)
    assert (same.enough, same.not_worse, same.switched) == (True, True, True)


def test_questions_that_read_nothing_do_not_decide_on_an_encoder(
    corpus: Corpus, docs: Path, tmp_path: Path, hash_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Twin(type(hash_encoder)):
        name, version = "twin", "twin-1"

    loaded = {"hash": hash_encoder, "twin": Twin()}
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", loaded.__getitem__)
    corpus.add(docs)
    asked = tmp_path / "asked"
    (asked / "qrels").mkdir(parents=True)
    (asked / "corpus.jsonl").write_text('{"_id": "travel.txt", "text": "x"}\n')
    (asked / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\ttravel.txt\t1\nb\ttravel.txt\t1\n")
    ask = '{{"_id": "{}", "text": "allowance", "metadata": {{"principal": {{"tenant": "{}"}}}}}}\n'.format
    (asked / "queries.jsonl").write_text(ask("a", "acme") + ask("b", "other"))
    done = corpus.migrate("twin", str(asked))
    assert (done.questions, done.unread) == (1, 1)
    assert [(row.before.value, row.difference.n) for row in done.rows] == [(1, 1), (1, 1)]
    (asked / "queries.jsonl").write_text(ask("a", "elsewhere") + ask("b", "other"))
    with pytest.raises(RagLabError, match=r"none of their readers may read anything in corpus .*field principal"):
        corpus.migrate("twin", str(asked))


def test_documents_out_of_reach_do_not_hide_what_an_encoder_loses(
    corpus: Corpus, docs: Path, tmp_path: Path, hash_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Blind(type(hash_encoder)):
        name, version = "blind", "blind-1"

        def encode_queries(self, texts):
            return super().encode_passages(["salary"] * len(texts))

        def encode_passages(self, texts):
            return super().encode_passages(["" if "allowance" in text else "salary" for text in texts])

    loaded = {"hash": hash_encoder, "blind": Blind()}
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", loaded.__getitem__)
    corpus.add(docs)
    asked = tmp_path / "asked"
    (asked / "qrels").mkdir(parents=True)
    (asked / "corpus.jsonl").write_text("".join(f'{{"_id": "{n}", "text": "x"}}\n' for n in ("travel.txt", "gone")))
    ask = '{{"_id": "{}", "text": "allowance", "metadata": {{"principal": {{"tenant": "acme"}}}}}}\n'.format
    others = [f"q{number}" for number in range(300)]
    (asked / "queries.jsonl").write_text("".join(map(ask, ["a", *others])))
    judged = ["a\ttravel.txt\t1", "a\tgone\t1", "q0\ttravel.txt\t0", *(f"{name}\tgone\t1" for name in others)]
    (asked / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "\n".join(judged) + "\n")
    done = corpus.migrate("blind", str(asked), if_not_worse=True)
    assert (done.questions, done.unread, done.out_of_reach) == (301, 0, 300)
    assert [(row.before.value, row.difference.n) for row in done.rows] == [(1, 1), (1, 1)]
    assert done.rows[0].after.value == pytest.approx(1 / np.log2(3))  # second of the two documents that staff reads
    assert (done.enough, done.not_worse, done.switched) == (False, False, False)
    corpus.revoke(["travel.txt"], "leaked")
    with pytest.raises(RagLabError, match=r"none of their readers may read a document .* relevant to the question"):
        corpus.migrate("blind", str(asked))


def test_a_migration_that_an_update_overtook_is_built_again(
    corpus: Corpus, docs: Path, hash_encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.add("dataset:handbook")
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    corpus.migrate("other", "handbook", limit=10)
    corpus.add(docs)
    with pytest.raises(RagLabError, match="generation 2: is failed and its snapshot is gone"):
        corpus.activate(2)


# --- status ----------------------------------------------------------------------------------------------------------


def test_status_of_a_corpus_in_order(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    status = corpus.status()
    assert (status.generation, status.documents, status.sources) == (1, 3, {"active": 3})
    assert status.chunks == len(corpus.snapshot().chunks)
    assert (status.orphans, status.backlog, status.failed, bool(status.drift)) == ({}, [], {}, False)
    assert (status.coverage.embedding, status.coverage.span, status.parse_success) == (1.0, 1.0, 1.0)
    assert (status.duplicate_documents, status.duplicate_chunks) == (0.0, 0.0)
    assert [(c.cache, c.hits, c.misses) for c in status.caches] == [("parse", 0, 3), ("embedding", 0, 3)]
    assert 0 <= status.index_age_s < 60
    assert [row["kind"] for row in status.delays] == ["loaded"]


def test_what_was_encoded_and_what_was_known_is_counted(corpus: Corpus, docs: Path, encoder: Counted) -> None:
    (docs / "copy.txt").write_bytes((docs / "travel.txt").read_bytes())
    first = corpus.add(docs)
    assert (first.encoded, first.embedding_hits) == (3, 1)
    (docs / "leave.md").write_text("# Leave\n\nThirty days a year.\n")
    (docs / "again.txt").write_bytes((docs / "travel.txt").read_bytes())
    second = corpus.update()
    assert (second.encoded, second.embedding_hits) == (1, 1)
    assert len(encoder.texts) == 4
    (docs / "again.txt").unlink()
    third = corpus.update()
    assert (third.encoded, third.embedding_hits, len(third.removed)) == (0, 0, 1)
    assert [(c.cache, c.hits, c.misses) for c in corpus.status().caches][1] == ("embedding", 2, 4)


def test_status_sees_what_is_wrong(corpus: Corpus, docs: Path) -> None:
    (docs / "broken.txt").write_bytes(b"\x00\x01\x02")
    (docs / "copy.txt").write_bytes((docs / "travel.txt").read_bytes())
    corpus.add(docs)
    corpus.revoke(["leave.md"], "leaked")
    corpus.delete(["hr/pay.txt"])
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    (docs / "new.txt").write_text("news")
    (docs / "copy.txt").unlink()
    corpus.kept.publish(KEPT, "lost", lambda at: {"documents": 0})
    status = corpus.status()
    assert status.sources == {"active": 2, "deleted": 1, "failed": 1, "revoked": 1}
    assert list(status.failed) == ["broken.txt"]
    assert status.parse_success == pytest.approx(3 / 4)
    assert status.duplicate_documents == pytest.approx(1 / 3)
    assert status.duplicate_chunks == pytest.approx(1 / 3)
    assert (status.drift.changed, status.drift.new, status.drift.missing) == (["travel.txt"], ["new.txt"], ["copy.txt"])
    assert 0 <= status.drift.oldest_s < 60
    assert [(w.document_id, w.why) for w in status.backlog] == [("leave.md", "revoked"), ("hr/pay.txt", "deleted")]
    assert status.orphans == {"kept parts": ["lost"]}
    assert corpus.status(drift=False).drift is None


def test_targets_are_checked_against_what_happened(tmp_path: Path, docs: Path, encoder: Counted) -> None:
    freshness = {"searchable_within_s": 60, "share": 0.95, "revoked_at_once": True, "index_age_s": 3600}
    corpus = Corpus.create(Store(tmp_path / "s"), "kb", encoder="hash", analyzer="none", freshness=freshness)
    corpus.add(docs)
    (docs / "travel.txt").write_text("changed")
    corpus.update()
    corpus.revoke(["leave.md"], "leaked")
    checks = {check.name: (check.measured, check.met) for check in corpus.status().checks}
    assert checks["updates searchable in time"] == ("1 of 1", True)
    assert checks["revocations at once"] == ("1 of 1", True)
    old = (datetime.now(UTC) - timedelta(minutes=5)).isoformat()
    corpus.catalogue.record([Event("searchable", "late", old, datetime.now(UTC).isoformat())])
    later = status_of(corpus, datetime.now(UTC) + timedelta(hours=2), drift=False)
    checks = {check.name: (check.measured, check.met) for check in later.checks}
    assert checks["updates searchable in time"] == ("1 of 2", False)
    assert checks["age of the index"][1] is False


def test_a_change_counts_from_when_its_file_was_written(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    written = time.time_ns() + 50_000_000
    time.sleep(0.3)
    (docs / "travel.txt").write_text("changed")
    os.utime(docs / "travel.txt", ns=(written, written))
    (docs / "old.txt").write_text("an old file that was only now put there")
    os.utime(docs / "old.txt", ns=(1, 1))
    checked = corpus.catalogue.roots()[str(docs)][1]
    corpus.update()
    starts = {event.document_id: event.started_at for event in corpus.catalogue.events("searchable")}
    assert starts["old.txt"] == checked
    assert datetime.fromisoformat(starts["travel.txt"]).timestamp() == pytest.approx(written / 1e9, abs=1e-3)


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_originals_and_parsed_documents_are_kept_in_few_parts(corpus: Corpus, docs: Path) -> None:
    for n in range(30):
        (docs / f"n{n:02}.txt").write_text(f"Number {n}\u00a0here.")
    corpus.add(docs)
    (key,) = corpus.kept.entries(KEPT)
    part = Part(corpus.kept, key)
    assert len(part) == 33
    version = corpus.catalogue.live()["n07.txt"]
    assert part.data(version.position) == "Number 7\u00a0here.".encode()
    parsed = part.parsed(version.position)
    assert parsed.text == "Number 7 here."
    assert parsed.original[parsed.offsets[8] : parsed.offsets[9]] == "\u00a0"
    new, moved = rewrite_part(corpus.kept, key, [version.position])
    assert version.position not in moved
    assert len(Part(corpus.kept, new)) == 32
    with pytest.raises(RagLabError, match="has 33 entries and no number 99"):
        part.data(99)


def test_no_text_and_no_title_is_in_the_catalogue(corpus: Corpus, docs: Path) -> None:
    (docs / "leave.md").write_text("---\ntitle: Zanzibar quorum\n---\n# Yggdrasil heading\n\nXylophone body.\n")
    corpus.add(docs)
    data = b"".join(path.read_bytes() for path in corpus.folder.glob("catalogue.sqlite*"))
    assert not [word for word in (b"Zanzibar", b"Yggdrasil", b"Xylophone") if word in data]


def test_a_lost_part_is_parsed_again(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    (key,) = corpus.kept.entries(KEPT)
    corpus.kept.remove(KEPT, key)
    (docs / "rights.yaml").write_text(RULES.replace("[hr]", "[payroll]"))
    report = corpus.update()
    assert (report.updated, report.parsed) == (["hr/pay.txt"], 1)


# --- opening ---------------------------------------------------------------------------------------------------------


def test_corpora_by_name(tmp_path: Path, encoder: Counted) -> None:
    store = Store(tmp_path / "store")
    assert corpora(store) == []
    with pytest.raises(
        RagLabError, match="corpus kb: unknown, there is none yet; create it with rag-lab corpus add kb"
    ):
        Corpus.open(store, "kb")
    Corpus.create(store, "kb").close()
    Corpus.create(store, "a").close()
    assert corpora(store) == ["a", "kb"]
    with pytest.raises(RagLabError, match="corpus kb: exists already"):
        Corpus.create(store, "kb")
    with pytest.raises(RagLabError, match="corpus x: unknown, there are a, kb"):
        Corpus.open(store, "x")
    with Corpus.open(store, "kb") as empty, pytest.raises(RagLabError, match="nothing is published yet"):
        empty.snapshot()


@pytest.mark.parametrize(
    "name, settings, message",
    [
        ("../kb", {}, r"corpus '\.\./kb': not a name"),
        ("", {}, "corpus '': not a name"),
        ("kb", {"sise": 1}, "corpus kb, setting sise: unknown; use chunker, context_prefix, encoder"),
        ("kb", {"keep": 0}, "corpus kb, setting keep: 0 must be a whole number from 1"),
        ("kb", {"chunker": {"name": "knife"}}, "corpus kb, setting chunker.name: 'knife' is unknown"),
        ("kb", {"chunker": {"name": "blocks", "size": -5}}, "corpus kb, setting chunker.size: "),
        ("kb", {"chunker": "knife"}, "corpus kb, setting chunker.name: 'knife' is unknown"),
        ("kb", {"chunker": ["blocks"]}, r"corpus kb, setting chunker: \['blocks'\] is not a mapping of fields"),
        ("kb", {"chunker": {80: "size"}}, "corpus kb, setting chunker: {80: 'size'} is not a mapping of fields"),
        ("kb", {"freshness": 60}, "corpus kb, setting freshness: 60 is not a mapping of fields"),
        ("kb", {"factories": "Flat"}, "corpus kb, setting factories: 'Flat' is not a list of names such as"),
        ("kb", {"keep": True}, "corpus kb, setting keep: True must be a whole number from 1"),
        ("kb", {"colbert": "no/such/model"}, "late encoder 'no/such/model'"),
        ("kb", {"splade": "org/model"}, "setting splade: 'org/model' is not a list of names such as"),
        ("kb", {"splade": ["no/such-model"]}, "sparse encoder 'no/such-model' cannot be loaded"),
        ("kb", {"colbert_indexes": "plaid"}, "setting colbert_indexes: 'plaid' is not a list of names such as"),
        ("kb", {"colbert_indexes": ["exact", "hnsw"]}, "setting colbert_indexes: 'hnsw' is unknown; use auto, exact"),
        ("kb", {"analyzer": "fr"}, "corpus kb, setting analyzer: 'fr' is unknown; use one of auto, en"),
        ("kb", {"freshness": {"share": 2}}, "corpus kb, setting freshness.share"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, name: str, settings: dict, message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        Corpus.create(Store(tmp_path), name, **settings)
    assert corpora(Store(tmp_path)) == []


def test_a_chunker_is_named_or_the_usual_one_with_other_settings(tmp_path: Path) -> None:
    for number, (given, chosen) in enumerate(
        [("window", {"name": "window"}), ({"size": 80}, {"name": "blocks", "size": 80}), (None, {"name": "blocks"})]
    ):
        with Corpus.create(Store(tmp_path), f"kb{number}", chunker=given) as corpus:
            assert corpus.catalogue.settings["chunker"] == chosen


def test_languages_of_the_first_documents_choose_encoder_and_analyzer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: asked.append(name) or hash_encoder)
    monkeypatch.setattr(publisher, "_build", _without_lucene(publisher._build))
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("员工每年有二十天带薪假期，需提前申请。")
    corpus = Corpus.create(Store(tmp_path / "s"), "zh")
    corpus.add(docs, tenant="acme", public=True)
    assert (corpus.catalogue.settings["encoder"], corpus.catalogue.settings["analyzer"]) == ("multilingual-e5", "zh")
    (docs / "b.txt").write_text("Every employee has twenty days of paid leave a year, and has to ask for them early.")
    assert corpus.update().warnings == ("analyzer zh is not made for en: BM25 finds less there",)
    assert set(asked) == {"multilingual-e5"}


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, hash_late_encoder) -> Counted:
    """The hashing late-interaction encoder, which remembers what it was asked to encode."""
    counted = Counted(hash_late_encoder)
    monkeypatch.setattr("rag_lab.retrieval.late.load_late_encoder", lambda name: counted)
    return counted


def test_a_corpus_has_token_vectors_where_its_settings_ask_for_them(
    tmp_path: Path, docs: Path, encoder: Counted, late: Counted
) -> None:
    with Corpus.create(Store(tmp_path / "plain"), "kb", encoder="hash", analyzer="none") as corpus:
        corpus.add(docs)
        assert corpus.snapshot().facts["late"] is None
        assert late.texts == []
    settings = {"encoder": "hash", "analyzer": "none", "colbert": "auto"}
    with Corpus.create(Store(tmp_path / "store"), "kb", **settings) as corpus:
        corpus.add(docs)
        assert corpus.catalogue.settings["colbert"] == "minilm"
        assert len(late.texts) == len(corpus.snapshot().token_vectors) == 3
        assert corpus.snapshot().facts["late_indexes"] == ["exact", "auto"]
        (docs / "travel.txt").write_text("The allowance is 600 euros.")
        late.texts.clear()
        assert corpus.update().encoded == 1
        assert late.texts == ["The allowance is 600 euros."]
        assert corpus.status(drift=False).orphans == {}
        (docs / "zh.txt").write_text("员工每年有二十天带薪假期，需提前申请。")
        late._encoder = type(late._encoder)()
        late._encoder.languages = frozenset({"en"})
        assert corpus.update().warnings == (
            "colbert encoder hash-late does not know zh: its scores say little there; make a new corpus with the "
            "setting 'colbert: multilingual-e5'",
        )


def test_blocks_of_an_encoding_that_was_given_up_go_with_the_next_publication(
    tmp_path: Path, docs: Path, encoder: Counted, late: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_lab.corpus.encoded.ENCODING_BLOCK", 1)
    with Corpus.create(Store(tmp_path / "store"), "kb", encoder="hash", analyzer="none", colbert="hash") as corpus:
        with monkeypatch.context() as broken:
            broken.setattr(late, "encode_passages", lambda texts: stops(late, texts), raising=False)
            with pytest.raises(KeyboardInterrupt):
                corpus.add(docs)
        assert len(corpus.store.entries("encoding")) == 1
        (docs / "travel.txt").write_text("The allowance is 600 euros.")
        corpus.add(docs)
        assert corpus.store.entries("encoding") == []
        assert corpus.catalogue.made() == set()


def stops(late: Counted, texts: list[str]):
    """Encode one text, and break off at the second."""
    if late.texts:
        raise KeyboardInterrupt
    return Counted.encode_passages(late, texts)


def test_another_encoder_costs_no_new_token_vectors(
    tmp_path: Path, hash_encoder, late: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wider(type(hash_encoder)):
        name, version, dimension = "wider", "wider-1", 256

    loaded = {"hash": hash_encoder, "wider": Wider()}
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", loaded.__getitem__)
    settings = {"encoder": "hash", "analyzer": "none", "colbert": "hash-late"}
    with Corpus.create(Store(tmp_path / "store"), "kb", **settings) as corpus:
        corpus.add("dataset:handbook")
        before = corpus.snapshot().token_vectors
        late.texts.clear()
        corpus.migrate("wider", "handbook", limit=10, switch=True)
        assert late.texts == []
        after = corpus.snapshot().token_vectors
        assert corpus.snapshot().facts["encoder"]["name"] == "wider"
        assert np.array_equal(before.vectors, after.vectors)
        assert corpus.status(drift=False).orphans == {}


def test_a_snapshot_of_another_format_is_published_anew(
    corpus: Corpus, docs: Path, encoder: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("rag_lab.corpus.snapshot.FORMAT", "snapshot-0")
        corpus.add(docs)
    old = corpus.snapshot().id
    with pytest.raises(RagLabError, match="its manifest is not what was written"):
        _ = corpus.snapshot().documents
    assert corpus.update().generation == 2
    assert corpus.status(drift=False).orphans == {}
    assert visible(corpus, HR) == {"leave.md", "travel.txt", "hr/pay.txt"}
    assert corpus.update().generation is None
    for turn in range(3):
        (docs / "travel.txt").write_text(f"The allowance is {turn} euros.")
        corpus.update()
    assert old not in corpus.store.entries("snapshots")


def _without_lucene(build: Callable) -> Callable:
    def built(corpus, settings, *others):
        return build(corpus, {**settings, "analyzer": "none"}, *others)

    return built


def test_the_catalogue_of_a_corpus_is_json_where_it_is_not_columns(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    rights = json.loads(corpus.catalogue.live()["hr/pay.txt"].rights)
    assert (rights["tenant"], rights["acl"], rights["source_uri"]) == ("acme", [False, ["hr"], ""], "hr/pay.txt")


def test_what_is_not_searchable_yet_misses_its_target_in_the_end(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    (docs / "travel.txt").write_text("The allowance is 600 euros.")
    corpus.update()
    (docs / "leave.md").write_bytes(b"%PDF-1.7 cut")
    assert corpus.update().failed.keys() == {"leave.md"}
    (docs / "hr" / "pay.txt").write_text("Salary bands start at 4000.")
    (docs / "new.txt").write_text("news")
    corpus.revoke(["travel.txt"], "leaked")
    targets = Targets(searchable_within_s=60, purged_within_s=90)

    def seen(after_s: float) -> list[tuple[str, bool | None]]:
        now = datetime.now(UTC) + timedelta(seconds=after_s)
        found = timed(corpus, now, drift_of(corpus, now))
        return [(one.measured, one.met) for one in check(targets, found, None)]

    assert seen(0) == [("1 of 1", True), ("none happened", None)]
    assert seen(80) == [("1 of 4", False), ("none happened", None)]
    assert seen(100) == [("1 of 4", False), ("0 of 1", False)]
    (row,) = [one for one in corpus.status().delays if one["kind"] == "searchable"]
    assert (row["n"], row["open"]) == (4, 3)
