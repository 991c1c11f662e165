"""A frame as a Markdown table in which every text stays text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rag_lab.reports.literal import visible
from rag_lab.reports.numbers import DASH

if TYPE_CHECKING:
    import pandas as pd

# A pipe and a backslash become entities: parsers disagree on what a backslash before a pipe means.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "\\": "&#92;", "\n": "<br>", "\t": " "}
_ESCAPED = "`*_[]~#!$"
_MARKS = str.maketrans(_ENTITIES | {mark: "\\" + mark for mark in _ESCAPED})


def markdown_table(frame: pd.DataFrame) -> str:
    """The frame's columns and rows, without its index; numbers are aligned right, missing values are a dash."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    numeric = [is_numeric_dtype(frame[c].dtype) and not is_bool_dtype(frame[c].dtype) for c in frame.columns]
    lines = [
        _row([_cell(column) for column in frame.columns]),
        _row(["---:" if number else "---" for number in numeric]),
        *(_row([_cell(value) for value in row]) for row in frame.itertuples(index=False, name=None)),
    ]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: Any) -> str:
    if value is None:
        return DASH
    if isinstance(value, float):
        return DASH if math.isnan(value) else f"{value:.6g}"
    return visible(str(value)).translate(_MARKS).strip()
