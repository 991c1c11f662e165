"""Plain text: paragraphs between blank lines, pages between form feeds."""

from __future__ import annotations

import re

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing.decoding import decode
from rag_lab.corpus.parsing.layer import LayerBuilder
from rag_lab.corpus.parsing.parsed import Parsed

VERSION = "text-1"

_GAP = re.compile(
    r"\f|(?:\r\n|[\n\r\v\x85\u2028])(?:[^\S\f\n\r\v\x85\u2028\u2029]*(?:\r\n|[\n\r\v\x85\u2028]))+|\u2029"
)


def version() -> str:
    """Version of this parser."""
    return VERSION


def parse(data: bytes, name: str, keep_hidden: bool = False) -> Parsed:  # noqa: ARG001 - one interface
    """The text as it is, cut into paragraphs."""
    decoded = decode(data)
    builder = LayerBuilder(decoded.text)
    add_paragraphs(builder, 0, len(decoded.text), pages="\f" in decoded.text)
    layer = builder.build()
    return Parsed(*layer, VERSION, notes=decoded.notes)


def add_paragraphs(builder: LayerBuilder, start: int, end: int, *, pages: bool = False) -> None:
    """Take a stretch of the original, a block for each paragraph, pages counted from 1 if wanted."""
    page, at = int(pages), start
    for gap in _GAP.finditer(builder.original, start, end):
        _add(builder, at, gap.start(), page)
        builder.take(*gap.span())
        at = gap.end()
        page += pages and gap.group() == "\f"
    _add(builder, at, end, page)


def _add(builder: LayerBuilder, start: int, end: int, page: int) -> None:
    first = builder.position
    builder.take(start, end)
    builder.block(BlockKind.PARAGRAPH, first, page=page)
