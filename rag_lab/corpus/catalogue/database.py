"""The file of a catalogue: its tables, its creation, and transactions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from rag_lab.contracts import RagLabError

FORMAT = 1
BUSY_S = 60.0
BLOCK = 500

SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE roots (uri TEXT PRIMARY KEY, options TEXT NOT NULL, checked_at TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (
    document_id TEXT PRIMARY KEY,
    uri TEXT NOT NULL UNIQUE,
    root TEXT NOT NULL REFERENCES roots (uri),
    kind TEXT NOT NULL DEFAULT '',
    content TEXT NOT NULL DEFAULT '',
    basis TEXT NOT NULL DEFAULT '',
    size INTEGER NOT NULL DEFAULT 0,
    modified_ns INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL CHECK (status IN ('active', 'failed', 'partial', 'deleted', 'expired', 'revoked')),
    error TEXT NOT NULL DEFAULT '',
    deleted_by TEXT NOT NULL DEFAULT '',
    discovered_at TEXT NOT NULL,
    ingested_at TEXT,
    searchable_at TEXT
) WITHOUT ROWID;
CREATE INDEX sources_by_status ON sources (status);
CREATE INDEX sources_by_root ON sources (root);
CREATE TABLE generations (
    number INTEGER PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('building', 'verified', 'active', 'retired', 'failed')),
    snapshot TEXT NOT NULL DEFAULT '',
    base INTEGER NOT NULL DEFAULT 0,
    documents INTEGER NOT NULL DEFAULT 0,
    chunks INTEGER NOT NULL DEFAULT 0,
    checksum TEXT NOT NULL DEFAULT '',
    settings TEXT NOT NULL DEFAULT '{}',
    note TEXT NOT NULL DEFAULT '',
    started_at TEXT NOT NULL,
    verified_at TEXT,
    activated_at TEXT,
    retired_at TEXT
);
CREATE UNIQUE INDEX one_active_generation ON generations (state) WHERE state = 'active';
CREATE TABLE versions (
    id INTEGER PRIMARY KEY,
    document_id TEXT NOT NULL,
    content TEXT NOT NULL,
    basis TEXT NOT NULL,
    digest TEXT NOT NULL,
    text_digest TEXT NOT NULL,
    rights TEXT NOT NULL,
    valid_until TEXT,
    parser TEXT NOT NULL,
    part TEXT NOT NULL,
    position INTEGER NOT NULL,
    added INTEGER NOT NULL REFERENCES generations (number),
    removed INTEGER REFERENCES generations (number)
);
CREATE UNIQUE INDEX one_live_version ON versions (document_id) WHERE removed IS NULL;
CREATE INDEX versions_of_document ON versions (document_id);
CREATE INDEX versions_added ON versions (added);
CREATE INDEX versions_removed ON versions (removed) WHERE removed IS NOT NULL;
CREATE INDEX versions_in_part ON versions (part);
CREATE INDEX versions_of_content ON versions (content);
CREATE INDEX versions_by_end ON versions (valid_until) WHERE valid_until IS NOT NULL;
CREATE TABLE parses (
    content TEXT NOT NULL,
    parser TEXT NOT NULL,
    part TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (content, parser)
) WITHOUT ROWID;
CREATE INDEX parses_in_part ON parses (part);
CREATE TABLE made (kind TEXT NOT NULL, key TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID;
CREATE TABLE pins (generation INTEGER NOT NULL REFERENCES generations (number), process INTEGER NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    document_id TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    generation INTEGER
);
CREATE INDEX events_by_kind ON events (kind, id);
"""


class Database:
    """An open file. Every method is one transaction, or part of the one that `transaction` holds open."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise RagLabError(f"{path}: no such catalogue; create the corpus first (rag-lab corpus add NAME PATH)")
        self.path = path
        self._db = _connect(path)
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            self._db.close()
            raise RagLabError(f"{path}: has format {found}, this version reads {FORMAT}; add the corpus again")

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any]) -> Self:
        """A new catalogue with these settings. It appears whole, or not at all."""
        if path.exists():
            raise RagLabError(f"{path}: exists already; open it, or take another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"new-{path.name}")
        _unlink(fresh)
        db = _connect(fresh)
        db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;")
        db.executemany("INSERT INTO settings VALUES (?, ?)", [(k, json.dumps(v)) for k, v in settings.items()])
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.close()
        fresh.rename(path)
        _unlink(fresh)
        return cls(path)

    def close(self) -> None:
        """Give the file free."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written inside happens, or nothing of it."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def scrub(self) -> None:
        """Leave nothing of deleted rows in the file or its journal."""
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _among(self, statement: str, keys: Iterable[str], order: str = "") -> Iterator[Any]:
        given = list(dict.fromkeys(keys))
        for start in range(0, len(given), BLOCK):
            block = given[start : start + BLOCK]
            yield from self._db.execute(f"{statement} ({marks(block)}) ORDER BY document_id{order}", block)


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
    try:
        for pragma in ("journal_mode = WAL", "secure_delete = ON", "foreign_keys = ON"):
            db.execute(f"PRAGMA {pragma}")
    except sqlite3.DatabaseError as error:
        db.close()
        raise RagLabError(
            f"{path}: is not a catalogue ({error}); delete its folder and add the corpus again"
        ) from error
    return db


def _unlink(path: Path) -> None:
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)


def values_of(row: Any, columns: Sequence[str]) -> tuple[Any, ...]:
    """The columns of a record."""
    return tuple(getattr(row, name) for name in columns)


def marks(values: Sequence[Any]) -> str:
    """As many question marks, for a statement."""
    return ", ".join("?" * len(values))
