"""How a table is written, whatever it was read from: one line a row, "| a | b |".

A `|` inside a cell is written as in Markdown, with a backslash before it, so that no row looks one cell longer than it
is. White space in a cell is as in HTML. What a cell of an earlier row reaches down into is repeated if it is short, and
a cell that spans columns is followed by empty ones; in one document both may add no more than it has text and a little,
or a small file could ask for huge tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rag_lab.contracts import Span
from rag_lab.corpus.parsing.layer import LayerBuilder

Run: TypeAlias = tuple[int, int, str | None]
"""A stretch of the original, and what is written instead of it, or None. An empty stretch is what the parser adds."""

_LONGEST_REPEATED = 100
_SPARE = 10_000


@dataclass(slots=True)
class Cell:
    """What is written in a cell, and how many columns and rows it spans."""

    runs: list[Run] = field(default_factory=list)
    columns: int = 1
    rows: int = 1


def write_runs(builder: LayerBuilder, runs: Iterable[Run]) -> None:
    """Write runs outside of tables, as they are."""
    for start, end, put in runs:
        if put is None:
            builder.take(start, end)
        elif start == end:
            builder.insert(put)
        else:
            builder.put(put, start, end)


class TableWriter:
    """Writes the tables of one document."""

    def __init__(self, builder: LayerBuilder) -> None:
        self._builder = builder
        self._left = len(builder.original) + _SPARE
        self._carried: dict[int, tuple[int, str]] = {}

    def write(self, rows: Iterable[Sequence[Cell]], headers: int) -> Span | None:
        """Write a table; the span of its first `headers` rows, in positions of the builder, if there are any."""
        builder = self._builder
        start = lead_end = builder.position
        self._carried.clear()
        for i, row in enumerate(rows):
            builder.insert("\n|" if i else "|")
            self._write_row(row)
            lead_end = builder.position if i < headers else lead_end
        return (start, lead_end) if lead_end > start else None

    def _write_row(self, row: Sequence[Cell]) -> None:
        builder = self._builder
        column = 0
        for cell in row:
            column = self._repeat(column) if self._carried else column
            builder.insert(" ")
            start = builder.position
            for run in cell.runs:
                self._write_run(*run)
            width = 1 if cell.columns == 1 else max(min(cell.columns, self._left // 2), 1)
            self._left -= 2 * (width - 1)
            if cell.rows > 1:
                text = builder.clean(start)
                self._carry(column, width, cell.rows - 1, text if len(text) <= _LONGEST_REPEATED else "")
            builder.insert(" |" * width)
            column += width
        self._repeat(column)

    def _write_run(self, start: int, end: int, put: str | None) -> None:
        builder = self._builder
        if put is None:
            at = start
            while (bar := builder.original.find("|", at, end)) >= 0:
                builder.take(start, bar, collapse=True)
                builder.insert("\\")
                start, at = bar, bar + 1
            builder.take(start, end, collapse=True)
        elif start == end:
            builder.insert(put.replace("|", "\\|"), collapse=True)
        else:
            builder.put(put.replace("|", "\\|"), start, end, collapse=True)

    def _carry(self, column: int, width: int, rows: int, text: str) -> None:
        for i in range(width):
            self._carried[column + i] = (rows, "" if i else text)

    def _repeat(self, column: int) -> int:
        """Write the cells that reach down into this column and those after it; the next free column."""
        while column in self._carried:
            rows, text = self._carried.pop(column)
            self._left -= len(text) + 3
            if self._left < 0:
                self._carried.clear()
                break
            self._builder.insert(f" {text} |" if text else " |")
            if rows > 1:
                self._carried[column] = (rows - 1, text)
            column += 1
        return column
