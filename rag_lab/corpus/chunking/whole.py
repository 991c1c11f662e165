"""One chunk a document."""

from __future__ import annotations

from dataclasses import dataclass

from rag_lab.contracts import Document
from rag_lab.corpus.chunking.piece import Piece, TokenSpans


@dataclass(frozen=True)
class Whole:
    """One chunk a document."""

    version: str = "whole-1"

    def cut(self, document: Document, token_spans: TokenSpans) -> list[Piece]:  # noqa: ARG002 - one interface
        """The whole text as a single piece; an empty document has none."""
        return [Piece((0, len(document.text)))] if document.text.strip() else []
