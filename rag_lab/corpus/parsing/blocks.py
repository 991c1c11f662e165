"""Blocks of an office file or a table before they are written, and how they are written.

The original is gathered while a file is read, so its blocks are written when all of it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rag_lab.contracts import BlockKind, Span
from rag_lab.corpus.parsing.layer import Layer, LayerBuilder, clean

Run: TypeAlias = tuple[int, int, str | None]
"""A stretch of the original, and what is written instead of it, or None. An empty stretch is what the parser adds."""

LONGEST_REPEATED = 100


@dataclass(slots=True)
class Cell:
    """A cell of a table. `columns` and `rows` are what it spans."""

    runs: list[Run] = field(default_factory=list)
    columns: int = 1
    rows: int = 1


@dataclass(slots=True)
class Draft:
    """A block: lines of runs, or for a table rows of cells of which the first `headers` name the columns.

    `added`: the parser itself says it, the original does not.
    """

    kind: BlockKind
    lines: list[list[Run]] = field(default_factory=list)
    level: int = 0
    page: int = 0
    rows: list[list[Cell]] = field(default_factory=list)
    headers: int = 0
    added: bool = False


def write(original: str, drafts: Sequence[Draft], *, sections_end_with_page: bool = False) -> Layer:
    """All blocks with the path of headings above each, an empty line between two of them."""
    builder = LayerBuilder(original)
    headings: list[tuple[int, str]] = []
    gap, page = "", 0
    for draft in drafts:
        if not draft.added and not _has_text(draft, original):
            continue
        if sections_end_with_page and draft.page != page:
            headings.clear()
        page = draft.page
        builder.insert(gap)
        gap = "\n\n"
        start = builder.position
        lead = _write_rows(builder, draft) if draft.rows else None
        for i, line in enumerate(draft.lines):
            builder.insert("\n" if i else "")
            _write_runs(builder, line)
        if draft.kind is BlockKind.HEADING:
            while headings and headings[-1][0] >= draft.level:
                headings.pop()
            headings.append((draft.level, builder.clean(start)))
        path = tuple(title for _, title in headings)
        builder.block(draft.kind, start, section_path=path, level=draft.level, page=draft.page, lead=lead)
    return builder.build()


def _has_text(draft: Draft, original: str) -> bool:
    runs = [run for line in draft.lines for run in line] + [run for row in draft.rows for c in row for run in c.runs]
    return any(start < end and (put or original[start:end]).strip() for start, end, put in runs)


def _write_runs(builder: LayerBuilder, runs: Sequence[Run], *, collapse: bool = False) -> None:
    for start, end, put in runs:
        if put is None:
            builder.take(start, end, collapse=collapse)
        elif start == end:
            builder.insert(put)
        else:
            builder.put(put, start, end, collapse=collapse)


def _write_rows(builder: LayerBuilder, draft: Draft) -> Span | None:
    """One line a row. What a cell of an earlier row reaches down to is repeated if it is short."""
    start = header_end = builder.position
    carried: dict[int, tuple[int, str]] = {}
    for i, row in enumerate(draft.rows):
        builder.insert("\n|" if i else "|")
        column = 0
        for cell in row:
            column = _repeat(builder, carried, column)
            builder.insert(" ")
            first = builder.position
            _write_runs(builder, cell.runs, collapse=True)
            builder.insert(" |" + " |" * (cell.columns - 1))
            if cell.rows > 1:
                text = clean(builder.raw(first, builder.position - 2 * cell.columns))
                text = text if len(text) <= LONGEST_REPEATED else ""
                carried |= {column + j: (cell.rows - 1, "" if j else text) for j in range(cell.columns)}
            column += cell.columns
        _repeat(builder, carried, column)
        header_end = builder.position if i < draft.headers else header_end
    return (start, header_end) if draft.headers else None


def _repeat(builder: LayerBuilder, carried: dict[int, tuple[int, str]], column: int) -> int:
    """Write the cells that reach down into this column and those after it; the next free column."""
    while column in carried:
        rows, text = carried.pop(column)
        builder.insert(f" {text} |" if text else " |")
        if rows > 1:
            carried[column] = (rows - 1, text)
        column += 1
    return column
