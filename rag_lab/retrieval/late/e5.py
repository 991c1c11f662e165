"""Late interaction with multilingual-e5-small: the embedded encoder for Chinese and English.

The weights are those of the dense encoder, the passes are made by `PackedBert`: the package's own engine gives mean
vectors only. Special tokens, the prefix and punctuation get no vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from rag_lab.contracts import BoolArray
from rag_lab.retrieval.encoders.e5 import LANGUAGES, E5Encoder, model_file, unigram_tokenizer
from rag_lab.retrieval.encoders.e5_weights import read_weights
from rag_lab.retrieval.encoders.packed import BertSize, PackedBert
from rag_lab.retrieval.encoders.precision import fast_precision
from rag_lab.retrieval.encoders.recipe import bytes_digest, files_digest
from rag_lab.retrieval.late.encoding import Model, Pieces, Projection, wordless
from rag_lab.retrieval.late.projections import stored_projection
from rag_lab.retrieval.late.vectors import TokenVectors

START, END = 0, 2
TOKENS_A_BATCH = 2048


class E5LateEncoder:
    """Passages in the fastest precision that the processor has, queries always in float32.

    `projection` replaces the stored one.

    `max_tokens` is the model's window, special tokens included. A longer text is not cut: it is read window by window.
    """

    name = "multilingual-e5"
    max_tokens = E5Encoder.max_tokens
    languages = LANGUAGES

    def __init__(self, projection: Projection | None = None) -> None:
        self._file = model_file()
        self._projection = stored_projection(self.name) if projection is None else projection
        self.dimension = self._projection.shape[1]
        self._precision, _ = fast_precision()
        model = files_digest([self._file])
        self.version = f"{bytes_digest([model.encode(), self._projection.tobytes()])}+{self._precision}"

    @cached_property
    def _tokenizer(self) -> tuple[Any, int]:
        return unigram_tokenizer(self._file)

    @cached_property
    def _usable(self) -> BoolArray:
        """Which tokens of the vocabulary get a vector."""
        tokenizer, unknown = self._tokenizer
        usable = ~wordless(tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size()))
        usable[: unknown + 1] = False  # <s>, <pad>, </s> and <unk>
        return usable

    def vocabulary(self) -> list[str]:
        """The pieces that get a vector."""
        return [self._tokenizer[0].id_to_token(int(i)) for i in np.flatnonzero(self._usable)]

    @cached_property
    def _weights(self) -> tuple[BertSize, dict[str, Any]]:
        return read_weights(self._file)

    @cached_property
    def _passages(self) -> Model:
        return self._model("passage: ", self._precision, TOKENS_A_BATCH)

    @cached_property
    def _queries(self) -> Model:
        return self._model("query: ", "float32", 1)

    def _model(self, prefix: str, precision: str, batch_tokens: int) -> Model:
        import torch

        size, weights = self._weights
        bert = PackedBert(size, weights, getattr(torch, precision))
        return Model(self.name, self.version, partial(self._read, prefix), bert, self._projection, batch_tokens)

    def _read(self, prefix: str, texts: list[str]) -> Pieces:
        """Windows of texts with their prefix."""
        room = self.max_tokens - 2
        ids: list[list[int]] = []
        of: list[int] = []
        usable: list[BoolArray] = []
        for text, encoding in enumerate(self._tokenizer[0].encode_batch([prefix + text for text in texts])):
            tokens, behind = self._tokens(encoding, len(prefix))
            kept = behind & self._usable[tokens]
            for start in range(0, max(1, len(tokens)), room):
                ids.append([START, *tokens[start : start + room], END])
                usable.append(np.concatenate([[False], kept[start : start + room], [False]]))
                of.append(text)
        return Pieces(ids, np.array(of, dtype=np.int32), np.concatenate(usable))

    def _tokens(self, encoding: Any, prefix: int) -> tuple[list[int], BoolArray]:
        """A text's tokens, and which of them reach behind the prefix. The model reads one unknown token a character."""
        unknown = self._tokenizer[1]
        spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        ids = np.array(encoding.ids, dtype=np.int64)
        times = np.where(ids == unknown, np.diff(spans, axis=1)[:, 0], 1)
        return np.repeat(ids, times).tolist(), np.repeat(spans[:, 1] > prefix, times)

    def encode_queries(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float32; each query is encoded alone."""
        return self._queries.queries(texts)

    def encode_passages(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float16."""
        return self._passages.passages(texts)
