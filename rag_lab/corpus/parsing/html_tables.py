"""A table while it is read, and how it is written: one line a row, "| a | b |"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rag_lab.contracts import Span
from rag_lab.corpus.parsing.html_elements import Element
from rag_lab.corpus.parsing.layer import LayerBuilder

_MOST_COLUMNS = 200
_LONGEST_REPEATED = 100


@dataclass(slots=True)
class Cell:
    """Pieces of text (start and end in the original, and how they read where that differs) and what a cell spans."""

    pieces: list[tuple[int, int, str | None]] = field(default_factory=list)
    header: bool = False
    columns: int = 1
    rows: int = 1
    apart: bool = False

    def add(self, start: int, end: int, value: str | None) -> None:
        """Add text, after a space if `apart` was set since the last one."""
        if self.apart and self.pieces:
            self.pieces.append((start, start, " "))
        self.apart = False
        self.pieces.append((start, end, value))


@dataclass(slots=True)
class Row:
    """The cells of a row; `head`: it lies in the table's head."""

    head: bool
    cells: list[Cell] = field(default_factory=list)

    @property
    def is_header(self) -> bool:
        """Whether the row names the columns."""
        headers = sum(cell.header for cell in self.cells)
        return self.head or (headers > 0 and all(cell.header or not cell.pieces for cell in self.cells))


class Table:
    """Rows and cells as they come. Text outside of cells gets a cell of its own, so that nothing changes its order."""

    def __init__(self) -> None:
        self.caption: Cell | None = None
        self._rows: list[Row] = []
        self._cell: Cell | None = None
        self._in_row = False

    def open_caption(self) -> None:
        """Start the caption, an ordinary row if it comes late."""
        self._cell = Cell()
        if self._rows:
            self._rows.append(Row(False, [self._cell]))
        else:
            self.caption = self._cell

    def open_row(self, *, head: bool) -> None:
        """Start a row."""
        self._rows.append(Row(head))
        self._cell = None
        self._in_row = True

    def open_cell(self, element: Element, *, header: bool) -> None:
        """Start a cell."""
        if not self._in_row:
            self.open_row(head=False)
        columns, rows = _span(element, "colspan", _MOST_COLUMNS), _span(element, "rowspan", 65534)
        self._cell = Cell(header=header, columns=columns, rows=rows)
        self._rows[-1].cells.append(self._cell)

    def close(self, tag: str) -> None:
        """End a cell or a row."""
        self._cell = None
        if tag == "tr":
            self._in_row = False

    @property
    def has_text(self) -> bool:
        """Whether the open cell has text already."""
        return self._cell is not None and bool(self._cell.pieces)

    def cell(self) -> Cell:
        """The cell that text belongs to."""
        if self._cell is None:
            self._cell = Cell()
            if not self._in_row:
                self._rows.append(Row(False))
            self._rows[-1].cells.append(self._cell)
        return self._cell

    def separate(self) -> None:
        """The next text of the cell is a new line in it."""
        if self._cell is not None:
            self._cell.apart = True

    def cells(self) -> Iterator[Cell]:
        """All cells in reading order."""
        if self.caption:
            yield self.caption
        for row in self._rows:
            yield from row.cells

    @property
    def is_data(self) -> bool:
        """Whether rows and columns mean something."""
        rows = [row for row in self._rows if row.cells]
        if any(cell.header for row in rows for cell in row.cells):
            return True
        return len(rows) > 1 and max(len(row.cells) for row in rows) > 1

    def write(self, builder: LayerBuilder) -> Span | None:
        """Write all rows; the span of the header rows at the top, in positions of the builder."""
        start, header_end = builder.position, 0
        writer = _Writer(builder)
        in_head = True
        for row in self._rows:
            if not any(cell.pieces for cell in row.cells):
                continue
            writer.write(row)
            in_head = in_head and row.is_header
            header_end = builder.position if in_head else header_end
        return (start, header_end) if header_end else None


class _Writer:
    """Writes rows. What cells of earlier rows reach down into is repeated, what spans columns is padded.

    Both together may add no more than the page has text, or a small page could ask for a huge table.
    """

    def __init__(self, builder: LayerBuilder) -> None:
        self._builder = builder
        self._start = builder.position
        self._left = len(builder.original) + 1000
        self._carried: dict[int, tuple[int, str]] = {}

    def write(self, row: Row) -> None:
        """One line."""
        builder = self._builder
        builder.insert("\n|" if builder.position > self._start else "|")
        column = 0
        for cell in row.cells:
            column = self._repeat(column)
            builder.insert(" ")
            start = builder.position
            for piece_start, end, value in cell.pieces:
                if value is None:
                    builder.take(piece_start, end, collapse=True)
                else:
                    builder.put(value, piece_start, end, collapse=True)
            width = min(cell.columns, self._left // 2)
            self._left -= 2 * (width - 1)
            if cell.rows > 1:
                text = builder.clean(start)
                self._carry(column, width, cell.rows - 1, text if len(text) <= _LONGEST_REPEATED else "")
            builder.insert(" |" * max(width, 1))
            column += max(width, 1)
        self._repeat(column)

    def _carry(self, column: int, width: int, rows: int, text: str) -> None:
        for i in range(max(width, 1)):
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


def _span(element: Element, name: str, most: int) -> int:
    value = element.attributes.get(name, "1").strip()
    if not (value.isascii() and value.isdigit()):
        return 1
    return min(max(int(value[:6]), 1), most) if len(value.lstrip("0")) < 7 else most
