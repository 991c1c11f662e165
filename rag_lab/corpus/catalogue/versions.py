"""Versions of documents, and where the kept ones and their parses lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from rag_lab.corpus.catalogue.database import Database, marks, values_of
from rag_lab.corpus.catalogue.rows import VERSION_COLUMNS, Changes, VersionRow, instant


class Versions(Database):
    """The part of a catalogue on versions of documents, and on parses."""

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

    def versions_at(self, generation: int) -> dict[str, VersionRow]:
        """Versions of one generation by document id."""
        rows = self._db.execute(
            f"SELECT {', '.join(VERSION_COLUMNS)} FROM versions "
            "WHERE added <= ?1 AND (removed IS NULL OR removed > ?1) ORDER BY document_id",
            (generation,),
        )
        return {version.document_id: version for version in (VersionRow(*row) for row in rows)}

    def ended_by(self, moment: datetime) -> list[VersionRow]:
        """Live versions whose validity ended at or before an instant."""
        rows = self._db.execute(
            f"SELECT {', '.join(VERSION_COLUMNS)} FROM versions "
            "WHERE removed IS NULL AND valid_until <= ? ORDER BY document_id",
            (instant(moment),),
        )
        return [VersionRow(*row) for row in rows]

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

    def rebase(self, bases: Mapping[str, str]) -> None:
        """Note that live versions also come of another basis: what decides them changed and they did not."""
        with self.transaction():
            self._db.executemany(
                "UPDATE versions SET basis = ? WHERE document_id = ? AND removed IS NULL",
                [(basis, document_id) for document_id, basis in bases.items()],
            )

    def drop_versions(self, versions: Iterable[VersionRow]) -> None:
        """Take versions out for good, and all parses of contents that no version has."""
        with self.transaction():
            for version in versions:
                self._db.execute(
                    "DELETE FROM versions WHERE document_id = ? AND digest = ? AND part = ? AND position = ?",
                    (version.document_id, version.digest, version.part, version.position),
                )
            self._db.execute("DELETE FROM parses WHERE content NOT IN (SELECT content FROM versions)")

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

    def _change_versions(self, number: int, changes: Changes) -> None:
        gone = [*changes.removed, *(version.document_id for version in changes.versions)]
        self._db.executemany(
            "UPDATE versions SET removed = ? WHERE document_id = ? AND removed IS NULL",
            [(number, document_id) for document_id in gone],
        )
        self._db.executemany(
            f"INSERT INTO versions ({', '.join(VERSION_COLUMNS)}) VALUES ({marks(VERSION_COLUMNS)})",
            [(*values_of(version, VERSION_COLUMNS[:-2]), number, None) for version in changes.versions],
        )
