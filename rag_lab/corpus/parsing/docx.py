"""DOCX: the text that a reader of the document sees, as it stands after all tracked changes are accepted.

Headings are told by outline level (of the paragraph, its style, or the styles that one is based on), so the language of
style names does not matter. Numbers and bullets are written as the reader sees them. Notes and text boxes follow the
paragraph or table that they belong to. A raised number follows another one after a "^" (or 10⁶ would read as 106), and
the lower half of a fraction follows a "/". Headers, footers, comments, tables of contents, deletions and hidden text
stay out and are counted. Pages are counted only where the document itself breaks them.
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
from rag_lab.corpus.parsing.docx_styles import Numbering, Styles, W, is_on, value
from rag_lab.corpus.parsing.layer import clean
from rag_lab.corpus.parsing.office import Package
from rag_lab.corpus.parsing.parsed import Parsed, ParseError
from rag_lab.corpus.parsing.table_rows import Cell, Run

VERSION = "docx-3"

_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
_CHOICE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Choice"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_WRITTEN = {f"{W}tab": "\t", f"{W}br": "\n", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}softHyphen": "\u00ad"}
_LEFT_OUT = (f"{W}del", f"{W}moveFrom")
_NOT_TEXT = (f"{W}instrText", f"{W}delInstrText", f"{W}pPr", f"{W}rPr", f"{W}rt", f"{W}sdtPr", f"{W}fldData")
_MOST_COLUMNS = 200


@cache
def version() -> str:
    """Version of this parser."""
    return f"{VERSION} lxml-{version_of('lxml')}"


def parse(data: bytes, name: str, keep_hidden: bool) -> Parsed:
    """Text of the document. Raises `ParseError` for what is no DOCX, encrypted, damaged, or beyond the limits."""
    package = Package(data, name)
    reader = _Reader(package, package.main("word/document.xml"))
    body = reader.root.find(f"{W}body")
    if body is None:
        raise ParseError(f"{name}: has no body of a text document; save it again as .docx")
    reader.read_blocks(body)
    reader.count_parts()
    original = "".join(reader.original)
    layer = write(original, reader.finished())
    title, metadata = package.properties()
    return Parsed(
        *layer,
        version(),
        title=title or clean(reader.title),
        metadata=metadata,
        removed=dict(reader.removed),
        hidden=tuple(map(clean, reader.hidden)) if keep_hidden else (),
    )


@dataclass(slots=True)
class _Paragraph:
    """What is gathered of a paragraph: its runs, the page of its first word, notes and text boxes that follow it."""

    runs: list[Run] = field(default_factory=list)
    later: list[Any] = field(default_factory=list)
    page: int = 0
    hidden_by_style: bool = False
    in_table: bool = False


class _Reader:
    """Walks through the document once. `original` grows in the order in which the text is written."""

    def __init__(self, package: Package, part: str) -> None:
        self.package = package
        self.part = part
        self.root = package.xml(part)
        self.styles = Styles(self._other("styles"))
        self.numbering = Numbering(self._other("numbering"))
        self.original: list[str] = []
        self.removed: Counter[str] = Counter()
        self.hidden: list[str] = []
        self.title = ""
        self._position = 0
        self._drafts: list[Draft] = []
        self._page = 1
        self._notes = {
            kind: {note.get(f"{W}id"): note for note in root} if (root := self._other(f"{kind}s")) is not None else {}
            for kind in ("footnote", "endnote")
        }
        self._hiding = False

    def _other(self, kind: str) -> Any:
        parts = self.package.related(self.part, kind)
        return self.package.xml(parts[0]) if parts else None

    def finished(self) -> list[Draft]:
        """All blocks; without explicit page breaks no page is known."""
        if self._page == 1:
            for draft in self._drafts:
                draft.page = 0
        return self._drafts

    def count_parts(self) -> None:
        """Count what stands in parts that are not read."""
        for kind in ("header", "footer"):
            for part in self.package.related(self.part, kind):
                text = "".join(element.text or "" for element in self.package.xml(part).iter(f"{W}t"))
                self.removed[f"page {kind}"] += bool(text.strip())
        self.removed["comment"] += sum(1 for _ in self.root.iter(f"{W}commentReference"))
        self.removed = +self.removed

    # --- blocks -----------------------------------------------------------------------------------------------------

    def read_blocks(self, parent: Any) -> None:
        """Paragraphs, tables and what wraps them."""
        for element in parent:
            if element.tag == f"{W}p":
                self._read_paragraph(element)
            elif element.tag == f"{W}tbl":
                self._read_table(element)
            elif element.tag == f"{W}sdt" and self._is_contents(element):
                self.removed["table of contents"] += 1
            elif element.tag in _LEFT_OUT:
                self.removed["deleted"] += 1
            elif element.tag == _ALTERNATIVES:
                self.read_blocks(_chosen(element))
            elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo"):
                self.read_blocks(element)

    def _is_contents(self, element: Any) -> bool:
        gallery = element.find(f"{W}sdtPr/{W}docPartObj/{W}docPartGallery")
        return gallery is not None and gallery.get(f"{W}val", "") in ("Table of Contents", "Bibliographies")

    def _read_paragraph(self, element: Any) -> None:
        properties = element.find(f"{W}pPr")
        style = self.styles.of(properties)
        if style.is_contents:
            self.removed["table of contents"] += 1
            return
        if properties is not None and is_on(properties.find(f"{W}pageBreakBefore")):
            self._break_page()
        paragraph = _Paragraph(hidden_by_style=style.hidden)
        self._read_runs(element, paragraph)
        self._end_of_paragraph()
        if properties is not None and properties.find(f"{W}sectPr") is not None:
            kind = properties.find(f"{W}sectPr/{W}type")
            if kind is None or kind.get(f"{W}val") != "continuous":
                self._break_page()
        if self._has_text(paragraph.runs):
            self._add_paragraph(paragraph.runs, properties, paragraph.page)
        self._read_later(paragraph.later)

    def _add_paragraph(self, runs: list[Run], properties: Any, page: int) -> None:
        style = self.styles.of(properties)
        level = self.styles.level(properties)
        label, depth = self.numbering.label(properties, style)
        marked: list[Run] = [(runs[0][0], runs[0][0], label + " "), *runs] if label else runs
        last = self._drafts[-1] if self._drafts else None
        if level:
            self._drafts.append(Draft(BlockKind.HEADING, [marked], level=level, page=page))
            if style.is_title and not self.title:
                self.title = self._text(runs)
        elif label:
            item: list[Run] = [(runs[0][0], runs[0][0], "  " * depth), *marked] if depth else marked
            if last is not None and last.kind is BlockKind.LIST and last.page == page:
                last.lines.append(item)
            else:
                self._drafts.append(Draft(BlockKind.LIST, [item], page=page))
        elif style.kind in (BlockKind.CODE, BlockKind.QUOTE):
            if last is not None and last.kind is style.kind and last.page == page:
                last.lines.append(runs)
            else:
                self._drafts.append(Draft(style.kind, [runs], page=page))
        else:
            self._drafts.append(Draft(BlockKind.PARAGRAPH, [runs], page=page))

    def _read_later(self, later: list[Any]) -> None:
        for element in later:
            self.read_blocks(element)

    def _break_page(self) -> None:
        if self._position:
            self._page += 1

    # --- tables -----------------------------------------------------------------------------------------------------

    def _read_table(self, element: Any) -> None:
        rows = [row for row in _inside(element, f"{W}tr") if not self._is_deleted(row)]
        if max((sum(1 for _ in _inside(row, f"{W}tc")) for row in rows), default=0) <= 1:
            for row in rows:
                for cell in _inside(row, f"{W}tc"):
                    self.read_blocks(cell)
            return
        page = self._page
        later: list[Any] = []
        table: list[list[Cell]] = []
        open_cells: dict[int, Cell] = {}
        headers, in_head = 0, True
        for row in rows:
            in_head = in_head and is_on(row.find(f"{W}trPr/{W}tblHeader"))
            headers += in_head
            table.append(self._read_row(row, open_cells, later))
        drafts = Draft(BlockKind.TABLE, rows=table, headers=headers or int(len(table) > 1), page=page)
        self._drafts.append(drafts)
        self._read_later(later)

    def _is_deleted(self, row: Any) -> bool:
        deleted = row.find(f"{W}trPr/{W}del") is not None
        self.removed["deleted"] += deleted
        return deleted

    def _read_row(self, row: Any, open_cells: dict[int, Cell], later: list[Any]) -> list[Cell]:
        cells: list[Cell] = []
        column = _span(row.find(f"{W}trPr/{W}gridBefore"), 0)
        if column:
            cells.append(Cell(columns=column))
        for element in _inside(row, f"{W}tc"):
            width = _span(element.find(f"{W}tcPr/{W}gridSpan"), 1)
            merge = element.find(f"{W}tcPr/{W}vMerge")
            goes_on = merge is not None and merge.get(f"{W}val", "continue") == "continue" and column in open_cells
            paragraph = _Paragraph(in_table=True)
            self._read_cell(element, paragraph)
            later += paragraph.later
            if goes_on and not self._has_text(paragraph.runs):
                open_cells[column].rows += 1
            else:
                cell = Cell(paragraph.runs, columns=width)
                cells.append(cell)
                open_cells.pop(column, None)
                if merge is not None:
                    open_cells[column] = cell
            column += width
        return cells

    def _read_cell(self, element: Any, paragraph: _Paragraph) -> None:
        """All text of a cell as one line, that of tables in it as well."""
        for inner in element.iter(f"{W}p"):
            if _is_in_box(inner, element):
                continue
            style = self.styles.of(inner.find(f"{W}pPr"))
            label, _ = self.numbering.label(inner.find(f"{W}pPr"), style)
            first = len(paragraph.runs)
            paragraph.hidden_by_style = style.hidden
            self._read_runs(inner, paragraph)
            self._end_of_paragraph()
            added = paragraph.runs[first:]
            if self._has_text(added):
                at = added[0][0]
                before = " " if first else ""
                paragraph.runs.insert(first, (at, at, f"{before}{label} " if label else before))

    # --- runs -------------------------------------------------------------------------------------------------------

    def _read_runs(self, parent: Any, paragraph: _Paragraph) -> None:
        for element in parent:
            tag = element.tag
            if tag == f"{W}r":
                self._read_run(element, paragraph)
            elif tag in _LEFT_OUT:
                self._leave_out(element)
            elif tag == _ALTERNATIVES:
                self._read_runs(_chosen(element), paragraph)
            elif tag == f"{_M}t":
                self._add(element.text or "", paragraph)
            elif tag not in _NOT_TEXT:
                if tag == f"{_M}sup":
                    self._raise("".join(element.itertext(f"{_M}t")), paragraph)
                elif tag == f"{_M}den":
                    paragraph.runs.append((self._position, self._position, "/"))
                self._read_runs(element, paragraph)

    def _raise(self, text: str, paragraph: _Paragraph) -> None:
        """Keep a raised number that comes next apart from the number right before it."""
        at = self._position
        if paragraph.runs and paragraph.runs[-1][1] == at and self.original[-1][-1:].isdecimal():
            paragraph.runs += [(at, at, "^")] if text[:1].isdecimal() else []

    def _leave_out(self, element: Any) -> None:
        text = "".join(part.text or "" for part in element.iter(f"{W}delText", f"{W}t"))
        self._append(text)
        self.removed["deleted"] += bool(text.strip())

    def _read_run(self, run: Any, paragraph: _Paragraph) -> None:
        properties = run.find(f"{W}rPr")
        reason = self.styles.hidden_reason(properties, paragraph.hidden_by_style, paragraph.in_table)
        if not reason:
            self._hiding = False
            if value(properties, f"{W}vertAlign") == "superscript":
                self._raise(run.findtext(f"{W}t") or "", paragraph)
        for element in run:
            self._read_part(element, paragraph, reason)

    def _read_part(self, element: Any, paragraph: _Paragraph, reason: str) -> None:
        tag = element.tag
        if tag == f"{W}t":
            text = element.text or ""
            self._add(text if element.get(_SPACE) == "preserve" else text.strip(" \t\r\n"), paragraph, reason)
        elif tag == f"{W}br" and element.get(f"{W}type") == "page":
            self._break_page()
            self._add("\n", paragraph, reason)
        elif tag in _WRITTEN:
            self._add(_WRITTEN[tag], paragraph, reason)
        elif tag == f"{W}sym":
            self._add(_symbol(element.get(f"{W}char", "")), paragraph, reason)
        elif tag == f"{W}delText":
            self._append(element.text or "")
        elif tag in (f"{W}footnoteReference", f"{W}endnoteReference"):
            note = self._notes[tag[len(W) : -len("Reference")]].get(element.get(f"{W}id"))
            if note is not None:
                paragraph.later.append(note)
        elif tag == _ALTERNATIVES:
            for inner in _chosen(element):
                self._read_part(inner, paragraph, reason)
        elif tag in (f"{W}drawing", f"{W}pict", f"{W}object"):
            paragraph.later += [box for box in element.iter(f"{W}txbxContent") if not _is_nested_box(box, element)]
        elif tag == f"{W}ruby":
            base = element.find(f"{W}rubyBase")
            if base is not None:
                self._read_runs(base, paragraph)

    def _add(self, text: str, paragraph: _Paragraph, reason: str = "") -> None:
        start = self._append(text)
        if not text:
            return
        if not reason:
            paragraph.runs.append((start, self._position, None))
            if text.strip() and not paragraph.page:
                paragraph.page = self._page
        elif self._hiding:
            self.hidden[-1] += text
        elif text.strip():
            self._hiding = True
            self.removed[reason] += 1
            self.hidden.append(text)

    def _append(self, text: str) -> int:
        start = self._position
        if text:
            self.original.append(text)
            self._position += len(text)
        return start

    def _end_of_paragraph(self) -> None:
        self._hiding = False
        self._append("\n")

    def _text(self, runs: list[Run]) -> str:
        original = "".join(self.original)
        return "".join(original[start:end] for start, end, _ in runs)

    def _has_text(self, runs: list[Run]) -> bool:
        return any(end > start for start, end, _ in runs)


def _inside(element: Any, tag: str) -> Iterator[Any]:
    """Children of a tag, also those in content controls and tracked insertions."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo"):
            yield from _inside(child, tag)


def _chosen(element: Any) -> Any:
    """The first of several ways to say a thing; they hold the same text."""
    choice = element.find(_CHOICE)
    if choice is None:
        choice = element.find(_FALLBACK)
    return choice if choice is not None else ()


def _is_in_box(element: Any, cell: Any) -> bool:
    return next((True for up in element.iterancestors(f"{W}txbxContent", cell.tag) if up.tag != cell.tag), False)


def _is_nested_box(box: Any, drawing: Any) -> bool:
    """Whether a text box lies in another one, or in the second of two ways to say the same."""
    for up in box.iterancestors():
        if up is drawing:
            return False
        if up.tag in (f"{W}txbxContent", _FALLBACK):
            return True
    return False


def _span(element: Any, default: int) -> int:
    value = element.get(f"{W}val", "") if element is not None else ""
    return min(int(value[:6]), _MOST_COLUMNS) if value.isascii() and value.isdigit() else default


def _symbol(code: str) -> str:
    """Character of a symbol font; those in the private area say nothing, most are bullets and ticks."""
    try:
        character = chr(int(code[:6], 16))
    except (ValueError, OverflowError):
        return ""
    return "" if "\ue000" <= character <= "\uf8ff" else character
