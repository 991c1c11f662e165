"""Lines of JSON and of judgments, read the way their writers meant them.

A line ends at LF and nowhere else (U+2028, U+0085 and friends may stand inside a string), one CR before it belongs to
the line end, and one byte order mark may open the file. Line numbers in messages are physical ones, from 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rag_lab.contracts import RagLabError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HEADER_GRADES = frozenset({"score", "relevance", "rel", "label", "grade", "judgment"})


class Record(NamedTuple):
    """The fields of one record and where it stands."""

    file: str
    line: int
    fields: Mapping[str, Any]

    @property
    def place(self) -> str:
        """File and line, as messages name them."""
        return f"{self.file}:{self.line}"


class Judgment(NamedTuple):
    """How relevant a document is to a question, by somebody's judgment."""

    query_id: str
    document_id: str
    grade: int


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Non-blank lines of a file with their numbers, without line end and byte order mark."""
    with path.open("rb") as handle:
        for number, line in enumerate(handle, start=1):
            content = line.removesuffix(b"\n").removesuffix(b"\r")
            if number == 1:
                content = content.removeprefix(BYTE_ORDER_MARK)
            if content.strip():
                yield number, content


def read_records(path: Path, skipped: list[str] | None = None) -> Iterator[Record]:
    """Records of a JSONL file.

    A line that is not a JSON object raises `RagLabError` with its number, or goes to `skipped` where a list is given.
    """
    for number, line in read_lines(path):
        try:
            fields = json.loads(line.decode("utf-8"))
            if not isinstance(fields, dict):
                raise ValueError(f"a JSON object is expected, not {type(fields).__name__}")
        except json.JSONDecodeError as error:
            _refuse(path, number, f"{error.msg} at column {error.colno}", skipped)
        except (ValueError, RecursionError) as error:
            _refuse(path, number, str(error), skipped)
        else:
            yield Record(path.name, number, fields)


def read_judgments(path: Path, skipped: list[str] | None = None) -> Iterator[Judgment]:
    """Judgments of a file with tab-separated ``query document grade``, or TREC's ``query 0 document grade``.

    A header is optional. A line that is neither raises `RagLabError` or goes to `skipped`, as in `read_records`.
    """
    for number, line in read_lines(path):
        try:
            columns = _columns(line.decode("utf-8"))
            if number == 1 and columns[-1].strip().lower() in HEADER_GRADES:
                continue
            query_id, document_id = columns[0].strip(), columns[-2].strip()
            if not query_id or not document_id:
                raise ValueError("an id is empty")
            yield Judgment(query_id, document_id, whole_grade(columns[-1]))
        except ValueError as error:
            _refuse(path, number, str(error), skipped)


def whole_grade(value: Any) -> int:
    """A grade as an integer. ``"1.0"`` is 1; anything that is not whole is refused."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"the grade {value!r} is not a number") from None
    if not math.isfinite(number) or number != int(number):
        raise ValueError(f"the grade {value!r} is not a whole number")
    return int(number)


def _columns(line: str) -> list[str]:
    columns = line.split("\t") if "\t" in line else line.split()
    if len(columns) not in (3, 4):
        raise ValueError(f"{len(columns)} columns; three (query, document, grade) or TREC's four are expected")
    return columns


def _refuse(path: Path, number: int, why: str, skipped: list[str] | None) -> None:
    if skipped is None:
        raise RagLabError(f"{path}:{number}: broken line: {why}; mend it, or load with skip_broken=True")
    skipped.append(f"{path.name}:{number}: {why}")
