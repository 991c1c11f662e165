"""The blocks of Markdown source: for its parser, and for a document that came without blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from rag_lab.contracts import Block, BlockKind, Span
from rag_lab.corpus.headings import Headings
from rag_lab.corpus.parsing.layer import clean
from rag_lab.text import trim

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n?|\n")
_LONGEST_HEADING = 500
_KINDS = {
    "heading_open": BlockKind.HEADING,
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "table_open": BlockKind.TABLE,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "blockquote_open": BlockKind.QUOTE,
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """Whole lines that are one block; `lead` is the header row of a table, `level` and `words` are of a heading."""

    kind: BlockKind
    span: Span
    lead: Span | None = None
    level: int = 0
    words: str = ""


@lru_cache(maxsize=4)
def markdown_blocks(text: str) -> tuple[Block, ...]:
    """Blocks in order, without white space at their ends; together they hold every other character."""
    blocks: list[Block] = []
    headings = Headings()
    for stretch in stretches(*read(text, 0, len(text))):
        if stretch.level:
            headings.enter(stretch.level, stretch.words)
        if span := trim(text, stretch.span):
            lead = trim(text, stretch.lead) if stretch.lead else None
            blocks.append(Block(stretch.kind, span, headings.path, stretch.level, lead=lead))
    return tuple(blocks)


def read(original: str, start: int, end: int) -> tuple[Sequence[Token], Sequence[int]]:
    """The tokens of a stretch, and where in the original its lines begin, with its end as the last."""
    lines = [start, *(match.end() for match in _LINE_END.finditer(original, start, end))]
    if lines[-1] < end or len(lines) == 1:
        lines.append(end)
    return _engine().parse(original[start:end]), lines


def stretches(tokens: Sequence[Token], lines: Sequence[int]) -> Iterator[Stretch]:
    """Everything from the first line to the last. A heading without words, or with very many, is a paragraph."""
    at = 0
    for i, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        first, last = max(token.map[0], at), min(token.map[1], len(lines) - 1)
        if first > at:
            yield Stretch(BlockKind.PARAGRAPH, (lines[at], lines[first]))
        if last > first:
            yield _stretch(tokens, i, lines[first : last + 1])
        at = max(at, last)
    if at < len(lines) - 1:
        yield Stretch(BlockKind.PARAGRAPH, (lines[at], lines[-1]))


def heading_words(source: str) -> str:
    """The words of a heading, without markup of links, emphasis and code; a very long one stays as it is."""
    if len(source) > _LONGEST_HEADING:
        return source
    words = "".join(
        child.content if child.type in ("text", "code_inline", "text_special") else " "
        for token in _inline().parseInline(source)
        for child in token.children or ()
        if child.type in ("text", "code_inline", "text_special", "softbreak", "hardbreak")
    )
    return clean(words)


def _stretch(tokens: Sequence[Token], number: int, lines: Sequence[int]) -> Stretch:
    token, span = tokens[number], (lines[0], lines[-1])
    kind = _KINDS.get(token.type, BlockKind.PARAGRAPH)
    if kind is BlockKind.TABLE:
        return Stretch(kind, span, (lines[0], lines[1]))
    if kind is BlockKind.HEADING:
        words = heading_words(tokens[number + 1].content)
        if 0 < len(words) <= _LONGEST_HEADING:
            return Stretch(kind, span, None, int(token.tag[1]), words)
        return Stretch(BlockKind.PARAGRAPH, span)
    return Stretch(kind, span)


@cache
def _engine() -> MarkdownIt:
    """Blocks only: what is inside a paragraph stays source, and reading it can take time that grows with its square."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable(["inline", "reference"])


@cache
def _inline() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")
