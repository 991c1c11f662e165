"""Settings, what was added, and counters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rag_lab.corpus.catalogue.database import Database


class Settings(Database):
    """The part of a catalogue on settings, roots (what was added) and counters."""

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
