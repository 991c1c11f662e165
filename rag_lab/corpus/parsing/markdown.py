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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import Span
from rag_lab.corpus.headings import Headings
from rag_lab.corpus.markdown import Stretch, read, stretches
from rag_lab.corpus.parsing.decoding import decode
from rag_lab.corpus.parsing.front_matter import front_matter
from rag_lab.corpus.parsing.html_elements import HIDING, Close, Open, Text, Walk
from rag_lab.corpus.parsing.language import normal
from rag_lab.corpus.parsing.layer import LayerBuilder, clean
from rag_lab.corpus.parsing.parsed import Parsed

if TYPE_CHECKING:
    from markdown_it.token import Token

_TICKS = re.compile(r"`+")


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
    seen = Seen()
    add_markdown(builder, body, len(decoded.text), seen)
    layer = builder.build()
    return Parsed(
        *layer,
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
    """What `add_markdown` found so far: the headings in force, what it cut out, and the texts that were hidden."""

    headings: Headings = field(default_factory=Headings)
    removed: Counter[str] = field(default_factory=Counter)
    hidden: list[str] = field(default_factory=list)


def add_markdown(builder: LayerBuilder, start: int, end: int, seen: Seen) -> None:
    """Take a stretch of the original as Markdown, after what was seen before it."""
    original = builder.original
    tokens, lines = read(original, start, end)
    cuts = _cuts(original, tokens, lines, seen)
    for stretch in stretches(tokens, lines):
        within = bisect_left(cuts, (stretch.span[0] + 1, 0)) - 1
        if within >= 0 and cuts[within][1] >= stretch.span[1]:
            continue
        if stretch.level:
            seen.headings.enter(stretch.level, stretch.words)
        _take(builder, stretch, cuts, seen.headings.path)


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _take(builder: LayerBuilder, stretch: Stretch, cuts: list[Span], path: tuple[str, ...]) -> None:
    """Take a stretch without what is cut from it, as one block."""
    span, lead = stretch.span, stretch.lead
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
    kept_lead = (start, lead_end) if lead_end > start else None
    builder.block(stretch.kind, start, section_path=path, level=stretch.level, lead=kept_lead)


# --- what a reader never sees ----------------------------------------------------------------------------------------


def _cuts(original: str, tokens: Sequence[Token], lines: Sequence[int], seen: Seen) -> list[Span]:
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


def _without_code(original: str, tokens: Sequence[Token], lines: Sequence[int]) -> str:
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


def _code(original: str, tokens: Sequence[Token], lines: Sequence[int]) -> Iterator[Span]:
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
