"""Cut a document into chunks. A chunk is a slice of the document's text, so its offsets are exact by construction.

`whole` keeps a document in one piece. `blocks` reads Markdown blocks (heading, paragraph, list, table, fence), never
cuts a block that fits, packs neighbours of one section up to `size` tokens, and keeps the heading path. `window` slides
a window of `size` tokens with `overlap`.
"""

from __future__ import annotations

from rag_lab.contracts import RagLabError
from rag_lab.corpus.chunking.blocks import Blocks
from rag_lab.corpus.chunking.piece import Chunker, Piece, Tokens, TokenSpans
from rag_lab.corpus.chunking.whole import Whole
from rag_lab.corpus.chunking.window import Window

__all__ = ["Blocks", "Chunker", "Piece", "TokenSpans", "Tokens", "Whole", "Window", "load_chunker"]


def load_chunker(name: str, size: int | None = None, overlap: int | None = None) -> Chunker:
    """A chunker by name: ``whole``, ``blocks`` (size) or ``window`` (size, overlap)."""
    if name == "whole":
        return Whole()
    if name == "blocks":
        return Blocks(size or 200)
    if name == "window":
        return Window(size or 200, overlap or 0)
    raise RagLabError(f"snapshot.chunker.name: '{name}' is unknown; use whole, blocks or window")
