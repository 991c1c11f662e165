"""The report as a PDF, set by typst. Texts reach it as data, so typst code in a question stays text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib.resources import files
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.reports.blocks import Code, Column, Document, Table
from rag_lab.reports.fonts import chinese_sans, folders, missing_glyphs
from rag_lab.reports.literal import heading_pieces, pieces, visible

CELL_RUN = 13
KEPT_ROWS, KEPT_CHARACTERS = 12, 60
CODE_LINES, CODE_WIDTH = 12, 52


def render(document: Document, figures: Mapping[str, bytes]) -> bytes:
    """The PDF. `figures` holds SVG by name.

    Raises RagLabError with typst's own message when the page cannot be set.
    """
    import typst

    content = _plain(document)
    content["remark"] = [_text(line) for line in remarks(document)]
    content["drawn"] = sorted(figures)
    inputs = {"data": json.dumps(content, ensure_ascii=False)}
    inputs.update({f"figure-{name}": svg.decode("utf-8") for name, svg in figures.items()})
    template = files("rag_lab.reports").joinpath("templates/report.typ").read_bytes()
    fonts = typst.Fonts(include_system_fonts=False, font_paths=[str(folder) for folder in folders()])
    try:
        return typst.compile(
            template,
            format="pdf",
            font_paths=fonts,
            sys_inputs=inputs,
        )
    except typst.TypstError as error:
        raise RagLabError(f"report.pdf: typst could not set the report: {error.message}") from error


def remarks(document: Document) -> list[str]:
    """What the PDF cannot show: no Chinese font, or characters that no font at hand has."""
    found = []
    if chinese_sans() is None:
        found.append(
            "The package pylopdf-fonts-zh-cn is missing, so Chinese text prints as boxes in this PDF. "
            "Install it and make the report again; the HTML report shows the text."
        )
    absent = missing_glyphs("".join(_strings(document)))
    if absent and chinese_sans() is not None:
        codes = ", ".join(f"U+{ord(c):04X}" for c in absent[:12]) + (" and others" if len(absent) > 12 else "")
        found.append(f"No font at hand has {codes}: they print as boxes here. The HTML report shows them.")
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield visible(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from _strings(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _strings(getattr(value, field.name))


def _plain(value: Any, run: int = 24) -> Any:
    """Records as dictionaries with their kind, texts as lines of pieces between which a line may end."""
    if isinstance(value, str):
        return _text(value, run)
    if isinstance(value, tuple):
        return [_plain(item, run) for item in value]
    if isinstance(value, Column):
        words = [heading_pieces(visible(value.label))]
        return {"label": words, "kind": value.kind, "detail": _text(value.detail, CELL_RUN)}
    if isinstance(value, Code):
        return {"type": "Code", "parts": [[pieces(line, 80) for line in part] for part in _code_columns(value.text)]}
    if is_dataclass(value):
        kind = type(value).__name__
        inner = CELL_RUN if kind in ("Cell", "Column") else run
        verbatim = ("role", "tone", "mark", "anchor", "name")
        content = {
            f.name: getattr(value, f.name) if f.name in verbatim else _plain(getattr(value, f.name), inner)
            for f in fields(value)
        }
        if isinstance(value, Table):
            content["compact"] = _compact(value)
            content |= {"marked": value.marked, "inline": value.inline}
        return {"type": kind, **content}
    return value


def _compact(table: Table) -> bool:
    """Whether a table is small enough to be kept on one page."""
    lines = (line for row in table.rows for one in row for line in one.lines)
    return len(table.rows) <= KEPT_ROWS and max(map(len, lines), default=0) <= KEPT_CHARACTERS


def _code_columns(text: str) -> list[list[str]]:
    """The lines, in two columns when they are many and short."""
    lines = visible(text).rstrip("\n").split("\n")
    if len(lines) < CODE_LINES or max(map(len, lines)) > CODE_WIDTH:
        return [lines]
    half = -(-len(lines) // 2)
    return [lines[:half], lines[half:]]


def _text(text: str, run: int = 24) -> list[list[str]]:
    return [pieces(line, run) for line in visible(text).expandtabs(4).split("\n")]
