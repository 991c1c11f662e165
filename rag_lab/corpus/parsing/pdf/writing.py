"""Blocks of a PDF as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_lab.contracts import BlockKind, Span
from rag_lab.corpus.parsing.layer import Layer, LayerBuilder
from rag_lab.corpus.parsing.pdf.pages import Page
from rag_lab.corpus.parsing.pdf.pieces import Line, Run
from rag_lab.corpus.parsing.pdf.structure import BULLETS, Draft, Hyphens, joined

_LIGATURES = {
    **{0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"},
}


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
        self._bases = {page.number: page.base for page in pages}
        self._hyphens = hyphens
        self._headings: list[tuple[int, str]] = []

    def write(self, drafts: Sequence[Draft]) -> Layer:
        """All blocks, an empty line between two of them."""
        for draft in drafts:
            if self._builder.position:
                self._builder.insert("\n\n")
            start = self._builder.position
            lead = self._write_table(draft) if draft.kind is BlockKind.TABLE else None
            if draft.kind is BlockKind.LIST:
                self._write_list(draft)
            elif lead is None:
                self._write_lines(draft.lines)
            if draft.kind is BlockKind.HEADING:
                self._enter(draft.level, self._builder.clean(start))
            self._builder.block(
                draft.kind,
                start,
                section_path=tuple(title for _, title in self._headings),
                level=draft.level,
                page=draft.page,
                lead=lead,
            )
        return self._builder.build()

    def _enter(self, level: int, title: str) -> None:
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        self._headings.append((level, title))

    def _write_list(self, draft: Draft) -> None:
        bounds = [*draft.starts, len(draft.lines)]
        depths = _depths([draft.lines[start][1] for start in draft.starts])
        for i, start in enumerate(draft.starts):
            self._builder.insert(("\n" if i else "") + "  " * depths[i])
            page, line = draft.lines[start]
            if line.text[0] in BULLETS:
                line = self._with_dash(page, line)
            self._write_lines([(page, line), *draft.lines[start + 1 : bounds[i + 1]]])

    def _with_dash(self, page: int, line: Line) -> Line:
        """The line with a dash in place of its bullet."""
        start, end, put = line.runs[0]
        if put is not None or self._builder.original[self._bases[page] + start] not in BULLETS:
            return line
        rest: tuple[Run, ...] = ((start + 1, end, None),) if end > start + 1 else ()
        return replace(line, runs=((start, start + 1, "-"), *rest, *line.runs[1:]))

    def _write_table(self, draft: Draft) -> Span:
        lead = (0, 0)
        for i, row in enumerate(draft.cells):
            if i:
                self._builder.insert("\n")
            start = self._builder.position
            for cell in row:
                self._builder.insert("| ")
                self._write_lines([(draft.page, line) for line in cell])
                self._builder.insert(" " if cell else "")
            self._builder.insert("|")
            if i == 0:
                lead = (start, self._builder.position)
        return lead

    def _write_lines(self, lines: Sequence[tuple[int, Line]]) -> None:
        for page, line, before, soft in joined(lines, self._hyphens):
            self._builder.insert(before)
            self._write_line(self._bases[page], line, soft)

    def _write_line(self, base: int, line: Line, soft: bool) -> None:
        runs = list(line.runs)
        if soft:
            start, end, _ = runs.pop()
            runs += [(start, end - 1, None)] if end - start > 1 else []
        for start, end, put in runs:
            if put is not None:
                self._builder.put(put, base + start, base + end)
            else:
                self._take(base + start, base + end)

    def _take(self, start: int, end: int) -> None:
        """A stretch of the original: line ends inside are spaces, ligatures are letters."""
        text = self._builder.original[start:end]
        if text.isascii() and "\n" not in text and "\r" not in text:
            self._builder.take(start, end)
            return
        at = start
        for i, character in enumerate(text, start):
            put = _LIGATURES.get(ord(character)) or (" " if character in "\r\n" else None)
            if put is not None:
                self._builder.take(at, i)
                self._builder.put(put, i, i + 1)
                at = i + 1
        self._builder.take(at, end)
