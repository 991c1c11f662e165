"""Where a text may be cut: sentences in English and Chinese, and for every token how good a place its start is.

These sentences cover the text, white space included, and know no lines: rows, items and code are cut by their block.
They are packed into chunks, where a sentence too many does little harm, so a few abbreviations suffice. The reader
quotes and checks each sentence by itself and has finer rules (`rag_lab.generation.sentences`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Span
from rag_lab.text import CLOSERS, LONGEST_ABBREVIATION, WIDE_ENDS, abbreviation

TOKEN, WORD, SENTENCE, LINE, BLANK_LINE = range(5)

_CLOSERS = rf"[{CLOSERS}\]]*"
_SENTENCE_END = re.compile(rf"(?:[{WIDE_ENDS}]+|[.!?]+(?={_CLOSERS}(?:\s|$))){_CLOSERS}\s*")
_BLANK_LINE = re.compile(r"\r?\n[^\S\n]*\n\s*|\f\s*")
_LINE = re.compile(r"[^\S\n]*\n\s*")
_WORD = re.compile(r"\s+")
_ABBREVIATION = abbreviation()


def sentences(text: str, span: Span) -> Iterator[Span]:
    """Spans that cover `span`, each a sentence with the white space after it; a blank line ends a sentence too."""
    start = span[0]
    for end in sorted({*_sentence_ends(text, span), *(m.end() for m in _BLANK_LINE.finditer(text, *span))}):
        if start < end < span[1]:
            yield start, end
            start = end
    if start < span[1]:
        yield start, span[1]


def _sentence_ends(text: str, span: Span) -> Iterator[int]:
    for match in _SENTENCE_END.finditer(text, *span):
        mark = match.start()
        after = text[match.end() : match.end() + 1]
        if text[mark] == "." and match.group().rstrip() == ".":
            abbreviated = _ABBREVIATION.search(text[max(span[0], mark - LONGEST_ABBREVIATION) : mark])
            if after.islower() or (abbreviated and not _is_answer(text, mark, after)):
                continue
        yield match.end()


def _is_answer(text: str, mark: int, after: str) -> bool:
    """Whether a "No." is a sentence of its own and not the number that a digit follows."""
    return text[max(mark - 2, 0) : mark] == "No" and not after.isdigit()


def break_levels(text: str, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
    """How good a place to cut stands before each token ``[n]``: the coarsest separator that ends there.

    From `BLANK_LINE` over `LINE`, `SENTENCE` and `WORD` to `TOKEN`, the start of a token within a word; -1 where a
    token is white space or starts no later than the one before it, so that a cut would part nothing.
    """
    levels = np.zeros(len(starts), dtype=np.int8)
    ends_of = (
        (WORD, (match.end() for match in _WORD.finditer(text))),
        (SENTENCE, (end for _, end in sentences(text, (0, len(text))))),
        (LINE, (match.end() for match in _LINE.finditer(text))),
        (BLANK_LINE, (match.end() for match in _BLANK_LINE.finditer(text))),
    )
    for level, ends in ends_of:
        place = np.searchsorted(starts, np.fromiter(ends, dtype=np.int64))
        levels[place[place < len(starts)]] = level
    levels[1:][np.diff(starts) <= 0] = -1
    spaces = np.fromiter((place for match in _WORD.finditer(text) for place in range(*match.span())), dtype=np.int64)
    levels[np.isin(starts, spaces)] = -1
    return levels
