"""Tables of separated values: CSV and TSV. The header row is the lead of the table.

The separator is the one that gives most rows the same number of cells. Quoted cells may hold separators and line
breaks. A quote that is never closed is an ordinary character, so that it does not swallow the rest of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import TypeAlias

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing.decoding import VERSION as DECODING_VERSION
from rag_lab.corpus.parsing.decoding import decode
from rag_lab.corpus.parsing.layer import LayerBuilder
from rag_lab.corpus.parsing.parsed import Parsed, ParseError
from rag_lab.corpus.parsing.table_rows import Cell as WrittenCell
from rag_lab.corpus.parsing.table_rows import Run, TableWriter

VERSION = "table-2"

MOST_CELLS = 5_000_000
_SEPARATORS = (",", "\t", ";", "|")
_SAMPLE = 65_536
_SAMPLE_ROWS = 100
_LONGEST_NAME = 80
_MOST_NOTED = 10
_NUMBER = re.compile(r"[-+(]?[\d.,\s]*\d[\d.,\s]*[%€$£¥)]?|\d{4}-\d\d-\d\d.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}")
_CHOSEN = re.compile(r"sep=(.)\r?(?:\n|\Z)")

Cell: TypeAlias = tuple[int, int, bool]
"""Start, end, and whether it is quoted (then without its quotes)."""


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of a row, and the number of the line on which it begins."""

    cells: list[Cell]
    line: int


@cache
def version() -> str:
    """Version of this parser."""
    return f"{VERSION} {DECODING_VERSION}"


def parse(data: bytes, name: str, keep_hidden: bool) -> Parsed:  # noqa: ARG001 - one interface
    """All rows as one table. Raises `ParseError` for more cells than `MOST_CELLS`."""
    decoded = decode(data)
    text = decoded.text
    separator, start = _separator(text, name)
    rows: list[Row] = []
    cells = 0
    reader = _Reader(text, separator, start)
    for row in reader.rows():
        rows.append(row)
        cells += len(row.cells)
        if cells > MOST_CELLS:
            raise ParseError(f"{name}: has more than {MOST_CELLS} cells; split the file")
    notes = [*decoded.notes, *reader.notes, *_ragged(rows)]
    builder = LayerBuilder(text)
    header = bool(rows) and _is_header(text, rows)
    if rows and not header:
        notes.append("no header row")
    lead = TableWriter(builder).write(([_written(text, cell) for cell in row.cells] for row in rows), int(header))
    builder.block(BlockKind.TABLE, 0, lead=lead)
    layer = builder.build()
    return Parsed(*layer, version(), notes=tuple(notes))


class _Reader:
    """Cuts a text into rows of cells, in time linear in its length."""

    def __init__(self, text: str, separator: str, start: int = 0) -> None:
        self._text = text
        self._start = start
        mark = re.escape(separator)
        self._plain = re.compile(rf"([^{mark}\r\n]*+)({mark}|\r\n|\n|\r|\Z)")
        self._quoted = re.compile(rf'[ ]*+"((?:[^"]++|"")*+)"([^{mark}\r\n]*+)({mark}|\r\n|\n|\r|\Z)')
        self.notes: list[str] = []

    def rows(self) -> Iterator[Row]:
        """Rows that hold anything."""
        text, at, line = self._text, self._start, 1 + self._text.count("\n", 0, self._start)
        quotes = True
        while at < len(text):
            cells: list[Cell] = []
            first, ending = at, ""
            while True:
                match = self._quoted.match(text, at) if quotes and text.startswith(('"', " "), at) else None
                if match is None and quotes and text.startswith('"', at):
                    quotes = False
                    self.notes.append(f"line {line + text.count(chr(10), first, at)}: a quote is never closed")
                if match is not None and not match.group(2).strip():
                    cells.append((*match.span(1), True))
                    ending = match.group(3)
                else:
                    match = self._plain.match(text, at)
                    assert match is not None
                    cells.append((*match.span(1), False))
                    ending = match.group(2)
                at = match.end()
                if ending in ("\n", "\r\n", "\r", ""):
                    break
            if any(start < end for start, end, _ in cells):
                yield Row(cells, line)
            line += text.count("\n", first, at)


def _separator(text: str, name: str) -> tuple[str, int]:
    """The separator, and where the rows begin."""
    chosen = _CHOSEN.match(text)
    if chosen:
        return chosen.group(1), chosen.end()
    if PurePath(name).suffix.lower() == ".tsv":
        return "\t", 0
    sample = text[:_SAMPLE]
    best, best_score = ",", (0.0, 0)
    for separator in _SEPARATORS:
        counts: Counter[int] = Counter()
        for row, _ in zip(_Reader(sample, separator).rows(), range(_SAMPLE_ROWS), strict=False):
            counts[len(row.cells)] += 1
        columns, rows = counts.most_common(1)[0] if counts else (1, 0)
        score = (rows / max(1, counts.total()) if columns > 1 else 0.0, columns)
        if score > best_score:
            best, best_score = separator, score
    return best, 0


def _is_header(text: str, rows: list[Row]) -> bool:
    """Whether the first row names the columns: short, different, and none a number or a date."""
    names = [text[start:end].strip() for start, end, _ in rows[0].cells]
    if len(rows) < 2 or len(set(names)) < len(names) or not all(names):
        return False
    return all(len(name) <= _LONGEST_NAME and not _NUMBER.fullmatch(name) for name in names)


def _ragged(rows: list[Row]) -> list[str]:
    """A note on rows that have another number of cells than the first."""
    if not rows:
        return []
    wanted = len(rows[0].cells)
    found = [row for row in rows if len(row.cells) != wanted]
    if not found:
        return []
    listed = ", ".join(f"line {row.line} has {len(row.cells)}" for row in found[:_MOST_NOTED])
    more = f" and {len(found) - _MOST_NOTED} more" if len(found) > _MOST_NOTED else ""
    return [f"rows without {wanted} cells: {listed}{more}"]


def _written(text: str, cell: Cell) -> WrittenCell:
    """A cell as it is written; in a quoted one, two quotes stand for one."""
    at, end, quoted = cell
    runs: list[Run] = []
    while quoted and (quotes := text.find('""', at, end)) >= 0:
        runs += ((at, quotes, None), (quotes, quotes + 2, '"'))
        at = quotes + 2
    return WrittenCell([*runs, (at, end, None)])
