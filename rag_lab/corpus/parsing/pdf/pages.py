"""All pages of a PDF: what can be read, what is hidden, and what could not be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.corpus.parsing.layer import clean
from rag_lab.corpus.parsing.parsed import ParseError
from rag_lab.corpus.parsing.pdf.drawing import Frame, read_drawing
from rag_lab.corpus.parsing.pdf.furniture import edge
from rag_lab.corpus.parsing.pdf.glyphs import REASONS, Glyphs, read_glyphs
from rag_lab.corpus.parsing.pdf.layout import Rows
from rag_lab.corpus.parsing.pdf.pieces import Piece, find_pieces, rows_of
from rag_lab.corpus.parsing.pdf.rulings import ruled_tables, tables_between_rules

MOST_PAGES = 5_000
MOST_CHARACTERS = 20_000_000
MOST_ON_A_PAGE = 300_000
_UNKNOWN = 0.2


@dataclass(slots=True)
class Page:
    """One page. `base`: where its text begins in the original; `aside`: stretches of text that is turned."""

    number: int
    base: int
    height: float
    glyphs: Glyphs
    pieces: list[Piece]
    tables: list[Rows]
    aside: list[tuple[int, int]]


@dataclass(slots=True)
class Reading:
    """All pages; `numbers` are those of pages that a note is due for."""

    pages: list[Page] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    removed: Counter[str] = field(default_factory=Counter)
    hidden: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)
    recognised: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    crowded: list[int] = field(default_factory=list)

    @property
    def original(self) -> str:
        return "\f".join(self.texts)

    def notes(self) -> list[str]:
        """What a reader of the text should know of single pages."""
        found = (
            ("could not be read", self.lost),
            ("a picture without text, which has to be recognised (OCR) first", self.pictures),
            ("text was recognised in a scan", self.recognised),
            ("fonts do not say what their characters mean", self.unknown),
            ("too many drawings to look for covered text", self.crowded),
        )
        return [f"{note}: page {listed(numbers)}" for note, numbers in found if numbers]


def listed(numbers: Sequence[int]) -> str:
    """Page numbers for a note, the first ten of them."""
    return ", ".join(map(str, numbers[:10])) + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")


def read_pages(document: Any, name: str) -> Reading:
    """Read every page of an open document. Raises `ParseError` if it has no text or too much."""
    import pypdfium2

    if len(document) > MOST_PAGES:
        raise ParseError(f"{name}: has {len(document)} pages, more than {MOST_PAGES}; split the file")
    reading = Reading()
    base = 0
    for number in range(1, len(document) + 1):
        try:
            page = document[number - 1]
        except pypdfium2.PdfiumError:
            reading.lost.append(number)
            reading.texts.append("")
        else:
            _read_page(reading, page, number, base, name)
            page.close()
        base += len(reading.texts[-1]) + 1
        if base > MOST_CHARACTERS:
            raise ParseError(f"{name}: has more than {MOST_CHARACTERS} characters; split the file")
    if not any(page.glyphs.drawn.any() for page in reading.pages):
        if reading.pictures:
            raise ParseError(f"{name}: holds pictures without text; recognise its text (OCR) first")
        raise ParseError(f"{name}: has no text on {len(document)} pages; get the file again, or leave it out")
    return reading


def _read_page(reading: Reading, page: Any, number: int, base: int, name: str) -> None:
    left, bottom, right, top = page.get_cropbox()
    frame = Frame(left, bottom, right - left, top - bottom, page.get_rotation() // 90)
    drawing = read_drawing(page.raw, frame)
    textpage = page.get_textpage()
    if textpage.count_chars() > MOST_ON_A_PAGE:
        raise ParseError(f"{name}: page {number} has more than {MOST_ON_A_PAGE} characters; split the file")
    glyphs = read_glyphs(textpage.raw, frame, drawing)
    textpage.close()
    reading.texts.append(glyphs.text)
    for start, end, reason in _hidden_stretches(glyphs):
        reading.removed[reason] += 1
        reading.hidden.append(clean(glyphs.text[start:end]))
    seen = np.flatnonzero(glyphs.drawn & (glyphs.hidden == 0))
    flags = np.array([(style.upright, style.pagination) for style in glyphs.styles] or [(True, False)])[
        glyphs.style[seen]
    ]
    upright, pagination = flags[:, 0], flags[:, 1]
    _count_pagination(reading.removed, glyphs, seen[pagination], frame.height)
    tables, rest = ruled_tables(glyphs, seen[upright & ~pagination], drawing)
    aside = [(int(part[0]), int(part[-1]) + 1) for part in _stretches(glyphs, seen[~upright & ~pagination])]
    between, pieces = tables_between_rules(find_pieces(glyphs, rest), drawing)
    reading.pages.append(Page(number, base, frame.height, glyphs, pieces, tables + between, aside))
    reading.pictures += [number] if drawing.pictures and not glyphs.drawn.any() else []
    reading.recognised += [number] if glyphs.recognised else []
    reading.unknown += [number] if _is_unknown(glyphs) else []
    reading.crowded += [number] if drawing.cut_short else []


def _hidden_stretches(glyphs: Glyphs) -> Iterator[tuple[int, int, str]]:
    """(start, end, reason) for what was hidden together."""
    hidden = np.flatnonzero(glyphs.hidden)
    for part in _stretches(glyphs, hidden):
        for same in np.split(part, np.flatnonzero(np.diff(glyphs.hidden[part])) + 1):
            yield int(same[0]), int(same[-1]) + 1, REASONS[int(glyphs.hidden[same[0]]) - 1]


def _stretches(glyphs: Glyphs, chosen: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Characters that follow one another, with nothing but white space between."""
    if not len(chosen):
        return []
    drawn = np.cumsum(glyphs.drawn)[chosen]
    return np.split(chosen, np.flatnonzero(np.diff(drawn) != 1) + 1)


def _count_pagination(removed: Counter[str], glyphs: Glyphs, chosen: npt.NDArray[np.int64], height: float) -> None:
    for row in rows_of(find_pieces(glyphs, chosen)):
        y, depth = row[0].y0, edge(height)
        removed["page header" if y <= depth else "page footer" if y >= height - depth else "watermark"] += 1


def _is_unknown(glyphs: Glyphs) -> bool:
    """Whether many characters are in no code: replacement, private use, or control characters."""
    characters = [character for character, drawn in zip(glyphs.text, glyphs.drawn, strict=True) if drawn]
    strange = sum(c == "\ufffd" or "\ue000" <= c <= "\uf8ff" or c < " " for c in characters)
    return strange > _UNKNOWN * len(characters)
