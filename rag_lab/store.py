"""The folder where snapshots, index parts and stage results are kept, each under a key made from its content.

An entry is a folder (or file) that appears by one rename, complete and flushed to the disk, or not at all: a killed
process leaves the old state or the new one, and at worst something named ``tmp-*``. Whoever writes holds a lock on it,
which dies with the process, so the next writer can tell what was left behind and sweeps it away.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_lab.contracts import RagLabError

TEMPORARY = "tmp-"
SUM_LENGTH = 64


def digest(*parts: Any) -> str:
    """A 32-digit hexadecimal key of JSON-like values; equal values give equal keys in every process."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file so that readers see the old content or the new one, never a part.

    When the call returns it is on the disk. Its time of change is later than that of the file it replaces, however
    coarse the clock, so that a reader who compares times misses no change.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    before = _changed_ns(path)
    with temporary(path.parent, folder=False) as made:
        with made.open("wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        if made.stat().st_mtime_ns <= before:
            os.utime(made, ns=(before + 1, before + 1))
        made.chmod(0o644)
        made.replace(path)
        flush(path.parent)


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@contextmanager
def temporary(parent: Path, folder: bool = True) -> Iterator[Path]:
    """A new empty file or folder whose lock is held until the end, and which is then deleted if it is still there."""
    while True:
        if folder:
            made = Path(tempfile.mkdtemp(dir=parent, prefix=TEMPORARY))
        else:
            handle, name = tempfile.mkstemp(dir=parent, prefix=TEMPORARY)
            os.close(handle)
            made = Path(name)
        # A sweeper may come between making and locking: then its lock is waited for, and what it took is made anew.
        with suppress(FileNotFoundError):
            lock = os.open(made, os.O_RDONLY)
            with suppress(OSError):  # a file system without locks: what is left behind there stays until someone looks
                fcntl.flock(lock, fcntl.LOCK_EX)
            if made.exists():
                break
            os.close(lock)
    try:
        yield made
    finally:
        _delete(made)
        os.close(lock)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def flush(path: Path) -> None:
    """Have the disk keep a file's bytes, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _flush_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        flush(path)
    flush(folder)


def home() -> Path:
    """``RAG_LAB_HOME``, else the user's cache folder."""
    if given := os.environ.get("RAG_LAB_HOME"):
        return Path(given).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("rag_lab"))


@dataclass(frozen=True)
class Store:
    """Content-addressed entries below `root`, by kind and key."""

    root: Path

    @classmethod
    def default(cls) -> Store:
        """The store of this user."""
        return cls(home())

    def path(self, kind: str, key: str) -> Path:
        """Where the entry is, or would be."""
        return self.root / kind / key

    def publish(self, kind: str, key: str, build: Callable[[Path], Mapping[str, Any] | None]) -> Path:
        """Return the entry, building it first when it is not there or no longer what was written.

        `build` fills an empty folder and may return facts for its manifest. The manifest lists every file with its size
        and SHA-256 and is checked before the folder is renamed into place.
        """
        target = self.path(kind, key)
        if self.intact(kind, key):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target.parent)
        with temporary(target.parent) as folder:
            facts = dict(build(folder) or {})
            files = {
                str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": file_digest(path)}
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
            listed = {"kind": kind, "key": key, **facts, "files": files}
            (folder / "manifest.json").write_text(json.dumps(listed, ensure_ascii=False, indent=1), encoding="utf-8")
            verify(folder)
            folder.chmod(0o755)
            _flush_tree(folder)
            self._place(folder, kind, key)
        return target

    def remove(self, kind: str, key: str) -> bool:
        """Delete an entry, and say whether there was one. For readers it is gone by one rename.

        Raises:
            RagLabError: some of its files could not be deleted; they are no entry any more, but still on the disk.
        """
        target = self.path(kind, key)
        if not target.is_dir():
            return False
        sweep(target.parent)
        with temporary(target.parent) as grave:
            try:
                target.rename(grave / "removed")
            except FileNotFoundError:
                return False
            flush(target.parent)
        if grave.exists():
            raise RagLabError(f"{grave}: could not be deleted; delete it by hand")
        flush(target.parent)
        return True

    def entries(self, kind: str) -> list[str]:
        """Keys of the entries of a kind, sorted."""
        folder = self.root / kind
        found = folder.iterdir() if folder.is_dir() else iter(())
        return sorted(path.name for path in found if path.is_dir() and not path.name.startswith(TEMPORARY))

    def sweep(self) -> None:
        """Delete everything in the store that writers left behind when they were killed."""
        for path in (self.root, *sorted(self.root.rglob("*"))):
            if path.is_dir():
                sweep(path)

    def intact(self, kind: str, key: str) -> bool:
        """Whether the entry is there with every file as it was written."""
        target = self.path(kind, key)
        if not (target / "manifest.json").is_file():
            return False
        try:
            verify(target)
        except RagLabError:
            return False
        return True

    def _place(self, folder: Path, kind: str, key: str) -> None:
        """Rename a built folder into place; a damaged entry makes way, a sound one of another writer stays."""
        target = self.path(kind, key)
        if target.exists() and not self.intact(kind, key):
            with temporary(target.parent) as grave, suppress(FileNotFoundError):
                target.rename(grave / "damaged")
        try:
            folder.rename(target)
            flush(target.parent)
        except OSError:
            if not self.intact(kind, key):
                raise

    def read(self, kind: str, key: str, name: str) -> bytes | None:
        """A small file of an entry, None when it is not there or no longer what was written."""
        try:
            written = (self.path(kind, key) / name).read_bytes()
        except OSError:
            return None
        data, total = written[:-SUM_LENGTH], written[-SUM_LENGTH:]
        return data if hashlib.sha256(data).hexdigest().encode() == total else None

    def write(self, kind: str, key: str, name: str, data: bytes) -> None:
        """Write a small file of an entry; its last 64 bytes are the SHA-256 of the others."""
        path = self.path(kind, key) / name
        if path.parent.is_dir():
            sweep(path.parent)
        write_atomically(path, data + hashlib.sha256(data).hexdigest().encode())


def sweep(folder: Path) -> None:
    """Delete what killed writers left in a folder. What a living one is at work on is locked, and stays."""
    for left in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _delete(left)
            finally:
                os.close(lock)


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a published folder."""
    try:
        found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RagLabError(f"{folder}: not a published folder ({error}); delete it and run again") from error
    return found


def verify(folder: Path) -> None:
    """Check that every file is there with its size and its SHA-256; the error names the file."""
    listed = manifest(folder).get("files")
    if not isinstance(listed, dict):
        raise RagLabError(f"{folder}: not a published folder (its manifest lists no files); delete it and run again")
    for name, expected in listed.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise RagLabError(f"{path}: missing or cut short; delete {folder} and run again")
        if file_digest(path) != expected["sha256"]:
            raise RagLabError(f"{path}: checksum differs from the manifest; delete {folder} and run again")
