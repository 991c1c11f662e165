"""From the order in which characters stand on a line to the order in which they are read.

A PDF holds glyphs at places. Hebrew and Arabic run from right to left, numbers and Latin words in them from left to
right. This undoes the display order of one line: no explicit embeddings, which a page does not show.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

_RIGHT_TO_LEFT = frozenset({"R", "AL"})
_NUMBERS = frozenset({"EN", "AN"})
_WITHIN_NUMBERS = frozenset({"ES", "ET", "CS"})
_MIRRORED = str.maketrans("()[]{}<>«»‹›", ")(][}{><»«›‹")


def is_right_to_left(text: str) -> bool:
    """Whether a text has characters of a script that runs from right to left."""
    return not text.isascii() and any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text)


def reading_order(shown: Sequence[str]) -> tuple[list[int], list[str]]:
    """For the characters of a line from left to right: their indices as they are read, and what is written then."""
    kinds = [_kind(character) for character in shown]
    backwards = _runs_backwards(kinds)
    order = list(range(len(shown)))
    if backwards:
        order.reverse()
        _reverse_runs(order, kinds, "L", "N")
        turned = [kinds[i] not in ("L", "N") for i in order]
    else:
        turned = _reverse_runs(order, kinds, "R", "R")
        _reverse_runs(order, [k if t else "" for k, t in zip(kinds, _by_index(order, turned), strict=True)], "N", "N")
    written = [shown[i] for i in order]
    mirrored = [c.translate(_MIRRORED) if t else c for c, t in zip(written, turned, strict=True)]
    return order, mirrored if _opens(mirrored) else written


def _runs_backwards(kinds: list[str]) -> bool:
    """What most letters are decides; if they are even, the one on the right."""
    right, left = kinds.count("R"), kinds.count("L")
    return right > left or (right == left > 0 and next(k for k in reversed(kinds) if k in ("L", "R")) == "R")


def _kind(character: str) -> str:
    direction = unicodedata.bidirectional(character)
    if direction in _RIGHT_TO_LEFT or (direction == "NSM"):
        return "R"
    if direction in _NUMBERS:
        return "N"
    return {"L": "L", **dict.fromkeys(_WITHIN_NUMBERS, "S")}.get(direction, "")


def _by_index(order: list[int], flags: list[bool]) -> list[bool]:
    result = [False] * len(order)
    for i, flag in zip(order, flags, strict=True):
        result[i] = flag
    return result


def _reverse_runs(order: list[int], kinds: list[str], strong: str, other: str) -> list[bool]:
    """Reverse, in place, each run of `strong` and `other` with what is neutral between; True for what lies in one.

    Numbers alone only hold together across a separator: two numbers with a space between are two runs.
    """
    inside = [False] * len(order)
    at = 0
    while at < len(order):
        if kinds[order[at]] not in (strong, other):
            at += 1
            continue
        end, has_strong = at, False
        for i in range(at, len(order)):
            kind = kinds[order[i]]
            if kind in (strong, other) or (strong == "R" and kind == "N"):
                gap = [kinds[j] for j in order[end + 1 : i]]
                joined = all(k == "S" for k in gap) and len(gap) < 2
                if i > at and not joined and not has_strong and kind != strong:
                    break
                if kind in (strong, other):
                    end = i
                has_strong = has_strong or kind == strong != "N"
            elif kind in ("L", "R"):
                break
        order[at : end + 1] = order[at : end + 1][::-1]
        inside[at : end + 1] = [True] * (end + 1 - at)
        at = end + 1
    return inside


def _opens(characters: list[str]) -> bool:
    """Whether the first bracket, if there is one, opens."""
    return next((c in "([{<«‹" for c in characters if c in "()[]{}<>«»‹›"), True)
