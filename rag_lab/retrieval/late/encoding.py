"""From token ids to token vectors: one pass of the model, a projection, and the grid."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, RagLabError, batches
from rag_lab.retrieval.encoders.packed import PackedBert, unit
from rag_lab.retrieval.encoders.pieces import TEXTS_A_BLOCK, Pieces, length_batches
from rag_lab.retrieval.encoders.texts import VectorArray, distinct
from rag_lab.retrieval.encoders.workers import each_on_one_thread
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, QUERY_GRID, TokenVectors, on_grid, ranges

if TYPE_CHECKING:
    import torch

Projection = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Model:
    """What turns pieces into vectors.

    `read` makes pieces of texts, `usable` says which tokens of the vocabulary get a vector, ``[vocabulary]``.
    `projection` maps the model's vectors to those that are kept, ``[hidden, dimension]``.
    `batch_tokens` go through the model at once; a piece that is longer goes alone.
    """

    name: str
    version: str
    read: Callable[[list[str]], Pieces]
    usable: BoolArray
    bert: PackedBert
    projection: Projection
    batch_tokens: int

    def passages(self, texts: Sequence[str]) -> TokenVectors:
        """Token vectors of texts, in float16."""
        return self._encode(texts, PASSAGE_GRID, np.float16)[0]

    def passages_and_means(self, texts: Sequence[str]) -> tuple[TokenVectors, VectorArray]:
        """The same, and the vector of each text that `encode_pieces` gives."""
        return self._encode(texts, PASSAGE_GRID, np.float16, with_means=True)

    def queries(self, texts: Sequence[str]) -> TokenVectors:
        """Token vectors of texts, in float32."""
        return self._encode(texts, QUERY_GRID, np.float32)[0]

    def _encode(
        self, texts: Sequence[str], grid: int, dtype: npt.DTypeLike, with_means: bool = False
    ) -> tuple[TokenVectors, VectorArray]:
        """Token vectors, and the mean vector of each text or none."""
        different, rows = distinct(texts)
        blocks = batches(len(different), TEXTS_A_BLOCK)
        parts = [self._block(different[block], grid, dtype, with_means) for block in blocks]
        whole = TokenVectors.concatenate([self._nothing(dtype), *(vectors for vectors, _ in parts)])
        means = np.concatenate([np.empty((0, self.bert.hidden), dtype=np.float32), *(mean for _, mean in parts)])
        if len(different) == len(texts):
            return whole, means
        return whole.take(rows), means[rows] if with_means else means

    def _nothing(self, dtype: npt.DTypeLike) -> TokenVectors:
        empty = np.empty(0, dtype=np.int32)
        vectors = np.empty((0, self.projection.shape[1]), dtype=dtype)
        return TokenVectors(vectors, empty, empty, self.name, self.version)

    def _block(
        self, texts: list[str], grid: int, dtype: npt.DTypeLike, with_means: bool
    ) -> tuple[TokenVectors, VectorArray]:
        """The same for texts that all differ."""
        pieces = self.read(texts)
        sizes = pieces.lengths.astype(np.int64)
        flat = np.fromiter(chain.from_iterable(pieces.ids), dtype=np.int32, count=int(sizes.sum()))
        usable = pieces.own & self.usable[flat]
        starts = np.cumsum(sizes) - sizes
        kept = np.add.reduceat(usable, starts, dtype=np.int64)
        places = np.cumsum(kept) - kept

        def work(group: list[int]) -> tuple[npt.NDArray[np.floating], VectorArray | None]:
            ids = [pieces.ids[i] for i in group]
            states = self.bert.states(ids)
            chosen = usable[ranges(starts[group], sizes[group])]
            vectors = on_grid(_projected(states, chosen, self.projection), grid).astype(dtype)
            return vectors, self.bert.pooled(states, ids) if with_means else None

        vectors = np.empty((int(kept.sum()), self.projection.shape[1]), dtype=dtype)
        means = np.empty((len(sizes) if with_means else 0, self.bert.hidden), dtype=np.float32)
        groups = length_batches(sizes.tolist(), self.batch_tokens)
        for group, (found, mean) in zip(groups, each_on_one_thread(work, groups), strict=True):
            vectors[ranges(places[group], kept[group])] = found
            if mean is not None:
                means[group] = mean
        lengths = np.bincount(pieces.text, kept, minlength=len(texts)).astype(np.int32)
        if not np.isfinite(vectors).all():
            raise RagLabError(
                f"late encoder {self.name}: token vectors hold NaN or infinity; its weights are damaged or overflow in "
                "this precision"
            )
        made = TokenVectors(vectors, lengths, flat[usable], self.name, self.version)
        return made, unit(pieces.joined(means)) if with_means else means


def wordless(pieces: Iterable[str]) -> BoolArray:
    """Which pieces of a vocabulary hold nothing but punctuation, spaces and marks of word boundaries, ``[pieces]``."""
    return np.array([all(_is_mark(character) for character in piece) for piece in pieces], dtype=np.bool_)


def _is_mark(character: str) -> bool:
    return character in "$+<=>^`|~▁ " or unicodedata.category(character).startswith("P")


def _projected(states: torch.Tensor, usable: BoolArray, projection: Projection) -> npt.NDArray[np.float32]:
    """Vectors of the usable tokens, projected and scaled to length 1, ``[usable tokens, dimension]``."""
    import torch
    from torch.nn import functional

    with torch.inference_mode():
        chosen = states[torch.from_numpy(usable)].float()
        made: npt.NDArray[np.float32] = functional.normalize(chosen @ torch.from_numpy(projection), dim=1).numpy()
        return made
