"""What pydantic finds wrong with given settings, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

LONGEST_SHOWN = 60


def explain(error: ValidationError) -> str:
    """The first fault of a validation as ``field: what is wrong``."""
    first = max(error.errors(), key=lambda fault: len(fault["loc"]))
    field = ".".join(str(part) for part in first["loc"] if str(part) not in ("str", "float", "int"))
    if first["type"] == "extra_forbidden":
        return f"{field}: unknown field; remove it or check its spelling"
    if first["type"] == "missing":
        return f"{field}: missing; add it"
    shown = repr(first["input"])
    given = "" if isinstance(first["input"], Mapping) or len(shown) > LONGEST_SHOWN else f" (found {shown})"
    return f"{field}: {first['msg'][0].lower()}{first['msg'][1:]}{given}"
