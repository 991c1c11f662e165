"""Tables that are drawn with lines: the grid that rulings make, and the characters in its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.corpus.parsing.pdf.drawing import Box, Drawing
from rag_lab.corpus.parsing.pdf.glyphs import Glyphs
from rag_lab.corpus.parsing.pdf.layout import Rows
from rag_lab.corpus.parsing.pdf.pieces import Piece, find_pieces

Floats = npt.NDArray[np.floating[Any]]

_TOUCH = 3.0
_MOST_RULINGS = 3_000
_MOST_CELLS = 20_000


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
