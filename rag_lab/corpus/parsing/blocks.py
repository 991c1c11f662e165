"""Blocks of an office file before they are written, and how they are written.

The original is gathered while a file is read, so its blocks are written when all of it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_lab.contracts import BlockKind
from rag_lab.corpus.headings import Headings
from rag_lab.corpus.parsing.layer import Layer, LayerBuilder
from rag_lab.corpus.parsing.table_rows import Cell, Run, TableWriter, write_runs


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
    tables = TableWriter(builder)
    headings = Headings()
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
        lead = tables.write(draft.rows, draft.headers) if draft.rows else None
        for i, line in enumerate(draft.lines):
            builder.insert("\n" if i else "")
            write_runs(builder, line)
        if draft.kind is BlockKind.HEADING:
            headings.enter(draft.level, builder.clean(start))
        builder.block(draft.kind, start, section_path=headings.path, level=draft.level, page=draft.page, lead=lead)
    return builder.build()


def _has_text(draft: Draft, original: str) -> bool:
    runs = [run for line in draft.lines for run in line] + [run for row in draft.rows for c in row for run in c.runs]
    return any(start < end and (put or original[start:end]).strip() for start, end, put in runs)
