"""The catalogue: generations and versions as rows, one transaction to switch, no text inside."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.corpus.catalogue import Catalogue, Changes, Event, SourceRow, VersionRow, instant

SETTINGS = {"chunker": {"name": "whole"}, "encoder": "minilm"}


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    made = Catalogue.create(tmp_path / "catalogue.sqlite", SETTINGS)
    made.put_root("/docs", {"public": True}, instant())
    return made


def version(document_id: str, content: str = "c", part: str = "p", position: int = 0, **other) -> VersionRow:
    fields = {
        "basis": content,
        "digest": content,
        "text_digest": content,
        "rights": "{}",
        "valid_until": None,
        "parser": "text-1",
    }
    return VersionRow(document_id, content, part=part, position=position, **{**fields, **other})


def source(document_id: str, status: str = "active", uri: str = "", **other) -> SourceRow:
    return SourceRow(document_id, uri or f"/docs/{document_id}", "/docs", status, instant(), **other)


def publish(catalogue: Catalogue, changes: Changes, snapshot: str = "s") -> int:
    number = catalogue.begin(catalogue.settings)
    catalogue.verified(number, f"{snapshot}{number}", 1, 1, "sum")
    catalogue.activate(number, changes)
    return number


def contents(catalogue: Catalogue, generation: int) -> dict[str, str]:
    return {name: row.content for name, row in catalogue.versions_at(generation).items()}


def test_settings_roots_and_counters_survive_reopening(catalogue: Catalogue) -> None:
    catalogue.put_settings(encoder="multilingual-e5", keep=3)
    catalogue.count(parse_hits=2, parse_misses=0)
    catalogue.count(parse_hits=3)
    catalogue.close()
    again = Catalogue(catalogue.path)
    assert again.settings == {**SETTINGS, "encoder": "multilingual-e5", "keep": 3}
    assert again.counters() == {"parse_hits": 5}
    ((uri, (options, _)),) = again.roots().items()
    assert (uri, options) == ("/docs", {"public": True})


def test_pragmas_guard_what_is_deleted_and_what_refers(catalogue: Catalogue) -> None:
    db = catalogue._db
    assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert db.execute("PRAGMA secure_delete").fetchone()[0] == 1
    assert db.execute("PRAGMA foreign_keys").fetchone()[0] == 1
    with pytest.raises(sqlite3.IntegrityError):
        catalogue.put_sources([SourceRow("a", "/else/a", "/else", "active", instant())])


def test_a_generation_is_seen_only_when_it_is_active(catalogue: Catalogue) -> None:
    number = catalogue.begin(SETTINGS)
    assert catalogue.active is None
    assert [row.state for row in catalogue.generations()] == ["building"]
    catalogue.verified(number, "snap", 2, 5, "sum")
    assert catalogue.active is None
    catalogue.activate(number, Changes([version("a"), version("b")], sources=[source("a"), source("b")]))
    active = catalogue.active
    assert active is not None
    assert (active.number, active.snapshot, active.documents, active.chunks, active.base) == (1, "snap", 2, 5, 0)
    assert sorted(catalogue.live()) == ["a", "b"]
    assert catalogue.source("a").searchable_at == active.activated_at


def test_each_generation_keeps_what_it_held(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a", "a1"), version("b", "b1")]))
    publish(catalogue, Changes([version("a", "a2"), version("c", "c1")], removed=["b"]))
    publish(catalogue, Changes([version("b", "b2")]))
    assert contents(catalogue, 1) == {"a": "a1", "b": "b1"}
    assert contents(catalogue, 2) == {"a": "a2", "c": "c1"}
    assert contents(catalogue, 3) == {"a": "a2", "b": "b2", "c": "c1"}
    assert {name: row.content for name, row in catalogue.live().items()} == contents(catalogue, 3)
    assert [row.state for row in catalogue.generations()] == ["retired", "retired", "active"]


def test_restoring_makes_a_new_generation_with_the_old_content(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a", "a1"), version("b", "b1")]))
    publish(catalogue, Changes([version("a", "a2"), version("c", "c1")], removed=["b"]))
    restored = catalogue.restore(1)
    assert (restored.number, restored.snapshot, restored.base) == (3, "s1", 2)
    assert contents(catalogue, 3) == {"a": "a1", "b": "b1"}
    assert contents(catalogue, 2) == {"a": "a2", "c": "c1"}
    with pytest.raises(RagLabError, match="generation 3: is active; only a retired one"):
        catalogue.restore(3)
    with pytest.raises(RagLabError, match="generation 9: unknown; this corpus has 1, 2, 3"):
        catalogue.restore(9)


def test_restoring_brings_back_the_settings_of_that_time(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a")]))
    number = catalogue.begin({**SETTINGS, "encoder": "multilingual-e5"})
    catalogue.verified(number, "other", 1, 1, "sum")
    catalogue.activate(number)
    assert catalogue.settings["encoder"] == "multilingual-e5"
    catalogue.restore(1)
    assert catalogue.settings["encoder"] == "minilm"


def test_a_generation_built_on_an_older_one_is_refused(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a", "a1")]))
    late = catalogue.begin(SETTINGS)
    catalogue.verified(late, "late", 1, 1, "sum")
    publish(catalogue, Changes([version("a", "a2")]))
    with pytest.raises(RagLabError, match="generation 2: was built on generation 1, and 3 is active now"):
        catalogue.activate(late)
    assert catalogue.active.number == 3
    assert contents(catalogue, 3) == {"a": "a2"}


def test_what_fails_in_the_middle_changes_nothing(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a", "a1")], sources=[source("a")]))
    number = catalogue.begin(SETTINGS)
    catalogue.verified(number, "s", 1, 1, "sum")
    twice = Changes([version("b", "b1"), version("b", "b2")], removed=["a"])
    with pytest.raises(sqlite3.IntegrityError):
        catalogue.activate(number, twice)
    assert catalogue.active.number == 1
    assert contents(catalogue, 1) == {"a": "a1"}
    assert list(catalogue.live()) == ["a"]
    assert catalogue.generation(number).state == "verified"


def test_interrupted_generations_are_marked_and_numbers_go_on(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a")]))
    catalogue.begin(SETTINGS)
    assert catalogue.recover() == [2]
    assert catalogue.generation(2).state == "failed"
    assert catalogue.recover() == []
    assert publish(catalogue, Changes([version("b")])) == 3
    with pytest.raises(RagLabError, match="generation 2: is failed, not building"):
        catalogue.verified(2, "s", 1, 1, "sum")


def test_two_sources_never_share_an_id(catalogue: Catalogue) -> None:
    catalogue.put_sources([source("a.md", uri="/docs/a.md")])
    with pytest.raises(RagLabError, match=r"document id 'a\.md': would name both /docs/a\.md and /docs/x/a\.md"):
        catalogue.put_sources([source("a.md", uri="/docs/x/a.md")])
    catalogue.set_status(["a.md"], "deleted", "source")
    catalogue.put_sources([source("a.md", uri="/docs/x/a.md")])
    assert catalogue.source("a.md").uri == "/docs/x/a.md"


def test_publishing_never_takes_back_a_revocation(catalogue: Catalogue) -> None:
    catalogue.put_sources([source("a")])
    catalogue.set_status(["a"], "revoked")
    publish(catalogue, Changes([version("a")], sources=[source("a", content="new")]))
    found = catalogue.source("a")
    assert (found.status, found.content) == ("revoked", "new")
    catalogue.set_status(["a"], "deleted", "caller")
    assert (catalogue.source("a").status, catalogue.source("a").deleted_by) == ("revoked", "caller")
    catalogue.lifted(["a"], "active")
    assert (catalogue.source("a").status, catalogue.source("a").deleted_by) == ("active", "")


def test_all_contents_that_a_document_ever_had(catalogue: Catalogue) -> None:
    for content in ("1", "2", "1", "3"):
        publish(catalogue, Changes([version("a", content), version("b", "same")]))
    assert catalogue.digests(["a", "b", "c"]) == {"a": ["3", "1", "2"], "b": ["same"]}


def test_sources_by_state_and_root(catalogue: Catalogue) -> None:
    catalogue.put_root("/more", {}, instant())
    catalogue.put_sources([source("a"), source("b", "failed", error="/docs/b: is cut short")])
    catalogue.put_sources([SourceRow("c", "/more/c", "/more", "active", instant())])
    assert [row.document_id for row in catalogue.sources(status="failed")] == ["b"]
    assert [row.document_id for row in catalogue.sources(root="/docs")] == ["a", "b"]
    assert [row.document_id for row in catalogue.sources(status="active", root="/more")] == ["c"]
    assert [row.document_id for row in catalogue.sources(["c", "a", "nobody"])] == ["a", "c"]


def test_more_ids_than_one_statement_takes(catalogue: Catalogue) -> None:
    names = [f"d{i:04}" for i in range(1201)]
    publish(catalogue, Changes([version(name) for name in names]))
    assert sorted(catalogue.live(reversed(names))) == names


def test_validity_that_ended(catalogue: Catalogue) -> None:
    end = datetime(2026, 3, 1, tzinfo=UTC)
    publish(catalogue, Changes([version("a", valid_until=instant(end)), version("b")]))
    assert catalogue.ended_by(end - timedelta(microseconds=1)) == []
    assert [row.document_id for row in catalogue.ended_by(end)] == ["a"]


def test_parses_and_moved_parts(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a", "x", "old", 0), version("b", "y", "old", 2)]))
    catalogue.put_parses("old", [("x", "text-1", 0), ("z", "text-1", 1), ("y", "text-1", 2)])
    catalogue.move_part("old", "new", {0: 0, 2: 1})
    assert catalogue.parse_of("y", "text-1") == ("new", 1)
    assert catalogue.parse_of("z", "text-1") == ("old", 1)
    assert catalogue.parse_of("y", "text-2") is None
    assert (catalogue.live()["b"].part, catalogue.live()["b"].position) == ("new", 1)
    assert catalogue.parts() == {"old", "new"}


def test_dropped_versions_leave_no_bytes(catalogue: Catalogue) -> None:
    secret = "f0r9e7-" * 6
    publish(
        catalogue, Changes([version("a", secret), version("b", "x2", position=1)], sources=[source("a"), source("b")])
    )
    catalogue.put_parses("p", [(secret, "text-1", 0), ("x2", "text-1", 1)])
    catalogue.drop_versions(catalogue.versions(["a"]))
    catalogue.scrub()
    folder = catalogue.path.parent
    assert all(secret.encode() not in file.read_bytes() for file in folder.iterdir())
    assert catalogue.parse_of(secret, "text-1") is None
    assert catalogue.parse_of("x2", "text-1") == ("p", 1)
    assert list(catalogue.live()) == ["b"]
    assert [v.document_id for v in catalogue.versions()] == ["b"]
    assert catalogue.positions()["p"] == {1}


def test_events_last_from_the_change_to_its_effect(catalogue: Catalogue) -> None:
    begun = instant(datetime.now(UTC) - timedelta(seconds=30))
    publish(catalogue, Changes([version("first")], since={"first": begun}))
    publish(catalogue, Changes([version("a"), version("b")], removed=["gone"], since={"a": begun, "gone": begun}))
    (event,) = catalogue.events("searchable")
    assert (event.document_id, event.started_at, event.generation) == ("a", begun, 2)
    assert event.ended_at == catalogue.active.activated_at
    assert [e.document_id for e in catalogue.events("removed")] == ["gone"]
    revoked = Event("revoked", "a", begun, instant())
    catalogue.record([revoked])
    assert catalogue.events("revoked") == [revoked]
    assert [e.kind for e in catalogue.events()] == ["loaded", "searchable", "removed", "revoked"]


def test_pins_count_each_reader(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a")]))
    catalogue.pin(1, 11)
    catalogue.pin(1, 11)
    catalogue.unpin(1, 11)
    assert catalogue.pins() == [(1, 11)]
    with pytest.raises(RagLabError, match="generation 5: unknown"):
        catalogue.pin(5, 11)


def test_readers_see_the_old_state_while_a_writer_is_at_work(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a", "a1")]))
    reader = Catalogue(catalogue.path)
    number = catalogue.begin(SETTINGS)
    catalogue.verified(number, "s", 1, 1, "sum")
    with catalogue.transaction():
        catalogue.activate(number, Changes([version("a", "a2")]))
        assert reader.active.number == 1
        assert reader.live()["a"].content == "a1"
    assert reader.active.number == 2
    assert reader.live()["a"].content == "a2"


def test_a_second_writer_waits(catalogue: Catalogue) -> None:
    done: list[float] = []

    def write() -> None:
        Catalogue(catalogue.path).put_settings(keep=9)
        done.append(time.monotonic())

    with catalogue.transaction():
        catalogue.put_settings(keep=1)
        thread = threading.Thread(target=write)
        thread.start()
        time.sleep(0.2)
        released = time.monotonic()
    thread.join()
    assert done[0] >= released
    assert catalogue.settings["keep"] == 9


def test_a_killed_transaction_leaves_the_old_state(catalogue: Catalogue) -> None:
    publish(catalogue, Changes([version("a", "a1")]))
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from rag_lab.corpus.catalogue import Catalogue, Changes\n"
        "c = Catalogue(Path(sys.argv[1]))\n"
        "n = c.begin({})\n"
        "c.verified(n, 's', 1, 1, 'x')\n"
        "with c.transaction():\n"
        "    c.activate(n, Changes(removed=['a']))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(catalogue.path)], check=False)
    assert ended.returncode == -9
    again = Catalogue(catalogue.path)
    assert again.active.number == 1
    assert list(again.live()) == ["a"]
    assert again.generation(2).state == "verified"


def test_what_is_not_a_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite"
    with pytest.raises(RagLabError, match="no such catalogue"):
        Catalogue(path)
    path.write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(RagLabError, match="is not a catalogue"):
        Catalogue(path)
    path.unlink()
    Catalogue.create(path, {})
    with pytest.raises(RagLabError, match="exists already"):
        Catalogue.create(path, {})
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(RagLabError, match="has format 7, this version reads 1"):
        Catalogue(path)


STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz"), max_size=3),
        st.sets(st.sampled_from("abcd"), max_size=2),
        st.integers(0, 5),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(steps=STEPS)
def test_generations_behave_like_copies(steps: list, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Against a model that copies all documents at every generation, with updates, removals and restores mixed."""
    catalogue = Catalogue.create(tmp_path_factory.mktemp("m") / "catalogue.sqlite", {})
    model: dict[int, dict[str, str]] = {}
    for added, removed, back in steps:
        now = dict(model[max(model)]) if model else {}
        if back and back in model and back != max(model):
            model[catalogue.restore(back).number] = dict(model[back])
            continue
        gone = [name for name in sorted(removed) if name in now and name not in added]
        number = publish(catalogue, Changes([version(k, v) for k, v in sorted(added.items())], removed=gone))
        model[number] = {k: v for k, v in {**now, **added}.items() if k not in gone}
    assert {number: contents(catalogue, number) for number in model} == model
    catalogue.close()


def test_the_cost_of_an_update_does_not_grow_with_the_corpus(catalogue: Catalogue) -> None:
    names = [f"d{i:05}" for i in range(20_000)]
    publish(catalogue, Changes([version(n, n) for n in names], sources=[source(n) for n in names]))

    def one(i: int) -> float:
        started = time.perf_counter()
        publish(catalogue, Changes([version(names[i], "new")], sources=[source(names[i])]))
        return time.perf_counter() - started

    assert sorted(one(i) for i in range(9))[4] < 0.2
    plans = [
        catalogue._db.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        for statement in (
            "UPDATE versions SET removed = 1 WHERE document_id = 'x' AND removed IS NULL",
            "SELECT * FROM sources WHERE document_id = 'x'",
            "SELECT part FROM parses WHERE content = 'x' AND parser = 'y'",
            "SELECT * FROM versions WHERE part = 'x'",
        )
    ]
    assert not any("SCAN" in str(plan) for plan in plans)
