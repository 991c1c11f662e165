"""The deny list: at once, in every process, whole after every crash, and closed when it is damaged."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.corpus.deny import Denials, DenyList
from rag_lab.store import Store


@pytest.fixture
def deny(tmp_path: Path) -> DenyList:
    return DenyList(Store(tmp_path))


def list_of(deny: DenyList, corpus: str = "c") -> Path:
    return deny.store.path("denied", f"corpus-{corpus}") / "list.json"


def test_nothing_is_denied_at_first(deny: DenyList) -> None:
    assert deny.of("c") == Denials()
    assert deny.denied("c") == frozenset()
    assert deny.epoch("c") == 0


def test_each_change_is_an_epoch_and_a_corpus_has_a_list_of_its_own(deny: DenyList) -> None:
    assert deny.deny("c", ["a", "b"], "leaked", by="ann") == 1
    assert deny.deny("c", ["a"], "again", by="bob") == 1
    assert deny.deny("c", ["ü/..\n"], "leaked", by="ann") == 2
    assert deny.denied("c") == {"a", "b", "ü/..\n"}
    assert deny.denied("other") == frozenset()
    assert deny.lift("c", ["a"], by="carl") == 3
    assert deny.denied("c") == {"b", "ü/..\n"}
    first = deny.of("c").entries[0]
    assert (first.document_id, first.kind, first.reason, first.by, first.lifted_by) == (
        "a",
        "revoked",
        "leaked",
        "ann",
        "carl",
    )
    assert first.at <= first.lifted_at
    assert deny.deny("c", ["a"], "after all", by="ann") == 4
    assert "a" in deny.denied("c")


def test_names_cannot_leave_the_folder(deny: DenyList, tmp_path: Path) -> None:
    deny.deny("../x", ["a"], "r", by="b")
    assert [path.name for path in (tmp_path / "denied").glob("*x")] == ["corpus-..%2Fx"]


def test_long_names_have_lists_of_their_own(deny: DenyList) -> None:
    names = ["人" * 300, "人" * 301]
    deny.deny(names[0], ["a"], "r", by="b")
    assert [deny.denied(name) for name in names] == [{"a"}, frozenset()]


def test_a_deleted_document_may_come_back_with_other_content(deny: DenyList) -> None:
    deny.delete("c", {"a": "old", "b": ""}, "cleaning", by="ann")
    deny.deny("c", ["r"], "leaked", by="ann")
    held = deny.of("c").held
    assert held({"a": "old", "b": "any", "r": "any", "free": "x"}) == {"a", "b", "r"}
    assert held({"a": "new", "b": "any", "r": "new"}) == {"b", "r"}
    assert held({"a": ""}) == {"a"}
    deny.delete("c", {"a": "new"}, "again", by="ann")
    assert held({"a": "old"}) == {"a"}
    assert deny.of("c").held({"a": "new"}) == {"a"}
    assert deny.of("c").held({"a": "newest"}) == frozenset()
    deny.lift("c", ["a"], by="ann")
    assert deny.of("c").held({"a": "old"}) == frozenset()


def test_a_change_is_seen_although_inode_and_size_repeat_and_the_clock_stands_still(deny: DenyList) -> None:
    deny.deny("c", ["z"], "r", by="x")
    deny.lift("c", ["z"], by="x")
    ahead = time.time_ns() + 10**12
    os.utime(list_of(deny), ns=(ahead, ahead))
    for round_ in range(20):
        name = "ab"[round_ % 2]
        deny.deny("c", [name], "r", by="x")
        assert deny.denied("c") == {name}
        deny.lift("c", [name], by="x")
        assert deny.denied("c") == frozenset()
    assert list_of(deny).stat().st_mtime_ns == ahead + 40


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"a"', b'"b"')),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: list_of(DenyList(Store(path.parents[2])), "other").replace(path),
    ],
)
def test_a_damaged_list_denies_everything_and_names_the_file(deny: DenyList, damage) -> None:
    deny.deny("c", ["a"], "r", by="x")
    deny.deny("other", ["z"], "r", by="x")
    assert deny.denied("c") == {"a"}
    damage(list_of(deny))
    for call in (
        lambda: deny.denied("c"),
        lambda: deny.epoch("c"),
        lambda: deny.deny("c", ["b"], "r", by="x"),
        lambda: deny.lift("c", ["a"], by="x"),
        lambda: deny.reading("c").__enter__(),
    ):
        with pytest.raises(RagLabError, match="so nothing of corpus c may be") as caught:
            call()
        assert str(list_of(deny)) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_mistakes_of_the_caller(deny: DenyList) -> None:
    with pytest.raises(RagLabError, match="'abc' is one id"):
        deny.deny("c", "abc", "r", by="x")
    with pytest.raises(RagLabError, match="'abc' is one id"):
        deny.lift("c", "abc", by="x")
    with pytest.raises(RagLabError, match="'' is no document id"):
        deny.deny("c", ["a", ""], "r", by="x")
    with pytest.raises(RagLabError, match="corpus: the name is empty"):
        deny.denied("")
    deny.deny("c", ["a"], "r", by="x")
    with pytest.raises(RagLabError, match="document 'b' is not denied; nothing was lifted"):
        deny.lift("c", ["a", "b"], by="x")
    assert deny.denied("c") == {"a"}


def test_a_writer_waits_for_a_hand_out_and_no_longer(deny: DenyList) -> None:
    returned = []

    def revoke() -> None:
        deny.deny("c", ["a"], "r", by="x")
        returned.append(time.monotonic())

    writer = threading.Thread(target=revoke)
    with deny.reading("c") as denials:
        writer.start()
        time.sleep(0.3)
        assert denials.documents == deny.denied("c") == frozenset()
        handed_out = time.monotonic()
    writer.join(timeout=10)
    assert returned[0] > handed_out
    with deny.reading("c") as denials:
        assert denials.documents == {"a"}


def test_a_thread_that_hands_out_may_neither_hand_out_again_nor_write(deny: DenyList) -> None:
    refused = []

    def hand_out() -> None:
        with deny.reading("c"):
            writer.start()
            time.sleep(0.2)  # it waits by now, and whoever comes later waits for it
            for call in (lambda: deny.reading("c").__enter__(), lambda: deny.deny("c", ["b"], "r", by="x")):
                with pytest.raises(RagLabError, match="corpus c: its deny list is asked for inside a hand-out"):
                    call()
                refused.append(call)
            with deny.reading("other") as others:
                assert others == Denials()

    writer = threading.Thread(target=lambda: deny.deny("c", ["a"], "r", by="x"), daemon=True)
    reader = threading.Thread(target=hand_out, daemon=True)
    reader.start()
    reader.join(timeout=10)
    assert len(refused) == 2
    writer.join(timeout=10)
    with deny.reading("c") as denials:
        assert denials.documents == {"a"}


def test_a_list_that_appears_while_it_is_looked_for_is_not_damaged(
    deny: DenyList, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, stat = [], Path.stat

    def late(path: Path, **options: bool) -> os.stat_result:
        try:
            return stat(path, **options)
        finally:
            if not seen and path.name.endswith(("list.json", "corpus-c")):
                seen.append(path)
                deny.deny("c", ["a"], "r", by="x")

    monkeypatch.setattr(Path, "stat", late)
    assert deny.denied("c") in (frozenset(), {"a"})
    assert deny.denied("c") == {"a"}


WRITER = """
import itertools, sys
from pathlib import Path
from rag_lab.corpus.deny import DenyList
from rag_lab.store import Store
deny = DenyList(Store(Path(sys.argv[1])))
print("ready", flush=True)
for number in itertools.count(int(sys.argv[2])):
    deny.deny("c", [f"d{number}"], "r", by="x")
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_the_old_list_or_the_new_one(tmp_path: Path, deny: DenyList) -> None:
    draw, start, rounds = random.Random(1), 0, 12
    for _ in range(rounds):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(draw.uniform(0, 0.05))
            os.kill(process.pid, signal.SIGKILL)
            done = [int(line) for line in process.stdout.read().split()]
        last = done[-1] if done else start - 1
        denied = deny.denied("c")
        assert denied in ({f"d{n}" for n in range(last + 1)}, {f"d{n}" for n in range(last + 2)})
        start = len(denied)
    deny.deny("c", ["after"], "r", by="x")
    assert "after" in deny.denied("c")
    assert [path.name for path in list_of(deny).parent.iterdir()] == ["list.json"]
    assert json.loads(list_of(deny).read_bytes()[:-64])["epoch"] == start + 1


def test_writers_of_several_processes_lose_nothing(tmp_path: Path, deny: DenyList) -> None:
    code = WRITER.replace("itertools.count(int(sys.argv[2]))", "range(int(sys.argv[2]), int(sys.argv[2]) + 20)")
    writers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(100 * i)]) for i in range(3)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    assert deny.denied("c") == {f"d{100 * i + n}" for i in range(3) for n in range(20)}
    assert deny.epoch("c") == 60


def test_content_that_came_back_is_readable_again_but_not_what_is_revoked(deny: DenyList) -> None:
    deny.delete("c", {"a": "1", "b": "1"}, "gone", by="ann")
    deny.delete("c", {"d": "1"}, "asked for", by="ann")
    deny.deny("c", ["b"], "leaked", by="bob")
    held = {"a": "1", "b": "1", "d": "1"}
    assert deny.readmit("c", {"a": "2", "b": "1", "d": "1", "x": "1"}, "gone", by="ann") == 4
    assert deny.of("c").held(held) == {"a", "b", "d"}
    assert deny.readmit("c", {"a": "1"}, "gone", by="ann") == 5
    assert deny.of("c").held(held) == {"b", "d"}
    assert deny.readmit("c", {"a": "1"}, "gone", by="ann") == 5
