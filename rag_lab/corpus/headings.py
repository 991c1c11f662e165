"""The path of headings while a text is read."""

from __future__ import annotations


class Headings:
    """The headings in force at a place, the outermost first."""

    def __init__(self) -> None:
        self._held: list[tuple[int, str]] = []

    @property
    def path(self) -> tuple[str, ...]:
        """Their words."""
        return tuple(words for _, words in self._held)

    def enter(self, level: int, words: str) -> None:
        """A heading begins here; it ends the sections of its own level and of those below."""
        self._held = [entry for entry in self._held if entry[0] < level] + [(level, words)]

    def clear(self) -> None:
        """No heading is in force here."""
        self._held = []
