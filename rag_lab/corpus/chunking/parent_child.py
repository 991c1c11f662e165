"""Small chunks are searched, and the larger part around them is shown."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from rag_lab.contracts import Document, RagLabError
from rag_lab.corpus.chunking.blocks import Blocks, document_blocks
from rag_lab.corpus.chunking.boundaries import rights_parts
from rag_lab.corpus.chunking.piece import SETTINGS, Piece, TokenChunker, Tokens
from rag_lab.corpus.chunking.window import Window


@dataclass(frozen=True, config=SETTINGS)
class ParentChild(TokenChunker):
    """Children of at most `size` tokens, cut as `Blocks` cuts, each shown as its parent of at most `parent_size`.

    Parents are parts of one section (``section``, cut as `Blocks` cuts, so that they never reach over a change of
    rights) or token windows (``window``, which may: a child then inherits the strictest right of its whole parent).
    """

    name: ClassVar[str] = "parent_child"
    rule: ClassVar[int] = 3
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
        blocks = document_blocks(document)
        if self.parent == "section":
            sections = Blocks(self.parent_size)
            parents = [p for part in rights_parts(document) for p in sections.within(tokens, blocks, part)]
        else:
            parents = Window(self.parent_size, 0).pieces(document, tokens)
        return [
            replace(child, shown=parent.span, lead=child.lead or parent.lead)
            for parent in parents
            for child in Blocks(self.size).within(tokens, blocks, parent.span)
        ]
