"""What the encoders whose models come with packages have in common: passes through `PackedBert`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from rag_lab.contracts import BoolArray, IntArray, Span, batches
from rag_lab.retrieval.encoders.packed import PackedBert, unit
from rag_lab.retrieval.encoders.pieces import TEXTS_A_BLOCK, Pieces, length_batches
from rag_lab.retrieval.encoders.precision import Precision
from rag_lab.retrieval.encoders.recipe import Recipe
from rag_lab.retrieval.encoders.texts import VectorArray, encode_distinct
from rag_lab.retrieval.encoders.tokens import TokenMap
from rag_lab.retrieval.encoders.workers import each_on_one_thread

TOKENS_A_BATCH = 2048


class EmbeddedEncoder(ABC):
    """Passages in a `precision`, queries always in float32.

    A text's vector does not depend on the texts beside it: a query is encoded alone, and passages are never padded.
    `max_tokens` is the model's window, special tokens included. `batch_tokens` go through the model at once.
    """

    name: str
    max_tokens: int
    languages: frozenset[str]
    query_prefix = ""
    passage_prefix = ""
    dimension = 384

    def __init__(self, precision: Precision, batch_tokens: int = TOKENS_A_BATCH) -> None:
        self.precision = precision
        self.batch_tokens = batch_tokens
        self.recipe = self._recipe()
        self.version = self.recipe.version

    @abstractmethod
    def _recipe(self) -> Recipe:
        """What decides a vector."""

    @cached_property
    @abstractmethod
    def tokenizer(self) -> Any:
        """A `tokenizers.Tokenizer` that pads nothing."""

    @cached_property
    @abstractmethod
    def special(self) -> BoolArray:
        """Which tokens of the vocabulary stand for no words, ``[vocabulary]``."""

    @cached_property
    @abstractmethod
    def _token_map(self) -> TokenMap: ...

    @abstractmethod
    def read(self, texts: list[str], prefix: str) -> Pieces:
        """Texts as the model reads them behind a prefix."""

    @abstractmethod
    def _load(self, precision: Precision) -> PackedBert: ...

    @cached_property
    def exact(self) -> PackedBert:
        """The model in float32, which reads queries."""
        return self._load("float32")

    @cached_property
    def fast(self) -> PackedBert:
        """The model in the precision of passages."""
        return self.exact if self.precision == "float32" else self._load(self.precision)

    def encode_queries(self, texts: Sequence[str]) -> VectorArray:
        """Unit vectors, ``[n, 384]``."""
        return self._encode(texts, self.exact, self.query_prefix, batch_tokens=1)

    def encode_passages(self, texts: Sequence[str]) -> VectorArray:
        """Unit vectors, ``[n, 384]``."""
        return self._encode(texts, self.fast, self.passage_prefix, self.batch_tokens)

    def _encode(self, texts: Sequence[str], model: PackedBert, prefix: str, batch_tokens: int) -> VectorArray:
        def encode(distinct: list[str]) -> VectorArray:
            blocks = batches(len(distinct), TEXTS_A_BLOCK)
            return np.concatenate([encode_pieces(model, self.read(distinct[b], prefix), batch_tokens) for b in blocks])

        return encode_distinct(texts, encode, self.name, self.dimension)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text without prefix and special tokens, ``[n]``."""
        return self._token_map.count(texts)

    def token_spans(self, text: str) -> list[Span]:
        """Code-point span of each token of a text, in order."""
        return self._token_map.spans(text)


def encode_pieces(model: PackedBert, pieces: Pieces, batch_tokens: int) -> VectorArray:
    """Unit vectors of texts, ``[texts, hidden]``."""

    def work(group: list[int]) -> VectorArray:
        return model.means([pieces.ids[i] for i in group])

    means = np.empty((len(pieces.ids), model.hidden), dtype=np.float32)
    groups = length_batches(pieces.lengths.tolist(), batch_tokens)
    for group, found in zip(groups, each_on_one_thread(work, groups), strict=True):
        means[group] = found
    return unit(pieces.joined(means))
