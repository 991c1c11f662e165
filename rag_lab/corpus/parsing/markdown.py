"""Markdown, as its source.

The text stays Markdown source, markup of links and emphasis included, so that spans of a document that was read from
Markdown mean the same before and after. What a reader never sees is cut out of it: front matter, HTML comments, and
HTML elements that are scripts, style sheets, templates or hidden. Code is left alone. Section paths hold the words of
a heading without its markup.

Front matter is a YAML mapping between a first line `---` and a line `---` or `...`, or TOML between lines `+++`; the
line after the opening one is not blank. Anything else that starts with a rule is text. Values are text or lists of
text; a mapping inside is flattened to dotted names.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rag_lab.contracts import BlockKind, Span
from rag_lab.corpus.parsing.decoding import decode
from rag_lab.corpus.parsing.front_matter import front_matter
from rag_lab.corpus.parsing.html_elements import HIDING, Close, Open, Text, Walk
from rag_lab.corpus.parsing.language import normal
from rag_lab.corpus.parsing.layer import LayerBuilder, clean
from rag_lab.corpus.parsing.parsed import Parsed

_LINE_END = re.compile(r"\r\n?|\n")
_TICKS = re.compile(r"`+")
_LONGEST_HEADING = 500
_KINDS: Mapping[str, BlockKind] = {
    "heading_open": BlockKind.HEADING,
    "bullet_list_open": BlockKind.LIST,
    "ordered_list_open": BlockKind.LIST,
    "table_open": BlockKind.TABLE,
    "fence": BlockKind.CODE,
    "code_block": BlockKind.CODE,
    "blockquote_open": BlockKind.QUOTE,
}


@cache
def version() -> str:
    """Version of this parser and of its library."""
    from importlib.metadata import version as installed

    return f"markdown-1 markdown-it-py-{installed('markdown-it-py')}"


def parse(data: bytes, name: str, keep_hidden: bool = False) -> Parsed:  # noqa: ARG001 - one interface
    """The blocks of a Markdown file and its front matter."""
    decoded = decode(data)
    body, metadata = front_matter(decoded.text)
    builder = LayerBuilder(decoded.text)
    seen = add_markdown(builder, body, len(decoded.text))
    layer = builder.build()
    return Parsed(
        layer.text,
        layer.blocks,
        decoded.text,
        layer.offsets,
        version(),
        title=_text_of(metadata.get("title")),
        language=normal(_text_of(metadata.get("lang") or metadata.get("language"))),
        metadata=metadata,
        removed=dict(sorted(seen.removed.items())),
        hidden=tuple(seen.hidden) if keep_hidden else (),
        notes=decoded.notes,
    )


@dataclass
class Seen:
    """What `add_markdown` found: the headings in force at the end, what it cut out, and the texts that were hidden."""

    path: list[tuple[int, str]] = field(default_factory=list)
    removed: Counter[str] = field(default_factory=Counter)
    hidden: list[str] = field(default_factory=list)


def add_markdown(builder: LayerBuilder, start: int, end: int, path: list[tuple[int, str]] | None = None) -> Seen:
    """Take a stretch of the original as Markdown, below the headings of `path`."""
    original = builder.original
    lines = [start, *(match.end() for match in _LINE_END.finditer(original, start, end))]
    if lines[-1] < end or len(lines) == 1:
        lines.append(end)
    tokens = _engine().parse(original[start:end])
    seen = Seen(list(path or ()))
    cuts = _cuts(original, tokens, lines, seen)
    for kind, span, lead, heading in _stretches(tokens, lines):
        within = bisect_left(cuts, (span[0] + 1, 0)) - 1
        if within >= 0 and cuts[within][1] >= span[1]:
            continue
        level, title = heading
        if level and 0 < len(title) <= _LONGEST_HEADING:
            seen.path = [entry for entry in seen.path if entry[0] < level] + [(level, title)]
        elif level:
            kind, level = BlockKind.PARAGRAPH, 0
        _take(builder, kind, span, lead, cuts, level, tuple(words for _, words in seen.path))
    return seen


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


@cache
def _engine() -> Any:
    """Blocks only: what is inside a paragraph stays source, and reading it can take time that grows with its square."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable(["inline", "reference"])


@cache
def _inline() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


def _title(source: str) -> str:
    """The words of a heading."""
    if len(source) > _LONGEST_HEADING:
        return source
    words = "".join(
        child.content if child.type in ("text", "code_inline", "text_special") else " "
        for token in _inline().parseInline(source)
        for child in token.children or ()
        if child.type in ("text", "code_inline", "text_special", "softbreak", "hardbreak")
    )
    return clean(words)


def _stretches(tokens: list[Any], lines: list[int]) -> Iterator[tuple[BlockKind, Span, Span | None, tuple[int, str]]]:
    """Kind, span, header row, and level and words of the heading, for everything from the first line to the last."""
    at = 0
    for i, token in enumerate(tokens):
        if token.level or token.map is None or token.nesting < 0:
            continue
        first, last = max(token.map[0], at), min(token.map[1], len(lines) - 1)
        if first > at:
            yield BlockKind.PARAGRAPH, (lines[at], lines[first]), None, (0, "")
        kind = _KINDS.get(token.type, BlockKind.PARAGRAPH)
        lead = (lines[first], lines[first + 1]) if kind is BlockKind.TABLE else None
        heading = (int(token.tag[1]), _title(tokens[i + 1].content)) if kind is BlockKind.HEADING else (0, "")
        if last > first:
            yield kind, (lines[first], lines[last]), lead, heading
        at = max(at, last)
    if at < len(lines) - 1:
        yield BlockKind.PARAGRAPH, (lines[at], lines[-1]), None, (0, "")


def _take(
    builder: LayerBuilder,
    kind: BlockKind,
    span: Span,
    lead: Span | None,
    cuts: list[Span],
    level: int,
    path: tuple[str, ...],
) -> None:
    """Take a stretch without what is cut from it, as one block."""
    start = builder.position
    lead_end = 0
    at = span[0]
    first = max(bisect_left(cuts, (at, at)) - 1, 0)
    for cut_start, cut_end in cuts[first : bisect_left(cuts, (span[1], 0))]:
        builder.take(at, max(at, cut_start))
        at = min(max(at, cut_end), span[1])
        if lead and at < lead[1]:
            lead_end = builder.position
    if lead and at < lead[1]:
        builder.take(at, lead[1])
        at, lead_end = lead[1], builder.position
    builder.take(at, span[1])
    builder.block(
        kind, start, section_path=path, level=level, lead=(start, lead_end) if lead and lead_end > start else None
    )


# --- what a reader never sees ----------------------------------------------------------------------------------------


def _cuts(original: str, tokens: list[Any], lines: list[int], seen: Seen) -> list[Span]:
    """Ascending, disjoint spans of comments and of elements that are never shown."""
    start, end = lines[0], lines[-1]
    if "<" not in original[start:end]:
        return []
    masked = _without_code(original, tokens, lines)
    cuts: list[Span] = []
    pieces: list[str] = []
    for event in Walk(masked).events():
        if isinstance(event, Text):
            if event.reason in HIDING:
                pieces.append(masked[event.start : event.end] if event.value is None else event.value)
        elif not event.element.own:
            continue
        elif isinstance(event, Open):
            pieces = [] if event.element.reason in HIDING else pieces
        elif _ends(masked, event):
            cuts.append((start + event.element.start, start + masked.find(">", event.place) + 1))
            if event.element.reason in HIDING:
                seen.removed[event.element.reason] += 1
                seen.hidden.append(clean("".join(pieces)))
    comments = [(start + a, start + b) for a, b in _comments(masked)]
    return _merged(sorted(cuts + comments))


def _ends(masked: str, close: Close) -> bool:
    """Whether an element has an end tag of its own: an unclosed one may be prose about HTML, and is kept."""
    tag = f"</{close.element.tag}"
    return masked[close.place : close.place + len(tag)].lower() == tag


def _comments(masked: str) -> Iterator[Span]:
    at = 0
    while (first := masked.find("<!--", at)) >= 0 and (last := masked.find("-->", first + 4)) >= 0:
        yield first, last + 3
        at = last + 3


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _without_code(original: str, tokens: list[Any], lines: list[int]) -> str:
    """The stretch with code blanked out, place by place."""
    start = lines[0]
    pieces: list[str] = []
    at = start
    for first, last in _code(original, tokens, lines):
        if first >= at:
            pieces += (original[at:first], " " * (last - first))
            at = last
    pieces.append(original[at : lines[-1]])
    return "".join(pieces)


def _code(original: str, tokens: list[Any], lines: list[int]) -> Iterator[Span]:
    """Spans of code blocks, wherever they are nested, and of code in paragraphs, ascending."""
    for token in tokens:
        if token.map is None:
            continue
        first, last = lines[token.map[0]], lines[min(token.map[1], len(lines) - 1)]
        if token.type in ("fence", "code_block"):
            yield first, last
        elif token.type == "inline":
            yield from _code_spans(original, first, last)


def _code_spans(original: str, start: int, end: int) -> Iterator[Span]:
    """Code between two equal runs of backticks."""
    runs = [match.span() for match in _TICKS.finditer(original, start, end)]
    by_length: dict[int, list[int]] = {}
    for i, (first, last) in enumerate(runs):
        by_length.setdefault(last - first, []).append(i)
    i = 0
    while i < len(runs):
        same = by_length[runs[i][1] - runs[i][0]]
        following = bisect_left(same, i + 1)
        if following < len(same):
            yield runs[i][0], runs[same[following]][1]
            i = same[following]
        i += 1
