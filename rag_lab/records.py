"""Records of `rag_lab.contracts` as JSON and back, for results that are kept on disk. No code is ever read back."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any

from rag_lab import contracts

_TYPES = {
    record.__name__: record
    for record in (
        contracts.Abstention,
        contracts.Answer,
        contracts.Claim,
        contracts.Completion,
        contracts.Context,
        contracts.Event,
        contracts.Failure,
        contracts.Passage,
        contracts.Source,
    )
}

_ATOMS = (str, int, float, bool, type(None))


def dumps(records: Any) -> bytes:
    """UTF-8 JSON of records, tuples, lists and plain values."""
    return json.dumps(_plain(records), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def loads(data: bytes) -> Any:
    """The inverse of `dumps`; sequences come back as tuples."""
    return _record(json.loads(data.decode("utf-8", "surrogatepass")))


def _plain(value: Any) -> Any:
    kind: type = type(value)
    if kind in _ATOMS:
        return value
    if names := _field_names(kind):
        return {"!": kind.__name__} | {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, datetime):
        return {"!": "datetime", "at": value.isoformat()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    """Names of a record's fields, none for anything else."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()


def _record(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_record(item) for item in value)
    if not isinstance(value, dict):
        return value
    if value["!"] == "datetime":
        return datetime.fromisoformat(value["at"])
    given = {name: _record(item) for name, item in value.items() if name != "!"}
    if value["!"] == "Abstention":
        given["reason"] = contracts.Reason(given["reason"])
    return _TYPES[value["!"]](**given)
