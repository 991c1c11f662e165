"""Clean text from pieces of an original, with the place in the original of every character.

A parser walks its source and says, in reading order, which slices of the original are text (`take`), what stands for a
slice (`put`: a decoded entity), what it adds itself (`insert`: a line break between two cells) and which stretches are
blocks. `build` then normalises everything at once, in time linear in the text:

* NUL and other control characters, BOM, soft hyphens, zero-width characters, direction marks and the invisible tag
  characters (a place to hide instructions) go. The two joiners stay where they spell something: U+200C and U+200D
  between letters of Arabic, Indic and neighbouring scripts, U+200D between emoji.
* Odd spaces become a plain space, one for one. That holds for U+3000 as well: in Chinese it indents or separates, and
  so does a plain space.
* CRLF, CR, form feed, vertical tab, NEL, U+2028 and U+2029 become a line feed.
* The result is NFC. A composed character has the place of the first code point that it is made from.
* Half surrogates, which no encoding can write, become U+FFFD.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Block, BlockKind, BoolArray, IntArray, Span
from rag_lab.text import trim

Codes: TypeAlias = npt.NDArray[Any]

VERSION = "layer-1"

_PLAIN, _BLANK, _SPACE, _BREAK, _RETURN, _DROP, _JOINER, _SURROGATE = range(8)
_DROPPED = (
    *((0x00, 0x09), (0x0E, 0x20), (0x7F, 0x85), (0x86, 0xA0), (0xAD, 0xAE), (0x61C, 0x61D), (0x180E, 0x180F)),
    *((0x200B, 0x200C), (0x200E, 0x2010), (0x202A, 0x202F), (0x2060, 0x2070), (0xFEFF, 0xFF00), (0xFFF9, 0xFFFD)),
    *((0xFFFE, 0x10000), (0xE0000, 0xE0080)),
)
_SPACES = (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
_BREAKS = (0x0B, 0x0C, 0x85, 0x2028, 0x2029)
_JOINING_SCRIPTS = ((0x0600, 0x0E00), (0x0F00, 0x10A0), (0x1780, 0x18B0), (0xFB50, 0xFE00), (0x11000, 0x11A00))
_EMOJI = ((0x2190, 0x2C00), (0xFE0F, 0xFE10), (0x1F000, 0x1FB00))
_WITHOUT_SPACES = ((0x2E80, 0x3130), (0x3190, 0xA000), (0xF900, 0xFB00), (0xFF00, 0xFF61), (0x20000, 0x40000))
_FREE_CLUSTER = 64


class Layer(NamedTuple):
    """What a builder gives: the first fields of a `Parsed`, in their order."""

    text: str
    blocks: tuple[Block, ...]
    original: str
    offsets: IntArray


@dataclass(frozen=True, slots=True)
class _Mark:
    kind: BlockKind
    span: Span
    section_path: tuple[str, ...]
    level: int
    page: int
    lead: Span | None


class LayerBuilder:
    """Collects pieces of `original` in reading order. Positions of `block` are values of `position`."""

    def __init__(self, original: str) -> None:
        self.original = original
        self.position = 0
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._end = 0
        self._steps: list[bool] = []
        self._collapse: list[bool] = []
        self._marks: list[_Mark] = []

    def take(self, start: int, end: int, *, collapse: bool = False) -> None:
        """Add ``original[start:end]``. With `collapse` white space is as in HTML: one space, none beside a break."""
        self._add(self.original[start:end], start, True, collapse)
        self._end = max(self._end, end)

    def put(self, text: str, start: int, end: int, *, collapse: bool = False) -> None:
        """Add `text`, which ``original[start:end]`` spells in another way."""
        self._add(text, start, False, collapse)
        self._end = max(self._end, end)

    def insert(self, text: str, *, collapse: bool = False) -> None:
        """Add what the original does not have, such as a separator; its place is that of what follows."""
        self._add(text, -1, False, collapse)

    def block(
        self,
        kind: BlockKind,
        start: int,
        *,
        section_path: tuple[str, ...] = (),
        level: int = 0,
        page: int = 0,
        lead: Span | None = None,
    ) -> None:
        """Mark what was added since a position as a block; an empty one is forgotten."""
        self._marks.append(_Mark(kind, (start, self.position), section_path, level, page, lead))

    def clean(self, start: int) -> str:
        """What was added since a position as one line of normal text: a heading for a section path."""
        pieces: list[str] = []
        at, i = self.position, len(self._texts)
        while i and at > start:
            i -= 1
            at -= len(self._texts[i])
            pieces.append(self._texts[i])
        return clean("".join(reversed(pieces))[start - at :])

    def build(self) -> Layer:
        """Normalise all pieces. Blocks must have been marked in ascending order without overlap."""
        raw = "".join(self._texts)
        kept, codes = _cleaned(_codes(raw), self._collapsible())
        text, kept = _composed(codes, kept)
        places = self._places()
        offsets = places[np.append(kept, len(raw))]
        return Layer(text, _blocks(text, kept, self._marks), self.original, offsets)

    def _add(self, text: str, start: int, step: bool, collapse: bool) -> None:
        if text:
            self._texts.append(text)
            self._starts.append(start)
            self._steps.append(step)
            self._collapse.append(collapse)
            self.position += len(text)

    def _lengths(self) -> npt.NDArray[np.int64]:
        return np.fromiter(map(len, self._texts), dtype=np.int64, count=len(self._texts))

    def _collapsible(self) -> BoolArray | None:
        if not any(self._collapse):
            return None
        return np.repeat(np.array(self._collapse, dtype=bool), self._lengths())

    def _places(self) -> IntArray:
        """Place in the original of every collected code point and of the end, ``[n + 1]``."""
        lengths = self._lengths()
        if not len(lengths):
            return np.zeros(1, dtype=np.int32)
        starts = np.array(self._starts, dtype=np.int64)
        steps = np.array(self._steps, dtype=bool)
        placed = np.where(starts < 0, len(starts), np.arange(len(starts)))
        starts = np.append(starts, self._end)[np.minimum.accumulate(placed[::-1])[::-1]]
        begins = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        places = np.empty(int(lengths.sum()) + 1, dtype=np.int32)
        np.copyto(places[:-1], np.repeat((starts - np.where(steps, begins, 0)).astype(np.int32), lengths))
        places[:-1] += np.where(np.repeat(steps, lengths), np.arange(len(places) - 1, dtype=np.int32), 0)
        places[-1] = self._end
        return places


def clean(text: str) -> str:
    """A short text on one line, normalised as a layer is, runs of white space as one space."""
    builder = LayerBuilder(text)
    builder.take(0, len(text), collapse=True)
    return builder.build().text.strip()


def _codes(text: str) -> Codes:
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _text(codes: Codes) -> str:
    if codes.dtype == np.uint8:
        return codes.tobytes().decode("ascii")
    return codes.astype("<u4").tobytes().decode("utf-32-le")


@cache
def _classes() -> npt.NDArray[np.uint8]:
    """What to do with each code point."""
    table = np.full(0x110000, _PLAIN, dtype=np.uint8)
    for start, end in _DROPPED:
        table[start:end] = _DROP
    table[list(_SPACES)] = _SPACE
    table[list(_BREAKS)] = _BREAK
    table[[0x09, 0x0A, 0x20]] = _BLANK
    table[0x0D] = _RETURN
    table[[0x200C, 0x200D]] = _JOINER
    table[0xD800:0xE000] = _SURROGATE
    return table


def _cleaned(codes: Codes, collapse: BoolArray | None) -> tuple[npt.NDArray[np.int64], Codes]:
    """Positions that stay, and their code points, odd ones made plain."""
    classes = _classes()[codes]
    if collapse is None and (classes <= _BLANK).all():
        return np.arange(len(codes)), codes
    drop = classes == _DROP
    returns = np.flatnonzero(classes[:-1] == _RETURN)
    drop[returns[codes[returns + 1] == 0x0A]] = True
    codes = codes.copy()
    codes[classes == _SPACE] = 0x20
    codes[(classes == _BREAK) | (classes == _RETURN)] = 0x0A
    if codes.dtype != np.uint8:
        codes[classes == _SURROGATE] = 0xFFFD
    kept = np.flatnonzero(~drop)
    if (classes == _JOINER).any():
        kept = kept[_spelling(codes[kept], classes[kept] == _JOINER)]
    if collapse is not None:
        blank = (classes >= _BLANK) & (classes <= _RETURN) & collapse
        breaks = blank & (codes == 0x0A)
        codes[blank] = 0x20
        kept = kept[_visible(codes[kept], blank[kept], breaks[kept])]
    return kept, codes[kept]


def _spelling(codes: Codes, joiner: BoolArray) -> BoolArray:
    """False for joiners that spell nothing."""
    before = np.append(np.uint32(0), codes[:-1])
    after = np.append(codes[1:], np.uint32(0))
    letters = _within(before, _JOINING_SCRIPTS) & _within(after, _JOINING_SCRIPTS)
    emoji = (codes == 0x200D) & _within(before, _EMOJI) & _within(after, _EMOJI)
    return np.asarray(~joiner | letters | emoji, dtype=bool)


def _within(codes: Codes, ranges: tuple[Span, ...]) -> BoolArray:
    inside = np.zeros(len(codes), dtype=bool)
    for start, end in ranges:
        inside |= (codes >= start) & (codes < end)
    return inside


def _visible(codes: Codes, blank: BoolArray, breaks: BoolArray) -> BoolArray:
    """False for collapsible white space after other white space, beside line breaks of the text, and at both ends.

    White space with a line end of the source between two Chinese or Japanese characters is none, as in CSS.
    """
    if not len(codes):
        return np.ones(0, dtype=bool)
    hard = (codes == 0x0A) & ~blank
    white = blank | (codes == 0x20)
    first = blank & np.append(True, ~white[:-1])
    starts = np.flatnonzero(first)
    following = np.append(np.flatnonzero(~blank), len(codes))
    after = following[np.searchsorted(following, starts)]
    edge = np.append(hard | (white & ~blank), True)
    beside = edge[after] | (starts == 0) | hard[starts - 1]
    if breaks.any() and codes.dtype != np.uint8:
        ends = np.minimum(after, len(codes) - 1)
        broken = np.searchsorted(np.flatnonzero(breaks), (starts, after))
        wide = _within(codes[starts - 1], _WITHOUT_SPACES) & _within(codes[ends], _WITHOUT_SPACES)
        beside |= wide & (broken[1] > broken[0])
    first[starts[beside]] = False
    return np.asarray(~blank | first, dtype=bool)


@cache
def _joins() -> tuple[BoolArray, BoolArray]:
    """Code points that NFC may join with what is before them, and those that it changes even alone."""
    joins = np.zeros(0x110000, dtype=bool)
    changes = np.zeros(0x110000, dtype=bool)
    for code in (*range(0xA0, 0xAC00), *range(0xD7A4, 0xD800), *range(0xF900, 0x20000), *range(0x2F800, 0x2FA20)):
        character = chr(code)
        if unicodedata.combining(character):
            joins[code] = True
        parts = unicodedata.decomposition(character)
        if parts and not parts.startswith("<"):
            if unicodedata.normalize("NFC", character) != character:
                changes[code] = True
                joins[code] |= unicodedata.combining(unicodedata.normalize("NFD", character)[0]) > 0
            elif " " in parts:
                joins[int(parts.split()[1], 16)] = True
    joins[0x1161:0x1176] = joins[0x11A8:0x11C3] = True
    return joins, changes


def _composed(codes: Codes, kept: npt.NDArray[np.int64]) -> tuple[str, npt.NDArray[np.int64]]:
    """NFC, and for each code point of it the position of the first one it comes from."""
    text = _text(codes)
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text, kept
    bounds, touched = _clusters(codes)
    codes, kept = _pairs(codes, kept, bounds, touched)
    text = _text(codes)
    if unicodedata.is_normalized("NFC", text):
        return text, kept
    bounds, touched = _clusters(codes)
    texts: list[str] = []
    positions: list[npt.NDArray[np.int64]] = []
    at = 0
    for start, end in zip(bounds[touched].tolist(), bounds[touched + 1].tolist(), strict=True):
        composed, places = _compose(text[start:end]) if end - start < _FREE_CLUSTER else _compose_long(text[start:end])
        texts += (text[at:start], composed)
        positions += (kept[at:start], kept[start + np.asarray(places, dtype=np.int64)])
        at = end
    return "".join((*texts, text[at:])), np.concatenate((*positions, kept[at:]))


def _clusters(codes: Codes) -> tuple[IntArray, IntArray]:
    """Edges of the stretches that NFC looks at one by one, ``[n + 1]``, and which of the stretches it may change."""
    joins, changes = _joins()
    starts = ~joins[codes]
    starts[0] = True
    bounds = np.append(np.flatnonzero(starts), len(codes)).astype(np.int32)
    return bounds, np.flatnonzero((np.diff(bounds) > 1) | changes[codes[bounds[:-1]]]).astype(np.int32)


def _pairs(
    codes: Codes, kept: npt.NDArray[np.int64], bounds: IntArray, touched: IntArray
) -> tuple[Codes, npt.NDArray[np.int64]]:
    """Compose the stretches of two code points that become one: nearly all there are, each kind of pair once."""
    first = bounds[touched][np.diff(bounds)[touched] == 2]
    pairs, inverse = np.unique(codes[first].astype(np.int64) << 21 | codes[first + 1], return_inverse=True)
    composed = [unicodedata.normalize("NFC", chr(pair >> 21) + chr(pair & 0x1FFFFF)) for pair in pairs.tolist()]
    values = np.array([ord(text) if len(text) == 1 else 0 for text in composed], dtype=np.uint32)[inverse]
    first, values = first[values > 0], values[values > 0]
    codes = codes.copy()
    codes[first] = values
    stays = np.ones(len(codes), dtype=bool)
    stays[first + 1] = False
    return codes[stays], kept[stays]


def _compose(cluster: str) -> tuple[str, list[int]]:
    composed = unicodedata.normalize("NFC", cluster)
    return composed, [0] if len(composed) == 1 else _origins(cluster, composed)


def _compose_long(cluster: str) -> tuple[str, list[int]]:
    """A cluster with very many marks, put into canonical order first: Python's own sort of them is quadratic."""
    decomposed = "".join(unicodedata.normalize("NFD", character) for character in cluster)
    ordered: list[str] = []
    marks: list[str] = []
    for character in decomposed:
        if unicodedata.combining(character):
            marks.append(character)
            continue
        ordered += sorted(marks, key=unicodedata.combining)
        ordered.append(character)
        marks = []
    ordered += sorted(marks, key=unicodedata.combining)
    composed = unicodedata.normalize("NFC", "".join(ordered))
    return composed, _origins(cluster, composed)


def _origins(cluster: str, composed: str) -> list[int]:
    """For each composed character the first code point of the cluster that it is made from, made non-decreasing."""
    sources: dict[str, deque[int]] = {}
    for i, character in enumerate(cluster):
        for part in unicodedata.normalize("NFD", character):
            sources.setdefault(part, deque()).append(i)
    places = [
        min(sources[part].popleft() for part in unicodedata.normalize("NFD", character)) for character in composed
    ]
    return list(accumulate(places, max))


def _blocks(text: str, kept: npt.NDArray[np.int64], marks: list[_Mark]) -> tuple[Block, ...]:
    """Blocks in positions of the final text, white space at their ends left out."""
    edges = np.array([mark.span for mark in marks], dtype=np.int64).reshape(-1, 2)
    spans = np.searchsorted(kept, edges).tolist()
    blocks = []
    for mark, (start, end) in zip(marks, spans, strict=True):
        span = trim(text, (start, end))
        if span is None:
            continue
        lead = None
        if mark.lead is not None:
            start, end = np.searchsorted(kept, mark.lead).tolist()
            lead = trim(text, (start, end))
        blocks.append(Block(mark.kind, span, mark.section_path, mark.level, mark.page, lead))
    return tuple(blocks)
