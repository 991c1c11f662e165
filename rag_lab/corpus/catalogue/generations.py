"""Generations, which of them is active, who reads them, and what was made in the store for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.corpus.catalogue.database import marks
from rag_lab.corpus.catalogue.events import Events
from rag_lab.corpus.catalogue.rows import GENERATION_COLUMNS, Changes, Event, GenerationRow, VersionRow, instant
from rag_lab.corpus.catalogue.settings import Settings
from rag_lab.corpus.catalogue.sources import Sources
from rag_lab.corpus.catalogue.versions import Versions


class Generations(Settings, Sources, Versions, Events):
    """The part of a catalogue on generations; the other parts change with them."""

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

    def _generations(self, where: str, given: Sequence[Any]) -> list[GenerationRow]:
        rows = self._db.execute(f"SELECT {', '.join(GENERATION_COLUMNS)} FROM generations {where}", given)
        found: list[dict[str, Any]] = [dict(zip(GENERATION_COLUMNS, row, strict=True)) for row in rows]
        return [GenerationRow(**row | {"settings": json.loads(row["settings"])}) for row in found]

    def _move(self, number: int, states: Sequence[str], assign: str, given: Sequence[Any]) -> None:
        with self.transaction():
            moved = self._db.execute(
                f"UPDATE generations SET {assign} WHERE number = ? AND state IN ({marks(states)})",
                (*given, number, *states),
            )
            if moved.rowcount != 1:
                raise RagLabError(f"generation {number}: is {self.generation(number).state}, not {' or '.join(states)}")


def _other(version: VersionRow, now: VersionRow | None) -> bool:
    return now is None or version.digest != now.digest
