"""The folder where snapshots, index parts and stage results are kept, each under a key made from its content.

An entry is a folder (or file) that appears by one rename, complete, or not at all: a killed process leaves the old
state or the new one, and at worst a ``tmp-*`` folder that a later writer sweeps away.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_lab.contracts import RagLabError

ABANDONED_AFTER_S = 24 * 3600
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
    """Write a file so that readers see the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


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
        self._sweep(target.parent)
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix="tmp-"))
        try:
            facts = dict(build(folder) or {})
            files = {
                str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": file_digest(path)}
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
            write_atomically(
                folder / "manifest.json",
                json.dumps({"kind": kind, "key": key, **facts, "files": files}, ensure_ascii=False, indent=1),
            )
            verify(folder)
            folder.chmod(0o755)
            self._place(folder, kind, key)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return target

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
            damaged = Path(tempfile.mkdtemp(dir=target.parent, prefix="tmp-"))
            target.rename(damaged / "damaged")
            shutil.rmtree(damaged, ignore_errors=True)
        try:
            folder.rename(target)
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
        write_atomically(self.path(kind, key) / name, data + hashlib.sha256(data).hexdigest().encode())

    @staticmethod
    def _sweep(folder: Path) -> None:
        for left in folder.glob("tmp-*"):
            try:
                old = time.time() - left.stat().st_mtime > ABANDONED_AFTER_S
            except OSError:
                continue
            if old:
                shutil.rmtree(left, ignore_errors=True)


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a published folder."""
    try:
        found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RagLabError(f"{folder}: not a published folder ({error}); delete it and run again") from error
    return found


def verify(folder: Path, contents: bool = True) -> None:
    """Check that every file is there with its size and, with `contents`, its SHA-256; the error names the file."""
    listed = manifest(folder).get("files")
    if not isinstance(listed, dict):
        raise RagLabError(f"{folder}: not a published folder (its manifest lists no files); delete it and run again")
    for name, expected in listed.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != expected["bytes"]:
            raise RagLabError(f"{path}: missing or cut short; delete {folder} and run again")
        if contents and file_digest(path) != expected["sha256"]:
            raise RagLabError(f"{path}: checksum differs from the manifest; delete {folder} and run again")
