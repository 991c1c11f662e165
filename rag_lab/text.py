"""Spans of plain text, and the marks of English and Chinese sentences."""

from __future__ import annotations

import re

from rag_lab.contracts import Span

WIDE_ENDS = "。！？…"
"""Marks that end a sentence wherever they stand; the narrow ones (``.!?``) must end a word as well, unlike in 3.5."""

CLOSERS = "\"'”’）)」』》"
"""Quotes and brackets that still belong to the sentence when they follow its mark."""

LONGEST_ABBREVIATION = 12
_ABBREVIATIONS = (
    r"[A-Z]|(?:[A-Z]\.)+[A-Z]|Mr|Mrs|Ms|Dr|Prof|Rev|Gen|Lt|St|Mt|Jr|Sr|vs|cf|ca|al|e\.g|i\.e|"
    r"No|Art|Sec|Fig|Figs|Eq|Vol|pp?|eds?|approx"
)


def abbreviation(*more: str) -> re.Pattern[str]:
    """A pattern to `search` what stands before a full stop: it finds an initial, an abbreviation or one of `more`.

    The last `LONGEST_ABBREVIATION` characters are enough to look at.
    """
    return re.compile(rf"(?:^|[\s(\[\"'“‘])(?:{'|'.join((_ABBREVIATIONS, *more))})$")


def trim(text: str, span: Span) -> Span | None:
    """The span without white space at its ends, None when nothing is left."""
    piece = text[slice(*span)]
    stripped = piece.strip()
    if not stripped:
        return None
    start = span[0] + len(piece) - len(piece.lstrip())
    return start, start + len(stripped)
