"""PDF on pdfium: text with its layout, in reading order.

What a reader of the page does not see (invisible, in the colour of its background, covered, tiny, outside of the page)
stays out, and so do headers, footers and page numbers; both are counted. Text that was recognised in a scan and laid
invisibly over its picture is kept. Where columns cannot be told from a table, a note says "reading_order: uncertain".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version as version_of
from threading import Lock
from typing import Any

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing.layer import clean
from rag_lab.corpus.parsing.parsed import Parsed, ParseError
from rag_lab.corpus.parsing.pdf.furniture import find_furniture
from rag_lab.corpus.parsing.pdf.glyphs import Glyphs
from rag_lab.corpus.parsing.pdf.layout import Region, Rows, arrange
from rag_lab.corpus.parsing.pdf.pages import Reading, listed, read_pages
from rag_lab.corpus.parsing.pdf.pieces import Line, find_lines
from rag_lab.corpus.parsing.pdf.structure import Cells, Draft, Hyphens, body_look, find_blocks
from rag_lab.corpus.parsing.pdf.writing import Writer

VERSION = "pdf-3"

_SAMPLE = 50
_PROGRAM_TITLE = re.compile(
    r"(?i)(microsoft (word|powerpoint) - .*|untitled|.*\.(docx?|pptx?|odt|indd|tex|dvi|rtf))\s*"
)
_CONTENTS = re.compile(r"(?:\. ?){5,}\s*[\dxvi]+$")
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-]\d\d)'?(\d\d)?)?")
_ONE_AT_A_TIME = Lock()
"""pdfium must not be used by two threads at once."""


@cache
def version() -> str:
    """Version of this parser."""
    return f"{VERSION} pypdfium2-{version_of('pypdfium2')}"


def parse(data: bytes, name: str, keep_hidden: bool) -> Parsed:
    """Text of all pages. Raises `ParseError` for what is encrypted, damaged, without text, or too large."""
    with _ONE_AT_A_TIME, _opened(data, name) as document:
        reading = read_pages(document, name)
        title, metadata = _metadata(document)
    notes = reading.notes()
    if b"%%EOF" not in data[-2048:]:
        notes.append("the file is cut or damaged: this is what could be recovered")
    regions, uncertain = _regions(reading)
    if uncertain:
        notes += ["reading_order: uncertain", f"columns could not be told from a table: page {listed(uncertain)}"]
    columns = [region for _, region in regions if not isinstance(region, tuple)]
    drafts = find_blocks(regions, body_look(columns)) + _aside(reading)
    hyphens = Hyphens(line for column in columns for line in column)
    original = reading.original
    layer = Writer(original, reading.pages, hyphens).write(drafts)
    return Parsed(
        *layer,
        version(),
        title=title,
        metadata=metadata,
        removed=dict(+reading.removed),
        hidden=tuple(reading.hidden) if keep_hidden else (),
        notes=tuple(notes),
    )


@contextmanager
def _opened(data: bytes, name: str) -> Iterator[Any]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise ParseError(f"{name}: is encrypted; save it without a password first") from None
        raise ParseError(f"{name}: cannot be opened as PDF, it may be cut or damaged; get the file again") from None
    try:
        yield document
    finally:
        document.close()


def _regions(reading: Reading) -> tuple[list[tuple[int, list[Line] | Cells]], list[int]]:
    """Columns and tables of all pages in reading order, and the pages where it is uncertain."""
    pages = reading.pages
    sample = [find_lines(page.glyphs, page.pieces) for page in pages[:_SAMPLE] if page.pieces]
    furniture = find_furniture([p.pieces for p in pages], [p.height for p in pages], body_look(sample).size)
    reading.removed.update(furniture.removed)
    regions: list[tuple[int, list[Line] | Cells]] = []
    uncertain = []
    for page in pages:
        arrangement = arrange([piece for piece in page.pieces if id(piece) not in furniture.pieces], page.tables)
        for region in arrangement.regions:
            lines = _lines(page.glyphs, region)
            if isinstance(lines, list):
                text = [line for line in lines if not _CONTENTS.search(line.text)]
                reading.removed["table of contents"] += len(lines) - len(text)
                lines = text
            regions.append((page.number, lines))
        uncertain += [] if arrangement.certain else [page.number]
    return regions, uncertain


def _lines(glyphs: Glyphs, region: Region) -> list[Line] | Cells:
    if isinstance(region, Rows):
        return tuple(tuple(tuple(find_lines(glyphs, cell)) for cell in row) for row in region.cells)
    return find_lines(glyphs, region)


def _aside(reading: Reading) -> list[Draft]:
    """Text that is turned, after all else; what comes on several pages is a watermark."""
    found = [(page, span, clean(page.glyphs.text[slice(*span)])) for page in reading.pages for span in page.aside]
    times = Counter(text for _, _, text in found)
    drafts = []
    for page, (start, end), text in found:
        if times[text] > 1:
            reading.removed["watermark"] += 1
        else:
            line = Line(0, 0, 0, 0, 0, False, text, ((start, end, None),))
            drafts.append(Draft(BlockKind.PARAGRAPH, [(page.number, line)], page=page.number))
    return drafts


def _metadata(document: Any) -> tuple[str, dict[str, Any]]:
    """Title, and what else the document says of itself."""
    given = {key: clean(value) for key, value in document.get_metadata_dict(skip_empty=True).items()}
    title = given.get("Title", "")
    dates = (("created", "CreationDate"), ("modified", "ModDate"))
    metadata: dict[str, Any] = {key.lower(): given[key] for key in ("Author", "Subject", "Keywords") if given.get(key)}
    metadata |= {key: _date(given[field]) for key, field in dates if _DATE.match(given.get(field, ""))}
    metadata["pages"] = len(document)
    return "" if _PROGRAM_TITLE.fullmatch(title) else title, metadata


def _date(text: str) -> str:
    """A PDF date as ISO 8601, as exact as it is given."""
    match = _DATE.match(text)
    parts: Sequence[str | None] = match.groups() if match else ()
    date = "-".join(part for part in parts[:3] if part)
    clock = ":".join(part for part in parts[3:6] if part)
    zone = f"{parts[6]}:{parts[7] or '00'}" if parts[6] else "Z" if "Z" in text else ""
    return f"{date}T{clock}{zone}" if clock else date
