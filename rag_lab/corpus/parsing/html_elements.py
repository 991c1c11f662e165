"""Walk through HTML in source order: which elements are open, and what of it a reader never sees.

The tokens are those of the HTML standard, with their source, so that every piece of text has its exact place. Open
elements follow the standard where it decides what is shown: implied end tags, ignored end tags, scopes of tables and
lists, formatting that outlives the paragraph it was opened in. Where the standard would take a tree apart (the
"adoption agency") and it matters, text stays hidden. Every step takes constant time, however deep the nesting.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from rag_lab.corpus.parsing.html_styles import hidden_by_style, hiding_rules

VERSION = "elements-1"

Attributes: TypeAlias = Mapping[str, str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


HIDING = _words("display hidden visibility invisible")
"""Reasons for which the text of an element is not seen although it is text."""

BLOCKS = _words(
    "address article aside blockquote body caption center col colgroup dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html legend li listing main menu nav ol optgroup "
    "option p plaintext pre search section summary table tbody td tfoot th thead tr ul xmp"
)
_NEVER = _words(
    "script style template noscript iframe noembed noframes svg canvas audio video object applet datalist select "
    "textarea title rp annotation annotation-xml"
)
_VOID = _words(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr command"
)
_FORMATTING = _words("a b big code em font i nobr s small strike strong tt u")
_SPECIAL = (
    BLOCKS | _NEVER | _words("button marquee head") - _words("rp annotation annotation-xml svg canvas audio video")
)
_CLOSES_P = BLOCKS - _words("body caption col colgroup html legend option optgroup tbody td tfoot th thead tr")
_SCOPE = ("table", "td", "th", "caption", "template", "object", "applet", "marquee", "select")
_P_SCOPE = (*_SCOPE, "button")
_ITEMS: Mapping[str, tuple[str, ...]] = {"li": ("li",), "dt": ("dt", "dd"), "dd": ("dt", "dd")}
_ITEMS_REACH_OVER = frozenset({"address", "div", "p"})
_MARKERS = frozenset(_SCOPE) - {"table", "select"}
_TABLE_PARTS = ("td", "th", "tr", "thead", "tbody", "tfoot", "caption", "colgroup")
_IMPLIED: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "option": (("option",), ("select", "datalist")),
    "optgroup": (("option", "optgroup"), ("select", "datalist")),
    "td": (("td", "th", "caption"), ("table", "template")),
    "th": (("td", "th", "caption"), ("table", "template")),
    "tr": (("td", "th", "tr", "caption"), ("table", "template")),
    **dict.fromkeys(("thead", "tbody", "tfoot", "caption", "colgroup"), (_TABLE_PARTS, ("table", "template"))),
    "rt": (("rt", "rp"), ("ruby",)),
    "rp": (("rt", "rp"), ("ruby",)),
    "button": (("button",), _SCOPE),
}
_ENDS_IN: Mapping[str, tuple[str, ...]] = {
    "p": _P_SCOPE,
    "li": (*_SCOPE, "ul", "ol"),
    **dict.fromkeys(("td", "th", "tr", "thead", "tbody", "tfoot", "caption"), ("table", "template")),
    **dict.fromkeys(("table", "template"), ("template",)),
}
_HEADINGS = _words("h1 h2 h3 h4 h5 h6")
_BREAKS_OUT = _words(
    "b big blockquote body br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 head hr i img li listing menu meta "
    "nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
_ROOTS = _words("html body")
_SELF_CLOSED = re.compile(r"(?i)<(?:script|style|title|textarea|iframe|noembed|noframes|xmp)\b[^<>]{0,1000}/>")


@dataclass(slots=True)
class Element:
    """An open element. `reason`: why its content is left out, "" when it is shown; `own`: the reason begins here.

    `alone` is, for formatting, why it would be left out wherever it stood: it may outlive what it stands in.
    """

    tag: str
    attributes: Attributes
    start: int
    reason: str = ""
    own: bool = False
    alone: str = ""


class Text(NamedTuple):
    """A run of text. `value` is given where the source spells it in another way."""

    start: int
    end: int
    value: str | None
    reason: str


class Open(NamedTuple):
    """A start tag, void elements included."""

    element: Element
    end: int


class Close(NamedTuple):
    """The end of an element at a place of the source, by its end tag or implied."""

    element: Element
    place: int


Event: TypeAlias = Text | Open | Close


class Walk:
    """The events of one source. `reasons` of the caller add to what hides an element: navigation, for example."""

    def __init__(self, source: str, reasons: Callable[[Walk, Element], str] | None = None) -> None:
        self.source = source
        self.removed: Counter[str] = Counter()
        self._reasons = reasons
        self._open: list[Element] = []
        self._where: dict[str, list[int]] = defaultdict(list)
        self._special: list[int] = []
        self._holding: list[int] = []
        self._owners: list[int] = []
        self._goes_on: list[Element] = []
        self._quirks = True
        self._xml = source.startswith("<?xml")
        self._rules = hiding_rules(source)

    def is_open(self, *tags: str) -> bool:
        """Whether an element of one of these names is open."""
        return any(map(self._where.get, tags))

    @property
    def innermost(self) -> Element | None:
        """The element that what comes next lies in."""
        return self._open[-1] if self._open else None

    def events(self) -> Iterator[Event]:
        """All events in source order. At the end of the source every element is closed."""
        from turbohtml import tokenize

        place = 0
        for token in tokenize(self._plain(), resolve_references=False, capture_source=True):
            kind = token.type
            if self._goes_on and (kind in (0, 5) or (kind == 1 and token.tag not in _SPECIAL)):
                self._resume()
            if kind == 0:
                end = place + len(token.data or "")
                yield Text(place, end, None, self._open[-1].reason if self._open else "")
                place = end
                continue
            end = place + len(token.source or "")
            if kind == 5:
                yield Text(place, end, token.data, self._open[-1].reason if self._open else "")
            elif kind == 1:
                yield from self._start(token, place, end)
            elif kind == 2:
                yield from self._end(token.tag or "", place)
            elif kind == 4 and not self._open:
                self._quirks = token.force_quirks
            place = end
        yield from self._pop_to(0, len(self.source))

    def _plain(self) -> str:
        """The source, place by place, as the tokenizer is to see it.

        A carriage return counts as a character of its own here; the tokenizer would drop it. In XHTML elements that
        close themselves are empty, which the tokenizer does not believe of those that hold no tags.
        """
        plain = self.source
        if "\r" in plain:
            plain = plain.replace("\r\n", " \n").replace("\r", "\n")
        return _SELF_CLOSED.sub(lambda match: f"<!{' ' * (len(match.group()) - 3)}>", plain) if self._xml else plain

    def _start(self, token: Any, place: int, end: int) -> Iterator[Event]:
        tag = token.tag
        if tag in _TABLE_PARTS and not self._where["table"]:
            # The standard ignores it; only a separation of texts is left of it.
            yield Open(Element(tag, {}, place, self._open[-1].reason if self._open else ""), end)
            return
        attributes: dict[str, str] = {}
        if end - place > len(tag) + 2:
            for name, value in token.attrs or ():
                attributes.setdefault(name, value or "")
        yield from self._imply(tag, place)
        element = Element(tag, attributes, place)
        self._judge(element)
        if element.own:
            self.removed[element.reason] += element.reason != "never"
        yield Open(element, end)
        if tag in _VOID:
            return
        if token.self_closing and (self._xml or tag in ("svg", "math") or self.is_open("svg", "math")):
            yield Close(element, end)
            return
        self._push(element)

    def _imply(self, tag: str, place: int) -> Iterator[Event]:
        """Elements that a start tag ends."""
        where = self._where
        if (where["svg"] or where["math"]) and tag in _BREAKS_OUT and not self._in_html_of_graphic():
            yield from self._pop_to(min(where[name][0] for name in ("svg", "math") if where[name]), place)
        if where["p"] and tag in _CLOSES_P and not (tag == "table" and self._quirks):
            yield from self._close("p", _P_SCOPE, place)
        if tag in _HEADINGS and self._open and self._open[-1].tag in _HEADINGS:
            yield from self._pop_to(len(self._open) - 1, place)
        if tag in _ITEMS and self._holding and self._open[self._holding[-1]].tag in _ITEMS[tag]:
            yield from self._pop_to(self._holding[-1], place)
        if tag in ("a", "nobr") and where[tag]:
            yield from self._end(tag, place)
        names, scope = _IMPLIED.get(tag, ((), ()))
        depths = [where[name][-1] for name in names if where[name]]
        if depths and (tag not in ("rt", "rp") or where["ruby"]):
            limit = max((where[name][-1] for name in scope if where[name]), default=-1)
            depths = [depth for depth in depths if depth > limit]
            if depths:
                yield from self._pop_to(min(depths), place)

    def _in_html_of_graphic(self) -> bool:
        return self.is_open("foreignobject", "desc", "annotation-xml")

    def _end(self, tag: str, place: int) -> Iterator[Event]:
        if tag in ("html", "body", "head"):
            return
        if tag in _FORMATTING and self._goes_on and not self._where[tag]:
            self._goes_on = [element for element in self._goes_on if element.tag != tag]
        elif tag == "br":
            yield Open(Element("br", {}, place, self._open[-1].reason if self._open else ""), place)
        elif tag in _ENDS_IN:
            yield from self._close(tag, _ENDS_IN[tag], place)
        elif tag in _HEADINGS:
            depths = [self._where[name][-1] for name in _HEADINGS if self._where[name]]
            limit = max((self._where[name][-1] for name in _SCOPE if self._where[name]), default=-1)
            if depths and max(depths) > limit:
                yield from self._pop_to(max(depths), place)
        elif tag in _SPECIAL:
            yield from self._close(tag, _SCOPE if tag not in _SCOPE else ("table",), place)
        elif self._where[tag]:
            depth = self._where[tag][-1]
            if not self._special or self._special[-1] < depth:
                yield from self._pop_to(depth, place, by_name=True)
            elif tag in _FORMATTING and not self._open[depth].alone:
                self._where[tag].pop()
                self._open[depth].tag = ""

    def _close(self, tag: str, scope: tuple[str, ...], place: int) -> Iterator[Close]:
        where = self._where
        if where[tag] and not any(where[name] and where[name][-1] > where[tag][-1] for name in scope if name != tag):
            yield from self._pop_to(where[tag][-1], place)

    def _push(self, element: Element) -> None:
        depth = len(self._open)
        self._open.append(element)
        self._where[element.tag].append(depth)
        if element.tag in _SPECIAL:
            self._special.append(depth)
            if element.tag not in _ITEMS_REACH_OVER:
                self._holding.append(depth)
        if element.own:
            self._owners.append(depth)

    def _pop_to(self, depth: int, place: int, *, by_name: bool = False) -> Iterator[Close]:
        """Close the elements from `depth` on. Formatting that hides and was not closed itself goes on in later text."""
        goes_on: list[Element] = []
        while len(self._open) > depth:
            element = self._open.pop()
            if element.tag:
                self._where[element.tag].pop()
            if self._special and self._special[-1] == len(self._open):
                self._special.pop()
            if self._holding and self._holding[-1] == len(self._open):
                self._holding.pop()
            if element.own:
                self._owners.pop()
            if element.tag in _MARKERS:
                goes_on = []
                self._goes_on = []
            elif element.alone and not (by_name and len(self._open) == depth):
                goes_on.append(element)
            if element.tag:
                yield Close(element, place)
        self._goes_on += reversed(goes_on)

    def _resume(self) -> None:
        """Open the formatting again that outlived its paragraph."""
        for element in self._goes_on:
            inherited = self._open[-1].reason if self._open else ""
            element.reason, element.own = inherited or element.alone, not inherited
            self._push(element)
        self._goes_on = []

    def _judge(self, element: Element) -> None:
        """Find out whether the element is shown."""
        inherited = self._open[-1].reason if self._open else ""
        if inherited == "never" or element.tag in _NEVER:
            element.reason, element.own = "never", inherited != "never"
            if element.tag in _FORMATTING:
                element.alone = self._hidden(element)
            return
        if element.tag in _ROOTS:
            element.reason = inherited
            return
        if inherited:
            element.reason = inherited
            if element.tag in _FORMATTING:
                element.alone = self._hidden(element)
            if not self._shows_again(element, inherited):
                return
        element.reason = self._hidden(element) or (self._reasons(self, element) if self._reasons else "")
        element.own = bool(element.reason)
        if element.tag in _FORMATTING:
            element.alone = element.reason

    def _shows_again(self, element: Element, reason: str) -> bool:
        if reason == "visibility":
            style = element.attributes.get("style", "").lower().replace(" ", "")
            return "visibility:visible" in style
        if reason == "navigation" and element.tag == "h1":
            return bool(self._owners) and self._open[self._owners[-1]].tag == "header"
        return False

    def _hidden(self, element: Element) -> str:
        attributes = element.attributes
        if element.tag == "dialog" and "open" not in attributes:
            return "hidden"
        if attributes:
            style = attributes.get("style")
            reason = hidden_by_style(style) if style else ""
            if reason:
                return reason
            if "hidden" in attributes and attributes["hidden"].lower() != "until-found":
                return "hidden"
        return self._rules.reason(element.tag, attributes) if self._rules else ""
