from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.store import Store, digest, home, manifest, verify, write_atomically


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
    verify(folder, contents=False)
    with pytest.raises(RagLabError, match=r"a\.txt: checksum differs"):
        verify(folder)
    (folder / "a.txt").write_text("al")
    with pytest.raises(RagLabError, match=r"a\.txt: missing or cut short"):
        verify(folder, contents=False)


def test_a_folder_without_manifest_is_not_an_entry(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="not a published folder"):
        manifest(tmp_path)


def test_an_atomic_write_replaces_or_keeps(tmp_path: Path) -> None:
    path = tmp_path / "x" / "file"
    write_atomically(path, "one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def publish_slowly(root: str) -> None:
    def slow(at: Path) -> dict[str, int]:
        for number in range(200):
            (at / f"{number}.bin").write_bytes(os.urandom(2000))
            time.sleep(0.001)
        return {}

    Store(Path(root)).publish("parts", "k", slow)


@pytest.mark.slow
def test_a_killed_publisher_leaves_the_old_state_or_the_new(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    for pause in (0.4, 0.5, 0.6, 0.7, 0.9):
        process = context.Process(target=publish_slowly, args=(str(tmp_path),))
        process.start()
        time.sleep(pause)
        if process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        target = Store(tmp_path).path("parts", "k")
        if target.exists():
            verify(target)
            break
    publish_slowly(str(tmp_path))
    verify(Store(tmp_path).path("parts", "k"))
    assert len(json.loads((tmp_path / "parts" / "k" / "manifest.json").read_text())["files"]) == 200


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
