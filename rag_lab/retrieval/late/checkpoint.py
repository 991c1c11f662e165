"""A ColBERT checkpoint, loaded and run by colbert-ai: with its markers, its mask tokens and its list of what to skip.

Everything happens in this process, and each text goes through the model alone, so that its vectors do not depend on
those beside it. A query that is longer than the checkpoint's queries is not cut, up to what the model can read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, RagLabError
from rag_lab.retrieval.encoders.recipe import bytes_digest, state_bytes
from rag_lab.retrieval.encoders.sentence import quiet_loading
from rag_lab.retrieval.encoders.texts import distinct
from rag_lab.retrieval.encoders.workers import each_on_one_thread
from rag_lab.retrieval.late.colbert_ai import colbert_imported, without_extensions
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, QUERY_GRID, TokenVectors, on_grid

# What stands around a query: [CLS], the marker and [SEP].
AROUND = 3


class CheckpointEncoder:
    """`max_tokens` is the checkpoint's passage length, markers included; `languages` are not known."""

    languages: frozenset[str] = frozenset()

    def __init__(self, name: str) -> None:
        self.name = name
        with colbert_imported():
            self._checkpoint = _load(name)
        config = self._checkpoint.colbert_config
        self.dimension = int(config.dim)
        self.max_tokens = int(config.doc_maxlen)
        self._query_tokens = int(config.query_maxlen)
        self._window = int(self._checkpoint.bert.config.max_position_embeddings)
        settings = {key: getattr(config, key) for key in ("query_maxlen", "doc_maxlen", "mask_punctuation")}
        settings |= {key: getattr(config, key) for key in ("attend_to_mask_tokens", "query_token_id", "doc_token_id")}
        tokenizer = self._checkpoint.raw_tokenizer
        parts = [*state_bytes(self._checkpoint.model.state_dict()), tokenizer.backend_tokenizer.to_str().encode()]
        self.version = bytes_digest([*parts, json.dumps(settings, sort_keys=True).encode()]) + "+float32"

    def encode_queries(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float32; a blank text has none."""
        tokenizer = self._checkpoint.query_tokenizer

        def read(text: str) -> Any:
            length = len(self._checkpoint.raw_tokenizer(text, add_special_tokens=False)["input_ids"]) + AROUND
            tokenizer.query_maxlen = min(self._window, max(self._query_tokens, length))
            return tokenizer.tensorize([text])

        def run(ids: Any, mask: Any) -> tuple[Any, BoolArray]:
            vectors = self._checkpoint.query(ids, mask, to_cpu=True)[0].float().numpy()
            return vectors, np.ones(len(vectors), dtype=np.bool_)

        return self._encode(texts, read, run, QUERY_GRID, np.float32)

    def encode_passages(self, texts: Sequence[str]) -> TokenVectors:
        """Unit vectors in float16; a blank text has none."""

        def read(text: str) -> Any:
            return self._checkpoint.doc_tokenizer.tensorize([text])

        def run(ids: Any, mask: Any) -> tuple[Any, BoolArray]:
            vectors, kept = self._checkpoint.doc(ids, mask, keep_dims="return_mask", to_cpu=True)
            return vectors[0].float().numpy(), kept[0, :, 0].cpu().numpy()

        return self._encode(texts, read, run, PASSAGE_GRID, np.float16)

    def _encode(self, texts: Sequence[str], read: Any, run: Any, grid: int, dtype: npt.DTypeLike) -> TokenVectors:
        different, rows = distinct(texts)
        said = [i for i, text in enumerate(different) if text.strip()]
        vectors, tokens = [np.empty((0, self.dimension), dtype=dtype)], [np.empty(0, dtype=np.int32)]
        lengths = np.zeros(len(different), dtype=np.int32)
        with colbert_imported():
            inputs = [read(different[i]) for i in said]
            outputs = each_on_one_thread(lambda given: run(*given), inputs)
            for i, given, (found, kept) in zip(said, inputs, outputs, strict=True):
                vectors.append(on_grid(found[kept], grid).astype(dtype))
                tokens.append(given[0][0].cpu().numpy()[kept].astype(np.int32))
                lengths[i] = len(tokens[-1])
        whole = TokenVectors(np.concatenate(vectors), lengths, np.concatenate(tokens), self.name, self.version)
        if not np.isfinite(whole.vectors).all():
            raise RagLabError(f"late encoder {self.name}: token vectors hold NaN or infinity; its weights are damaged")
        return whole if len(different) == len(texts) else whole.take(rows)


def _load(name: str) -> Any:
    """colbert-ai's `Checkpoint`. Raises `RagLabError` for what is none, or cannot be loaded."""
    from colbert.infra.config import ColBERTConfig
    from colbert.modeling.checkpoint import Checkpoint

    try:
        with quiet_loading():
            if "linear.weight" not in _parameters(name):
                raise RagLabError(
                    f"late encoder {name!r} is no ColBERT checkpoint: it has no projection (linear.weight); name "
                    "minilm, multilingual-e5, or a checkpoint such as colbert-ir/colbertv2.0"
                )
            with without_extensions():
                return Checkpoint(name, ColBERTConfig(checkpoint=name), verbose=0)
    except (OSError, ValueError, KeyError, RuntimeError, AssertionError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RagLabError(
            f"late encoder {name!r} cannot be loaded ({why}); name minilm, multilingual-e5, the folder of a ColBERT "
            "checkpoint, or one on the hub that can be reached"
        ) from None


def _parameters(name: str) -> frozenset[str]:
    """The names of a model's weights, without loading them."""
    from safetensors import safe_open
    from transformers.utils.hub import cached_file

    def find(file: str) -> str | None:
        try:
            found: str | None = cached_file(name, file)
        except OSError:
            return None
        return found

    index = find("model.safetensors.index.json") or find("pytorch_model.bin.index.json")
    if index:
        return frozenset(json.loads(Path(index).read_text(encoding="utf-8"))["weight_map"])
    if path := find("model.safetensors"):
        with safe_open(path, framework="np") as weights:
            return frozenset(weights.keys())
    import torch

    return frozenset(torch.load(cached_file(name, "pytorch_model.bin"), map_location="meta", weights_only=True))
