"""Small chunks are searched, and the larger part around them is shown."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from rag_lab.contracts import Document, RagLabError
from rag_lab.corpus.chunking.blocks import Blocks
from rag_lab.corpus.chunking.piece import SETTINGS, Piece, TokenChunker, Tokens
from rag_lab.corpus.chunking.recursive import recursive
from rag_lab.corpus.chunking.window import Window


@dataclass(frozen=True, config=SETTINGS)
class ParentChild(TokenChunker):
    """Children of at most `size` tokens, each shown as its parent of at most `parent_size`.

    Parents are parts of one section (``section``, cut as `Blocks` cuts, so that they never reach over a change of
    rights) or token windows (``window``, which may: a child then inherits the strictest right of its whole parent).
    """

    name: ClassVar[str] = "parent_child"
    rule: ClassVar[int] = 1
    size: int = Field(60, ge=8)
    parent_size: int = Field(400, ge=8)
    parent: Literal["section", "window"] = "section"

    def __post_init__(self) -> None:
        if self.parent_size < self.size:
            raise RagLabError(
                f"snapshot.chunker.parent_size: parents of {self.parent_size} tokens are smaller than their children "
                f"of {self.size}; make parent_size larger than size"
            )

    def pieces(self, document: Document, tokens: Tokens) -> list[Piece]:
        """The children, in order, with the span of their parent as what is shown."""
        rule: TokenChunker = Blocks(self.parent_size) if self.parent == "section" else Window(self.parent_size, 0)
        return [
            Piece(child, parent.section_path, parent.span, parent.lead, parent.page)
            for parent in rule.pieces(document, tokens)
            for child in recursive(tokens, parent.span, self.size)
        ]
