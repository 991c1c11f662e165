"""Columns and reading order of a page.

A gutter is a strip that pieces stand on both sides of and that no line crosses. A heading or table over several columns
crosses it and so divides the page into bands, which are read from top to bottom; within a band the columns are read one
after the other. A band whose columns hold short texts on common lines is a table without rulings and is read by rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.corpus.parsing.pdf.pieces import Piece, rows_of

NARROWEST_GUTTER = 0.8
"""In font sizes."""
_WIDE_GUTTER = 2.0
_MOST_PIECES = 1_500
_DEEPEST = 8
_CANDIDATES = 6
_EMPTY_STRIP = 3.0
_ENDS = ".!?:;。！？：；…"


@dataclass(frozen=True, slots=True)
class Rows:
    """A table: rows of cells, each cell the pieces in it."""

    cells: tuple[tuple[tuple[Piece, ...], ...], ...]
    top: float

    @property
    def pieces(self) -> list[Piece]:
        return [piece for row in self.cells for cell in row for piece in cell]


Region: TypeAlias = "list[Piece] | Rows"


@dataclass(slots=True)
class Arrangement:
    """Regions in reading order; `certain` is False where columns could not be told from a table."""

    regions: list[Region]
    certain: bool


def arrange(pieces: Sequence[Piece], tables: Sequence[Rows] = ()) -> Arrangement:
    """Put the pieces of a page in reading order. `tables` found by their rulings stay whole."""
    holders = [_stand_in(table) for table in tables]
    stand_ins = {id(holder): table for holder, table in zip(holders, tables, strict=True)}
    items = [*pieces, *holders]
    if len(items) > _MOST_PIECES:
        return Arrangement(_unfolded([list(items)], stand_ins), False)
    certain = [True]
    return Arrangement(_unfolded(_split(items, 0, certain), stand_ins), all(certain))


def _stand_in(table: Rows) -> Piece:
    pieces = table.pieces
    return Piece(
        min(piece.x0 for piece in pieces),
        min(piece.y0 for piece in pieces),
        max(piece.x1 for piece in pieces),
        max(piece.y1 for piece in pieces),
        pieces[0].size,
        False,
        "",
        (),
        np.zeros(0, dtype=np.int64),
        False,
    )


def _unfolded(regions: Sequence[Region], stand_ins: dict[int, Rows]) -> list[Region]:
    """Tables in the places of their stand-ins, between the pieces above and below them."""
    result: list[Region] = []
    for region in regions:
        if isinstance(region, Rows):
            result.append(region)
            continue
        held: list[Piece] = []
        for piece in sorted(region, key=lambda piece: (piece.y0, piece.x0)):
            if id(piece) in stand_ins:
                result += [held] if held else []
                result.append(stand_ins[id(piece)])
                held = []
            else:
                held.append(piece)
        result += [held] if held else []
    return result


def _split(items: list[Piece], depth: int, certain: list[bool]) -> list[Region]:
    if len(items) < 2 or depth > _DEEPEST:
        return [items]
    best: list[tuple[bool, list[Piece]]] | None = None
    best_gutter, most = (0.0, 0.0), 0
    for gutter in _gutters(items):
        bands = _bands(items, gutter)
        inside = sum(len(band) for columns, band in bands if columns)
        if inside > most:
            best, best_gutter, most = bands, gutter, inside
    if best is None:
        return [items]
    regions: list[Region] = []
    for columns, band in best:
        if columns:
            regions += _columns(band, best_gutter, depth, certain)
        else:
            regions += _split(band, depth + 1, certain) if len(band) < len(items) else [band]
    return regions


def _columns(band: list[Piece], gutter: tuple[float, float], depth: int, certain: list[bool]) -> list[Region]:
    """The columns of a band one after the other, or its rows if it is a table."""
    rows = rows_of(band)
    shared = [i for i, row in enumerate(rows) if len(row) > 1]
    start, end = (shared[0], shared[-1] + 1) if shared else (0, len(rows))
    core = rows[start:end]
    columns = free_columns([piece for row in core for piece in row])
    prose = [is_prose(column) for column in columns]
    if not all(prose) and all(piece.text for row in core for piece in row):
        full = sum(len({_column_of(piece, columns) for piece in row}) > 1 for row in core)
        aligned = full >= 0.7 * len(core)
        if aligned and not any(prose) and (len(core) >= 3 or (len(columns) >= 3 and len(core) >= 2)):
            around: list[list[Piece]] = [
                [piece for row in part for piece in row] for part in (rows[:start], rows[end:])
            ]
            regions: list[Region] = [around[0], table_of(core, columns), around[1]]
            return [region for region in regions if region]
        if aligned:
            certain.append(False)
    sides = [[piece for piece in band if piece.x0 < gutter[0]], [piece for piece in band if piece.x0 >= gutter[0]]]
    if sum(piece.backwards for piece in band) * 2 > len(band):
        sides.reverse()
    return [region for side in sides for region in _split(side, depth + 1, certain)]


def _gutters(items: list[Piece]) -> list[tuple[float, float]]:
    """Strips between neighbours that most rows have in common, the commonest first."""
    box = np.array([(piece.x0, piece.y0, piece.x1, piece.y1) for piece in items])
    size = float(np.median([piece.size for piece in items]))
    gaps = _gaps(box, NARROWEST_GUTTER * size)
    if not len(gaps):
        return []
    edges = np.unique(gaps)
    middles = (edges[1:] + edges[:-1]) / 2
    votes = ((gaps[:, 0] < middles[:, None]) & (gaps[:, 1] > middles[:, None])).sum(axis=1)
    found: list[tuple[float, float]] = []
    for i in np.argsort(-votes, kind="stable")[: 4 * _CANDIDATES]:
        covering = gaps[(gaps[:, 0] < middles[i]) & (gaps[:, 1] > middles[i])]
        if not len(covering):
            continue
        strip = (float(covering[:, 0].max()), float(covering[:, 1].min()))
        if strip not in found and strip[1] - strip[0] >= 0.5 * size:
            found.append(strip)
        if len(found) == _CANDIDATES:
            break
    return found


def _gaps(box: npt.NDArray[np.float64], narrowest: float) -> npt.NDArray[np.float64]:
    """(end of a piece, start of its right neighbour) where so much lies between them, ``[m, 2]``."""
    height = box[:, 3] - box[:, 1]
    shared = np.minimum(box[:, None, 3], box[None, :, 3]) - np.maximum(box[:, None, 1], box[None, :, 1])
    beside = shared >= 0.3 * np.minimum(height[:, None], height[None, :])
    distance = box[None, :, 0] - box[:, None, 2]
    distance = np.where(beside & (distance > -narrowest / 2), distance, np.inf)
    np.fill_diagonal(distance, np.inf)
    nearest = distance.argmin(axis=1)
    width = distance[np.arange(len(box)), nearest]
    wide = np.flatnonzero((width >= narrowest) & np.isfinite(width))
    return np.stack((box[wide, 2], box[nearest[wide], 0]), axis=1)


def _bands(items: list[Piece], gutter: tuple[float, float]) -> list[tuple[bool, list[Piece]]]:
    """(whether it has columns, pieces) from top to bottom; neighbouring bands without columns are one."""
    size = float(np.median([piece.size for piece in items]))
    walls = {id(piece) for piece in items if _crosses(piece, gutter, size)}
    in_order = sorted(items, key=lambda piece: piece.y0 + piece.y1)
    crossing = [piece for piece in in_order if id(piece) in walls]
    others = [piece for piece in in_order if id(piece) not in walls]
    bands: list[tuple[bool, list[Piece]]] = []

    def add(columns: bool, pieces: list[Piece]) -> None:
        if pieces and bands and not columns and not bands[-1][0]:
            bands[-1][1].extend(pieces)
        elif pieces:
            bands.append((columns, list(pieces)))

    at = 0
    for wall in (*crossing, None):
        end = at
        while end < len(others) and (wall is None or others[end].y0 + others[end].y1 < wall.y0 + wall.y1):
            end += 1
        for group in _apart(others[at:end], size):
            add(_has_columns(group, gutter), group)
        if wall is not None:
            add(False, [wall])
        at = end
    return bands


def _apart(pieces: list[Piece], size: float) -> Iterator[list[Piece]]:
    """Groups of pieces, from top to bottom, with an empty strip over the whole width between two of them."""
    group: list[Piece] = []
    bottom = 0.0
    for piece in sorted(pieces, key=lambda piece: piece.y0):
        if group and piece.y0 - bottom > _EMPTY_STRIP * size:
            yield group
            group = []
        bottom = max(bottom, piece.y1) if group else piece.y1
        group.append(piece)
    if group:
        yield group


def _crosses(piece: Piece, gutter: tuple[float, float], size: float) -> bool:
    """Whether a piece belongs to neither side: it reaches from one to the other, or stands in the gutter."""
    left, right = gutter
    if piece.x0 < left:
        return piece.x1 > right - 0.5 * size
    return piece.x0 < left + 0.5 * size or piece.x1 <= right


def _has_columns(group: list[Piece], gutter: tuple[float, float]) -> bool:
    left = [piece for piece in group if piece.x0 < gutter[0]]
    right = [piece for piece in group if piece.x0 >= gutter[0]]
    if not left or not right:
        return False
    one, other = (np.array([(piece.y0, piece.y1, piece.size) for piece in side]) for side in (left, right))
    common = np.minimum(one[:, None, 1], other[None, :, 1]) - np.maximum(one[:, None, 0], other[None, :, 0])
    shared = common > 0.3 * np.minimum(one[:, None, 2], other[None, :, 2])
    beside = min(int(shared.any(axis=1).sum()), int(shared.any(axis=0).sum()))
    size = float(np.median([piece.size for piece in group]))
    return beside >= (2 if gutter[1] - gutter[0] >= _WIDE_GUTTER * size else 3)


def free_columns(band: list[Piece]) -> list[list[Piece]]:
    """Columns that no piece crosses the gaps of, from left to right."""
    size = float(np.median([piece.size for piece in band]))
    columns: list[list[Piece]] = []
    edge = -np.inf
    for piece in sorted(band, key=lambda piece: piece.x0):
        if piece.x0 - edge >= 0.5 * size or not columns:
            columns.append([])
        columns[-1].append(piece)
        edge = max(edge, piece.x1)
    return columns


def _column_of(piece: Piece, columns: list[list[Piece]]) -> int:
    return next(i for i, column in enumerate(columns) if any(piece is other for other in column))


def is_prose(column: list[Piece]) -> bool:
    """Whether the lines of a column go on from one to the next, as those of running text do."""
    rows = rows_of(column)
    texts = [" ".join(piece.text for piece in row) for row in rows]
    words = sum(_words(text) for text in texts) / len(texts)
    if len(texts) == 1:
        return words >= 6
    pairs = list(pairwise(texts))
    goes_on = sum(a[-1:] not in _ENDS and (b[:1].islower() or a.endswith("-")) for a, b in pairs) / len(pairs)
    left, right = min(piece.x0 for piece in column), max(piece.x1 for piece in column)
    filled = sum(row[-1].x1 - row[0].x0 >= 0.8 * (right - left) for row in rows[:-1]) / len(pairs)
    return (goes_on >= 0.3 and words >= 2) or (filled >= 0.5 and words >= 4)


def _words(text: str) -> float:
    """Words of a text; two characters of a script without spaces count as one."""
    wide = sum("\u2e80" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7af" for character in text)
    return wide / 2 + len(text.split())


def table_of(rows: Sequence[Sequence[Piece]], columns: list[list[Piece]]) -> Rows:
    """Rows of pieces put into columns."""
    cells = []
    for row in rows:
        found: list[list[Piece]] = [[] for _ in columns]
        for piece in row:
            found[_column_of(piece, columns)].append(piece)
        cells.append(tuple(tuple(cell) for cell in found))
    return Rows(tuple(cells), min(piece.y0 for piece in rows[0]))
