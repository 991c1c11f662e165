"""What a chunker is and gives: pieces of a document, with tokens counted by offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from rag_lab.contracts import Document, Encoder, RagLabError, Span
from rag_lab.corpus.chunking.breaks import break_levels
from rag_lab.text import trim

TokenSpans = Callable[[str], list[Span]]
SETTINGS = ConfigDict(extra="forbid", allow_inf_nan=False)


class Tokens:
    """The token spans of one document, found once and counted by offset.

    Some tokenizers count the white space before a word to its token; here a token begins with what can be seen of it.
    """

    def __init__(self, text: str, token_spans: TokenSpans) -> None:
        self.text = text
        self.token_spans = token_spans
        self.spans = [
            span if not text[span[0] : span[0] + 1].isspace() else _visible(text, span) for span in token_spans(text)
        ]
        self.starts = [start for start, _ in self.spans]

    def count(self, span: Span) -> int:
        """Tokens that start inside the span."""
        return bisect_left(self.starts, span[1]) - bisect_left(self.starts, span[0])

    def within(self, span: Span) -> tuple[int, int]:
        """Positions of the tokens that start inside the span: the first, and one after the last."""
        return bisect_left(self.starts, span[0]), bisect_left(self.starts, span[1])

    @cached_property
    def levels(self) -> npt.NDArray[np.int8]:
        """How good a place to cut stands before each token, ``[n]``; see `break_levels`."""
        return break_levels(self.text, np.array(self.starts, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk-to-be: where it lies in the document and under which headings.

    `shown` is the part of the document that a context shows for it (None: the piece itself); `lead` is the header row
    of the table that it continues; `page` is where it begins, 0 for none; `prefix` is a generated sentence that only
    the indexes see.
    """

    span: Span
    section_path: tuple[str, ...] = ()
    shown: Span | None = None
    lead: Span | None = None
    page: int = 0
    prefix: str = ""


@dataclass(frozen=True, config=SETTINGS)
class Chunker(ABC):
    """A rule that cuts documents. Its fields are its settings; `rule` counts the changes of what it does."""

    name: ClassVar[str]
    rule: ClassVar[int]

    @property
    def counts_tokens(self) -> bool:
        """Whether the pieces depend on the encoder."""
        return True

    @property
    def version(self) -> str:
        """The rule and its settings: another version means other chunks."""
        given = ",".join(f"{setting.name}={getattr(self, setting.name)}" for setting in fields(self))
        return f"{self.name}-{self.rule}" + (f"({given})" if given else "")

    @abstractmethod
    def cut(self, documents: Sequence[Document], encoder: Encoder | None) -> list[list[Piece]]:
        """The pieces of each document, in order; together they cover every character that is not white space.

        A document's pieces depend on that document and the encoder alone. `encoder` counts tokens and, for a chunker
        that compares sentences, embeds them; one that has `counts_tokens` needs it.
        """


@dataclass(frozen=True, config=SETTINGS)
class TokenChunker(Chunker):
    """A chunker that looks at one document at a time and counts its tokens."""

    def cut(self, documents: Sequence[Document], encoder: Encoder | None) -> list[list[Piece]]:
        """The pieces of each document. Raises RagLabError without an encoder."""
        token_spans = needed(self, encoder).token_spans
        return [self.pieces(document, Tokens(document.text, token_spans)) for document in documents]

    @abstractmethod
    def pieces(self, document: Document, tokens: Tokens) -> list[Piece]:
        """The pieces of one document, in order."""


@dataclass(frozen=True, config=SETTINGS)
class OverlappingChunker(TokenChunker):
    """Chunks of `size` tokens that share up to `overlap`."""

    size: int = Field(200, ge=1)
    overlap: int = Field(0, ge=0)

    def __post_init__(self) -> None:
        if self.overlap >= self.size:
            raise RagLabError(
                f"snapshot.chunker.overlap: size {self.size} and overlap {self.overlap} cannot advance; "
                "give an overlap below size"
            )


def _visible(text: str, span: Span) -> Span:
    """The span from its first character that is not white space; as it is where it has none."""
    return trim(text, span) or span


def needed(chunker: Chunker, encoder: Encoder | None) -> Encoder:
    """The encoder, which this chunker cannot do without."""
    if encoder is None:
        raise RagLabError(f"snapshot.chunker: {chunker.version} counts tokens and needs snapshot.encoder")
    return encoder
