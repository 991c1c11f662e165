"""Texts as weighted terms of a model's vocabulary, and what makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import IntArray, RagLabError

QUANTA = 100
"""Of how many parts the whole numbers that stand for weights count: a weight of 1.234 is an impact of 123."""


@dataclass(frozen=True, eq=False)
class SparseVectors:
    """The terms of texts, one text after another, ascending within each, and their impacts.

    lengths: terms of each text, ``[n]``; terms: ids of the vocabulary; impacts: whole numbers from 1, ``[terms]`` each;
    encoder, version: who made them.
    """

    lengths: IntArray
    terms: IntArray
    impacts: IntArray
    encoder: str
    version: str

    def __post_init__(self) -> None:
        total = int(self.lengths.sum())
        if self.terms.shape != (total,) or self.impacts.shape != (total,):
            raise RagLabError(
                f"sparse vectors: the lengths add up to {total}, there are {len(self.terms)} terms and "
                f"{len(self.impacts)} impacts; make them together"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """``[n + 1]``: the terms of text i lie in ``offsets[i]:offsets[i + 1]``."""
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(self.lengths, dtype=np.int64)])


class SparseEncoder(Protocol):
    """Maps texts to weighted terms. `version` identifies weights and settings; impacts of two versions never meet."""

    name: str
    version: str
    vocabulary: int
    max_tokens: int

    def encode_queries(self, texts: Sequence[str]) -> SparseVectors:
        """Terms and impacts; a text may have none."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> SparseVectors:
        """Terms and impacts; a text may have none."""
        ...
