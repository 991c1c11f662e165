"""One chunk a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic.dataclasses import dataclass

from rag_lab.contracts import Document, Encoder
from rag_lab.corpus.chunking.piece import SETTINGS, Chunker, Piece


@dataclass(frozen=True, config=SETTINGS)
class Whole(Chunker):
    """One chunk a document. It inherits the strictest right of all the document's sections."""

    name: ClassVar[str] = "whole"
    rule: ClassVar[int] = 1

    @property
    def counts_tokens(self) -> bool:
        """It needs none."""
        return False

    def cut(self, documents: Sequence[Document], encoder: Encoder | None) -> list[list[Piece]]:  # noqa: ARG002 - one interface
        """The whole text as a single piece; an empty document has none."""
        return [[Piece((0, len(d.text)))] if d.text.strip() else [] for d in documents]
