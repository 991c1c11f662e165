"""Late interaction with the models of the embedded dense encoders.

They were trained for mean vectors and not for late interaction, so nothing is added that they do not know: no markers,
no mask tokens. Their token vectors are projected (`projections`); special tokens, a prefix and punctuation get none.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from rag_lab.contracts import BoolArray
from rag_lab.retrieval.encoders.embedded import EmbeddedEncoder
from rag_lab.retrieval.encoders.packed import PackedBert
from rag_lab.retrieval.encoders.recipe import bytes_digest
from rag_lab.retrieval.encoders.texts import VectorArray
from rag_lab.retrieval.late.encoding import Model, Projection, wordless
from rag_lab.retrieval.late.projections import stored_projection
from rag_lab.retrieval.late.vectors import TokenVectors


class EmbeddedLateEncoder:
    """Passages in the precision of the dense encoder, queries always in float32.

    `projection` replaces the stored one.
    """

    def __init__(self, dense: EmbeddedEncoder, projection: Projection | None = None) -> None:
        self.dense = dense
        self.name, self.max_tokens, self.languages = dense.name, dense.max_tokens, dense.languages
        self._projection = stored_projection(self.name) if projection is None else projection
        self.dimension = self._projection.shape[1]
        model, _, made = dense.version.partition("+")
        self.version = f"{bytes_digest([model.encode(), self._projection.tobytes()])}+{made}"

    @cached_property
    def _usable(self) -> BoolArray:
        """Which tokens of the vocabulary get a vector."""
        tokenizer = self.dense.tokenizer
        words = ~wordless(tokenizer.id_to_token(i) for i in range(tokenizer.get_vocab_size()))
        return words & ~self.dense.special

    def vocabulary(self) -> list[str]:
        """The pieces that get a vector."""
        return [self.dense.tokenizer.id_to_token(int(i)) for i in np.flatnonzero(self._usable)]

    @cached_property
    def _passages(self) -> Model:
        return self._model(self.dense.fast, self.dense.passage_prefix, self.dense.batch_tokens)

    @cached_property
    def _queries(self) -> Model:
        return self._model(self.dense.exact, self.dense.query_prefix, 1)

    def _model(self, bert: PackedBert, prefix: str, batch_tokens: int) -> Model:
        read = partial(self.dense.read, prefix=prefix)
        return Model(self.name, self.version, read, self._usable, bert, self._projection, batch_tokens)

    def encode_queries(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float32; each query is encoded alone."""
        return self._queries.queries(texts)

    def encode_passages(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float16."""
        return self._passages.passages(texts)

    def encode_both(self, texts: Sequence[str]) -> tuple[TokenVectors, VectorArray]:
        """Token vectors of passages, and the vectors that `dense` gives them, from one pass through the model."""
        return self._passages.passages_and_means(texts)
