"""Texts as one vector a token, and what makes them.

Values lie on a grid: passages are multiples of 1/2048 (which float16 holds exactly up to 1), queries of 1/4096. The
product of two values is then a multiple of 2^-23, every partial sum of an inner product of unit vectors is below 2,
and float32 holds all multiples of 2^-23 up to 2. So an inner product is exact, in whatever order, blocks and threads it
is summed, and scores do not depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Encoder, IntArray, RagLabError

PASSAGE_GRID = 2048
QUERY_GRID = 4096

RowArray = npt.NDArray[np.intp]
TokenArray = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """The token vectors of texts, one text after another.

    vectors: ``[tokens, dimension]``, float16 for passages and float32 for queries, of length 1 but for rounding;
    lengths: tokens of each text, ``[n]``; tokens: the vocabulary id of each vector, ``[tokens]``;
    encoder, version: who made them (empty: not said, and then not checked);
    """

    vectors: TokenArray
    lengths: IntArray
    tokens: IntArray
    encoder: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        total = int(self.lengths.sum())
        if self.vectors.ndim != 2 or self.tokens.shape != (len(self.vectors),) or total != len(self.vectors):
            raise RagLabError(
                f"token vectors: the lengths add up to {total}, there are {len(self.vectors)} vectors and "
                f"{len(self.tokens)} token ids; make them together"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """``[n + 1]``: the tokens of text i lie in ``offsets[i]:offsets[i + 1]``."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.lengths, dtype=np.int64)])

    def take(self, rows: npt.ArrayLike) -> TokenVectors:
        """These texts, in this order; one may be taken twice."""
        wanted = np.asarray(rows, dtype=np.intp)
        lengths = self.lengths[wanted]
        at = ranges(self.offsets[wanted], lengths)
        return replace(self, vectors=self.vectors[at], lengths=lengths, tokens=self.tokens[at])

    @staticmethod
    def concatenate(parts: Sequence[TokenVectors]) -> TokenVectors:
        """The texts of all parts, one part after another. Raises `RagLabError` when they are not of one model."""
        if not parts:
            raise RagLabError("token vectors: nothing to put together; give one part at least")
        first = parts[0]
        for part in parts[1:]:
            _check_alike(first, part)
        return replace(
            first,
            vectors=np.concatenate([part.vectors for part in parts]),
            lengths=np.concatenate([part.lengths for part in parts]),
            tokens=np.concatenate([part.tokens for part in parts]),
        )


class LateEncoder(Protocol):
    """Maps texts to a vector a token. `version` identifies weights and settings; vectors of two versions never meet."""

    name: str
    version: str
    dimension: int
    languages: frozenset[str]
    max_tokens: int

    def encode_queries(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float32; a text without a usable token has none."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float16; a text without a usable token has none."""
        ...


@runtime_checkable
class JointEncoder(LateEncoder, Protocol):
    """One whose pass through the model also gives the vectors of a dense encoder."""

    dense: Encoder

    def encode_both(self, texts: Sequence[str]) -> tuple[TokenVectors, npt.NDArray[np.float32]]:
        """What `encode_passages` gives, and what that of `dense` gives, equal to the last bit."""
        ...


def ranges(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.integer]) -> RowArray:
    """All positions of half-open intervals, one interval after another: ``[lengths.sum()]``."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def on_grid(vectors: npt.NDArray[np.float32], grid: int) -> npt.NDArray[np.float32]:
    """Each value rounded to the nearest multiple of ``1 / grid``."""
    rounded: npt.NDArray[np.float32] = np.rint(vectors * np.float32(grid)) / np.float32(grid)
    return rounded


def _check_alike(one: TokenVectors, other: TokenVectors) -> None:
    mine = (one.encoder, one.version, one.dimension, one.vectors.dtype)
    theirs = (other.encoder, other.version, other.dimension, other.vectors.dtype)
    if mine != theirs:
        raise RagLabError(f"token vectors: parts of two kinds, {mine} and {theirs}; encode both with one model")
