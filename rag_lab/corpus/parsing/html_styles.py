"""Which styles make text invisible: inline ones, and simple rules (`.class`, `#id`, `tag`) of the page's own sheets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\([0-9a-f]{1,6})\s?|\\(.)")
_SIMPLE = re.compile(r"([a-z][\w-]*)?((?:[.#][\w-]+)*)")
_PART = re.compile(r"[.#][\w-]+")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")
_FAR = -999
_MOST_COMPOUND = 500
_KEYWORDS = frozenset({"", "inherit", "initial", "unset", "revert", "currentcolor"})
_NEVER_HIDDEN = frozenset({"html", "body", "main", "*", ""})


def hidden_by_style(style: str) -> str:
    """Why a style hides its element ("display", "visibility", "invisible"), "" when it does not."""
    return _reason(_declarations(style))


@dataclass(frozen=True)
class HidingRules:
    """Simple selectors that hide, by one of their parts: tag, classes and ids that an element needs, and the reason."""

    rules: dict[str, list[tuple[str, frozenset[str], str]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.rules)

    def reason(self, tag: str, attributes: Mapping[str, str]) -> str:
        """Why the page's style sheets hide an element, "" when they do not."""
        parts = {f".{name}" for name in attributes.get("class", "").split()}
        if "id" in attributes:
            parts.add(f"#{attributes['id'].strip()}")
        for key in (tag, *parts):
            for wanted, needed, reason in self.rules.get(key, ()):
                if wanted in ("", tag) and needed <= parts:
                    return reason
        return ""


def hiding_rules(source: str) -> HidingRules:
    """The rules of all style sheets inside a page. Rules within at-rules (print, narrow screens) do not count."""
    reasons: dict[tuple[str, frozenset[str]], str] = {}
    for sheet in _sheets(source):
        for selectors, body in _rules(sheet):
            declarations = _declarations(body)
            reason = _reason(declarations)
            for selector in _selectors(selectors) if reason or "display" in declarations else ():
                reasons.pop(selector, None)
                if reason:
                    reasons[selector] = reason
    found = HidingRules()
    compound = 0
    for (tag, parts), reason in reasons.items():
        compound += len(parts) > 1
        if len(parts) > 1 and compound > _MOST_COMPOUND:
            continue
        found.rules.setdefault(min(parts, default=tag), []).append((tag, parts, reason))
    return found


def _sheets(source: str) -> Iterator[str]:
    opening, closing = re.compile(r"<style\b", re.IGNORECASE), re.compile(r"</style", re.IGNORECASE)
    place = 0
    while start := opening.search(source, place):
        end = closing.search(source, start.end())
        if not end:
            return
        yield source[source.find(">", start.end()) + 1 : end.start()]
        place = end.end()


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    sheet = _COMMENT.sub("", sheet)
    depth, start, prelude = 0, 0, ""
    for brace in re.finditer(r"[{}]", sheet):
        piece = sheet[start : brace.start()].strip()
        start = brace.end()
        if brace.group() == "{":
            depth += 1
            prelude = piece.rpartition(";")[2].strip() if depth == 1 else prelude
        else:
            if depth == 1 and not prelude.startswith("@"):
                yield prelude, piece
            depth = max(depth - 1, 0)


def _selectors(prelude: str) -> Iterator[tuple[str, frozenset[str]]]:
    for selector in prelude.split(","):
        match = _SIMPLE.fullmatch(selector.strip())
        if match and (match.group(2) or (match.group(1) or "").lower() not in _NEVER_HIDDEN):
            yield (match.group(1) or "").lower(), frozenset(_PART.findall(match.group(2)))


def _declarations(style: str) -> dict[str, str]:
    style = _COMMENT.sub("", style.lower())
    if "\\" in style:
        style = _ESCAPE.sub(lambda m: chr(min(int(m[1], 16), 0x10FFFF)) if m[1] else m[2], style)
    pairs = (declaration.partition(":") for declaration in style.split(";"))
    return {name.strip(): value.replace("!important", "").strip() for name, colon, value in pairs if colon}


def _reason(style: Mapping[str, str]) -> str:
    if not style:
        return ""
    if style.get("display") == "none":
        return "display"
    if style.get("visibility") in ("hidden", "collapse") or style.get("content-visibility") == "hidden":
        return "visibility"
    if _invisible(style) or _elsewhere(style):
        return "invisible"
    return ""


def _invisible(style: Mapping[str, str]) -> bool:
    colour = style.get("color", "")
    ground = style.get("background-color", style.get("background", ""))
    return (
        _number(style.get("opacity")) == 0
        or _number(style.get("font-size")) == 0
        or colour == "transparent"
        or (colour == ground and colour not in _KEYWORDS)
    )


def _elsewhere(style: Mapping[str, str]) -> bool:
    """Moved out of the page, or cut to nothing."""
    if (_number(style.get("text-indent")) or 0) <= _FAR:
        return True
    sides = (_number(style.get(side)) for side in ("width", "height"))
    if style.get("overflow") == "hidden" and any(side is not None and side <= 1 for side in sides):
        return True
    if style.get("position") not in ("absolute", "fixed"):
        return False
    shifts = [_number(style.get(side)) or 0 for side in ("left", "right", "top", "bottom")]
    clip = style.get("clip", "").replace(" ", "").replace("px", "")
    return min(shifts) <= _FAR or clip in ("rect(0,0,0,0)", "rect(1,1,1,1)", "rect(0000)")


def _number(value: str | None) -> float | None:
    match = _NUMBER.match(value) if value else None
    return float(match.group()) if match else None
