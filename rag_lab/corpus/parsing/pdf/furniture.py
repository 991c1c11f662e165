"""Headers, footers and page numbers: lines at the edge of pages that come again and again."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag_lab.corpus.parsing.pdf.pieces import Piece, rows_of

_EDGE, _WIDEST_EDGE, _EDGE_POINTS = 0.12, 0.25, 72.0
_MOST_ROWS = 3
_TOLERANCE = 4.0
_LONGEST_NUMBER = 16
_AT_END = re.compile(r"^\d{1,4}(?=\s)|(?<=\s)\d{1,4}$|^\d{1,4}$")
_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(
    r"(?i)\W*((page|seite|p\.|pg\.)\W*\d+(\W*(of|von|/)\W*\d+)?|\d+\s*(of|/)\s*\d+|第\s*\d+\s*页(\W*共\s*\d+\s*页)?)\W*|"
    r"[-–—]\s*\d+\s*[-–—]"
)
_BARE_NUMBER = re.compile(r"\d{1,3}|[ivx]{1,5}")


@dataclass(slots=True)
class _Row:
    page: int
    place: str
    pieces: list[Piece]
    y: float
    text: str
    size: float
    apart: bool
    at_edge: bool

    @property
    def is_long(self) -> bool:
        return len(self.pattern) > _LONGEST_NUMBER

    @property
    def pattern(self) -> str:
        return _DIGITS.sub("#", self.text)


@dataclass(slots=True)
class Furniture:
    """Pieces to leave out, by identity, and how many rows of each sort."""

    pieces: set[int] = field(default_factory=set)
    removed: Counter[str] = field(default_factory=Counter)


def find_furniture(pages: Sequence[Sequence[Piece]], heights: Sequence[float], body_size: float) -> Furniture:
    """Rows of pieces at the edges of all pages that are repeated, count the pages, or stand outside of such rows."""
    first = min((piece.y0 for pieces in pages for piece in pieces), default=0.0)
    last = max((piece.y1 for pieces in pages for piece in pieces), default=0.0)
    rows = [row for page, pieces in enumerate(pages) for row in _edge_rows(page, pieces, heights[page], first, last)]
    repeated = _repeated([row for stack in rows for row in stack], len(pages), body_size)
    repeated |= _numbered([stack[0] for stack in rows if stack], repeated, body_size)
    furniture = Furniture()
    for stack in rows:
        kinds = [repeated.get(id(row)) or _number(row, len(pages)) for row in stack]
        for row, kind in list(zip(stack, kinds, strict=True))[: _depth(stack, kinds)]:
            furniture.pieces.update(id(piece) for piece in row.pieces)
            furniture.removed[kind] += 1
    return furniture


def _depth(stack: Sequence[_Row], kinds: Sequence[str]) -> int:
    """How many rows from the edge inwards are furniture. A long one that varies must not run into the text."""
    depth = next((i for i, kind in enumerate(kinds) if not kind), len(stack))
    while depth and not stack[depth - 1].apart and kinds[depth - 1] == "page number" and stack[depth - 1].is_long:
        depth -= 1
    return depth


def edge(height: float) -> float:
    """How far from the top and the bottom of a page headers and footers are looked for, in points."""
    return min(_WIDEST_EDGE * height, max(_EDGE * height, _EDGE_POINTS))


def _edge_rows(page: int, pieces: Sequence[Piece], height: float, first: float, last: float) -> list[list[_Row]]:
    """The outermost rows near the top and the bottom of the text of all pages, each from the edge inwards."""
    depth = edge(height)
    top = rows_of([piece for piece in pieces if piece.y1 <= first + depth])[:_MOST_ROWS]
    bottom = rows_of([piece for piece in pieces if piece.y0 >= last - depth])[-_MOST_ROWS:]
    bottom.reverse()
    ys = sorted(piece.y0 for piece in pieces)
    return [
        [_row(page, "header", row, ys, row[0].y1 <= depth) for row in top],
        [_row(page, "footer", row, ys, row[0].y0 >= height - depth) for row in bottom],
    ]


def _row(page: int, place: str, row: list[Piece], ys: list[float], at_edge: bool) -> _Row:
    y, size = min(piece.y0 for piece in row), max(piece.size for piece in row)
    near = [other for other in ys if other < y - size / 2] if place == "footer" else [o for o in ys if o > y + size / 2]
    distance = min((abs(other - y) for other in near), default=0.0)
    text = " ".join(piece.text for piece in row)
    return _Row(page, place, row, y, text, size, distance > 1.8 * size, at_edge)


def _repeated(rows: Sequence[_Row], pages: int, body_size: float) -> dict[int, str]:
    """Sort of furniture by the identity of the row."""
    groups: dict[tuple[str, str], list[_Row]] = defaultdict(list)
    for row in rows:
        groups[row.place, row.pattern].append(row)
    found: dict[int, str] = {}
    for (place, _), group in groups.items():
        for row in group:
            same = {other.page for other in group if abs(other.y - row.y) <= _TOLERANCE and _counts(row, other)}
            if len(same) < (2 if pages <= 4 else 3):
                continue
            varies = len({other.text for other in group}) > 1
            if varies and row.size > 1.15 * body_size:
                continue
            found[id(row)] = "page number" if varies else f"page {place}"
    return found


def _numbered(outermost: Sequence[_Row], repeated: Mapping[int, str], body_size: float) -> dict[int, str]:
    """Outermost rows that begin or end with a number as far from the page's place as on most other pages."""
    shifts: dict[tuple[str, int], list[_Row]] = defaultdict(list)
    for row in outermost:
        for number in {match.group() for match in _AT_END.finditer(row.text)}:
            shifts[row.place, int(number) - row.page].append(row)
    return {
        id(row): f"page {place}"
        for (place, _), group in shifts.items()
        if len(group) >= _MOST_ROWS
        for row in group
        if id(row) not in repeated and row.apart and row.size <= 1.15 * body_size
    }


def _counts(row: _Row, other: _Row) -> bool:
    """Whether two rows are equal but for numbers that go up with the pages."""
    numbers = zip(_DIGITS.findall(row.text), _DIGITS.findall(other.text), strict=True)
    return all(a == b or int(b[-9:]) - int(a[-9:]) == other.page - row.page for a, b in numbers)


def _number(row: _Row, pages: int) -> str:
    """A page number that nothing repeats."""
    if not (row.apart and row.at_edge):
        return ""
    if _PAGE_NUMBER.fullmatch(row.text):
        return "page number"
    if pages == 1 and _BARE_NUMBER.fullmatch(row.text):
        return "page number"
    return ""
