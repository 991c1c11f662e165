"""What happened when."""

from __future__ import annotations

from collections.abc import Iterable

from rag_lab.corpus.catalogue.database import Database, marks, values_of
from rag_lab.corpus.catalogue.rows import EVENT_COLUMNS, Event


class Events(Database):
    """The part of a catalogue on events."""

    def record(self, events: Iterable[Event]) -> None:
        """Write events."""
        with self.transaction():
            self._db.executemany(
                f"INSERT INTO events ({', '.join(EVENT_COLUMNS)}) VALUES ({marks(EVENT_COLUMNS)})",
                [values_of(event, EVENT_COLUMNS) for event in events],
            )

    def events(self, *kinds: str) -> list[Event]:
        """Events in the order they were written, of some kinds or of all."""
        rows = self._db.execute(
            f"SELECT {', '.join(EVENT_COLUMNS)} FROM events"
            + (f" WHERE kind IN ({marks(kinds)})" if kinds else "")
            + " ORDER BY id",
            kinds,
        )
        return [Event(*row) for row in rows]
