"""Windows of a fixed number of tokens, with overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rag_lab.contracts import Document, RagLabError, Span
from rag_lab.corpus.chunking.piece import Piece, Tokens, TokenSpans


@dataclass(frozen=True)
class Window:
    """Windows of `size` tokens that share `overlap` tokens: ``ceil((n - overlap) / (size - overlap))`` chunks."""

    size: int
    overlap: int = 0

    def __post_init__(self) -> None:
        if self.size < 1 or self.overlap < 0 or self.overlap >= self.size:
            raise RagLabError(
                f"snapshot.chunker: size {self.size} and overlap {self.overlap} cannot advance; "
                "overlap must be below size"
            )

    @property
    def version(self) -> str:
        """Rule and parameters."""
        return f"window-1(size={self.size},overlap={self.overlap})"

    def cut(self, document: Document, token_spans: TokenSpans) -> list[Piece]:
        """Pieces whose edges are token edges, white space at both ends left out."""
        tokens = Tokens(document.text, token_spans)
        return [Piece(span) for span in windows(tokens, (0, len(document.text)), self)]


def windows(text: Tokens, within: Span, window: Window) -> Iterator[Span]:
    """Spans of token windows over a part of the text; the last one ends with the last token."""
    tokens = text.within(within)
    step = window.size - window.overlap
    for first in range(0, max(len(tokens) - window.overlap, min(len(tokens), 1)), step):
        last = min(first + window.size, len(tokens)) - 1
        yield tokens[first][0], tokens[last][1]
