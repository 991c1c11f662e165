"""Sources and what became of them."""

from __future__ import annotations

from collections.abc import Iterable

from rag_lab.contracts import RagLabError
from rag_lab.corpus.catalogue.database import Database, marks, values_of
from rag_lab.corpus.catalogue.rows import SOURCE_COLUMNS, SourceRow, collision


class Sources(Database):
    """The part of a catalogue on sources."""

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
            f"INSERT INTO sources ({', '.join(SOURCE_COLUMNS)}) VALUES ({marks(SOURCE_COLUMNS)}) "
            f"ON CONFLICT (document_id) DO UPDATE SET {assign}"
        )
        with self.transaction():
            for row in rows:
                known = self.source(row.document_id)
                if known is not None and known.uri != row.uri and not known.deleted_by:
                    raise RagLabError(collision(row.document_id, known.uri, row.uri))
                self._db.execute(statement, values_of(row, SOURCE_COLUMNS))

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

    def forget_errors(self, document_ids: Iterable[str]) -> None:
        """Take out why sources could not be read, which may quote them."""
        with self.transaction():
            self._db.executemany(
                "UPDATE sources SET error = '' WHERE document_id = ?", [(name,) for name in document_ids]
            )
