"""Windows of a fixed number of tokens, with overlap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from rag_lab.contracts import Document, Span
from rag_lab.corpus.chunking.piece import SETTINGS, Piece, TokenChunker, Tokens, check_overlap


@dataclass(frozen=True, config=SETTINGS)
class Window(TokenChunker):
    """Windows of `size` tokens that share `overlap` tokens: ``ceil((n - overlap) / (size - overlap))`` chunks."""

    name: ClassVar[str] = "window"
    rule: ClassVar[int] = 2
    size: int = Field(200, ge=1)
    overlap: int = Field(0, ge=0)

    def __post_init__(self) -> None:
        check_overlap(self.size, self.overlap)

    def pieces(self, document: Document, tokens: Tokens) -> list[Piece]:  # noqa: ARG002 - one interface
        """Pieces whose edges are token edges, white space at both ends left out."""
        return [Piece(span) for span in windows(tokens, (0, len(tokens.text)), self.size, self.overlap)]


def windows(tokens: Tokens, within: Span, size: int, overlap: int = 0) -> Iterator[Span]:
    """Spans of token windows over a part of the text; the last one ends with the last token."""
    first, last = tokens.within(within)
    for start in range(first, max(last - overlap, min(last, first + 1)), size - overlap):
        yield tokens.spans[start][0], tokens.spans[min(start + size, last) - 1][1]
