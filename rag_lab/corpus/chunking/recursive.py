"""Cut at the coarsest separator that lets a chunk stay within its size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from pydantic.dataclasses import dataclass

from rag_lab.contracts import Document, Span
from rag_lab.corpus.chunking.piece import SETTINGS, OverlappingChunker, Piece, Tokens
from rag_lab.text import trim


@dataclass(frozen=True, config=SETTINGS)
class Recursive(OverlappingChunker):
    """Chunks of at most `size` tokens that end at the coarsest separator within reach.

    Separators, coarse to fine: blank lines, lines, sentences, words, tokens. Each chunk ends at the last of the
    coarsest separators that its size reaches, and the next one begins up to `overlap` tokens before, at the coarsest
    separator there. No chunk has more than `size` tokens, also when its text is counted by itself; a single character
    that is more tokens than that is the one exception.
    """

    name: ClassVar[str] = "recursive"
    rule: ClassVar[int] = 2

    def pieces(self, document: Document, tokens: Tokens) -> list[Piece]:  # noqa: ARG002 - one interface
        """Pieces without white space at their ends."""
        return [Piece(span) for span in recursive(tokens, (0, len(tokens.text)), self.size, self.overlap)]


def recursive(tokens: Tokens, within: Span, size: int, overlap: int = 0) -> Iterator[Span]:
    """Spans of at most `size` tokens over a part of the text; they cover all of it that is not white space."""
    part = _Part(tokens, within)
    begin = part.first
    while True:
        end = part.end_of(begin, size, overlap)
        span = part.span(begin, end)
        if span:
            yield span
        if end >= part.last:
            return
        begin = part.begin_after(begin, end, overlap)


class _Part:
    """A part of a text by its tokens, `first` up to `last`."""

    def __init__(self, tokens: Tokens, within: Span) -> None:
        self.tokens = tokens
        self.within = within
        self.first, self.last = tokens.within(within)
        while self.first < self.last and tokens.levels[self.first] < 0:
            self.first += 1

    def span(self, begin: int, end: int) -> Span | None:
        """From one token up to another, with what lies before the first and after the last; without white space."""
        start = self.within[0] if begin <= self.first else self.tokens.starts[begin]
        stop = self.within[1] if end >= self.last else self.tokens.starts[end]
        return trim(self.tokens.text, (start, stop))

    def end_of(self, begin: int, size: int, overlap: int) -> int:
        """The token before which the chunk ends that begins with the token `begin`."""
        room = size
        while True:
            end = self._coarsest_end(begin, room, overlap)
            span = self.span(begin, end)
            excess = self._counted_alone(span) - size if span else 0
            if excess <= 0 or room == 1:
                return end
            room = max(1, min(room, end - begin) - excess)

    def _coarsest_end(self, begin: int, room: int, overlap: int) -> int:
        if self.last - begin <= room:
            return self.last
        lowest = begin + 1 + min(overlap, room - 1)
        reached = self.tokens.levels[lowest : begin + room + 1]
        if reached.max() < 0:
            later = np.flatnonzero(self.tokens.levels[lowest : self.last] >= 0)
            return lowest + int(later[0]) if len(later) else self.last
        return lowest + len(reached) - 1 - int(np.argmax(reached[::-1]))

    def begin_after(self, begin: int, end: int, overlap: int) -> int:
        """The first token of the next chunk: the coarsest place in the last `overlap` tokens of this one."""
        lowest = max(begin + 1, end - overlap)
        reached = self.tokens.levels[lowest:end]
        return lowest + int(np.argmax(reached)) if len(reached) and reached.max() >= 0 else end

    def _counted_alone(self, span: Span) -> int:
        """Tokens of a span as a text of its own: other than in place only where it cuts a word."""
        start, end = span
        text = self.tokens.text
        apart = (start == 0 or text[start - 1].isspace()) and (end == len(text) or text[end].isspace())
        return self.tokens.count(span) if apart else len(self.tokens.token_spans(text[start:end]))
