"""The deny list: which documents of a corpus nobody may read, whatever their rights, in any snapshot, from now on.

A snapshot is immutable, so what must vanish at once is denied beside it, and purged from it later. Each corpus of a
store has one list, a file that is replaced as a whole. The protocol that makes a denial strict between processes:

* A writer (`deny`, `delete`, `lift`, `readmit`) holds the corpus's lock exclusively from before it reads the list until
  the new one is on the disk (`write_atomically`), and returns then. Killed at any moment, it leaves the old list or the
  new one, and its lock is gone with it.
* A reader computes scopes from the list as it is (`of`, two calls of `stat` while nothing changes), without any lock,
  and may then work for hours.
* What a reader hands out in the end it checks once more, inside `reading`, which holds the lock shared: the check and
  the hand-out are over before a writer gets the lock, or they see what the writer wrote. So no document is handed out
  after the call that denied it has returned. The lock is held for the check and the hand-out alone, never for the work,
  and a writer that waits is served before readers that come later.

A list that cannot be read, or is not what was written, denies everything: every call raises an error that names the
file. A list that was never written denies nothing; to tell the two apart, a list and its folder appear in one rename.

A *revoked* document stays denied until it is lifted. A *deleted* one is denied in the content that it had, so that its
id may be used again: old snapshots still hide the old content while new ones show the new.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from rag_lab.contracts import RagLabError
from rag_lab.store import SUM_LENGTH, Store, digest, flush, sweep, temporary, write_atomically

FORMAT = 1
FOLDER = "denied"
LIST = "list.json"
LONGEST = 100

Kind = Literal["revoked", "deleted"]

_LOCKED = threading.local()
"""`paths`: the locks that this thread has."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a document must not be read, since when and by whose word, and when that ended, if it did.

    `content` is the digest of the content that is denied, empty for whatever the document holds.
    """

    document_id: str
    kind: Kind
    content: str
    reason: str
    by: str
    at: datetime
    lifted_at: datetime | None = None
    lifted_by: str = ""


@dataclass(frozen=True)
class Denials:
    """The list of one corpus at an epoch; each change of the list is one epoch. Lifted denials stay on record."""

    epoch: int = 0
    entries: tuple[Denial, ...] = ()

    @cached_property
    def in_force(self) -> Mapping[str, tuple[Denial, ...]]:
        """Denials that are not lifted, by document id."""
        found: dict[str, tuple[Denial, ...]] = {}
        for entry in self.entries:
            if entry.lifted_at is None:
                found[entry.document_id] = (*found.get(entry.document_id, ()), entry)
        return found

    @cached_property
    def documents(self) -> frozenset[str]:
        """Ids of all documents that are denied in some content."""
        return frozenset(self.in_force)

    @cached_property
    def revoked(self) -> frozenset[str]:
        """Ids of the documents that are denied whatever they contain."""
        return frozenset(name for name, entries in self.in_force.items() if any(not e.content for e in entries))

    def denies(self, document_id: str, content: str = "") -> bool:
        """Whether a document must not be read. Content that is not known (``""``) is taken for the denied one."""
        entries = self.in_force.get(document_id, ())
        return any(not content or entry.content in ("", content) for entry in entries)

    def held(self, contents: Mapping[str, str]) -> frozenset[str]:
        """Of these documents (digest of their content by id) those that must not be read."""
        return frozenset(name for name in self.in_force if name in contents and self.denies(name, contents[name]))


@dataclass(frozen=True)
class DenyList:
    """The deny lists of a store, one a corpus. Every method raises `RagLabError` when the list is damaged."""

    store: Store

    def of(self, corpus: str) -> Denials:
        """The list as it is now; cheap enough to ask for at every request."""
        path = self._folder(corpus) / LIST
        try:
            is_written = path.parent.exists()  # asked first: a list may appear at any moment, and never goes
            about = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if not is_written:
                return Denials()
            raise _damaged(path, corpus, "the file is gone") from None
        except OSError as error:
            raise _damaged(path, corpus, error.strerror or str(error)) from error
        return _read(path, corpus, (about.st_ino, about.st_mtime_ns, about.st_size))

    def denied(self, corpus: str) -> frozenset[str]:
        """Ids of the documents that are denied now, be it only in some content."""
        return self.of(corpus).documents

    def epoch(self, corpus: str) -> int:
        """How often the list has changed; 0 where nothing was ever denied."""
        return self.of(corpus).epoch

    @contextmanager
    def reading(self, corpus: str) -> Iterator[Denials]:
        """The list, which nobody changes before the block ends: for a check and a hand-out, not for work.

        A thread that is inside must not ask again, and must not write; that is an error.
        """
        with self._locked(corpus, "read"):
            yield self.of(corpus)

    def deny(self, corpus: str, document_ids: Collection[str], reason: str, *, by: str) -> int:
        """Revoke documents, whatever they contain, until they are lifted; return the epoch.

        When the call returns, no reader in any process hands them out any more.
        """
        if isinstance(document_ids, str):
            raise RagLabError(f"document_ids: {document_ids!r} is one id; give a list of ids")
        return self._add(corpus, "revoked", dict.fromkeys(document_ids, ""), reason, by)

    def delete(self, corpus: str, contents: Mapping[str, str], reason: str, *, by: str) -> int:
        """Deny documents in the content they have (its digest by id; ``""``: any content); return the epoch."""
        return self._add(corpus, "deleted", contents, reason, by)

    def lift(self, corpus: str, document_ids: Collection[str], *, by: str) -> int:
        """End all denials of these documents and return the epoch. A document that is not denied is an error."""
        if isinstance(document_ids, str):
            raise RagLabError(f"document_ids: {document_ids!r} is one id; give a list of ids")
        with self._locked(corpus, "write"):
            before = self.of(corpus)
            if strange := sorted(set(document_ids) - before.documents):
                raise RagLabError(f"corpus {corpus}: document {strange[0]!r} is not denied; nothing was lifted")
            lifted = frozenset(document_ids)
            return self._end(corpus, before, lambda entry: entry.document_id in lifted, by)

    def readmit(self, corpus: str, contents: Mapping[str, str], reason: str, *, by: str) -> int:
        """End deletions, made for this reason, of documents in exactly these contents; return the epoch.

        Revocations, and deletions for other reasons, stay.
        """
        with self._locked(corpus, "write"):
            return self._end(
                corpus,
                self.of(corpus),
                lambda entry: (
                    (entry.kind, entry.reason) == ("deleted", reason)
                    and contents.get(entry.document_id) == entry.content
                ),
                by,
            )

    def _end(self, corpus: str, before: Denials, ends: Callable[[Denial], bool], by: str) -> int:
        now = datetime.now(UTC)
        entries = tuple(
            replace(entry, lifted_at=now, lifted_by=by) if entry.lifted_at is None and ends(entry) else entry
            for entry in before.entries
        )
        return self._replace(corpus, before, entries)

    def _add(self, corpus: str, kind: Kind, contents: Mapping[str, str], reason: str, by: str) -> int:
        if empty := [name for name in contents if not isinstance(name, str) or not name]:
            raise RagLabError(f"document_ids: {empty[0]!r} is no document id; give non-empty texts")
        with self._locked(corpus, "write"):
            before, now = self.of(corpus), datetime.now(UTC)
            known = {(d.document_id, d.kind, d.content) for ds in before.in_force.values() for d in ds}
            added = tuple(
                Denial(name, kind, content, reason, by, now)
                for name, content in contents.items()
                if (name, kind, content) not in known
            )
            return self._replace(corpus, before, before.entries + added)

    def _replace(self, corpus: str, before: Denials, entries: tuple[Denial, ...]) -> int:
        """Write the list unless nothing changed. The caller holds the lock exclusively."""
        if entries == before.entries:
            return before.epoch
        folder = self._folder(corpus)
        after = Denials(before.epoch + 1, entries)
        if folder.exists():
            _write(folder, after, corpus)
            return after.epoch
        sweep(folder.parent)
        with temporary(folder.parent) as beside:
            _write(beside, after, corpus)
            beside.chmod(0o755)
            beside.rename(folder)
            flush(folder.parent)
        return after.epoch

    def _folder(self, corpus: str) -> Path:
        if not corpus:
            raise RagLabError("corpus: the name is empty, so there is no deny list to look at; name the corpus")
        name = quote(corpus, safe="")
        return self.store.path(FOLDER, f"corpus-{name if len(name) <= LONGEST else name[:LONGEST] + digest(corpus)}")

    @contextmanager
    def _locked(self, corpus: str, mode: Literal["read", "write"]) -> Iterator[None]:
        """The corpus's lock, shared ("read") or exclusive.

        Everybody passes a gate first, and a writer stays in it, so that readers who come later wait for the writer.
        """
        gate, lock = (self._folder(corpus).with_suffix(end) for end in (".gate", ".lock"))
        gate.parent.mkdir(parents=True, exist_ok=True)
        kind = fcntl.LOCK_SH if mode == "read" else fcntl.LOCK_EX
        with ExitStack() as stack:
            stack.enter_context(_once_a_thread(lock, corpus))
            with ExitStack() as entrance:
                entrance.enter_context(_flocked(gate, kind))
                stack.enter_context(_flocked(lock, kind))
                if mode == "write":
                    stack.push(entrance.pop_all())
            yield


@contextmanager
def _once_a_thread(lock: Path, corpus: str) -> Iterator[None]:
    """Refuse a lock to the thread that has it: a writer may wait for it, and it would wait for the writer."""
    mine: set[Path] = _LOCKED.__dict__.setdefault("paths", set())
    if lock in mine:
        raise RagLabError(
            f"corpus {corpus}: its deny list is asked for inside a hand-out, which would wait for itself; end the "
            "hand-out first"
        )
    mine.add(lock)
    try:
        yield
    finally:
        mine.discard(lock)


@contextmanager
def _flocked(path: Path, kind: int) -> Iterator[None]:
    """A lock on a file, opened for this alone, so that it is the same between threads as between processes."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, kind)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # closing alone would leave it to a child that was forked meanwhile
        os.close(handle)


@lru_cache(maxsize=64)
def _read(path: Path, corpus: str, signature: tuple[int, int, int]) -> Denials:  # noqa: ARG001 - what tells lists apart
    """The list in a file; read again whenever inode, time or size differ (a write never repeats a time)."""
    try:
        written = path.read_bytes()
        data, total = written[:-SUM_LENGTH], written[-SUM_LENGTH:]
        if hashlib.sha256(data).hexdigest().encode() != total:
            raise ValueError("its checksum differs")
        plain = json.loads(data)
        if plain["format"] != FORMAT or plain["corpus"] != corpus:
            raise ValueError("it was written by another version or for another corpus")
        return Denials(int(plain["epoch"]), tuple(_denial(entry) for entry in plain["entries"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise _damaged(path, corpus, str(error)) from error


def _denial(plain: Mapping[str, Any]) -> Denial:
    lifted = plain["lifted_at"]
    times = {
        "at": datetime.fromisoformat(plain["at"]),
        "lifted_at": datetime.fromisoformat(lifted) if lifted else None,
    }
    return Denial(**{**plain, **times})


def _damaged(path: Path, corpus: str, why: str) -> RagLabError:
    return RagLabError(
        f"{path}: the deny list cannot be read ({why}), so nothing of corpus {corpus} may be; restore it from a "
        f"backup, or delete {path.parent} and deny again what must stay denied"
    )


def _write(folder: Path, denials: Denials, corpus: str) -> None:
    """Put the list into a folder by one rename, later in time than the one before: readers compare times."""
    plain = {"format": FORMAT, "corpus": corpus, "epoch": denials.epoch, "entries": list(map(asdict, denials.entries))}
    data = json.dumps(plain, ensure_ascii=False, default=datetime.isoformat).encode("utf-8", "surrogatepass")
    sweep(folder)
    write_atomically(folder / LIST, data + hashlib.sha256(data).hexdigest().encode())
