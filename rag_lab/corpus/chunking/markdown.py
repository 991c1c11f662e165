"""The blocks of a text that is read as Markdown."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rag_lab.contracts import Block, BlockKind, Span
from rag_lab.corpus.chunking.piece import trim

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_KINDS = {
    "heading_open": BlockKind.HEADING,
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "table_open": BlockKind.TABLE,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "blockquote_open": BlockKind.QUOTE,
}


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")


def markdown_blocks(text: str) -> list[Block]:
    """Blocks in order, without white space at their ends; together they hold every other character."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(text)
    last = len(starts) - 1
    blocks: list[Block] = []
    path: list[tuple[int, str]] = []
    position = 0
    tokens = _parser().parse(text.replace("\r\n", " \n").replace("\r", " "))
    for i, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        kind = _KINDS.get(token.type, BlockKind.PARAGRAPH)
        level = int(token.tag[1]) if kind is BlockKind.HEADING else 0
        if level:
            path = [entry for entry in path if entry[0] < level] + [(level, tokens[i + 1].content)]
        span = trim(text, (position, starts[min(token.map[1], last)]))
        position = starts[min(token.map[1], last)]
        if span:
            lead = _line(text, span) if kind is BlockKind.TABLE else None
            blocks.append(Block(kind, span, tuple(title for _, title in path), level, lead=lead))
    rest = trim(text, (position, len(text)))
    if rest:
        blocks.append(Block(BlockKind.PARAGRAPH, rest, tuple(title for _, title in path)))
    return blocks


def _line(text: str, span: Span) -> Span | None:
    """The first line of a span."""
    end = text.find("\n", *span)
    return trim(text, (span[0], end if end >= 0 else span[1]))
