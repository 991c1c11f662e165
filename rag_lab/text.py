"""Spans of plain text."""

from __future__ import annotations

from rag_lab.contracts import Span


def trim(text: str, span: Span) -> Span | None:
    """The span without white space at its ends, None when nothing is left."""
    piece = text[slice(*span)]
    stripped = piece.strip()
    if not stripped:
        return None
    start = span[0] + len(piece) - len(piece.lstrip())
    return start, start + len(stripped)
