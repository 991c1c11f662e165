"""Splitting a passage into sentences, with offsets.

A sentence is a half-open span ``(start, end)`` of the text, without surrounding white space. Table rows, list items,
headings and lines of code are sentences of their own. English and Chinese marks end a sentence; abbreviations,
initials and decimals do not. Each sentence is quoted and checked by itself, so what follows an abbreviation counts as
well; chunkers, which look for a good place to cut, have simpler rules (`rag_lab.corpus.chunking.breaks`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from rag_lab.contracts import Span
from rag_lab.generation.terms import CJK, STOPWORDS
from rag_lab.text import CLOSERS, LONGEST_ABBREVIATION, WIDE_ENDS, abbreviation, trim

_END = re.compile(rf"(?:[{WIDE_ENDS}]+[{CLOSERS}]*)|(?:[.!?]+[{CLOSERS}]*(?=\s|$|[{CJK}]))")
_ABBREVIATION = abbreviation(
    *("Hon|Col|Capt|Sgt|Gov|Sen|Rep|Ft|etc|Nos|Inc|Ltd|Co|Corp|est|dept|Dept|Univ", r"a\.m|p\.m"),
    "Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec",
)
# These may also end a sentence: they do when a common word with a capital follows.
_MAY_END = re.compile(r"(?:etc|al|Inc|Ltd|Co|Corp|Jr|Sr|a\.m|p\.m|(?:[A-Z]\.)+[A-Z])$")
_HEADING = re.compile(r"\s*#{1,6}\s")
_LIST_ITEM = re.compile(r"\s*(?:[-*•·+–]\s|\d{1,3}[.)、]\s|[（(]\d{1,3}[）)])")
_TABLE_ROW = re.compile(r"\s*\||[^|\n]+\|[^|\n]+\||[^\t\n]+\t")
_CODE_OR_QUOTE = re.compile(r"(?: {4}|\t)\S|\s*>\s")
_LEAD_IN = re.compile(r"[:：?？][*_]*$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_TABLE_RULE = re.compile(r"\s*\|?[\s:|+-]*-{2,}[\s:|+-]*$")
_FIRST_WORD = re.compile(r"\s*(\w*|\W)")
_WRAPPED_AT = 50


@lru_cache(maxsize=100_000)
def split_sentences(text: str) -> tuple[Span, ...]:
    """Spans of the sentences of `text`, in order; they do not overlap and hold every visible character but fences."""
    found: list[Span] = []
    for start, end, is_unit in _blocks(text):
        found.extend([(start, end)] if is_unit else _prose(text, start, end))
    return tuple(span for part in found if (span := trim(text, part)))


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """Lines that stand alone (True) and runs of hard-wrapped prose lines (False)."""
    start = end = -1
    fenced = False
    position = 0
    for line in text.split("\n"):
        line_start, line_end = position, position + len(line)
        position = line_end + 1
        fence = bool(_FENCE.match(line))
        unit = fence or fenced or _stands_alone(line)
        if start >= 0 and (unit or not _continues(text[start:end], line)):
            yield start, end, False
            start = -1
        if fence:
            fenced = not fenced
        elif _TABLE_RULE.match(line) or not line.strip():
            continue
        elif unit:
            yield line_start, line_end, True
        else:
            start, end = (line_start if start < 0 else start), line_end
    if start >= 0:
        yield start, end, False


def _stands_alone(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_HEADING, _LIST_ITEM, _TABLE_ROW, _CODE_OR_QUOTE))


def _continues(before: str, line: str) -> bool:
    """Whether `line` goes on with the sentence of the line before it, as hard-wrapped text does."""
    following, previous = line.strip(), before.rstrip()
    if not following or not previous or _END.search(previous[-3:]):
        return bool(following) and bool(previous) and _is_wrapped(before)
    if re.match(f"[{CJK}]", following) or previous[-1] in ":：":
        return False
    return following[0].islower() or _is_wrapped(before)


def _is_wrapped(before: str) -> bool:
    return len(before.rsplit("\n", 1)[-1]) >= _WRAPPED_AT and not re.search(f"[{CJK}]", before[-8:])


def _prose(text: str, start: int, end: int) -> list[Span]:
    found: list[Span] = []
    begin = start
    for match in _END.finditer(text, start, end):
        if _is_end(text, begin, match.start(), match.end(), end):
            found.append((begin, match.end()))
            begin = match.end()
    return [*found, (begin, end)]


def _is_end(text: str, begin: int, mark: int, after: int, end: int) -> bool:
    if text[mark] != ".":
        return text[mark] in WIDE_ENDS or not text[after:end].lstrip()[:1].islower()
    following = _FIRST_WORD.match(text, after, end)
    word = following.group(1) if following else ""
    if not word:
        return True
    before = text[max(begin, mark - LONGEST_ABBREVIATION) : mark]
    if _ABBREVIATION.search(before):
        return bool(_MAY_END.search(before)) and word[0].isupper() and word.lower() in STOPWORDS
    return not word[0].islower()


@lru_cache(maxsize=100_000)
def lead_ins(text: str) -> tuple[tuple[int, bool], ...]:
    """For each sentence of `text`, the sentence that says what it is about, and whether it does so in form.

    In form: the header of a table row, the line before a list, a heading, a question or a line that ends in a colon.
    Otherwise it is the sentence before. The first sentence has -1.
    """
    found: list[tuple[int, bool]] = []
    pieces = [text[start:end] for start, end in split_sentences(text)]
    first_row = before_list = -1
    for i, piece in enumerate(pieces):
        is_row, is_item = is_table_row(piece), bool(_LIST_ITEM.match(piece))
        if is_row and first_row >= 0:
            found.append((first_row, True))
        elif is_item:
            before_list = i - 1 if before_list < 0 else before_list
            found.append((before_list, before_list >= 0))
        else:
            found.append((i - 1, i > 0 and is_lead_in(pieces[i - 1])))
        first_row = (i if first_row < 0 else first_row) if is_row else -1
        before_list = before_list if is_item else -1
    return tuple(found)


def is_table_row(sentence: str) -> bool:
    """Whether a sentence is a row of a Markdown table."""
    return bool(_TABLE_ROW.match(sentence))


def is_lead_in(sentence: str) -> bool:
    """Whether a sentence only announces what follows: a heading, a question, or a line that ends in a colon."""
    return bool(_HEADING.match(sentence) or _LEAD_IN.search(sentence))
