"""Tables that are drawn with lines: the grid that rulings make, and the characters in its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.corpus.parsing.pdf.drawing import Box, Drawing
from rag_lab.corpus.parsing.pdf.glyphs import Glyphs
from rag_lab.corpus.parsing.pdf.layout import Rows, free_columns, is_prose, table_of
from rag_lab.corpus.parsing.pdf.pieces import Piece, find_pieces, rows_of

Floats = npt.NDArray[np.floating[Any]]

_TOUCH = 3.0
_MOST_RULINGS = 3_000
_MOST_CELLS = 20_000
_SHORTEST_RULE = 60.0
_WORDIEST = 15
_HEADER_GAP = 1.2


@dataclass(frozen=True, eq=False)
class Grid:
    """Edges of columns and rows, and for each cell the (row, column) whose text it shares where cells are merged."""

    xs: Floats
    ys: Floats
    roots: npt.NDArray[np.int64]


def ruled_tables(
    glyphs: Glyphs, chosen: npt.NDArray[np.int64], drawing: Drawing
) -> tuple[list[Rows], npt.NDArray[np.int64]]:
    """Tables among the characters at `chosen`, and the characters that are in none."""
    tables: list[Rows] = []
    for grid in find_grids(drawing.across, drawing.down):
        boxes = glyphs.boxes[chosen]
        x, y = (boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 1] * 0.4 + boxes[:, 3] * 0.6
        column, row = np.searchsorted(grid.xs, x) - 1, np.searchsorted(grid.ys, y) - 1
        inside = (column >= 0) & (column < len(grid.xs) - 1) & (row >= 0) & (row < len(grid.ys) - 1)
        table = _fill(glyphs, chosen[inside], row[inside], column[inside], grid)
        if table is not None:
            tables.append(table)
            chosen = chosen[~inside]
    return tables, chosen


def tables_between_rules(pieces: list[Piece], drawing: Drawing) -> tuple[list[Rows], list[Piece]]:
    """Tables that have rulings between rows alone, and the pieces that are in none."""
    tables: list[Rows] = []
    for left, right, ys in _rule_stacks(drawing.across):
        within = [piece for piece in pieces if piece.x0 >= left - _TOUCH and piece.x1 <= right + _TOUCH]
        inside = [piece for piece in within if ys[0] < (piece.y0 + piece.y1) / 2 < ys[-1]]
        header = _row_above(within, ys[0])
        if header:
            inside, ys = header + inside, [min(piece.y0 for piece in header) - 1, *ys]
        table = _between(inside, ys) if inside else None
        if table is not None:
            tables.append(table)
            gone = {id(piece) for piece in inside}
            pieces = [piece for piece in pieces if id(piece) not in gone]
    return tables, pieces


def _row_above(pieces: list[Piece], y: float) -> list[Piece]:
    """The names of columns that stand on a ruling: a row of several pieces close above it."""
    above = [p for p in pieces if (p.y0 + p.y1) / 2 < y and y - p.y1 < _HEADER_GAP * p.size]
    rows = rows_of(above)
    return rows[-1] if rows and len(rows[-1]) > 1 else []


def _rule_stacks(across: Sequence[Box]) -> list[tuple[float, float, list[float]]]:
    """(left, right, heights) of rulings of the same length above one another, at least three of them."""
    if not across or len(across) > _MOST_RULINGS:
        return []
    stacks: list[tuple[float, float, list[float]]] = []
    for x0, y0, x1, y1 in _merged(np.array(across), 1).tolist():
        if x1 - x0 < _SHORTEST_RULE:
            continue
        for left, right, ys in stacks:
            if abs(left - x0) <= _TOUCH and abs(right - x1) <= _TOUCH:
                ys.append((y0 + y1) / 2)
                break
        else:
            stacks.append((x0, x1, [(y0 + y1) / 2]))
    return [(left, right, sorted(ys)) for left, right, ys in stacks if len(ys) >= 3]


def _between(inside: list[Piece], ys: list[float]) -> Rows | None:
    columns, rows = free_columns(inside), rows_of(inside)
    if len(columns) < 2 or len(rows) < 2 or all(is_prose(column) for column in columns):
        return None
    words = sum(len(piece.text.split()) for piece in inside) / (len(rows) * len(columns))
    shared = sum(len(row) > 1 for row in rows)
    if words > _WORDIEST or shared < 0.5 * len(rows):
        return None
    bands = [[p for p in inside if a < (p.y0 + p.y1) / 2 < b] for a, b in pairwise(ys)]
    bands = [sorted(band, key=lambda piece: (piece.y0, piece.x0)) for band in bands if band]
    return table_of(bands if len(bands) >= 0.5 * len(rows) else rows, columns)


def find_grids(across: Sequence[Box], down: Sequence[Box]) -> list[Grid]:
    """Grids of at least two columns and two rows that connected rulings make."""
    if not across or not down or len(across) + len(down) > _MOST_RULINGS:
        return []
    h, v = _merged(np.array(across), 1), _merged(np.array(down), 0)
    touching = (
        (h[:, None, 0] <= v[None, :, 2] + _TOUCH)
        & (h[:, None, 2] >= v[None, :, 0] - _TOUCH)
        & (v[None, :, 1] <= h[:, None, 3] + _TOUCH)
        & (v[None, :, 3] >= h[:, None, 1] - _TOUCH)
    )
    grids = []
    for rows, columns in _components(touching):
        grid = _grid(h[rows], v[columns])
        if grid is not None:
            grids.append(grid)
    return grids


def _merged(boxes: Floats, axis: int) -> Floats:
    """Rulings that lie on one another or go on from one another as one. `axis`: the coordinate they share."""
    along = 1 - axis
    middle = (boxes[:, axis] + boxes[:, axis + 2]) / 2
    merged: list[list[float]] = []
    order = np.lexsort((boxes[:, along], np.round(middle / _TOUCH)))
    for i in order:
        box = boxes[i].tolist()
        if merged:
            last = merged[-1]
            if abs((last[axis] + last[axis + 2]) / 2 - middle[i]) <= _TOUCH and box[along] <= last[along + 2] + _TOUCH:
                last[along + 2] = max(last[along + 2], box[along + 2])
                continue
        merged.append(box)
    return np.array(merged)


def _components(touching: npt.NDArray[np.bool_]) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Sets of rulings (across, down) that hang together."""
    rows_left = touching.any(axis=1)
    found = []
    while rows_left.any():
        rows = np.zeros(touching.shape[0], dtype=bool)
        rows[np.flatnonzero(rows_left)[0]] = True
        size = 0
        while rows.sum() > size:
            size = int(rows.sum())
            columns = touching[rows].any(axis=0)
            rows |= touching[:, columns].any(axis=1)
        rows_left &= ~rows
        found.append((np.flatnonzero(rows), np.flatnonzero(columns)))
    return found


def _grid(h: Floats, v: Floats) -> Grid | None:
    ys, xs = _distinct((h[:, 1] + h[:, 3]) / 2), _distinct((v[:, 0] + v[:, 2]) / 2)
    rows, columns = len(ys) - 1, len(xs) - 1
    if rows < 2 or columns < 2 or rows * columns > _MOST_CELLS:
        return None
    roots = np.arange(rows * columns).reshape(rows, columns)
    middles_x, middles_y = (xs[1:] + xs[:-1]) / 2, (ys[1:] + ys[:-1]) / 2
    for row in range(rows):
        for column in range(columns):
            if column and not _is_ruled(v, 0, xs[column], middles_y[row]):
                roots[row, column] = roots[row, column - 1]
            elif row and not _is_ruled(h, 1, ys[row], middles_x[column]):
                roots[row, column] = roots[row - 1, column]
    return Grid(xs, ys, roots)


def _is_ruled(rulings: Floats, axis: int, at: float, across: float) -> bool:
    middle = (rulings[:, axis] + rulings[:, axis + 2]) / 2
    along = 1 - axis
    return bool(
        ((np.abs(middle - at) <= _TOUCH) & (rulings[:, along] <= across) & (rulings[:, along + 2] >= across)).any()
    )


def _distinct(values: Floats) -> Floats:
    values = np.sort(values)
    return np.asarray(values[np.append(True, np.diff(values) > _TOUCH)])


def _fill(
    glyphs: Glyphs,
    chosen: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
    column: npt.NDArray[np.int64],
    grid: Grid,
) -> Rows | None:
    rows, columns = grid.roots.shape
    cell = grid.roots[row, column]
    if len(np.unique(cell)) < 2:
        return None
    pieces: dict[int, tuple[Piece, ...]] = {
        int(root): tuple(find_pieces(glyphs, chosen[cell == root])) for root in np.unique(cell)
    }
    cells = [
        tuple(pieces.get(r * columns + c, ()) if grid.roots[r, c] == r * columns + c else () for c in range(columns))
        for r in range(rows)
    ]
    kept = [line for line in cells if any(line)]
    used = [c for c in range(columns) if any(line[c] for line in kept)]
    if len(kept) < 2 or len(used) < 2:
        return None
    return Rows(tuple(tuple(line[c] for c in used) for line in kept), float(grid.ys[0]))
