"""When a sentence says that something takes effect: dates in English, Chinese and ISO form."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from rag_lab.contracts import Span

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in names.split()
}
_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_ENGLISH = (
    rf"(?:(?<!\d)(?P<d1>{_DAY})\s+(?:of\s+)?(?P<m1>{_MONTH})(?:,?\s+(?P<y1>\d{{4}})(?!\d))?"
    rf"|(?P<m2>{_MONTH})\s+(?P<d2>{_DAY})\b(?!\d)(?:,?\s+(?P<y2>\d{{4}})(?!\d))?"
    rf"|(?P<m3>{_MONTH})\s+(?P<y3>\d{{4}})(?!\d)"
    r"|(?P<y4>\d{4})[-/](?P<m4>\d{1,2})[-/](?P<d4>\d{1,2}))"
)
_CHINESE = r"(?:(?P<y5>\d{4})\s*年)?\s*(?P<m5>\d{1,2})\s*月(?:\s*(?P<d5>\d{1,2})\s*[日号])?"
_TRIGGER = (
    r"(?:\bfrom|\b(?:effective|starting|beginning|commencing)(?: on| as of)?|\b(?:as of|as from|on (?:and|or) after)"
    r"|\b(?:takes?|taking) effect(?: on)?|\b(?:comes?|coming|enters?|entering) into (?:force|effect)(?: on)?"
    r"|\bwill\b[^.;]{0,80}?\bon)"
)
_WEEKDAY = r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+)?"
_BEGINS = r"\s*(?:零时|0时)?\s*(?:起|开始|生效|施行|实施|执行|启用)"
_EFFECT_ENGLISH = re.compile(rf"{_TRIGGER}:?\s+(?:the\s+)?{_WEEKDAY}{_ENGLISH}", re.IGNORECASE)
_EFFECT_CHINESE = re.compile(_CHINESE + _BEGINS)
_EFFECT_ISO = re.compile(r"(?P<y4>\d{4})[-/](?P<m4>\d{1,2})[-/](?P<d4>\d{1,2})" + _BEGINS)
_ANY = re.compile(f"{_ENGLISH}|{_CHINESE}", re.IGNORECASE)
_YEAR_OR_MONTH = r"(?<![\d-])(?P<y6>\d{4})(?:-(?P<m6>0[1-9]|1[0-2])(?![\d-])|\s*年)"
_NAMED = re.compile(rf"{_ENGLISH}|(?<!\d){_CHINESE}|{_YEAR_OR_MONTH}", re.IGNORECASE)


class Day(NamedTuple):
    """A date as far as a text names it; None for what it leaves out."""

    year: int | None
    month: int | None
    day: int | None


def effective_dates(text: str, year: int) -> list[datetime]:
    """Starts of the days (UTC) on which `text` says that something takes effect; `year` where it names none."""
    found: list[datetime] = []
    for pattern in (_EFFECT_ENGLISH, _EFFECT_CHINESE, _EFFECT_ISO):
        found.extend(_dates(pattern, text, year))
    return sorted(set(found))


def mentioned_dates(text: str, year: int) -> list[datetime]:
    """Starts of the days (UTC) that `text` names in any role."""
    return _dates(_ANY, text, year)


def named_days(text: str) -> list[tuple[Span, Day]]:
    """The spans of dates, whole or in part (``3 May``, ``May 2021``, ``2024-03``, ``2024年``), and what they name."""
    found = []
    for match in _NAMED.finditer(text):
        part = {name[0]: value for name, value in match.groupdict().items() if value is not None}
        month = part.get("m", "").lower().rstrip(".")
        number = _MONTHS.get(month) or (int(month) if month else None)
        day = int(re.sub(r"\D", "", part["d"])) if "d" in part else None
        if not (number is None or 1 <= number <= 12) or not (day is None or 1 <= day <= 31):
            continue
        found.append((match.span(), Day(int(part["y"]) if "y" in part else None, number, day)))
    return found


@lru_cache(maxsize=100_000)
def announces(text: str, now: datetime) -> bool:
    """Whether all that `text` says to take effect does so after `now`."""
    dates = effective_dates(text, now.year)
    return bool(dates) and dates[0] > now


def _dates(pattern: re.Pattern[str], text: str, year: int) -> list[datetime]:
    found = (_read(match.groupdict(), year) for match in pattern.finditer(text))
    return [date for date in found if date is not None]


def _read(groups: dict[str, str | None], year: int) -> datetime | None:
    part = {name[0]: value for name, value in groups.items() if value is not None}
    month = part["m"].lower().rstrip(".")
    day = re.sub(r"\D", "", part.get("d", "")) or "1"
    try:
        return datetime(int(part.get("y", year)), _MONTHS.get(month) or int(month), int(day), tzinfo=UTC)
    except ValueError:
        return None
