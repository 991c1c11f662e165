"""PPTX: a slide is a page, its title a heading.

Below the title, shapes are read from top to bottom and in a row from left to right; the place of a placeholder may be
that of its layout. Bullets of a body are a list. Speaker notes follow the slide under a heading "Notes", one level
below the title, so that they can be told from what the audience saw. Hidden slides and shapes, footers, dates and slide
numbers stay out and are counted. A raised number follows another one after a "^", or 10⁶ would read as 106.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version as version_of
from typing import Any

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing.blocks import Draft, write
from rag_lab.corpus.parsing.layer import clean
from rag_lab.corpus.parsing.office import Package
from rag_lab.corpus.parsing.parsed import Parsed, ParseError
from rag_lab.corpus.parsing.table_rows import Cell, Run

VERSION = "pptx-3"

NOTES = "Notes"

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
_DIAGRAM = "{http://schemas.openxmlformats.org/drawingml/2006/diagram}"
_CHOICES = tuple(
    f"{{http://schemas.openxmlformats.org/markup-compatibility/2006}}{name}" for name in ("Choice", "Fallback")
)
_TITLES = ("title", "ctrTitle")
_FURNITURE = {"ftr": "page footer", "sldNum": "page number", "dt": "date", "hdr": "page header"}
_BODIES = ("body", "obj", "")
_ROW = 0.5
_MOST_COLUMNS = 200

Place = tuple[float, float, float, float]
"""Left, top, width, height in EMU."""


@cache
def version() -> str:
    """Version of this parser."""
    return f"{VERSION} lxml-{version_of('lxml')}"


def parse(data: bytes, name: str, keep_hidden: bool) -> Parsed:
    """Text of all slides. Raises `ParseError` for what is no PPTX, encrypted, damaged, or beyond the limits."""
    package = Package(data, name)
    part = package.main("ppt/presentation.xml")
    slides = {relationship.identity: relationship.target for relationship in package.relationships(part)}
    root = package.xml(part)
    listed = root.find(f"{_P}sldIdLst")
    if listed is None:
        raise ParseError(f"{name}: has no slides; leave it out, or save it again as .pptx")
    reader = _Reader(package, _slide_size(root))
    for number, element in enumerate(listed.iter(f"{_P}sldId"), 1):
        reader.read_slide(slides.get(element.get(f"{_R}id", ""), ""), number, name)
    original = "".join(reader.original)
    layer = write(original, reader.drafts, sections_end_with_page=True)
    title, metadata = package.properties()
    return Parsed(
        *layer,
        version(),
        title="" if title.lower() == "powerpoint presentation" else title,
        metadata=metadata,
        removed=dict(+reader.removed),
        hidden=tuple(reader.hidden) if keep_hidden else (),
    )


@dataclass(slots=True)
class _Shape:
    """A shape with its place on the slide."""

    element: Any
    place: Place
    kind: str
    drafts: list[Draft] = field(default_factory=list)


class _Reader:
    """Reads slide after slide. `original` holds all text nodes in the order of the file, hidden ones as well."""

    def __init__(self, package: Package, size: tuple[float, float]) -> None:
        self.package = package
        self._size = size
        self.original: list[str] = []
        self.drafts: list[Draft] = []
        self.removed: Counter[str] = Counter()
        self.hidden: list[str] = []
        self._position = 0
        self._texts: dict[int, str] = {}
        self._layouts: dict[str, dict[tuple[str, str], Place]] = {}

    def read_slide(self, part: str, number: int, name: str) -> None:
        """Title, shapes in reading order, notes."""
        if not self.package.has(part):
            raise ParseError(f"{name}: slide {number} is missing; save the presentation again")
        root = self.package.xml(part)
        seen = root.get("show", "1") not in ("0", "false")
        tree = root.find(f"{_P}cSld/{_P}spTree")
        shapes = list(self._shapes(tree, self._places(part), (1.0, 0.0, 1.0, 0.0))) if tree is not None else []
        for shape in shapes:
            self._read_shape(shape, part, number)
        notes = self._read_notes(part, number)
        if not seen:
            self.removed["hidden slide"] += 1
            self._hide([draft for shape in shapes for draft in shape.drafts])
            return
        titles = [shape for shape in shapes if shape.kind in _TITLES]
        for shape in titles + _in_order([shape for shape in shapes if shape.kind not in _TITLES]):
            self.drafts += shape.drafts
        self.drafts += notes

    # --- shapes -----------------------------------------------------------------------------------------------------

    def _shapes(
        self, tree: Any, places: dict[tuple[str, str], Place], scale: tuple[float, float, float, float]
    ) -> Iterator[_Shape]:
        """All shapes that hold text, those in groups with their place on the slide."""
        for element in tree:
            if element.tag == f"{_P}grpSp":
                yield from self._shapes(element, places, _scaled(element, scale))
            elif element.tag == _ALTERNATIVES:
                choice = next((found for tag in _CHOICES if (found := element.find(tag)) is not None), ())
                yield from self._shapes(choice, places, scale)
            elif element.tag in (f"{_P}sp", f"{_P}graphicFrame", f"{_P}cxnSp", f"{_P}pic"):
                holder = element.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
                kind = "none" if holder is None else holder.get("type", "")
                own = _place(element.find(f"{_P}spPr/{_A}xfrm"), element.find(f"{_P}xfrm"))
                key = (kind, holder.get("idx", "0")) if holder is not None else ("none", "")
                inherited = places.get(key) or places.get(("", key[1])) or places.get((kind, ""))
                place = _moved(own, scale) if own else inherited or (0.0, 0.0, 0.0, 0.0)
                yield _Shape(element, place, kind)

    def _places(self, part: str) -> dict[tuple[str, str], Place]:
        """Places of the placeholders of a slide's layout and master, by type and index."""
        layouts = self.package.related(part, "slideLayout")
        if not layouts:
            return {}
        layout = layouts[0]
        if layout not in self._layouts:
            found: dict[tuple[str, str], Place] = {}
            for source in (layout, *self.package.related(layout, "slideMaster")):
                for shape in self.package.xml(source).iter(f"{_P}sp"):
                    holder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
                    place = _place(shape.find(f"{_P}spPr/{_A}xfrm"), None)
                    if holder is not None and place:
                        kind = holder.get("type", "")
                        for key in ((kind, holder.get("idx", "0")), ("", holder.get("idx", "0")), (kind, "")):
                            found.setdefault(key, place)
            self._layouts[layout] = found
        return self._layouts[layout]

    def _read_shape(self, shape: _Shape, part: str, page: int) -> None:
        element = shape.element
        properties = next(element.iter(f"{_P}cNvPr"), None)
        invisible = properties is not None and properties.get("hidden", "0") in ("1", "true")
        table = element.find(f"{_A}graphic/{_A}graphicData/{_A}tbl")
        if table is not None:
            shape.drafts = [self._read_table(table, page)]
        elif element.tag == f"{_P}graphicFrame":
            shape.drafts = self._read_diagram(element, part, page)
        else:
            body = element.find(f"{_P}txBody")
            shape.drafts = self._read_body(body, shape.kind, page) if body is not None else []
        if not _has_runs(shape.drafts):
            shape.drafts = []
        elif shape.kind in _FURNITURE:
            self.removed[_FURNITURE[shape.kind]] += 1
            shape.drafts = []
        elif invisible or self._is_outside(shape.place):
            self.removed["hidden" if invisible else "outside of the slide"] += 1
            self._hide(shape.drafts)
            shape.drafts = []

    def _is_outside(self, place: Place) -> bool:
        left, top, width, height = place
        gone = left + width <= 0 or top + height <= 0 or left >= self._size[0] or top >= self._size[1]
        return gone and width > 0 and height > 0

    def _hide(self, drafts: list[Draft]) -> None:
        lines = [
            line for draft in drafts for line in (*draft.lines, *(cell.runs for row in draft.rows for cell in row))
        ]
        texts = ("".join(self._texts.get(start, "") for start, end, _ in line if start < end) for line in lines)
        self.hidden.append(clean(" ".join(texts)))

    def _read_diagram(self, element: Any, part: str, page: int) -> list[Draft]:
        """The points of a diagram, in the order of its data."""
        reference = element.find(f"{_A}graphic/{_A}graphicData/{_DIAGRAM}relIds")
        identity = reference.get(f"{_R}dm") if reference is not None else None
        targets = [r.target for r in self.package.relationships(part) if r.identity == identity]
        if not targets or not self.package.has(targets[0]):
            return []
        lines = [self._paragraph(paragraph) for paragraph in self.package.xml(targets[0]).iter(f"{_A}p")]
        return [Draft(BlockKind.LIST, [[(line[0][0], line[0][0], "- "), *line] for line in lines if line], page=page)]

    def _read_body(self, body: Any, kind: str, page: int) -> list[Draft]:
        if kind in _TITLES:
            return [Draft(BlockKind.HEADING, [self._line(body)], level=1, page=page)]
        drafts: list[Draft] = []
        counts: dict[int, int] = {}
        found = [(paragraph, self._paragraph(paragraph)) for paragraph in body.iter(f"{_A}p")]
        found = [(paragraph, runs) for paragraph, runs in found if runs]
        bulleted = kind in _BODIES and len(found) > 1
        for paragraph, runs in found:
            label, depth = _label(paragraph.find(f"{_A}pPr"), bulleted, counts)
            if not label:
                drafts.append(Draft(BlockKind.PARAGRAPH, [runs], page=page))
                continue
            at = runs[0][0]
            item: list[Run] = [(at, at, "  " * depth + label + " "), *runs]
            if drafts and drafts[-1].kind is BlockKind.LIST:
                drafts[-1].lines.append(item)
            else:
                drafts.append(Draft(BlockKind.LIST, [item], page=page))
        return drafts

    def _read_table(self, table: Any, page: int) -> Draft:
        rows: list[list[Cell]] = []
        open_cells: dict[int, Cell] = {}
        for row in table.iter(f"{_A}tr"):
            cells: list[Cell] = []
            for column, element in enumerate(row.iter(f"{_A}tc")):
                runs = self._line(element)
                if element.get("hMerge", "0") in ("1", "true"):
                    continue
                if element.get("vMerge", "0") in ("1", "true") and column in open_cells and not runs:
                    open_cells[column].rows += 1
                    continue
                open_cells[column] = Cell(runs, columns=_number(element.get("gridSpan"), 1))
                cells.append(open_cells[column])
            rows.append(cells)
        return Draft(BlockKind.TABLE, rows=rows, headers=int(len(rows) > 1), page=page)

    def _line(self, element: Any) -> list[Run]:
        """All paragraphs of a title or a cell as one line."""
        runs: list[Run] = []
        for paragraph in element.iter(f"{_A}p"):
            added = self._paragraph(paragraph)
            if runs and added:
                runs.append((added[0][0], added[0][0], " "))
            runs += added
        return runs

    def _read_notes(self, part: str, page: int) -> list[Draft]:
        drafts: list[Draft] = []
        for notes in self.package.related(part, "notesSlide"):
            for shape in self.package.xml(notes).iter(f"{_P}sp"):
                holder = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
                body = shape.find(f"{_P}txBody")
                if body is None or holder is None or holder.get("type") != "body":
                    continue
                drafts += [
                    Draft(BlockKind.PARAGRAPH, [runs], page=page)
                    for paragraph in body.iter(f"{_A}p")
                    if (runs := self._paragraph(paragraph))
                ]
        if not drafts:
            return []
        at = drafts[0].lines[0][0][0]
        return [Draft(BlockKind.HEADING, [[(at, at, NOTES)]], level=2, page=page, added=True), *drafts]

    # --- text -------------------------------------------------------------------------------------------------------

    def _paragraph(self, paragraph: Any) -> list[Run]:
        """Runs of a paragraph, empty if it holds no text."""
        runs = self._runs(paragraph)
        self._append("\n")
        return runs

    def _runs(self, parent: Any) -> list[Run]:
        runs: list[Run] = []
        first = len(self.original)
        for element in parent.iter(f"{_A}t", f"{_A}br"):
            text = "\n" if element.tag == f"{_A}br" else element.text or ""
            if runs and _is_raised(element) and self.original[-1][-1:].isdecimal() and text[:1].isdecimal():
                runs.append((self._position, self._position, "^"))
            start = self._append(text)
            if self._position > start:
                runs.append((start, self._position, None))
        return runs if "".join(self.original[first:]).strip() else []

    def _append(self, text: str) -> int:
        start = self._position
        if text:
            self.original.append(text)
            self._texts[start] = text
            self._position += len(text)
        return start


def _is_raised(text: Any) -> bool:
    properties = text.getparent().find(f"{_A}rPr")
    return properties is not None and _number(properties.get("baseline"), 0) > 0


def _has_runs(drafts: list[Draft]) -> bool:
    return any(any(draft.lines) or any(cell.runs for row in draft.rows for cell in row) for draft in drafts)


def _in_order(shapes: list[_Shape]) -> list[_Shape]:
    """From top to bottom; shapes beside each other from left to right."""
    rows: list[list[_Shape]] = []
    for shape in sorted(shapes, key=lambda shape: (shape.place[1], shape.place[0])):
        _, top, _, height = shape.place
        if rows:
            _, row_top, _, row_height = rows[-1][0].place
            shared = min(top + height, row_top + row_height) - max(top, row_top)
            if shared > _ROW * min(height, row_height) or top == row_top:
                rows[-1].append(shape)
                continue
        rows.append([shape])
    return [shape for row in rows for shape in sorted(row, key=lambda shape: shape.place[0])]


def _label(properties: Any, bulleted: bool, counts: dict[int, int]) -> tuple[str, int]:
    """Bullet or number of a paragraph, "" without, and its level from 0."""
    depth = _number(properties.get("lvl"), 0) if properties is not None else 0
    for level in [level for level in counts if level > depth]:
        del counts[level]
    numbered = properties.find(f"{_A}buAutoNum") if properties is not None else None
    if numbered is not None:
        counts[depth] = counts.get(depth, _number(numbered.get("startAt"), 1) - 1) + 1
        return _numeral(counts[depth], numbered.get("type", "")), depth
    counts.pop(depth, None)
    if properties is not None and properties.find(f"{_A}buNone") is not None:
        return "", depth
    own = properties is not None and any(properties.find(f"{_A}{tag}") is not None for tag in ("buChar", "buBlip"))
    return ("-" if own or bulleted else ""), depth


def _numeral(number: int, form: str) -> str:
    letter = chr(ord("a") + (number - 1) % 26)
    text = {"alphaL": letter, "alphaU": letter.upper()}.get(form[:6], str(number))
    if form.endswith("ParenBoth"):
        return f"({text})"
    return f"{text})" if form.endswith("ParenR") else f"{text}."


def _place(*candidates: Any) -> Place | None:
    for element in candidates:
        if element is not None:
            offset, extent = element.find(f"{_A}off"), element.find(f"{_A}ext")
            if offset is not None and extent is not None:
                return _float(offset, "x"), _float(offset, "y"), _float(extent, "cx"), _float(extent, "cy")
    return None


def _scaled(group: Any, scale: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """The scale and shift of x and of y for what lies in a group."""
    transform = group.find(f"{_P}grpSpPr/{_A}xfrm")
    outer = _place(transform)
    inner, size = (transform.find(f"{_A}{tag}") if transform is not None else None for tag in ("chOff", "chExt"))
    if outer is None or inner is None or size is None:
        return scale
    left, top, width, height = _moved(outer, scale)
    x, y = width / (_float(size, "cx") or 1), height / (_float(size, "cy") or 1)
    return x, left - x * _float(inner, "x"), y, top - y * _float(inner, "y")


def _moved(place: Place, scale: tuple[float, float, float, float]) -> Place:
    left, top, width, height = place
    x, dx, y, dy = scale
    return x * left + dx, y * top + dy, x * width, y * height


def _slide_size(root: Any) -> tuple[float, float]:
    element = root.find(f"{_P}sldSz")
    return (_float(element, "cx"), _float(element, "cy")) if element is not None else (9_144_000.0, 6_858_000.0)


def _float(element: Any, name: str) -> float:
    text = element.get(name, "0")
    return float(text[:15]) if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() else 0.0


def _number(text: str | None, default: int) -> int:
    return min(int(text[:6]), _MOST_COLUMNS) if text and text.isascii() and text.isdigit() else default
