"""What the tests of chunkers share: tokenizers whose tokens can be counted by eye, and what every chunk must be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Document, IntArray, Span
from rag_lab.corpus.chunking import Chunker, Piece


class Words:
    """Tokens are words and marks; a sentence's vector points where its first letter says (a, b, or half way)."""

    name = "words"
    version = "1"
    dimension = 2
    max_tokens = 1000
    languages = frozenset({"en", "zh"})

    def token_spans(self, text: str) -> list[Span]:
        return [match.span() for match in re.finditer(r"[\u3400-\u9fff]|\w+|[^\w\s]", text)]

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        return np.array([len(self.token_spans(text)) for text in texts], dtype=np.int32)

    def encode_passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        along = {"a": (1.0, 0.0), "b": (0.0, 1.0)}
        return np.array([along.get(text[:1].lower(), (0.6, 0.8)) for text in texts], dtype=np.float32).reshape(-1, 2)

    encode_queries = encode_passages


class Characters(Words):
    """Every character is a token, white space too."""

    def token_spans(self, text: str) -> list[Span]:
        return [(i, i + 1) for i in range(len(text))]


WORDS, CHARACTERS = Words(), Characters()


def pieces(chunker: Chunker, text: str, encoder: Any = WORDS, **fields: Any) -> list[Piece]:
    return chunker.cut([Document("d", text, **fields)], encoder)[0]


def texts(chunker: Chunker, text: str, encoder: Any = WORDS, **fields: Any) -> list[str]:
    return [text[slice(*piece.span)] for piece in pieces(chunker, text, encoder, **fields)]


def check(text: str, found: Sequence[Piece]) -> None:
    """Starts strictly increase, and every character that is not white space lies in a chunk."""
    starts = [piece.span[0] for piece in found]
    assert starts == sorted(set(starts))
    assert all(0 <= start < end <= len(text) for start, end in (piece.span for piece in found))
    covered = {i for piece in found for i in range(*piece.span)}
    assert all(i in covered for i, character in enumerate(text) if not character.isspace())
