"""What a PDF page draws besides text: rulings, filled areas, images, and the order of painting.

Coordinates are in points from the upper left corner of the page as it is shown, y downwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

Box: TypeAlias = tuple[float, float, float, float]
Matrix: TypeAlias = tuple[float, float, float, float, float, float]

MOST_OBJECTS = 200_000
MOST_SEGMENTS = 100_000
THIN = 3.0
_DEEPEST = 12
_IDENTITY: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Frame:
    """From the page's own coordinates to those that a reader sees: crop box and rotation (quarter turns clockwise)."""

    left: float
    bottom: float
    inner_width: float
    inner_height: float
    turns: int

    @property
    def width(self) -> float:
        return self.inner_height if self.turns % 2 else self.inner_width

    @property
    def height(self) -> float:
        return self.inner_width if self.turns % 2 else self.inner_height

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Where a point of the page is shown."""
        return self.points(x, y)

    def points(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Where points of the page are shown, numbers or arrays."""
        x, y = x - self.left, y - self.bottom
        if self.turns == 0:
            return x, self.inner_height - y
        if self.turns == 1:
            return y, x
        if self.turns == 2:
            return self.inner_width - x, y
        return self.inner_height - y, self.inner_width - x

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        """(x0, y0, x1, y1) as shown, y0 above y1."""
        (ax, ay), (bx, by) = self.point(left, bottom), self.point(right, top)
        return min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)


@dataclass(frozen=True, slots=True)
class Fill:
    """An opaque rectangle, and when it was painted."""

    box: Box
    colour: tuple[int, int, int]
    order: int


@dataclass(slots=True)
class Drawing:
    """`order` says for the address of a text object when it was painted; `images` is the sum of their areas."""

    order: dict[int, int] = field(default_factory=dict)
    fills: list[Fill] = field(default_factory=list)
    across: list[Box] = field(default_factory=list)
    down: list[Box] = field(default_factory=list)
    pictures: list[tuple[Box, int]] = field(default_factory=list)
    cut_short: bool = False

    def picture_area(self) -> float:
        return sum((x1 - x0) * (y1 - y0) for (x0, y0, x1, y1), _ in self.pictures)


def read_drawing(page: Any, frame: Frame) -> Drawing:
    """Walk over the objects of a page, those inside forms as well."""
    import pypdfium2.raw as pdfium

    drawing = Drawing()
    segments = 0
    for order, (item, matrix) in enumerate(_objects(page)):
        if order >= MOST_OBJECTS or segments >= MOST_SEGMENTS:
            drawing.cut_short = True
            break
        kind = pdfium.FPDFPageObj_GetType(item)
        if kind == pdfium.FPDF_PAGEOBJ_TEXT:
            drawing.order[_address(item)] = order
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            box = _bounds(item, matrix, frame)
            if box:
                drawing.pictures.append((box, order))
        elif kind == pdfium.FPDF_PAGEOBJ_PATH:
            segments += _add_path(drawing, item, matrix, frame, order)
    return drawing


def _objects(page: Any) -> Iterator[tuple[Any, Matrix]]:
    import pypdfium2.raw as pdfium

    def inside(form: Any, matrix: Matrix, depth: int) -> Iterator[tuple[Any, Matrix]]:
        for i in range(pdfium.FPDFFormObj_CountObjects(form)):
            yield from expand(pdfium.FPDFFormObj_GetObject(form, i), matrix, depth)

    def expand(item: Any, matrix: Matrix, depth: int) -> Iterator[tuple[Any, Matrix]]:
        if not item:
            return
        if pdfium.FPDFPageObj_GetType(item) == pdfium.FPDF_PAGEOBJ_FORM:
            if depth < _DEEPEST:
                yield from inside(item, _product(_matrix(item), matrix), depth + 1)
            return
        yield item, matrix

    for i in range(pdfium.FPDFPage_CountObjects(page)):
        yield from expand(pdfium.FPDFPage_GetObject(page, i), _IDENTITY, 0)


def _add_path(drawing: Drawing, item: Any, matrix: Matrix, frame: Frame, order: int) -> int:
    import pypdfium2.raw as pdfium

    mode, stroke = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(item, mode, stroke)
    box = _bounds(item, matrix, frame)
    if box is None or not (mode.value or stroke.value):
        return 1
    count = pdfium.FPDFPath_CountSegments(item)
    if mode.value and not stroke.value and min(box[2] - box[0], box[3] - box[1]) <= THIN:
        _add_ruling(drawing, box)
        return int(count)
    points = list(_points(item, min(count, MOST_SEGMENTS), _product(_matrix(item), matrix), frame))
    if stroke.value:
        _add_strokes(drawing, points)
    colour = _opaque_colour(item) if mode.value else None
    if colour is not None and _is_rectangle(points):
        clipped = _clipped(item, box, matrix, frame)
        if clipped:
            drawing.fills.append(Fill(clipped, colour, order))
    return int(count)


def _points(item: Any, count: int, matrix: Matrix, frame: Frame) -> Iterator[tuple[int, float, float]]:
    """(segment type, x, y), a closed path comes back to its start."""
    import pypdfium2.raw as pdfium

    x, y = ctypes.c_float(), ctypes.c_float()
    start = (0.0, 0.0)
    for i in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(item, i)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        shown = frame.point(*_apply(matrix, x.value, y.value))
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = shown
        yield kind, *shown
        if pdfium.FPDFPathSegment_GetClose(segment):
            yield pdfium.FPDF_SEGMENT_LINETO, *start


def _add_strokes(drawing: Drawing, points: list[tuple[int, float, float]]) -> None:
    import pypdfium2.raw as pdfium

    for (_, ax, ay), (kind, bx, by) in pairwise(points):
        if kind == pdfium.FPDF_SEGMENT_LINETO:
            _add_ruling(drawing, (min(ax, bx), min(ay, by), max(ax, bx), max(ay, by)))


def _add_ruling(drawing: Drawing, box: Box) -> None:
    width, height = box[2] - box[0], box[3] - box[1]
    if height <= THIN and width > 2 * THIN:
        drawing.across.append(box)
    elif width <= THIN and height > 2 * THIN:
        drawing.down.append(box)


def _is_rectangle(points: list[tuple[int, float, float]]) -> bool:
    import pypdfium2.raw as pdfium

    if not 4 <= len(points) <= 6 or any(kind == pdfium.FPDF_SEGMENT_BEZIERTO for kind, _, _ in points):
        return False
    xs = {round(x, 1) for _, x, _ in points}
    ys = {round(y, 1) for _, _, y in points}
    return len(xs) == 2 and len(ys) == 2


def _opaque_colour(item: Any) -> tuple[int, int, int] | None:
    import pypdfium2.raw as pdfium

    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    if not pdfium.FPDFPageObj_GetFillColor(item, red, green, blue, alpha):
        return None
    if alpha.value < 255 or pdfium.FPDFPageObj_HasTransparency(item):
        return None
    return red.value, green.value, blue.value


def _clipped(item: Any, box: Box, matrix: Matrix, frame: Frame) -> Box | None:
    """The part of a box that clipping leaves; None when nothing is left or the clip is no rectangle."""
    import pypdfium2.raw as pdfium

    clip = pdfium.FPDFPageObj_GetClipPath(item)
    count = max(0, pdfium.FPDFClipPath_CountPaths(clip)) if clip else 0
    x, y = ctypes.c_float(), ctypes.c_float()
    x0, y0, x1, y1 = box
    for i in range(count):
        shown = []
        for j in range(min(pdfium.FPDFClipPath_CountPathSegments(clip, i), 7)):
            pdfium.FPDFPathSegment_GetPoint(pdfium.FPDFClipPath_GetPathSegment(clip, i, j), x, y)
            shown.append(frame.point(*_apply(matrix, x.value, y.value)))
        if len({round(px, 1) for px, _ in shown}) > 2 or len({round(py, 1) for _, py in shown}) > 2:
            return None
        if shown:
            x0, x1 = max(x0, min(px for px, _ in shown)), min(x1, max(px for px, _ in shown))
            y0, y1 = max(y0, min(py for _, py in shown)), min(y1, max(py for _, py in shown))
    return (x0, y0, x1, y1) if x1 > x0 and y1 > y0 else None


def _bounds(item: Any, matrix: Matrix, frame: Frame) -> Box | None:
    import pypdfium2.raw as pdfium

    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return None
    corners = [_apply(matrix, x, y) for x in (left.value, right.value) for y in (bottom.value, top.value)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return frame.box(min(xs), min(ys), max(xs), max(ys))


def _matrix(item: Any) -> Matrix:
    import pypdfium2.raw as pdfium

    m = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(item, m):
        return _IDENTITY
    return m.a, m.b, m.c, m.d, m.e, m.f


def _product(first: Matrix, then: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    p, q, r, s, t, u = then
    return a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u


def _apply(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    a, b, c, d, e, f = matrix
    return a * x + c * y + e, b * x + d * y + f


def _address(item: Any) -> int:
    return ctypes.cast(item, ctypes.c_void_p).value or 0
