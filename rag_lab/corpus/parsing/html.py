"""HTML as a reader sees it.

Out stay: what a browser never shows (scripts, style sheets, templates, `noscript`, graphics, form fields), what the
page hides (see `html_elements` and `html_styles`), navigation (`nav`, `aside`, header and footer of the page, by role
too, links that skip and links to a heading itself) and cookie banners. An `h1` in the page's header stays, and an
`aside` that calls itself a note or holds footnotes. Contents of `details` stay.

A list, a quotation and a table are one block each; a list item starts with "- " or its number, a table row is written
"| a | b |" and its header row is the block's `lead`. A cell that spans rows is repeated in each, one that spans columns
is followed by empty ones. A table without header cells that has one row or one column, or that holds other tables,
headings or preformatted text, is taken for layout. Ruby annotations follow in brackets. A raised number follows another
one after a "^", or 10<sup>6</sup> would read as 106.

Offsets point into the decoded file; a character reference has the place of its "&".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rag_lab.contracts import BlockKind
from rag_lab.corpus.headings import Headings
from rag_lab.corpus.parsing.decoding import declared_in, decode
from rag_lab.corpus.parsing.html_elements import BLOCKS, HIDING, Close, Element, Open, Text, Walk
from rag_lab.corpus.parsing.html_tables import PageCell, Table
from rag_lab.corpus.parsing.language import normal
from rag_lab.corpus.parsing.layer import LayerBuilder, clean
from rag_lab.corpus.parsing.parsed import Parsed
from rag_lab.corpus.parsing.table_rows import TableWriter

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu", "dir", "dl"})
_ITEMS = frozenset({"li", "dt", "dd"})
_LONGEST_HEADING = 500
_SECTIONING = ("article", "main", "section", "blockquote", "figure", "td", "dialog")
_NAVIGATION_ROLES = frozenset({"navigation", "banner", "contentinfo", "search", "complementary", "menu", "menubar"})
_NOTE = re.compile(r"(?i)\b((?:foot|end)?note|admonition|callout|warning|tip|important|caution|info)")
_NOTE_ROLES = ("note", "doc-")
_COOKIE = re.compile(
    r"(?i)(?:^|[\s_-])(?:(?:cookies?|gdpr|consent)[\s_-]?(?:law[\s_-]?)?(?:consent|info[\s_-]?)?"
    r"(?:banner|bar|consent|notice|pop-?up|modal|dialog|overlay|alert|message|prompt|wall|notification|disclaimer)"
    r"|onetrust|cybotcookiebot|usercentrics|didomi|qc-cmp2?|truste_|cookieconsent|osano-cm|iubenda-cs|cmplz|klaro)"
)
_CONTENT = frozenset({"main", "article"})
_FURNITURE = frozenset({"nav", "header", "footer", "aside"})
_AIDS = re.compile(r"(?:^|\s)(?:headerlink|anchor-link|skip[-_]\w)")
_META_NAMES = frozenset(
    (
        *("author", "description", "keywords", "date", "article:published_time", "article:modified_time"),
        *("dc.creator", "dc.date", "dcterms.date", "dcterms.created", "dcterms.modified"),
    )
)


VERSION = "html-3"


def version() -> str:
    """Version of this parser."""
    return VERSION


def parse(data: bytes, name: str, keep_hidden: bool = False) -> Parsed:  # noqa: ARG001 - one interface
    """What a reader sees of a page; with `keep_hidden` also what it hides from them."""
    decoded = decode(data, declared_in(data[:4096]))
    page = Page(decoded.text, keep_hidden)
    page.read()
    layer = page.builder.build()
    return Parsed(
        *layer,
        VERSION,
        title=clean("".join(page.title)),
        language=page.language,
        metadata=page.metadata,
        removed={reason: count for reason, count in sorted(page.walk.removed.items()) if count},
        hidden=tuple(text for text in (clean("".join(pieces)) for pieces in page.hidden) if text),
        notes=decoded.notes,
    )


def left_out(walk: Walk, element: Element) -> str:
    """Why a page's furniture is left out: "navigation" or "cookie banner"; "aria-hidden" for decoration."""
    tag, attributes = element.tag, element.attributes
    if not attributes and tag not in _FURNITURE:
        return ""
    role = attributes.get("role", "").lower()
    labels = f"{attributes.get('class', '')} {attributes.get('id', '')}"
    if tag == "nav" or (role in _NAVIGATION_ROLES and tag not in _CONTENT):
        return "navigation"
    if tag in ("header", "footer") and not walk.is_open(*_SECTIONING):
        return "navigation"
    if tag == "aside" and not role.startswith(_NOTE_ROLES) and not _NOTE.search(labels):
        return "navigation"
    if tag == "a" and _AIDS.search(labels):
        return "navigation"
    if labels != " " and tag not in _CONTENT and _COOKIE.search(labels):
        return "cookie banner"
    if attributes.get("aria-hidden", "").lower() == "true" and tag not in _CONTENT:
        return "aria-hidden"
    return ""


@dataclass(slots=True)
class _List:
    """An open list: how its items are numbered, None for bullets."""

    number: int | None
    definition: bool = False


@dataclass
class Page:
    """Turns the events of a page into text and blocks."""

    original: str
    keep_hidden: bool = False
    title: list[str] = field(default_factory=list)
    language: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    hidden: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.walk = Walk(self.original, left_out)
        self.builder = LayerBuilder(self.original)
        self._headings = Headings()
        self._kind: BlockKind | None = None
        self._start = 0
        self._gap = ""
        self._marker = ""
        self._lists: list[_List] = []
        self._quotes = 0
        self._container = BlockKind.PARAGRAPH
        self._heading = 0
        self._pre = 0
        self._fresh_pre = False
        self._table: Table | None = None
        self._table_writer = TableWriter(self.builder)
        self._tables: list[bool] = []
        self._titled = False
        self._after_digit = False
        self._raised = False

    def read(self) -> None:
        """Go through the whole page."""
        for event in self.walk.events():
            if isinstance(event, Text):
                if event.reason:
                    self._unseen(event)
                else:
                    self._text(event.start, event.end, event.value)
            elif isinstance(event, Open):
                self._opened(event.element)
            else:
                self._closed(event)
        self._finish_table()
        self._end_block()

    # --- text -------------------------------------------------------------------------------------------------------

    def _unseen(self, text: Text) -> None:
        value = self.original[text.start : text.end] if text.value is None else text.value
        innermost = self.walk.innermost
        if text.reason == "never":
            if innermost and innermost.tag == "title" and not self._titled and not self.walk.is_open("svg"):
                self.title.append(value)
        elif self.keep_hidden and text.reason in HIDING:
            self.hidden[-1].append(value)

    def _text(self, start: int, end: int, value: str | None) -> None:
        if self._fresh_pre:
            self._fresh_pre = False
            if value is None and self.original.startswith(("\n", "\r"), start):
                start += 2 if self.original.startswith("\r\n", start) else 1
        text = self.original[start:end] if value is None else value
        blank = text.isspace()
        if self._raised and self._after_digit and text[:1].isdecimal():
            self._add_mark("^", start)
        self._raised, self._after_digit = False, text[-1:].isdecimal()
        if self._table:
            if not blank or self._table.has_text:
                self._table.cell().add(start, end, value)
            return
        if blank and not self._pre and (self._kind is None or self._gap):
            return
        self._begin(start)
        if value is None:
            self.builder.take(start, end, collapse=not self._pre)
        else:
            self.builder.put(value, start, end, collapse=not self._pre)

    def _begin(self, start: int) -> None:
        """Open a block if none is open, and write what separates it from what is before."""
        if self._gap == " ":
            self.builder.put(" ", start, start, collapse=True)
        elif self._gap and self.builder.position:
            self.builder.insert(self._gap)
        self._gap = ""
        if self._kind is None:
            self._start = self.builder.position
            self._kind = self._wanted()
        if self._marker:
            self.builder.insert(self._marker)
            self._marker = ""

    def _wanted(self) -> BlockKind:
        if self._pre:
            return BlockKind.CODE
        if self._heading:
            return BlockKind.HEADING
        return self._container

    # --- block structure --------------------------------------------------------------------------------------------

    def _boundary(self) -> None:
        """What comes next stands on a line of its own."""
        if self._table:
            self._table.separate()
        elif self._pre:
            self._gap = "\n" if self._kind is BlockKind.CODE else self._gap
        elif self._heading:
            self._gap = " " if self._kind is BlockKind.HEADING else self._gap
        elif self._kind is self._container and self._kind is not BlockKind.PARAGRAPH:
            self._gap = "\n" + "  " * (len(self._lists) - 1) if self._lists else "\n\n"
        else:
            self._end_block()

    def _end_block(self) -> None:
        kind, self._kind, level = self._kind, None, 0
        if kind is None:
            return
        if kind is BlockKind.HEADING:
            title = self.builder.clean(self._start)
            if 0 < len(title) <= _LONGEST_HEADING:
                level = self._heading
                self._headings.enter(level, title)
            else:
                kind = BlockKind.PARAGRAPH
        self.builder.block(kind, self._start, section_path=self._headings.path, level=level)
        self._gap = "\n\n"

    def _opened(self, element: Element) -> None:
        tag = element.tag
        if element.own and element.reason in HIDING:
            self.hidden.append([])
        if tag in ("html", "body") and not self.language:
            attributes = element.attributes
            self.language = normal(attributes.get("lang") or attributes.get("xml:lang") or "")
        if tag == "meta":
            self._meta(element.attributes)
        if element.reason:
            if self.keep_hidden and tag in BLOCKS and element.reason in HIDING:
                self.hidden[-1].append(" ")
            return
        if tag in BLOCKS or tag == "br":
            self._after_digit = False
        if tag == "br":
            self._line_break()
        elif tag == "sup":
            self._raised = True
        elif tag == "rt":
            self._add_mark("（" if self.language in ("ja", "zh") else " (", element.start)
        elif tag in BLOCKS:
            self._block_opened(tag, element)

    def _block_opened(self, tag: str, element: Element) -> None:
        if tag in ("td", "th") and self._table:
            self._table.open_cell(element, header=tag == "th")
        elif tag == "tr" and self._table:
            self._table.open_row(head=self.walk.is_open("thead"))
        elif tag == "caption" and self._table:
            self._table.open_caption()
        elif tag == "table":
            self._open_table(element)
        elif tag == "pre" or tag in ("listing", "xmp", "plaintext"):
            self._leave_table()
            self._boundary()
            if not self._pre and self._kind is not None:
                self._end_block()
            self._pre += 1
            self._fresh_pre = tag != "xmp"
        elif tag in _HEADINGS or (self._aria_level(element) and not self._heading):
            self._leave_table()
            self._end_block()
            self._heading = _HEADINGS.get(tag) or self._aria_level(element)
        elif tag == "blockquote":
            self._boundary()
            self._quotes += 1
            if not self._lists:
                self._container = BlockKind.QUOTE
        elif tag in _LISTS:
            self._boundary()
            self._open_list(tag, element.attributes)
        else:
            self._boundary()
            if tag in _ITEMS:
                self._open_item(tag, element.attributes)

    def _closed(self, event: Close) -> None:
        tag = event.element.tag
        if tag == "title" and self.title:
            self._titled = True
        if event.element.reason:
            return
        if tag in BLOCKS:
            self._after_digit = False
        if tag == "sup":
            self._raised = False
        elif tag == "rt":
            self._add_mark("）" if self.language in ("ja", "zh") else ")", event.place)
        elif tag in BLOCKS:
            self._block_closed(tag, event)

    def _block_closed(self, tag: str, event: Close) -> None:
        if tag == "table":
            self._close_table()
        elif tag in ("td", "th", "tr", "caption") and self._table:
            self._table.close(tag)
        elif tag in ("pre", "listing", "xmp", "plaintext"):
            self._pre = max(self._pre - 1, 0)
            self._fresh_pre = False
            if not self._pre and self._kind is BlockKind.CODE:
                self._end_block()
        elif tag in _HEADINGS or self._aria_level(event.element):
            self._end_block()
            self._heading = 0
        elif tag == "blockquote":
            self._boundary()
            self._quotes -= 1
            self._contain()
        elif tag in _LISTS:
            if self._lists:
                self._lists.pop()
            self._marker = ""
            self._contain()
            self._boundary()
        else:
            self._boundary()

    def _contain(self) -> None:
        """Leave the outermost list or quotation when its last one ends."""
        if self._lists or self._quotes:
            return
        self._container = BlockKind.PARAGRAPH
        if not self._table:
            self._end_block()

    # --- headings ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _aria_level(element: Element) -> int:
        if element.attributes.get("role") != "heading" or element.tag in _HEADINGS:
            return 0
        level = element.attributes.get("aria-level", "2")
        return min(max(int(level), 1), 6) if level.isascii() and level.isdigit() and len(level) < 3 else 2

    # --- lists ------------------------------------------------------------------------------------------------------

    def _open_list(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._lists and not self._quotes:
            if not self._table:
                self._end_block()
            self._container = BlockKind.LIST
        start = attributes.get("start", "1").strip()
        number = int(start) if re.fullmatch(r"-?\d{1,9}", start, re.ASCII) else 1
        self._lists.append(_List(number if tag == "ol" else None, tag == "dl"))

    def _open_item(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._lists or self._table:
            return
        held = self._lists[-1]
        if held.definition:
            self._marker = "  " if tag == "dd" else ""
        elif held.number is None:
            self._marker = "- "
        else:
            value = attributes.get("value", "").strip()
            held.number = int(value) if re.fullmatch(r"-?\d{1,9}", value, re.ASCII) else held.number
            self._marker = f"{held.number}. "
            held.number += 1

    def _line_break(self) -> None:
        if self._table:
            self._table.separate()
        elif self._kind is not None and not self._gap:
            self._gap = " " if self._heading else "\n"
            if self._pre:
                self.builder.insert("\n")
                self._gap = ""

    def _add_mark(self, mark: str, place: int) -> None:
        if self._table:
            self._table.cell().add(place, place, mark)
        elif self._kind is not None:
            self.builder.put(mark, place, place, collapse=True)

    # --- tables -----------------------------------------------------------------------------------------------------

    def _open_table(self, element: Element) -> None:
        self._leave_table()
        self._end_block_before_table()
        layout = element.attributes.get("role", "").lower() in ("presentation", "none")
        self._tables.append(layout)
        if not layout and not self._heading and not self._pre:
            self._table = Table()

    def _end_block_before_table(self) -> None:
        if self._heading or self._pre:
            self._boundary()
        else:
            self._end_block()

    def _close_table(self) -> None:
        if self._tables:
            self._tables.pop()
        self._finish_table()
        self._boundary()

    def _finish_table(self) -> None:
        """Write the table that is being read, as a table or cell by cell."""
        table, self._table = self._table, None
        if table is None:
            return
        if not table.is_data:
            self._write_cells(table)
            return
        if table.caption:
            self._write_cell(table.caption)
        if self.builder.position:
            self.builder.insert(self._gap or "\n\n")
        start = self.builder.position
        lead = table.write(self._table_writer)
        self.builder.block(BlockKind.TABLE, start, section_path=self._headings.path, lead=lead)
        self._gap = "\n\n"

    def _leave_table(self) -> None:
        """The table being read turns out to be layout: its cells become ordinary text."""
        table, self._table = self._table, None
        if table is not None:
            self._write_cells(table)
            if self._tables:
                self._tables[-1] = True

    def _write_cells(self, table: Table) -> None:
        for cell in table.cells():
            self._write_cell(cell)

    def _write_cell(self, cell: PageCell) -> None:
        self._boundary()
        for start, end, value in cell.runs:
            self._text(start, end, value)
        self._boundary()

    # --- what the page says of itself -------------------------------------------------------------------------------

    def _meta(self, attributes: Mapping[str, str]) -> None:
        name = (attributes.get("name") or attributes.get("property") or "").strip().lower()
        content = clean(attributes.get("content", ""))
        if name in _META_NAMES and content:
            self.metadata.setdefault(name, content)
        if attributes.get("http-equiv", "").lower() == "content-language" and not self.language:
            self.language = normal(content)
