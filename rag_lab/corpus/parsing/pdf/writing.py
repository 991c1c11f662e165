"""Blocks of a PDF as text. A raised number follows another one after a "^", or 10⁶ would read as 106."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rag_lab.contracts import BlockKind
from rag_lab.corpus.headings import Headings
from rag_lab.corpus.parsing.layer import Layer, LayerBuilder
from rag_lab.corpus.parsing.pdf.pages import Page
from rag_lab.corpus.parsing.pdf.pieces import Line
from rag_lab.corpus.parsing.pdf.structure import BULLETS, Draft, Hyphens, joined
from rag_lab.corpus.parsing.table_rows import Cell, Run, TableWriter, write_runs

_LIGATURES = {
    **{0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"},
}
_ELSEWISE = re.compile(rf"[\r\n]\s*|[{''.join(map(chr, _LIGATURES))}]")


def _depths(items: Sequence[Line]) -> list[int]:
    """How deep each item of a list is indented, from 0."""
    edges: list[float] = []
    for item in sorted(items, key=lambda item: item.x0 - item.left):
        if not edges or item.x0 - item.left - edges[-1] > 0.5 * item.size:
            edges.append(item.x0 - item.left)
    return [sum(edge < item.x0 - item.left - 0.5 * item.size for edge in edges) for item in items]


class Writer:
    """Writes drafts one after the other and keeps the path of headings."""

    def __init__(self, original: str, pages: Sequence[Page], hyphens: Hyphens) -> None:
        self._builder = LayerBuilder(original)
        self._tables = TableWriter(self._builder)
        self._bases = {page.number: page.base for page in pages}
        self._raised = [page.base + at for page in pages for at in page.glyphs.raised.tolist()]
        self._hyphens = hyphens
        self._headings = Headings()

    def write(self, drafts: Sequence[Draft]) -> Layer:
        """All blocks, an empty line between two of them."""
        for draft in drafts:
            if self._builder.position:
                self._builder.insert("\n\n")
            start = self._builder.position
            lead = None
            if draft.kind is BlockKind.TABLE:
                rows = ([self._cell(draft.page, cell) for cell in row] for row in draft.cells)
                lead = self._tables.write(rows, headers=1)
            elif draft.kind is BlockKind.LIST:
                self._write_list(draft)
            else:
                write_runs(self._builder, self._runs(draft.lines))
            if draft.kind is BlockKind.HEADING:
                self._headings.enter(draft.level, self._builder.clean(start))
            self._builder.block(
                draft.kind,
                start,
                section_path=self._headings.path,
                level=draft.level,
                page=draft.page,
                lead=lead,
            )
        return self._builder.build()

    def _write_list(self, draft: Draft) -> None:
        bounds = [*draft.starts, len(draft.lines)]
        depths = _depths([draft.lines[start][1] for start in draft.starts])
        for i, start in enumerate(draft.starts):
            self._builder.insert(("\n" if i else "") + "  " * depths[i])
            page, line = draft.lines[start]
            if line.text[0] in BULLETS:
                line = self._with_dash(page, line)
            lines = [(page, line), *draft.lines[start + 1 : bounds[i + 1]]]
            write_runs(self._builder, self._runs(lines))

    def _with_dash(self, page: int, line: Line) -> Line:
        """The line with a dash in place of its bullet."""
        start, end, put = line.runs[0]
        if put is not None or self._builder.original[self._bases[page] + start] not in BULLETS:
            return line
        rest: tuple[Run, ...] = ((start + 1, end, None),) if end > start + 1 else ()
        return replace(line, runs=((start, start + 1, "-"), *rest, *line.runs[1:]))

    def _cell(self, page: int, lines: Sequence[Line]) -> Cell:
        return Cell(list(self._runs([(page, line) for line in lines])))

    def _runs(self, lines: Sequence[tuple[int, Line]]) -> Iterator[Run]:
        """Runs of the original for lines that are one text."""
        for page, line, before, soft in joined(lines, self._hyphens):
            base = self._bases[page]
            if before:
                at = base + line.runs[0][0]
                yield at, at, before
            runs = list(line.runs)
            if soft:
                start, end, _ = runs.pop()
                runs += [(start, end - 1, None)] if end - start > 1 else []
            for start, end, put in runs:
                if put is not None:
                    yield base + start, base + end, put
                else:
                    yield from self._plain(base + start, base + end)

    def _plain(self, start: int, end: int) -> Iterator[Run]:
        """A stretch of the original: a line end inside is a space, ligatures are letters."""
        for raised in self._raised[bisect_left(self._raised, start) : bisect_left(self._raised, end)]:
            yield from self._spelled(start, raised)
            yield raised, raised, "^"
            start = raised
        yield from self._spelled(start, end)

    def _spelled(self, start: int, end: int) -> Iterator[Run]:
        for match in _ELSEWISE.finditer(self._builder.original, start, end):
            yield start, match.start(), None
            yield *match.span(), _LIGATURES.get(ord(match.group()[0]), " ")
            start = match.end()
        yield start, end, None
