"""Late interaction with all-MiniLM-L6-v2: the embedded encoder for English."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import batches
from rag_lab.retrieval.encoders.minilm import TEXTS_A_BLOCK, MiniLMEncoder, length_batches
from rag_lab.retrieval.encoders.texts import for_model
from rag_lab.retrieval.encoders.workers import each_on_one_thread
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, QUERY_GRID, TokenVectors, on_grid


class MiniLMLateEncoder:
    """Token vectors of MiniLM without those of special and punctuation tokens."""

    name = "minilm"
    max_tokens = 256
    languages = frozenset({"en"})
    weighted = True

    def __init__(self) -> None:
        self._encoder = MiniLMEncoder()
        self.dimension = 384
        self.version = self._encoder.version
        tokenizer = self._encoder._tokenizer
        skipped = {tokenizer.token_to_id(mark) for mark in [*string.punctuation, "[CLS]", "[SEP]"]}
        self._skipped = np.array(sorted(skipped - {None}))

    def encode_queries(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float32."""
        return self._encode(texts, self._encoder._exact, 1, QUERY_GRID, np.float32, True)

    def encode_passages(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float16."""
        return self._encode(texts, self._encoder._fast, self._encoder.batch_tokens, PASSAGE_GRID, np.float16, False)

    def _encode(
        self, texts: Sequence[str], model: Any, budget: int, grid: int, dtype: npt.DTypeLike, weighted: bool
    ) -> TokenVectors:
        place: dict[str, int] = {}
        rows = np.fromiter((place.setdefault(for_model(text), len(place)) for text in texts), dtype=np.int64)
        distinct = list(place)
        kept: list[Any] = [None] * len(distinct)
        for block in batches(len(distinct), TEXTS_A_BLOCK):
            ids = [encoding.ids for encoding in self._encoder._tokenizer.encode_batch_fast(distinct[block])]
            groups = length_batches([len(tokens) for tokens in ids], budget)
            states = each_on_one_thread(model.states, ([ids[i] for i in group] for group in groups))
            for group, state in zip(groups, states, strict=True):
                vectors = state.float()
                vectors = (vectors / vectors.norm(dim=1, keepdim=True)).numpy()
                start = 0
                for i in group:
                    tokens = np.array(ids[i], dtype=np.int32)
                    mine = vectors[start : start + len(tokens)]
                    start += len(tokens)
                    keep = ~np.isin(tokens, self._skipped)
                    kept[block.start + i] = on_grid(mine[keep], grid).astype(dtype), tokens[keep]
        whole = [kept[row] for row in rows]
        return TokenVectors(
            np.concatenate([np.empty((0, self.dimension), dtype=dtype), *(vectors for vectors, _ in whole)]),
            np.array([len(tokens) for _, tokens in whole], dtype=np.int32),
            np.concatenate([np.empty(0, dtype=np.int32), *(tokens for _, tokens in whole)]),
            self.name,
            self.version,
            weighted,
        )
