"""Instants from what people write: dates, zoned and local times.

A date alone, or a time without an offset, is meant in the corpus's own time zone. A validity that ends on a date ends
with that day: its exclusive end is the next local midnight, which need not be 24 hours after the one before.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

from rag_lab.contracts import RagLabError

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)
FAR_FUTURE = 5000


@cache
def time_zone(name: str) -> ZoneInfo:
    """The zone of that IANA name, such as ``Europe/Berlin``."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise RagLabError(f"zone: {name!r} is not a time zone; give an IANA name such as Europe/Berlin") from error


def parse_instant(
    value: Any, zone: str = "UTC", field: str = "time", bound: Literal["from", "until"] = "from"
) -> datetime | None:
    """An aware instant in UTC, or None for a missing value.

    `value` is ISO 8601 text, a `date` or a `datetime`. `bound` says what a date alone means: its first instant
    ("from") or the first instant after it ("until"). `field` names the place in the error for anything else.
    Of a local time that occurs twice the first is meant. Dates beyond the calendar's end stand for its end.
    """
    if value is None or value == "":
        return None
    moment = _local(value, field)
    if not isinstance(moment, datetime):
        moment = _midnight(moment, bound)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=time_zone(zone))
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return LATEST if moment.year > FAR_FUTURE else EARLIEST


def _local(value: Any, field: str) -> date | datetime:
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        text = value.strip()
        for parse in (date.fromisoformat, datetime.fromisoformat):
            try:
                return parse(text)
            except ValueError:
                continue
    raise RagLabError(f"{field}: {value!r} is not a date; write it as 2025-01-31 or 2025-01-31T09:00:00+01:00")


def _midnight(day: date, bound: Literal["from", "until"]) -> datetime:
    if bound == "from":
        return datetime.combine(day, time.min)
    if day == date.max:
        return LATEST
    return datetime.combine(day + timedelta(days=1), time.min)
