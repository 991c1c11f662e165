"""Late interaction with all-MiniLM-L6-v2: the embedded encoder for English.

The model was trained for mean vectors and not for late interaction, so nothing is added that it does not know: no
markers, no mask tokens. Its token vectors are projected (`projections`), and special and punctuation tokens get none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from rag_lab.contracts import BoolArray
from rag_lab.retrieval.encoders.minilm import MAX_TOKENS, MiniLMEncoder
from rag_lab.retrieval.encoders.precision import Precision
from rag_lab.retrieval.encoders.recipe import bytes_digest
from rag_lab.retrieval.encoders.texts import VectorArray
from rag_lab.retrieval.late.encoding import Model, Pieces, Projection, wordless
from rag_lab.retrieval.late.projections import stored_projection
from rag_lab.retrieval.late.vectors import TokenVectors


class MiniLMLateEncoder:
    """Passages in the fastest precision that the processor has, queries always in float32.

    `projection` replaces the stored one.
    """

    name = "minilm"
    max_tokens = MAX_TOKENS
    languages = frozenset({"en"})

    def __init__(self, precision: Literal["auto"] | Precision = "auto", projection: Projection | None = None) -> None:
        self.dense = MiniLMEncoder(precision)
        self._projection = stored_projection(self.name) if projection is None else projection
        self.dimension = self._projection.shape[1]
        model, _, made = self.dense.version.partition("+")
        self.version = f"{bytes_digest([model.encode(), self._projection.tobytes()])}+{made}"

    @cached_property
    def _usable(self) -> BoolArray:
        """Which tokens of the vocabulary get a vector."""
        pieces = [self.dense.tokenizer.id_to_token(i) for i in range(self.dense.tokenizer.get_vocab_size())]
        special = [piece.startswith("[") and piece.endswith("]") for piece in pieces]
        usable: BoolArray = ~(wordless(pieces) | np.array(special))
        return usable

    def vocabulary(self) -> list[str]:
        """The pieces that get a vector."""
        return [self.dense.tokenizer.id_to_token(int(i)) for i in np.flatnonzero(self._usable)]

    @cached_property
    def _passages(self) -> Model:
        return self._model("fast", self.dense.batch_tokens)

    @cached_property
    def _queries(self) -> Model:
        return self._model("exact", 1)

    def _model(self, bert: str, batch_tokens: int) -> Model:
        return Model(self.name, self.version, self._read, getattr(self.dense, bert), self._projection, batch_tokens)

    def _read(self, texts: list[str]) -> Pieces:
        ids = [encoding.ids for encoding in self.dense.tokenizer.encode_batch_fast(texts)]
        flat = np.concatenate([np.array(tokens, dtype=np.int32) for tokens in ids])
        return Pieces(ids, np.arange(len(texts), dtype=np.int32), self._usable[flat])

    def encode_queries(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float32; each query is encoded alone."""
        return self._queries.queries(texts)

    def encode_passages(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float16."""
        return self._passages.passages(texts)

    def encode_both(self, texts: Sequence[str]) -> tuple[TokenVectors, VectorArray]:
        """Token vectors of passages, and the vectors that `dense` gives them, from one pass through the model."""
        return self._passages.passages_and_means(texts)
