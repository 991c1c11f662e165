"""What a report is made of: plain data that each renderer sets in its own way.

Every string is literal text. A renderer escapes it; nothing here is markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Tone: TypeAlias = Literal["", "good", "bad", "caution", "muted"]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text. `role` "note" is set small."""

    text: str
    role: Literal["body", "note"] = "body"


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of label and value."""

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading.

    Numbers and counts are aligned right, numbers share the width that is left, and a "text" column takes all of it.
    """

    label: str
    kind: Literal["name", "number", "count", "text"] = "number"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """The first line is the value, the others (a count, a remark) explain it and are set small.

    `mark` stands behind the value; `aside` is set small on the value's own line, for tables with room for it.
    """

    lines: tuple[str, ...]
    tone: Tone = ""
    mark: str = ""
    aside: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows all have ``len(columns)`` cells. `breaks` are the rows that start a new group."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    breaks: tuple[int, ...] = ()

    @property
    def marked(self) -> tuple[bool, ...]:
        """For each column, whether it keeps a place for marks, so that numbers with and without one stay in line."""
        return tuple(
            column.kind == "number" and any(row[i].mark for row in self.rows) for i, column in enumerate(self.columns)
        )

    @property
    def inline(self) -> bool:
        """Whether numbers and their intervals stand on one line."""
        numbers = [i for i, column in enumerate(self.columns) if column.kind == "number"]
        return any(row[i].aside for row in self.rows for i in numbers)


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing by the name of its file (without suffix); `alternative` says in words what it shows."""

    name: str
    caption: str
    alternative: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Text of a document that was in a context."""

    source: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Text whose lines and spaces matter."""

    text: str


@dataclass(frozen=True, slots=True)
class Record:
    """One question with all that is known about it."""

    title: str
    lead: str
    facts: Facts
    table: Table
    excerpts: tuple[Excerpt, ...]
    note: str = ""


Block: TypeAlias = Paragraph | Facts | Table | Figure | Code | Record


@dataclass(frozen=True, slots=True)
class Section:
    """A headed part of the report; `anchor` is unique in it."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The whole report. `verdict` is what the numbers allow to be said, the most important sentence first."""

    title: str
    subtitle: str
    verdict: tuple[str, ...]
    key_facts: Facts
    cautions: tuple[str, ...]
    sections: tuple[Section, ...]


def cell(*lines: str, tone: Tone = "", mark: str = "", aside: str = "") -> Cell:
    """A cell of the lines that are not empty."""
    return Cell(tuple(line for line in lines if line) or ("–",), tone, mark, aside)


def texts(values: Sequence[str]) -> str:
    """Names joined for reading, a dash when there are none."""
    return ", ".join(values) if values else "–"
