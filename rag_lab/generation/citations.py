"""Citation markers in generated text: which passages they name, and which claim they belong to.

A marker is ``[1]``, ``[1, 2]``, ``[2-4]``, ``[^3]`` or, in wide brackets, ``【3】``, ``【3†source】`` and ``［3］``.
A number that names no passage of the context is invalid and credits nothing. A range must ascend and lie within the
passages, or it is one invalid marker as a whole. An index in code, as in ``array[3]``, is no marker.

A marker belongs to the sentence that it stands in; behind the full stop it still belongs to the sentence before it,
and at the start of a line, before text, to the sentence that it introduces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag_lab.contracts import Span
from rag_lab.generation.sentences import split_sentences
from rag_lab.generation.terms import CJK

_NUMBER = r"\^?\d+(?:\s*[-–—~～]\s*\d+)?"
_MARKER = re.compile(rf"[\[【［]\s*(?P<numbers>{_NUMBER}(?:\s*[,，、;；]\s*{_NUMBER})*)\s*(?:†[^\]】］\n]*)?[\]】］]")
_RANGE = re.compile(r"\^?(\d+)\s*[-–—~～]\s*(\d+)")
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`", re.DOTALL)
_WORD_BEFORE = re.compile(rf"[^\W{CJK}]+$")
_CODE_WORD = re.compile(r".*(?:_|[a-z][A-Z]|[A-Za-z]\d)|(?:array|arr|args|argv|buf|list|matrix|row|vec|vector|[a-z])$")
_OPERATOR = re.compile(r"(?:\[\d+\])*(?:\s*(?:[-+*/|&]?=|[<>])|\.[A-Za-z_]|\()")


@dataclass(frozen=True, slots=True)
class Marker:
    """One marker: where it stands, the passages it names, ascending, and how many of its members are invalid."""

    span: Span
    numbers: tuple[int, ...]
    invalid: int


@dataclass(frozen=True, slots=True)
class CitedText:
    """A sentence without its markers, and the passages that they name."""

    text: str
    numbers: tuple[int, ...]
    invalid: int


def find_markers(text: str, passages: int) -> list[Marker]:
    """Every marker of `text`, in order, read against `passages` passages that are numbered from 1."""
    code = [match.span() for match in _CODE.finditer(text)]
    found: list[Marker] = []
    index_end = -1
    for match in _MARKER.finditer(text):
        inside = any(start <= match.start() < end for start, end in code)
        if inside or match.start() == index_end or _is_index(text, match):
            index_end = match.end()
            continue
        numbers, invalid = _read(match["numbers"], passages)
        found.append(Marker(match.span(), numbers, invalid))
    return found


def cited(text: str, passages: int) -> tuple[frozenset[int], int]:
    """Passages that `text` cites, and its number of invalid citations."""
    markers = find_markers(text, passages)
    return frozenset(n for marker in markers for n in marker.numbers), sum(marker.invalid for marker in markers)


def without_markers(text: str, passages: int = 0) -> str:
    """`text` with its markers and the space before them removed."""
    return _cut(text, [marker.span for marker in find_markers(text, passages)])


def split_claims(text: str, passages: int) -> list[CitedText]:
    """The sentences of `text`, each with the citations that belong to it; a piece without words is no sentence."""
    markers = find_markers(text, passages)
    plain, places = _blank(text, [marker.span for marker in markers])
    spans = [span for span in split_sentences(plain) if re.search(r"\w", plain[span[0] : span[1]])]
    owned: list[list[Marker]] = [[] for _ in spans]
    for marker, place in zip(markers, places, strict=True):
        if spans:
            owned[_owner(plain, spans, place)].append(marker)
    return [
        CitedText(
            " ".join(plain[start:end].split()),
            tuple(sorted({n for marker in own for n in marker.numbers})),
            sum(marker.invalid for marker in own),
        )
        for (start, end), own in zip(spans, owned, strict=True)
    ]


def _is_index(text: str, match: re.Match[str]) -> bool:
    """Whether brackets directly behind a Latin word index something instead of citing it.

    ``Paris[1].`` cites; ``rates[3] = 5`` and ``array[3].`` do not.
    """
    if text[match.start()] != "[":
        return False
    before = _WORD_BEFORE.search(text, max(0, match.start() - 40), match.start())
    if not before:
        return False
    return bool(_CODE_WORD.match(before.group()) or _OPERATOR.match(text, match.end()))


def _read(members: str, passages: int) -> tuple[tuple[int, ...], int]:
    numbers: set[int] = set()
    invalid = 0
    for member in re.split(r"[,，、;；]", members):
        bounds = _RANGE.fullmatch(member.strip())
        first, last = (int(bounds[1]), int(bounds[2])) if bounds else (int(member.strip().lstrip("^")),) * 2
        if 1 <= first <= last <= passages:
            numbers.update(range(first, last + 1))
        else:
            invalid += 1
    return tuple(sorted(numbers)), invalid


def _cut(text: str, spans: list[Span]) -> str:
    return re.sub(r"[ \t]+\n", "\n", _blank(text, spans)[0]).strip()


def _blank(text: str, spans: list[Span]) -> tuple[str, list[int]]:
    """`text` without the spans and the blanks before them, and where each of them was."""
    pieces: list[str] = []
    places: list[int] = []
    length = position = 0
    for start, end in spans:
        piece = text[position:start].rstrip(" \t")
        pieces.append(piece)
        length += len(piece)
        places.append(length)
        position = end
    return "".join([*pieces, text[position:]]), places


def _owner(plain: str, spans: list[Span], place: int) -> int:
    """The sentence that a marker at `place` belongs to."""
    before = [i for i, (start, _) in enumerate(spans) if start < place]
    if not before:
        return 0
    last = before[-1]
    line_start = plain.rfind("\n", 0, place) + 1
    opens_line = not plain[line_start:place].strip()
    rest = plain[place:].split("\n", 1)[0].strip()
    introduces = opens_line and bool(re.search(r"\w", rest)) and last + 1 < len(spans)
    return last + 1 if introduces else last
