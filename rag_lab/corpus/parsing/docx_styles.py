"""What the styles and numbering definitions of a DOCX say of a paragraph or run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rag_lab.contracts import BlockKind

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

_DEEPEST = 20
_LEVELS = 9
_TINY = 4
_OFF = ("0", "false", "off", "none")
_CODE = ("source code", "html preformatted", "preformatted text", "code")
_QUOTES = ("quote", "intense quote", "block text", "quotations")


def is_on(element: Any) -> bool:
    """Whether a switch is there and not turned off."""
    return element is not None and element.get(f"{W}val", "true") not in _OFF


def value(parent: Any, path: str) -> str:
    """`w:val` of an element below, "" without."""
    element = parent.find(path) if parent is not None else None
    return element.get(f"{W}val", "") if element is not None else ""


@dataclass(frozen=True, slots=True)
class Style:
    """A paragraph or character style with what it takes over from those that it is based on.

    `level` is the level of a heading from 1, 0 for text; `numbering` is (list, level in it).
    """

    level: int = 0
    kind: BlockKind = BlockKind.PARAGRAPH
    hidden: bool = False
    is_title: bool = False
    is_contents: bool = False
    numbering: tuple[str, int] = ("", 0)


class Styles:
    """Styles by their ids, which unlike their names are not translated."""

    def __init__(self, root: Any) -> None:
        elements = root.iter(f"{W}style") if root is not None else ()
        self._elements: dict[str, Any] = {element.get(f"{W}styleId", ""): element for element in elements}
        self._default = next(
            (
                key
                for key, element in self._elements.items()
                if element.get(f"{W}type") == "paragraph" and is_on_attribute(element.get(f"{W}default"))
            ),
            "",
        )
        self._known: dict[str, Style] = {}

    def of(self, properties: Any) -> Style:
        """Style of a paragraph."""
        return self.named(value(properties, f"{W}pStyle") or self._default)

    def named(self, identity: str) -> Style:
        """Style of an id; without such a style plain text."""
        if identity not in self._known:
            self._known[identity] = self._read(identity)
        return self._known[identity]

    def level(self, properties: Any) -> int:
        """Level of a heading, 0 for text: what the paragraph itself says comes first."""
        own = value(properties, f"{W}outlineLvl")
        if own.isascii() and own.isdigit():
            return min(int(own[:3]) + 1, 6) if int(own[:3]) < _LEVELS else 0
        return self.of(properties).level

    def hidden_reason(self, properties: Any, paragraph_hidden: bool, in_table: bool) -> str:
        """Why nobody sees a run, "" if it is seen."""
        own = properties.find(f"{W}vanish") if properties is not None else None
        if own is not None:
            if is_on(own):
                return "hidden"
        elif paragraph_hidden or self.named(value(properties, f"{W}rStyle")).hidden:
            return "hidden"
        size = value(properties, f"{W}sz")
        if size.isascii() and size.isdigit() and int(size[:6]) <= _TINY:
            return "tiny"
        shaded = properties is not None and any(properties.find(f"{W}{t}") is not None for t in ("shd", "highlight"))
        if value(properties, f"{W}color").upper() == "FFFFFF" and not shaded and not in_table:
            return "colour of the background"
        return ""

    def _read(self, identity: str) -> Style:
        chain: list[Any] = []
        element = self._elements.get(identity)
        while element is not None and len(chain) < _DEEPEST:
            chain.append(element)
            element = self._elements.get(value(element, f"{W}basedOn"))
        names = [value(element, f"{W}name").lower() for element in chain]
        first = names[0] if names else ""
        levels = (_outline(element, name) for element, name in zip(chain, names, strict=True))
        vanish = (element.find(f"{W}rPr/{W}vanish") for element in chain)
        lists = (_list_of(element.find(f"{W}pPr/{W}numPr")) for element in chain)
        return Style(
            level=next((level for level in levels if level is not None), 0),
            kind=_kind(names),
            hidden=is_on(next((switch for switch in vanish if switch is not None), None)),
            is_title=first == "title",
            is_contents=first.startswith("toc ") and first[4:].isdigit(),
            numbering=next((found for found in lists if found is not None), ("", 0)),
        )


def is_on_attribute(text: str | None) -> bool:
    """Whether an attribute that is a switch is set."""
    return text is not None and text not in _OFF


def _outline(element: Any, name: str) -> int | None:
    """Level of a heading from 1, 0 for text, None where the style does not say."""
    own = value(element, f"{W}pPr/{W}outlineLvl")
    if own.isascii() and own.isdigit():
        return min(int(own[:3]) + 1, 6) if int(own[:3]) < _LEVELS else 0
    if name == "title":
        return 1
    if name.startswith("heading ") and name[8:].isascii() and name[8:].isdigit():
        return min(int(name[8:][:3]), 6)
    return None


def _kind(names: list[str]) -> BlockKind:
    if any(name in _CODE for name in names):
        return BlockKind.CODE
    return BlockKind.QUOTE if any(name in _QUOTES for name in names) else BlockKind.PARAGRAPH


def _list_of(properties: Any) -> tuple[str, int] | None:
    """(list, level) that numbering properties name; ("", 0) where they turn numbering off."""
    if properties is None:
        return None
    identity, level = value(properties, f"{W}numId"), value(properties, f"{W}ilvl")
    depth = min(int(level[:3]), _LEVELS - 1) if level.isascii() and level.isdigit() else 0
    return ("", 0) if identity == "0" else (identity, depth)


@dataclass(frozen=True, slots=True)
class _Level:
    form: str
    pattern: str
    start: int


class Numbering:
    """Counts the items of all lists, as they come."""

    def __init__(self, root: Any) -> None:
        self._lists: dict[str, str] = {}
        self._levels: dict[str, dict[int, _Level]] = {}
        self._starts: dict[str, dict[int, int]] = {}
        self._counts: dict[str, list[int]] = {}
        self._begun: set[str] = set()
        if root is None:
            return
        for element in root.iter(f"{W}abstractNum"):
            self._levels[element.get(f"{W}abstractNumId", "")] = dict(map(_level, element.iter(f"{W}lvl")))
        for element in root.iter(f"{W}num"):
            identity = element.get(f"{W}numId", "")
            self._lists[identity] = value(element, f"{W}abstractNumId")
            self._starts[identity] = {
                _number(override.get(f"{W}ilvl", "0")): _number(value(override, f"{W}startOverride"), 1)
                for override in element.iter(f"{W}lvlOverride")
                if override.find(f"{W}startOverride") is not None
            }

    def label(self, properties: Any, style: Style) -> tuple[str, int]:
        """What stands before a paragraph ("-", "2.", "a)"), "" when it is no item, and its level from 0."""
        numbering = properties.find(f"{W}numPr") if properties is not None else None
        own = _list_of(numbering)
        identity, depth = own if own is not None else style.numbering
        if own is not None and not identity and style.numbering[0] and not value(numbering, f"{W}numId"):
            identity = style.numbering[0]
        family = self._lists.get(identity)
        if not identity or family is None:
            return "", 0
        level = self._levels.get(family, {}).get(depth)
        if level is None:
            return "", 0
        if level.form == "none":
            return "", 0
        counts = self._count(identity, family, depth)
        if level.form == "bullet":
            return "-", depth
        label = level.pattern
        for i in range(depth + 1):
            inner = self._levels[family].get(i, level)
            form = inner.form if inner.form != "bullet" else "decimal"
            label = label.replace(f"%{i + 1}", _written(counts[i], form))
        return label.strip(), depth

    def _count(self, identity: str, family: str, depth: int) -> list[int]:
        levels = self._levels[family]
        counts = self._counts.setdefault(family, [_start(levels, i) - 1 for i in range(_LEVELS)])
        if identity not in self._begun:
            self._begun.add(identity)
            for i, start in self._starts.get(identity, {}).items():
                if 0 <= i < _LEVELS:
                    counts[i] = start - 1
        counts[depth] += 1
        for i in range(depth):
            counts[i] = max(counts[i], _start(levels, i))
        for i in range(depth + 1, _LEVELS):
            counts[i] = _start(levels, i) - 1
        return counts


def _start(levels: dict[int, _Level], depth: int) -> int:
    return levels[depth].start if depth in levels else 1


def _level(element: Any) -> tuple[int, _Level]:
    form, pattern = value(element, f"{W}numFmt") or "decimal", value(element, f"{W}lvlText")
    return _number(element.get(f"{W}ilvl", "0")), _Level(form, pattern, _number(value(element, f"{W}start"), 1))


def _number(text: str, default: int = 0) -> int:
    return int(text[:9]) if text.isascii() and text.isdigit() else default


_ROMAN = (
    *((1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x")),
    *((9, "ix"), (5, "v"), (4, "iv"), (1, "i")),
)
_CHINESE = "零一二三四五六七八九"


def _written(number: int, form: str) -> str:
    """A number as a list shows it; in forms not known here as digits."""
    if form in ("lowerLetter", "upperLetter") and number > 0:
        letters = chr(ord("a") + (number - 1) % 26) * min((number - 1) // 26 + 1, 50)
        return letters if form == "lowerLetter" else letters.upper()
    if form in ("lowerRoman", "upperRoman") and 0 < number < 5000:
        roman = ""
        for size, sign in _ROMAN:
            roman += sign * (number // size)
            number %= size
        return roman if form == "lowerRoman" else roman.upper()
    if (
        form in ("chineseCounting", "chineseCountingThousand", "ideographDigital", "japaneseCounting")
        and 0 < number < 100
    ):
        tens, ones = divmod(number, 10)
        head = "" if not tens else "十" if tens == 1 else _CHINESE[tens] + "十"
        return head + (_CHINESE[ones] if ones or not tens else "")
    if form == "decimalZero":
        return f"{number:02d}"
    return str(number)
