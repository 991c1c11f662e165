"""What a chunker is and gives: pieces of a document, with tokens counted by offset."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rag_lab.contracts import Document, Span

TokenSpans = Callable[[str], list[Span]]


class Tokens:
    """The token spans of one document, found once and counted by offset."""

    def __init__(self, text: str, token_spans: TokenSpans) -> None:
        self.text = text
        self.spans = token_spans(text)
        self._starts = [start for start, _ in self.spans]

    def count(self, span: Span) -> int:
        """Tokens that start inside the span."""
        return bisect_left(self._starts, span[1]) - bisect_left(self._starts, span[0])

    def within(self, span: Span) -> list[Span]:
        """Tokens that start inside the span."""
        return self.spans[bisect_left(self._starts, span[0]) : bisect_left(self._starts, span[1])]


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk-to-be: where it lies in the document and under which headings.

    `shown` is the part of the document that a context shows for it (None: the piece itself); `lead` is the header row
    of the table that it continues; `page` is where it begins, 0 for none.
    """

    span: Span
    section_path: tuple[str, ...] = ()
    shown: Span | None = None
    lead: Span | None = None
    page: int = 0


class Chunker(Protocol):
    """A rule that cuts documents."""

    @property
    def version(self) -> str:
        """The rule and its parameters: another version means other chunks."""
        ...

    def cut(self, document: Document, token_spans: TokenSpans) -> list[Piece]:
        """Pieces in document order; together they cover every character that is not white space."""
        ...
