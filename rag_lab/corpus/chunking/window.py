"""Windows of a fixed number of tokens, with overlap."""

from __future__ import annotations

from typing import ClassVar

from pydantic.dataclasses import dataclass

from rag_lab.contracts import Document
from rag_lab.corpus.chunking.piece import SETTINGS, OverlappingChunker, Piece, Tokens


@dataclass(frozen=True, config=SETTINGS)
class Window(OverlappingChunker):
    """Windows of `size` tokens that share `overlap` tokens: ``ceil((n - overlap) / (size - overlap))`` chunks."""

    name: ClassVar[str] = "window"
    rule: ClassVar[int] = 2

    def pieces(self, document: Document, tokens: Tokens) -> list[Piece]:  # noqa: ARG002 - one interface
        """Pieces whose edges are token edges, without white space at their ends; the last ends with the last token."""
        spans, (_, count) = tokens.spans, tokens.within((0, len(tokens.text)))
        starts = range(0, max(count - self.overlap, min(count, 1)), self.size - self.overlap)
        return [Piece((spans[start][0], spans[min(start + self.size, count) - 1][1])) for start in starts]
