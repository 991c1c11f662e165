"""A table of a page while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rag_lab.contracts import Span
from rag_lab.corpus.parsing.html_elements import Element
from rag_lab.corpus.parsing.table_rows import Cell, TableWriter

_MOST_COLUMNS = 200


@dataclass(slots=True)
class PageCell(Cell):
    """A cell that text is added to; `header`: it names a row or a column."""

    header: bool = False
    apart: bool = False

    def add(self, start: int, end: int, value: str | None) -> None:
        """Add text, after a space if `apart` was set since the last one."""
        if self.apart and self.runs:
            self.runs.append((start, start, " "))
        self.apart = False
        self.runs.append((start, end, value))


@dataclass(slots=True)
class Row:
    """The cells of a row; `head`: it lies in the table's head."""

    head: bool
    cells: list[PageCell] = field(default_factory=list)

    @property
    def is_header(self) -> bool:
        """Whether the row names the columns."""
        headers = sum(cell.header for cell in self.cells)
        return self.head or (headers > 0 and all(cell.header or not cell.runs for cell in self.cells))


class Table:
    """Rows and cells as they come. Text outside of cells gets a cell of its own, so that nothing changes its order."""

    def __init__(self) -> None:
        self.caption: PageCell | None = None
        self._rows: list[Row] = []
        self._cell: PageCell | None = None
        self._in_row = False

    def open_caption(self) -> None:
        """Start the caption, an ordinary row if it comes late."""
        self._cell = PageCell()
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
        self._cell = PageCell(header=header, columns=columns, rows=rows)
        self._rows[-1].cells.append(self._cell)

    def close(self, tag: str) -> None:
        """End a cell or a row."""
        self._cell = None
        if tag == "tr":
            self._in_row = False

    @property
    def has_text(self) -> bool:
        """Whether the open cell has text already."""
        return self._cell is not None and bool(self._cell.runs)

    def cell(self) -> PageCell:
        """The cell that text belongs to."""
        if self._cell is None:
            self._cell = PageCell()
            if not self._in_row:
                self._rows.append(Row(False))
            self._rows[-1].cells.append(self._cell)
        return self._cell

    def separate(self) -> None:
        """The next text of the cell is a new line in it."""
        if self._cell is not None:
            self._cell.apart = True

    def cells(self) -> Iterator[PageCell]:
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

    def write(self, writer: TableWriter) -> Span | None:
        """Write all rows that hold anything; the span of the header rows at the top, in positions of the builder."""
        rows = [row for row in self._rows if any(cell.runs for cell in row.cells)]
        headers = next((i for i, row in enumerate(rows) if not row.is_header), len(rows))
        return writer.write((row.cells for row in rows), headers)


def _span(element: Element, name: str, most: int) -> int:
    value = element.attributes.get(name, "1").strip()
    if not (value.isascii() and value.isdigit()):
        return 1
    return min(max(int(value[:6]), 1), most) if len(value.lstrip("0")) < 7 else most
