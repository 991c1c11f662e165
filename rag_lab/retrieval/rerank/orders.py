"""Reading the order that a language model wrote: JSON or ``[2] > [1] > [3]``, mended as far as it can be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_FENCE = re.compile(r"^```\w*\s*|\s*```$")
_GROUP = re.compile(r"\[([^\[\]]*)(?:\]|$)")
_LISTED = re.compile(r"[\d\s,;>\"']+")
_NUMBER = re.compile(r"\d+")
_LONGEST = 9  # digits of a number that can be one of ours


@dataclass(frozen=True, slots=True)
class Order:
    """A new order of ``0 .. n - 1``: `places` best first; `faults` says in words what was mended, empty if nothing."""

    places: tuple[int, ...]
    faults: str = ""


def read_order(text: str, n: int) -> Order | None:
    """The order of the numbers ``1 .. n`` that `text` gives, None where it names none of them.

    A number that comes again counts where it came first, one that is not among ours is left out, and those that are
    missing follow in their old order.
    """
    given = _numbers(text)
    known = list(dict.fromkeys(number - 1 for number in given if 1 <= number <= n))
    if not known:
        return None
    unknown = sum(not 1 <= number <= n for number in given)
    missing = [place for place in range(n) if place not in set(known)]
    counts = {"unknown": unknown, "repeated": len(given) - unknown - len(known), "missing": len(missing)}
    return Order((*known, *missing), ", ".join(f"{count} {what}" for what, count in counts.items() if count))


def _numbers(text: str) -> list[int]:
    """The numbers that are listed: in a JSON list, else in brackets, else as all that there is."""
    bare = _FENCE.sub("", text.strip())
    try:
        listed = _of_json(json.loads(bare))
    except (ValueError, RecursionError):
        listed = []
    if listed:
        return listed
    groups = [group for group in _GROUP.findall(bare) if _LISTED.fullmatch(group)]
    return _integers(groups or ([bare] if _LISTED.fullmatch(bare) else []))


def _of_json(value: Any) -> list[int]:
    """Numbers of a list, or of the only list in an object; a list of anything else has none."""
    if isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else []
    if not isinstance(value, list) or not all(isinstance(item, int | str) for item in value):
        return []
    return _integers(str(item).strip(" []") for item in value if not isinstance(item, bool))


def _integers(texts: Iterable[str]) -> list[int]:
    return [int(digits) if len(digits) <= _LONGEST else 0 for text in texts for digits in _NUMBER.findall(text)]
