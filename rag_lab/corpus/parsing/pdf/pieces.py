"""Characters of a page joined to pieces (stretches that were drawn together) and pieces joined to lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray
from rag_lab.corpus.parsing.pdf.bidi import is_right_to_left, reading_order
from rag_lab.corpus.parsing.pdf.glyphs import Glyphs
from rag_lab.corpus.parsing.table_rows import Run

WIDEST_SPACE = 1.0
"""In font sizes: a wider gap between two characters ends a piece."""
_WORD_GAP = 0.15
_NEIGHBOUR_GAP = 0.6
_MARKER = re.compile(r"[•◦▪▫‣⁃●○■□◆◇–—*·\-\uf0b7\uf0a7§o]|[\[(]?(\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})[.)\]]{1,2}")
_MARKER_GAP = 4.0


@dataclass(slots=True)
class Piece:
    """Characters that were drawn together. `chosen` holds their positions in the page's text."""

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    text: str
    runs: tuple[Run, ...]
    chosen: npt.NDArray[np.int64]
    backwards: bool


@dataclass(slots=True)
class Line:
    """One line of a column. `left` and `right` are the edges of that column."""

    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    text: str
    runs: tuple[Run, ...]
    left: float = 0.0
    right: float = 0.0


def find_pieces(glyphs: Glyphs, chosen: npt.NDArray[np.int64]) -> list[Piece]:
    """Pieces of the characters at `chosen` (ascending positions), markers of list items joined with their text."""
    if not len(chosen):
        return []
    boxes = glyphs.boxes[chosen].astype(np.float64)
    sizes = np.maximum(boxes[:, 3] - boxes[:, 1], 0.1)
    drawn = np.cumsum(glyphs.drawn)[chosen]
    if is_right_to_left(glyphs.text):
        right_to_left = np.fromiter((is_right_to_left(glyphs.text[i]) for i in chosen), dtype=bool, count=len(chosen))
    else:
        right_to_left = np.zeros(len(chosen), dtype=bool)
    ends = np.append(np.flatnonzero(_breaks(boxes, sizes, drawn, right_to_left)), len(chosen) - 1)
    starts = np.append(0, ends[:-1] + 1)
    pieces = [
        _piece(glyphs, chosen[start : end + 1], boxes[start : end + 1], bool(right_to_left[start : end + 1].any()))
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return _with_markers(_with_neighbours(pieces))


def _breaks(
    boxes: npt.NDArray[np.float64],
    sizes: npt.NDArray[np.float64],
    drawn: npt.NDArray[Any],
    right_to_left: BoolArray,
) -> BoolArray:
    """Whether a piece ends after each character but the last, ``[n - 1]``."""
    shared = np.minimum(boxes[1:, 3], boxes[:-1, 3]) - np.maximum(boxes[1:, 1], boxes[:-1, 1])
    beside = shared >= 0.5 * np.minimum(sizes[1:], sizes[:-1])
    size = np.maximum(sizes[1:], sizes[:-1])
    forward = (boxes[1:, 0] - boxes[:-1, 2]) / size
    backward = (boxes[:-1, 0] - boxes[1:, 2]) / size
    ligature = (np.abs(np.diff(boxes[:, 0])) < 0.05 * size) & (np.abs(np.diff(boxes[:, 2])) < 0.05 * size)
    near = (forward >= -0.6) & (forward <= WIDEST_SPACE)
    near |= ligature
    near |= (right_to_left[1:] | right_to_left[:-1]) & (backward >= -0.6) & (backward <= WIDEST_SPACE)
    return np.asarray(~(beside & near & (np.diff(drawn) == 1)), dtype=np.bool_)


def _piece(glyphs: Glyphs, chosen: npt.NDArray[np.int64], boxes: npt.NDArray[np.float64], backwards: bool) -> Piece:
    start, end = int(chosen[0]), int(chosen[-1]) + 1
    used, counts = np.unique(glyphs.style[chosen], return_counts=True)
    main = glyphs.styles[int(used[counts.argmax()])]
    bold = sum(int(n) for s, n in zip(used, counts, strict=True) if glyphs.styles[int(s)].bold) > 0.8 * len(chosen)
    x0, y0 = boxes[:, 0].min(), boxes[:, 1].min()
    x1, y1 = boxes[:, 2].max(), boxes[:, 3].max()
    text = " ".join(glyphs.text[start:end].split())
    return Piece(
        float(x0), float(y0), float(x1), float(y1), main.size, bold, text, ((start, end, None),), chosen, backwards
    )


def _with_neighbours(pieces: list[Piece]) -> list[Piece]:
    """Pieces that were drawn apart, words out of order for example, and stand no further apart than words do."""
    result: list[Piece] = []
    for row in rows_of(pieces):
        group = [row[0]]
        for piece in row[1:]:
            last = group[-1]
            shared = min(last.y1, piece.y1) - max(last.y0, piece.y0)
            level = shared >= 0.5 * min(last.y1 - last.y0, piece.y1 - piece.y0)
            if level and -0.3 <= (piece.x0 - last.x1) / piece.size <= _NEIGHBOUR_GAP:
                group.append(piece)
            else:
                result.append(join(group))
                group = [piece]
        result.append(join(group))
    return result


def _with_markers(pieces: list[Piece]) -> list[Piece]:
    markers = [i for i, piece in enumerate(pieces) if len(piece.text) <= 6 and _MARKER.fullmatch(piece.text)]
    if not markers or len(pieces) < 2:
        return pieces
    box = np.array([(piece.x0, piece.y0, piece.x1, piece.y1) for piece in pieces])
    joined: dict[int, int] = {}
    for i in markers:
        piece = pieces[i]
        shared = np.minimum(box[:, 3], piece.y1) - np.maximum(box[:, 1], piece.y0)
        gap = box[:, 0] - piece.x1
        beside = (shared > 0.5 * np.minimum(box[:, 3] - box[:, 1], piece.y1 - piece.y0)) & (gap > -1)
        gap = np.where(beside, gap, np.inf)
        gap[i] = np.inf
        nearest = int(gap.argmin())
        if gap[nearest] <= _MARKER_GAP * piece.size and nearest not in markers and nearest not in joined.values():
            joined[i] = nearest
    for i, nearest in joined.items():
        pieces[nearest] = join((pieces[i], pieces[nearest]))
    return [piece for i, piece in enumerate(pieces) if i not in joined]


def join(pieces: Sequence[Piece]) -> Piece:
    """Several pieces, in this order, as one."""
    if len(pieces) == 1:
        return pieces[0]
    main = max(pieces, key=lambda piece: len(piece.text))
    runs = list(pieces[0].runs)
    for before, piece in pairwise(pieces):
        at = piece.runs[0][0]
        if piece.x0 - before.x1 > _WORD_GAP * piece.size or piece.x0 < before.x0:
            runs.append((at, at, " "))
        runs += piece.runs
    return Piece(
        min(piece.x0 for piece in pieces),
        min(piece.y0 for piece in pieces),
        max(piece.x1 for piece in pieces),
        max(piece.y1 for piece in pieces),
        main.size,
        all(piece.bold for piece in pieces),
        " ".join(piece.text for piece in pieces),
        tuple(runs),
        np.concatenate([piece.chosen for piece in pieces]),
        any(piece.backwards for piece in pieces),
    )


def rows_of(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Pieces that stand beside each other, from top to bottom, and in each row from left to right."""
    rows: list[list[Piece]] = []
    top = bottom = 0.0
    for piece in sorted(pieces, key=lambda piece: ((piece.y0 + piece.y1) / 2, piece.x0)):
        shared = min(bottom, piece.y1) - max(top, piece.y0)
        if rows and shared >= 0.5 * min(bottom - top, piece.y1 - piece.y0):
            rows[-1].append(piece)
            if piece.size > max(other.size for other in rows[-1][:-1]):
                top, bottom = piece.y0, piece.y1
        else:
            rows.append([piece])
            top, bottom = piece.y0, piece.y1
    return [sorted(row, key=lambda piece: piece.x0) for row in rows]


def find_lines(glyphs: Glyphs, pieces: Sequence[Piece]) -> list[Line]:
    """The lines of one column, from top to bottom."""
    lines = []
    for row in rows_of(pieces):
        whole = join(row)
        runs = _logical(glyphs, whole.chosen) if whole.backwards else whole.runs
        text = "".join(glyphs.text[start:end] if put is None else put for start, end, put in runs)
        lines.append(Line(whole.x0, whole.y0, whole.x1, whole.y1, whole.size, whole.bold, " ".join(text.split()), runs))
    left, right = min((line.x0 for line in lines), default=0.0), max((line.x1 for line in lines), default=0.0)
    for line in lines:
        line.left, line.right = left, right
    return lines


def _logical(glyphs: Glyphs, chosen: npt.NDArray[np.int64]) -> tuple[Run, ...]:
    """A line that has text from right to left, put together from the places of its characters alone."""
    boxes = glyphs.boxes[chosen]
    order = chosen[np.argsort(boxes[:, 0] + boxes[:, 2], kind="stable")]
    shown: list[str] = []
    places: list[int] = []
    for before, at in zip((None, *order.tolist()), order.tolist(), strict=False):
        if before is not None and _apart(glyphs, before, at):
            shown.append(" ")
            places.append(at)
        shown.append(glyphs.text[at])
        places.append(at)
    indices, written = reading_order(shown)
    return tuple(
        (places[i], places[i] + (character != " "), None if character == glyphs.text[places[i]] else character)
        for i, character in zip(indices, written, strict=True)
    )


def _apart(glyphs: Glyphs, before: int, at: int) -> bool:
    """Whether a space lies between two neighbours: as the text says if it has them side by side, else by the gap."""
    first, last = min(before, at), max(before, at)
    between = glyphs.text[first + 1 : last]
    if not between or between.isspace():
        return bool(between)
    gap = glyphs.boxes[at, 0] - glyphs.boxes[before, 2]
    return bool(gap > 0.25 * (glyphs.boxes[at, 3] - glyphs.boxes[at, 1]))
