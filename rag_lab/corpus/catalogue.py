"""The state of a corpus in SQLite: its sources, the versions of its documents, its generations, and what happened when.

A version is a row that is valid from the generation which added it to the one which removed it. So a generation is
known without being copied, an update costs what it changes, and another generation becomes active in one transaction.
Neither text nor titles are in here: they lie in kept parts (`rag_lab.corpus.kept`), which a version points to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source: one file, or one record of a dataset. Times are ISO 8601 in UTC.

    `content` is the SHA-256 of its bytes and `basis` a digest of all that decides its document, as last ingested;
    `size` and `modified_ns` are the file's, as last looked at.
    `deleted_by` says who took a deleted source away: ``caller``, or ``source`` when its file went.
    """

    document_id: str
    uri: str
    root: str
    status: str
    discovered_at: str
    kind: str = ""
    content: str = ""
    basis: str = ""
    size: int = 0
    modified_ns: int = 0
    error: str = ""
    deleted_by: str = ""
    ingested_at: str | None = None
    searchable_at: str | None = None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a document, valid in the generations from `added` to before `removed`.

    `basis` is a digest of all that decides it (content, parser, stated rights), `digest` that of the document, as
    snapshots and the deny list know it, and `text_digest` that of its text alone; `rights` holds tenant, ACL, dates and
    standing as JSON; `part` and `position` say where the parsed document is kept.
    """

    document_id: str
    content: str
    basis: str
    digest: str
    text_digest: str
    rights: str
    valid_until: str | None
    parser: str
    part: str
    position: int
    added: int = 0
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """One generation: a snapshot, the settings it was built with, and its state.

    States are building, verified (whole and checked, not read by anybody), active, retired, failed.
    """

    number: int
    state: str
    snapshot: str
    base: int
    documents: int
    chunks: int
    checksum: str
    settings: Mapping[str, Any]
    note: str
    started_at: str
    verified_at: str | None
    activated_at: str | None
    retired_at: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time: from a source's change, or a call, to its effect; `ended_at` is None until then."""

    kind: str
    document_id: str
    started_at: str
    ended_at: str | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a new generation changes.

    `versions` are added, each in place of the document's live one; documents of `removed` go; `sources` are the rows of
    the sources that were touched; `since` says when a change of a source began, for those whose delay is measured.
    """

    versions: Sequence[VersionRow] = ()
    removed: Sequence[str] = ()
    sources: Sequence[SourceRow] = ()
    since: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.versions or self.removed)


SOURCE_COLUMNS = tuple(f.name for f in fields(SourceRow))
VERSION_COLUMNS = tuple(f.name for f in fields(VersionRow))
EVENT_COLUMNS = tuple(f.name for f in fields(Event))
GENERATION_COLUMNS = tuple(f.name for f in fields(GenerationRow))


def instant(moment: datetime | None = None) -> str:
    """An instant (now by default) as text that sorts by time."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="microseconds")


class Catalogue:
    """An open catalogue. Every method is one transaction, or part of the one that `transaction` holds open."""

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
    def create(cls, path: Path, settings: Mapping[str, Any]) -> Catalogue:
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

    # --- settings, roots, counters -----------------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: json.loads(value) for name, value in self._db.execute("SELECT name, value FROM settings")}

    def put_settings(self, **settings: Any) -> None:
        """Change settings."""
        with self.transaction():
            self._db.executemany(
                "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                [(name, json.dumps(value)) for name, value in settings.items()],
            )

    def roots(self) -> dict[str, tuple[dict[str, Any], str]]:
        """What was added, by address: the options it was added with, and when it was last looked at."""
        rows = self._db.execute("SELECT uri, options, checked_at FROM roots ORDER BY uri")
        return {uri: (json.loads(options), checked_at) for uri, options, checked_at in rows}

    def put_root(self, uri: str, options: Mapping[str, Any], checked_at: str) -> None:
        """Remember what was added, with its options, or when it was looked at again."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO roots VALUES (?, ?, ?) ON CONFLICT (uri) DO UPDATE "
                "SET options = excluded.options, checked_at = excluded.checked_at",
                (uri, json.dumps(options, sort_keys=True), checked_at),
            )

    def count(self, **amounts: int) -> None:
        """Add to counters."""
        with self.transaction():
            self._db.executemany(
                "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
                [(name, amount) for name, amount in amounts.items() if amount],
            )

    def counters(self) -> dict[str, int]:
        """Counters by name."""
        return dict(self._db.execute("SELECT name, value FROM counters").fetchall())

    # --- sources -----------------------------------------------------------------------------------------------------

    def put_sources(self, rows: Iterable[SourceRow]) -> None:
        """Write source rows over those of the same document. A revoked source stays revoked: only `set_status` lifts.

        Raises RagLabError when two sources would have one document id; the message names both.
        """
        assign = ", ".join(
            f"{name} = CASE WHEN status = 'revoked' THEN status ELSE excluded.status END"
            if name == "status"
            else f"{name} = excluded.{name}"
            for name in SOURCE_COLUMNS
            if name != "document_id"
        )
        statement = (
            f"INSERT INTO sources ({', '.join(SOURCE_COLUMNS)}) VALUES ({_marks(SOURCE_COLUMNS)}) "
            f"ON CONFLICT (document_id) DO UPDATE SET {assign}"
        )
        with self.transaction():
            for row in rows:
                known = self.source(row.document_id)
                if known is not None and known.uri != row.uri and not known.deleted_by:
                    raise RagLabError(collision(row.document_id, known.uri, row.uri))
                self._db.execute(statement, _values(row, SOURCE_COLUMNS))

    def source(self, document_id: str) -> SourceRow | None:
        """The source of a document."""
        return next(iter(self.sources([document_id])), None)

    def sources(self, document_ids: Iterable[str] | None = None, status: str = "", root: str = "") -> list[SourceRow]:
        """Sources by document id: all, those of some documents, in one state, or below one root."""
        select = f"SELECT {', '.join(SOURCE_COLUMNS)} FROM sources"
        if document_ids is not None:
            return [SourceRow(*row) for row in self._among(f"{select} WHERE document_id IN", document_ids)]
        where = " AND ".join(f"{name} = ?" for name, value in (("status", status), ("root", root)) if value)
        given = [value for value in (status, root) if value]
        return [
            SourceRow(*row)
            for row in self._db.execute(f"{select}{' WHERE ' + where if where else ''} ORDER BY document_id", given)
        ]

    def set_status(self, document_ids: Iterable[str], status: str, deleted_by: str | None = None) -> None:
        """Set the state of sources, and by whom they were deleted if that is given. What is revoked stays so."""
        with self.transaction():
            self._db.executemany(
                "UPDATE sources SET status = CASE WHEN status = 'revoked' THEN status ELSE ?1 END, "
                "deleted_by = coalesce(?2, deleted_by) WHERE document_id = ?3",
                [(status, deleted_by, document_id) for document_id in document_ids],
            )

    def lifted(self, document_ids: Iterable[str], status: str, deleted_by: str = "") -> None:
        """Set the state of sources that are not denied any more."""
        with self.transaction():
            self._db.executemany(
                "UPDATE sources SET status = ?, deleted_by = ? WHERE document_id = ?",
                [(status, deleted_by, document_id) for document_id in document_ids],
            )

    def scrub(self) -> None:
        """Leave nothing of deleted rows in the file or its journal."""
        self._db.execute("VACUUM")
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- versions ----------------------------------------------------------------------------------------------------

    def live(self, document_ids: Iterable[str] | None = None) -> dict[str, VersionRow]:
        """Versions of the newest generation by document id: all, or those of some documents."""
        select = f"SELECT {', '.join(VERSION_COLUMNS)} FROM versions WHERE removed IS NULL"
        rows = (
            self._db.execute(f"{select} ORDER BY document_id")
            if document_ids is None
            else self._among(f"{select} AND document_id IN", document_ids)
        )
        return {version.document_id: version for version in (VersionRow(*row) for row in rows)}

    def digests(self, document_ids: Iterable[str]) -> dict[str, list[str]]:
        """Digests of all versions of documents that the catalogue knows, the newest first."""
        rows = self._among("SELECT document_id, digest FROM versions WHERE document_id IN", document_ids, ", id DESC")
        found: dict[str, dict[str, None]] = {}
        for document_id, version in rows:
            found.setdefault(document_id, {})[version] = None
        return {document_id: list(versions) for document_id, versions in found.items()}

    def versions(self, document_ids: Iterable[str] | None = None) -> list[VersionRow]:
        """All versions that are known, of all generations: of all documents, or of some."""
        select = f"SELECT {', '.join(VERSION_COLUMNS)} FROM versions"
        if document_ids is None:
            return [VersionRow(*row) for row in self._db.execute(f"{select} ORDER BY id")]
        return [VersionRow(*row) for row in self._among(f"{select} WHERE document_id IN", document_ids)]

    def drop_versions(self, versions: Iterable[VersionRow]) -> None:
        """Take versions out for good, and all parses of contents that no version has."""
        with self.transaction():
            for version in versions:
                self._db.execute(
                    "DELETE FROM versions WHERE document_id = ? AND digest = ? AND part = ? AND position = ?",
                    (version.document_id, version.digest, version.part, version.position),
                )
            self._db.execute("DELETE FROM parses WHERE content NOT IN (SELECT content FROM versions)")

    def forget_errors(self, document_ids: Iterable[str]) -> None:
        """Take out why sources could not be read, which may quote them."""
        with self.transaction():
            self._db.executemany(
                "UPDATE sources SET error = '' WHERE document_id = ?", [(name,) for name in document_ids]
            )

    def versions_at(self, generation: int) -> dict[str, VersionRow]:
        """Versions of one generation by document id."""
        rows = self._db.execute(
            f"SELECT {', '.join(VERSION_COLUMNS)} FROM versions "
            "WHERE added <= ?1 AND (removed IS NULL OR removed > ?1) ORDER BY document_id",
            (generation,),
        )
        return {version.document_id: version for version in (VersionRow(*row) for row in rows)}

    def rebase(self, bases: Mapping[str, str]) -> None:
        """Note that live versions also come of another basis: what decides them changed and they did not."""
        with self.transaction():
            self._db.executemany(
                "UPDATE versions SET basis = ? WHERE document_id = ? AND removed IS NULL",
                [(basis, document_id) for document_id, basis in bases.items()],
            )

    def ended_by(self, moment: datetime) -> list[VersionRow]:
        """Live versions whose validity ended at or before an instant."""
        rows = self._db.execute(
            f"SELECT {', '.join(VERSION_COLUMNS)} FROM versions "
            "WHERE removed IS NULL AND valid_until <= ? ORDER BY document_id",
            (instant(moment),),
        )
        return [VersionRow(*row) for row in rows]

    def parts(self) -> set[str]:
        """Keys of the kept parts that a version or a parse points to."""
        return {row[0] for row in self._db.execute("SELECT part FROM versions UNION SELECT part FROM parses")}

    def positions(self) -> dict[str, set[int]]:
        """For each kept part the positions in it that a version or a parse points to."""
        found: dict[str, set[int]] = {}
        for part, position in self._db.execute(
            "SELECT part, position FROM versions UNION SELECT part, position FROM parses"
        ):
            found.setdefault(part, set()).add(position)
        return found

    def without_source(self) -> list[str]:
        """Live documents of which no source is known."""
        rows = self._db.execute(
            "SELECT document_id FROM versions WHERE removed IS NULL "
            "AND document_id NOT IN (SELECT document_id FROM sources) ORDER BY document_id"
        )
        return [row[0] for row in rows]

    def taken_out(self) -> dict[str, int]:
        """Documents without a live version, with the generation that took them out."""
        rows = self._db.execute(
            "SELECT document_id, max(removed) FROM versions GROUP BY document_id "
            "HAVING sum(removed IS NULL) = 0 ORDER BY document_id"
        )
        return dict(rows.fetchall())

    def move_part(self, old: str, new: str, positions: Mapping[int, int]) -> None:
        """Point to a rewritten part; `positions` maps the old places to the new ones."""
        with self.transaction():
            for table in ("versions", "parses"):
                self._db.executemany(
                    f"UPDATE {table} SET part = ?, position = ? WHERE part = ? AND position = ?",
                    [(new, to, old, at) for at, to in positions.items()],
                )

    def parse_of(self, content: str, parser: str) -> tuple[str, int] | None:
        """Where these bytes lie parsed by that version of a parser."""
        found: tuple[str, int] | None = self._db.execute(
            "SELECT part, position FROM parses WHERE content = ? AND parser = ?", (content, parser)
        ).fetchone()
        return found

    def put_parses(self, part: str, keys: Iterable[tuple[str, str, int]]) -> None:
        """Remember parsed contents: (content, parser, position in the part)."""
        with self.transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO parses VALUES (?, ?, ?, ?)",
                [(content, parser, part, position) for content, parser, position in keys],
            )

    # --- generations -------------------------------------------------------------------------------------------------

    def generation(self, number: int) -> GenerationRow:
        """One generation. Raises RagLabError when there is none of that number."""
        rows = self._generations("WHERE number = ?", (number,))
        if not rows:
            known = ", ".join(str(row.number) for row in self.generations()) or "none yet"
            raise RagLabError(f"generation {number}: unknown; this corpus has {known}")
        return rows[0]

    def generations(self, state: str = "") -> list[GenerationRow]:
        """All generations, or those in one state, by number."""
        return self._generations("WHERE ?1 = '' OR state = ?1 ORDER BY number", (state,))

    @property
    def active(self) -> GenerationRow | None:
        """The generation that readers see."""
        return next(iter(self.generations("active")), None)

    def begin(self, settings: Mapping[str, Any], note: str = "") -> int:
        """Start a generation on top of the active one and return its number."""
        with self.transaction():
            base = self.active
            cursor = self._db.execute(
                "INSERT INTO generations (state, base, settings, note, started_at) VALUES ('building', ?, ?, ?, ?)",
                (base.number if base else 0, json.dumps(settings, sort_keys=True), note, instant()),
            )
            return int(cursor.lastrowid or 0)

    def verified(self, number: int, snapshot: str, documents: int, chunks: int, checksum: str) -> None:
        """A generation is whole and checked; nobody reads it yet."""
        self._move(
            number,
            ("building",),
            "state = 'verified', snapshot = ?, documents = ?, chunks = ?, checksum = ?, verified_at = ?",
            (snapshot, documents, chunks, checksum, instant()),
        )

    def failed(self, number: int) -> None:
        """A generation that will never be read."""
        self._move(number, ("building", "verified"), "state = 'failed'", ())

    def activate(self, number: int, changes: Changes | None = None) -> GenerationRow:
        """Make a verified generation the one that readers see, with all that it changes, in one transaction.

        Raises RagLabError when another generation has become active since this one was begun.
        """
        changes = changes or Changes()
        with self.transaction():
            new, old, now = self.generation(number), self.active, instant()
            if new.base != (old.number if old else 0):
                raise RagLabError(
                    f"generation {number}: was built on generation {new.base}, and {old.number if old else 0} is "
                    "active now; build it again"
                )
            if old:
                self._move(old.number, ("active",), "state = 'retired', retired_at = ?", (now,))
            self._move(number, ("verified",), "state = 'active', activated_at = ?", (now,))
            self._change_versions(number, changes)
            self.put_sources(changes.sources)
            self._db.executemany(
                "UPDATE sources SET searchable_at = ? WHERE document_id = ?",
                [(now, version.document_id) for version in changes.versions],
            )
            effect = "searchable" if old else "loaded"
            touched = [(effect, version.document_id) for version in changes.versions]
            touched += [("removed", document_id) for document_id in changes.removed]
            self.record(
                Event(kind, document_id, min(changes.since[document_id], now), now, number)
                for kind, document_id in touched
                if document_id in changes.since
            )
            self.put_settings(**new.settings)
        return self.generation(number)

    def restore(self, number: int) -> GenerationRow:
        """Make what an earlier generation held active again: a new generation with its snapshot and settings."""
        with self.transaction():
            old = self.generation(number)
            if old.state != "retired":
                raise RagLabError(f"generation {number}: is {old.state}; only a retired one can be restored")
            again = self.begin(old.settings, f"restores generation {number}")
            self.verified(again, old.snapshot, old.documents, old.chunks, old.checksum)
            now, then = self.live(), self.versions_at(number)
            back = [version for key, version in then.items() if _other(version, now.get(key))]
            self.activate(again, Changes(back, [key for key in now if key not in then]))
        return self.generation(again)

    def drop(self, number: int) -> None:
        """Forget the snapshot of a retired or failed generation, after its files were removed."""
        assign = "state = CASE state WHEN 'verified' THEN 'failed' ELSE state END, snapshot = ''"
        self._move(number, ("retired", "failed", "verified"), assign, ())

    def recover(self) -> list[int]:
        """Mark what an interrupted publisher left as failed; return the numbers. Call it under the publisher's lock."""
        with self.transaction():
            left = [row.number for row in self.generations("building")]
            for number in left:
                self.failed(number)
        return left

    def note_made(self, entries: Iterable[tuple[str, str]]) -> None:
        """Remember entries of the store, by kind and key, that are about to be made, or removed, for this corpus."""
        with self.transaction():
            self._db.executemany("INSERT OR IGNORE INTO made VALUES (?, ?)", list(entries))

    def made(self) -> set[tuple[str, str]]:
        """Entries that were noted and are not forgotten yet."""
        return set(self._db.execute("SELECT kind, key FROM made").fetchall())

    def forget_made(self, entries: Iterable[tuple[str, str]]) -> None:
        """These entries are accounted for."""
        with self.transaction():
            self._db.executemany("DELETE FROM made WHERE kind = ? AND key = ?", list(entries))

    def pin(self, number: int, process: int) -> None:
        """Keep the snapshot of a generation while a process reads it."""
        with self.transaction():
            self.generation(number)
            self._db.execute("INSERT INTO pins VALUES (?, ?)", (number, process))

    def unpin(self, number: int, process: int) -> None:
        """The process has done with one reading of the generation."""
        with self.transaction():
            self._db.execute(
                "DELETE FROM pins WHERE rowid = (SELECT rowid FROM pins WHERE generation = ? AND process = ? LIMIT 1)",
                (number, process),
            )

    def pins(self) -> list[tuple[int, int]]:
        """Pinned generations, with the process that reads them."""
        return self._db.execute("SELECT generation, process FROM pins ORDER BY 1, 2").fetchall()

    # --- events ------------------------------------------------------------------------------------------------------

    def record(self, events: Iterable[Event]) -> list[int]:
        """Write events; return their numbers."""
        with self.transaction():
            return [
                int(
                    self._db.execute(
                        f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) VALUES ({_marks(EVENT_COLUMNS)})",
                        _values(event, EVENT_COLUMNS),
                    ).lastrowid
                    or 0
                )
                for event in events
            ]

    def end(self, numbers: Iterable[int]) -> None:
        """The effect of these events is there."""
        with self.transaction():
            now = instant()
            self._db.executemany("UPDATE events SET ended_at = ? WHERE id = ?", [(now, number) for number in numbers])

    def events(self, *kinds: str) -> list[Event]:
        """Events in the order they were written, of some kinds or of all."""
        rows = self._db.execute(
            f"SELECT {', '.join(EVENT_COLUMNS)} FROM events"
            + (f" WHERE kind IN ({_marks(kinds)})" if kinds else "")
            + " ORDER BY id",
            kinds,
        )
        return [Event(*row) for row in rows]

    # --- inside ------------------------------------------------------------------------------------------------------

    def _generations(self, where: str, given: Sequence[Any]) -> list[GenerationRow]:
        rows = self._db.execute(f"SELECT {', '.join(GENERATION_COLUMNS)} FROM generations {where}", given)
        found: list[dict[str, Any]] = [dict(zip(GENERATION_COLUMNS, row, strict=True)) for row in rows]
        return [GenerationRow(**row | {"settings": json.loads(row["settings"])}) for row in found]

    def _move(self, number: int, states: Sequence[str], assign: str, given: Sequence[Any]) -> None:
        with self.transaction():
            moved = self._db.execute(
                f"UPDATE generations SET {assign} WHERE number = ? AND state IN ({_marks(states)})",
                (*given, number, *states),
            )
            if moved.rowcount != 1:
                raise RagLabError(f"generation {number}: is {self.generation(number).state}, not {' or '.join(states)}")

    def _change_versions(self, number: int, changes: Changes) -> None:
        gone = [*changes.removed, *(version.document_id for version in changes.versions)]
        self._db.executemany(
            "UPDATE versions SET removed = ? WHERE document_id = ? AND removed IS NULL",
            [(number, document_id) for document_id in gone],
        )
        self._db.executemany(
            f"INSERT INTO versions ({', '.join(VERSION_COLUMNS)}) VALUES ({_marks(VERSION_COLUMNS)})",
            [(*_values(version, VERSION_COLUMNS[:-2]), number, None) for version in changes.versions],
        )

    def _among(self, statement: str, keys: Iterable[str], order: str = "") -> Iterator[Any]:
        given = list(dict.fromkeys(keys))
        for start in range(0, len(given), BLOCK):
            block = given[start : start + BLOCK]
            yield from self._db.execute(f"{statement} ({_marks(block)}) ORDER BY document_id{order}", block)


def collision(document_id: str, first: str, second: str) -> str:
    """Why two sources cannot be in one corpus."""
    return (
        f"document id '{document_id}': would name both {first} and {second}; "
        "rename one of them, or add the folder above both"
    )


def _other(version: VersionRow, now: VersionRow | None) -> bool:
    return now is None or version.digest != now.digest


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


def _values(row: Any, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in columns)


def _marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))
