"""The characters of a PDF page: where they stand, how they look, and whether a reader sees them."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, IntArray
from rag_lab.corpus.parsing.pdf.drawing import Drawing, Frame

Floats = npt.NDArray[np.floating[Any]]

TINY = 1.5
_SMALLER = 0.85
_RAISED = 0.15
_SAME_COLOUR = 24
_MOST_FILLS = 3_000
_SCANNED = 0.5
_INVISIBLE = (3, 7)
_HYPHENS = (0x02, 0xFFFE)
_BLANK = frozenset({0, *(code for code in range(0x3001) if chr(code).isspace())})


@dataclass(frozen=True, slots=True)
class Style:
    """How the characters of one text object look. `order` is when it was painted.

    `upright` is False for text that does not run from left to right as the page is shown; `pagination`: the file
    marks the text as a header, footer or the like.
    """

    size: float
    bold: bool
    upright: bool
    colour: tuple[int, int, int] | None
    order: int
    invisible: bool
    pagination: bool


@dataclass(frozen=True, eq=False)
class Glyphs:
    """Characters in pdfium's order, ``[n]`` each; generated ones and white space have no box and no style (-1).

    boxes: ``[n, 4]`` as x0, top, x1, bottom, where top and bottom are those of the font, the
    same for all characters of a line; hidden: index into `REASONS` plus 1, 0 for what a reader sees.
    """

    text: str
    boxes: Floats
    style: IntArray
    styles: tuple[Style, ...]
    hidden: IntArray
    recognised: bool

    @property
    def drawn(self) -> BoolArray:
        """True for characters that the page draws."""
        return np.asarray(self.style >= 0, dtype=bool)

    @property
    def raised(self) -> IntArray:
        """Positions of digits that stand small and raised right after another digit: an exponent, a note's number."""
        digit = np.fromiter(map(str.isdecimal, self.text), dtype=bool, count=len(self.text)) & self.drawn
        after = np.flatnonzero(digit[1:] & digit[:-1]) + 1
        size = np.array([style.size for style in self.styles] + [0.0])[self.style]
        boxes, before, here = self.boxes, size[after - 1], size[after]
        beside = np.abs(boxes[after, 0] - boxes[after - 1, 2]) <= 0.5 * before
        higher = boxes[after - 1, 3] - boxes[after, 3] >= _RAISED * before
        small = here <= _SMALLER * before
        return np.asarray(after[beside & higher & small], dtype=np.int32)


REASONS = ("invisible", "colour of the background", "covered", "tiny", "outside of the page")


def read_glyphs(textpage: Any, frame: Frame, drawing: Drawing) -> Glyphs:
    """All characters of a page, given as pdfium's own handle; NUL goes before any position is counted."""
    import pypdfium2.raw as pdfium

    count = max(0, pdfium.FPDFText_CountChars(textpage))
    codes = np.zeros(count, dtype=np.uint32)
    rectangles = np.zeros((count, 4))
    origins = np.zeros((count, 2))
    style = np.full(count, -1, dtype=np.int32)
    styles: list[Style] = []
    known: dict[int, int] = {}
    rectangle = pdfium.FS_RECTF()
    x, y = ctypes.c_double(), ctypes.c_double()
    code_of, object_of = pdfium.FPDFText_GetUnicode, pdfium.FPDFText_GetTextObject
    box_of, origin_of, address_of = pdfium.FPDFText_GetLooseCharBox, pdfium.FPDFText_GetCharOrigin, ctypes.addressof
    for i in range(count):
        codes[i] = code = code_of(textpage, i)
        if code in _BLANK:
            continue
        item = object_of(textpage, i)
        if not item:
            continue
        address = address_of(item.contents)
        known_style = known.get(address)
        if known_style is None:
            known_style = known[address] = len(styles)
            styles.append(_style(textpage, i, item, frame, drawing.order.get(address, -1)))
        style[i] = known_style
        box_of(textpage, i, rectangle)
        origin_of(textpage, i, x, y)
        rectangles[i] = rectangle.left, rectangle.bottom, rectangle.right, rectangle.top
        origins[i] = x.value, y.value
    for hyphen in _HYPHENS:
        codes[codes == hyphen] = ord("-")
    codes[(codes >= 0xD800) & (codes < 0xE000) | (codes > 0x10FFFF)] = 0xFFFD
    boxes = _boxes(rectangles, origins, style, styles, frame)
    hidden, recognised = _hidden(boxes, style, styles, frame, drawing)
    kept = codes != 0
    text = codes[kept].astype("<u4").tobytes().decode("utf-32-le")
    return Glyphs(text, boxes[kept], style[kept], tuple(styles), hidden[kept], recognised)


def _boxes(rectangles: Floats, origins: Floats, style: IntArray, styles: list[Style], frame: Frame) -> Floats:
    """Boxes as the page is shown. Upright text reaches from 0.8 of its size above the base line to 0.2 below.

    (What pdfium says of a font's height differs from letter to letter for some fonts.)
    """
    ax, ay = frame.points(rectangles[:, 0], rectangles[:, 1])
    bx, by = frame.points(rectangles[:, 2], rectangles[:, 3])
    boxes = np.stack((np.minimum(ax, bx), np.minimum(ay, by), np.maximum(ax, bx), np.maximum(ay, by)), axis=1)
    upright = np.array([s.upright for s in styles] + [False])[style]
    size = np.array([s.size for s in styles] + [0.0])[style]
    baseline = frame.points(origins[:, 0], origins[:, 1])[1]
    boxes[:, 1] = np.where(upright, baseline - 0.8 * size, boxes[:, 1])
    boxes[:, 3] = np.where(upright, baseline + 0.2 * size, boxes[:, 3])
    boxes[style < 0] = 0.0
    return boxes.astype(np.float32)


def _style(textpage: Any, i: int, item: Any, frame: Frame, order: int) -> Style:
    import pypdfium2.raw as pdfium

    matrix = pdfium.FS_MATRIX()
    has_matrix = pdfium.FPDFText_GetMatrix(textpage, i, matrix)
    a, b, c, d = (matrix.a, matrix.b, matrix.c, matrix.d) if has_matrix else (1.0, 0.0, 0.0, 1.0)
    size = abs(pdfium.FPDFText_GetFontSize(textpage, i)) * math.sqrt(abs(a * d - b * c))
    (ox, oy), (tx, ty) = frame.point(0, 0), frame.point(a, b)
    length = math.hypot(tx - ox, ty - oy) or 1.0
    upright = abs(ty - oy) < 0.2 * length and tx >= ox
    mode = pdfium.FPDFTextObj_GetTextRenderMode(item) if item else 0
    colour, transparent = _colour(textpage, i)
    return Style(
        size=size if math.isfinite(size) else 0.0,
        bold=_is_bold(textpage, i, item) or mode == 2,
        upright=upright,
        colour=colour,
        order=order,
        invisible=mode in _INVISIBLE or transparent,
        pagination=bool(item) and _is_pagination(item),
    )


def _colour(textpage: Any, i: int) -> tuple[tuple[int, int, int] | None, bool]:
    import pypdfium2.raw as pdfium

    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    if not pdfium.FPDFText_GetFillColor(textpage, i, red, green, blue, alpha):
        return None, False
    return (red.value, green.value, blue.value), alpha.value == 0


def _is_bold(textpage: Any, i: int, item: Any) -> bool:
    import pypdfium2.raw as pdfium

    if item and pdfium.FPDFText_GetFontWeight(textpage, i) >= 600:
        return True
    flags, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    length = pdfium.FPDFText_GetFontInfo(textpage, i, name, 256, flags)
    if not 0 < length <= 256:
        return False
    plain = name.value.decode("utf-8", "replace").lower()
    return any(word in plain for word in ("bold", "black", "heavy", "cmbx")) and "semi" not in plain


def _is_pagination(item: Any) -> bool:
    """Whether the file itself marks a text as header, footer or watermark. (pdfium does not tell which.)"""
    import pypdfium2.raw as pdfium

    buffer, length = (ctypes.c_ushort * 16)(), ctypes.c_ulong()
    for i in range(min(8, max(0, pdfium.FPDFPageObj_CountMarks(item)))):
        mark = pdfium.FPDFPageObj_GetMark(item, i)
        pdfium.FPDFPageObjMark_GetName(mark, buffer, ctypes.sizeof(buffer), length)
        if bytes(buffer)[: length.value].decode("utf-16-le", "replace").rstrip("\0") == "Artifact" and any(
            pdfium.FPDFPageObjMark_GetParamValueType(mark, key) != pdfium.FPDF_OBJECT_UNKNOWN
            for key in (b"Subtype", b"Attached")
        ):
            return True
    return False


def _hidden(
    boxes: Floats, style: IntArray, styles: list[Style], frame: Frame, drawing: Drawing
) -> tuple[IntArray, bool]:
    """For each character the number of its reason, and whether invisible text is what was recognised in a scan."""
    hidden = np.zeros(len(boxes), dtype=np.int32)
    drawn = style >= 0
    if not drawn.any():
        return hidden, False
    at = style[drawn]
    inner = boxes[drawn]
    invisible = np.array([s.invisible for s in styles])[at]
    scanned = drawing.picture_area() >= _SCANNED * frame.width * frame.height
    recognised = bool(scanned and invisible.mean() > 0.5)
    result = np.zeros(len(at), dtype=np.int32)
    x, y = (inner[:, 0] + inner[:, 2]) / 2, inner[:, 1] * 0.4 + inner[:, 3] * 0.6
    result[(x < 0) | (y < 0) | (x > frame.width) | (y > frame.height)] = 5
    tiny = np.array([s.size for s in styles], dtype=np.float32)[at] < TINY
    result[tiny] = 4
    background, covered = _surroundings(x, y, np.array([s.order for s in styles])[at], drawing)
    result[covered] = 3
    colours = np.array([s.colour or (-1000, -1000, -1000) for s in styles], dtype=np.int32)[at]
    result[(np.abs(colours - background) <= _SAME_COLOUR).all(axis=1)] = 2
    result[invisible] = 0 if recognised else 1
    hidden[drawn] = result
    return hidden, recognised


def _surroundings(
    x: Floats, y: Floats, order: npt.NDArray[Any], drawing: Drawing
) -> tuple[npt.NDArray[np.int32], BoolArray]:
    """Colour under each point (far from any colour over a picture), and whether something opaque was put over it."""
    background = np.full((len(x), 3), 255, dtype=np.int32)
    covered = np.zeros(len(x), dtype=bool)
    painted = [(fill.box, fill.order, fill.colour) for fill in drawing.fills[:_MOST_FILLS]]
    painted += [(box, at, (5000, 5000, 5000)) for box, at in drawing.pictures[:_MOST_FILLS]]
    for (x0, y0, x1, y1), at, colour in sorted(painted, key=lambda entry: entry[1]):
        inside = (x >= x0) & (x <= x1) & (y >= y0) & (y <= y1) & (order >= 0)
        background[inside & (order > at)] = colour
        if colour[0] <= 255:
            covered |= inside & (order < at)
    return background, covered
