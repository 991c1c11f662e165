"""What parsing a source gives: clean text, its structure, and where every character comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rag_lab.contracts import Block, IntArray, RagLabError


class ParseError(RagLabError):
    """A source that cannot be read; the message names the source, what is wrong, and the fix."""


@dataclass(frozen=True, eq=False)
class Parsed:
    """The outcome of parsing one source.

    text: clean text in NFC, without NUL, BOM, soft hyphens and zero-width characters, odd spaces made plain.
    blocks: ascending and disjoint spans of `text`; together they hold everything but white space.
    original: the source's own text layer, as it was decoded: the whole file for text formats, the text of all pages for
        PDF, all text nodes in document order for office formats. It is kept, so that offsets stay checkable.
    offsets: ``[len(text) + 1]``, the position in `original` of every code point of `text` and of its end, never
        decreasing, except in PDF and slides, where text is put in reading order. A character that the parser put in (a
        table's separator, say) has the position of what follows it.
    metadata: what the source says of itself (front matter, author, dates), values as text, numbers, lists.
    removed: how many elements were left out, by reason ("display", "hidden", "visibility", "navigation", "page
        header").
    hidden: texts that the source hides, filled only on request; they are not part of `text`.
    notes: what a reader of the text should know, e.g. "reading_order: uncertain".
    """

    text: str
    blocks: tuple[Block, ...]
    original: str
    offsets: IntArray
    parser: str
    title: str = ""
    language: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
