from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.store import Store, digest, home, manifest, sweep, verify, write_atomically


def fill(folder: Path) -> dict[str, int]:
    (folder / "a.txt").write_text("alpha")
    (folder / "deep").mkdir()
    (folder / "deep" / "b.txt").write_text("beta")
    return {"chunks": 2}


def test_an_entry_is_built_once(tmp_path: Path) -> None:
    store, calls = Store(tmp_path), []
    for _ in range(2):
        folder = store.publish("parts", "k", lambda at: calls.append(at) or fill(at))
    assert len(calls) == 1
    facts = manifest(folder)
    assert facts["chunks"] == 2
    assert facts["files"]["deep/b.txt"]["bytes"] == 4
    assert not list(folder.parent.glob("tmp-*"))


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def broken(at: Path) -> None:
        (at / "half").write_text("half")
        raise ValueError("no space")

    with pytest.raises(ValueError, match="no space"):
        store.publish("parts", "k", broken)
    assert list((tmp_path / "parts").iterdir()) == []
    assert (store.publish("parts", "k", fill) / "a.txt").read_text() == "alpha"


def test_damage_is_named(tmp_path: Path) -> None:
    folder = Store(tmp_path).publish("parts", "k", fill)
    (folder / "a.txt").write_text("ALPHA")
    with pytest.raises(RagLabError, match=r"a\.txt: checksum differs"):
        verify(folder)
    (folder / "a.txt").write_text("al")
    with pytest.raises(RagLabError, match=r"a\.txt: missing or cut short"):
        verify(folder)


def test_a_folder_without_manifest_is_not_an_entry(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="not a published folder"):
        manifest(tmp_path)


def test_an_atomic_write_replaces_or_keeps(tmp_path: Path) -> None:
    path = tmp_path / "x" / "file"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_an_atomic_write_is_later_than_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "one")
    ahead = time.time_ns() + 10**12
    os.utime(path, ns=(ahead, ahead))
    write_atomically(path, "two")
    assert path.stat().st_mtime_ns == ahead + 1


def publish_again_and_again(root: str) -> None:
    """Entries of three files each, and small files beside them, until killed."""
    store = Store(Path(root))
    for number in range(1_000_000):
        store.publish("parts", f"k{number}", three_files)
        store.write("stages", f"k{number}", "output.bin", b"y" * 999)
        if number % 3 == 2:
            store.remove("parts", f"k{number - 1}")


def three_files(folder: Path) -> None:
    for number in range(3):
        (folder / f"{number}.bin").write_bytes(b"x" * 999)


def killed_after(pause: float, root: Path) -> None:
    """Let the writer work for `pause` seconds from when its first entry is there."""
    process = multiprocessing.get_context("forkserver").Process(target=publish_again_and_again, args=(str(root),))
    process.start()
    while not (root / "parts" / "k0").exists():
        time.sleep(0.001)
    time.sleep(pause)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


@pytest.mark.slow
def test_a_killed_writer_leaves_whole_entries_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    for turn in range(16):
        root = tmp_path / str(turn)
        killed_after(turn * 0.0037, root)
        store = Store(root)
        for key in store.entries("parts"):
            assert store.intact("parts", key)
            assert len(list(store.path("parts", key).glob("*.bin"))) == 3
        for folder in root.glob("stages/*"):
            assert store.read("stages", folder.name, "output.bin") in (b"y" * 999, None)
        store.publish("parts", "next", fill)
        assert not list(root.glob("parts/tmp-*"))
        store.sweep()
        assert not list(root.rglob("tmp-*"))


def test_a_living_writer_is_left_alone(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []

    def nested(at: Path) -> dict[str, int]:
        (tmp_path / "parts" / "tmp-dead").mkdir()
        (tmp_path / "parts" / "tmp-file").write_text("left behind")
        store.publish("parts", "other", fill)
        store.sweep()
        seen.extend(path.name for path in (tmp_path / "parts").glob("tmp-*"))
        assert seen == [at.name]
        return fill(at)

    assert (store.publish("parts", "k", nested) / "a.txt").read_text() == "alpha"
    assert store.entries("parts") == ["k", "other"]


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def swept(**options: object) -> str:
        name = mkdtemp(**options)
        if not made:
            sweep(tmp_path / "parts")
        made.append(name)
        return name

    mkdtemp = tempfile.mkdtemp
    monkeypatch.setattr("rag_lab.store.tempfile.mkdtemp", swept)
    verify(Store(tmp_path).publish("parts", "k", fill))
    assert len(made) == 2


def test_an_entry_is_removed_whole(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert not store.remove("parts", "k")
    assert store.entries("parts") == []
    for key in ("k", "l"):
        store.publish("parts", key, fill)
    assert store.remove("parts", "k")
    assert not store.remove("parts", "k")
    assert store.entries("parts") == ["l"]
    assert [path.name for path in (tmp_path / "parts").iterdir()] == ["l"]


def test_what_cannot_be_deleted_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.publish("parts", "k", fill)
    monkeypatch.setattr("rag_lab.store.shutil.rmtree", lambda *_, **__: None)
    with pytest.raises(RagLabError, match=r"tmp-.*: could not be deleted; delete it by hand"):
        store.remove("parts", "k")
    assert store.entries("parts") == []
    monkeypatch.undo()
    store.sweep()
    assert list((tmp_path / "parts").iterdir()) == []


def test_a_digest_depends_on_values_alone() -> None:
    assert digest({"a": 1, "b": [2, "三"]}) == digest({"b": [2, "三"], "a": 1})
    assert digest(1) != digest("1") != digest([1])
    assert digest("x", None) != digest("x")
    assert len(digest("\ud800")) == 32


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAG_LAB_HOME", str(tmp_path))
    assert home() == tmp_path
    assert Store.default().path("parts", "k") == tmp_path / "parts" / "k"


@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "no manifest", "manifest cut"])
def test_a_damaged_entry_is_built_again(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path)
    folder = store.publish("parts", "k", fill)
    assert store.intact("parts", "k")
    if damage == "changed":
        (folder / "a.txt").write_text("ALPHA")
    elif damage == "cut":
        (folder / "a.txt").write_text("al")
    elif damage == "gone":
        (folder / "deep" / "b.txt").unlink()
    elif damage == "no manifest":
        (folder / "manifest.json").unlink()
    else:
        (folder / "manifest.json").write_text("{")
    assert not store.intact("parts", "k")
    assert (store.publish("parts", "k", fill) / "a.txt").read_text() == "alpha"
    assert store.intact("parts", "k")
    assert [path.name for path in folder.parent.iterdir()] == ["k"]


def test_a_small_file_is_read_as_written_or_not_at_all(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.read("stages", "k", "output.bin") is None
    for data in (b"", b"some bytes"):
        store.write("stages", "k", "output.bin", data)
        assert store.read("stages", "k", "output.bin") == data
    path = store.path("stages", "k") / "output.bin"
    written = path.read_bytes()
    for damaged in (written[:-1], written[1:], b"x" + written[1:], b"", written + b"x"):
        path.write_bytes(damaged)
        assert store.read("stages", "k", "output.bin") is None
