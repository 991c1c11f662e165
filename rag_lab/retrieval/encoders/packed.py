"""BERT without padding.

A batch is one matrix of tokens, the texts lying one after another, longest first. Matrix products run over all tokens
at once; attention runs within each text, for texts of equal length together. No work is spent on padding, no mask can
be forgotten, and a text meets nothing of its neighbours. Products go through oneDNN with weights packed once and the
activation function fused in: in float32 that is twice as fast as MKL on processors for which MKL takes no AVX-512 path.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.retrieval.encoders.texts import VectorArray

if TYPE_CHECKING:
    import torch

# Attention scores held at once: two texts of 256 tokens and 12 heads. More falls out of the cache and is slower.
SCORES_AT_ONCE = 2 * 12 * 256 * 256


@cache
def _onednn() -> tuple[Any, Any] | None:
    """torch's oneDNN product with a fused activation, and the function that packs its weights; None where they fail.

    Both are internal to torch, so they are tried once against the public function before anything relies on them.
    """
    import torch
    from torch.nn import functional

    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return None
    x, weight, bias = (torch.linspace(-1, 1, n).view(shape) for n, shape in ((32, (2, 16)), (128, (8, 16)), (8, (8,))))
    try:
        product, pack = torch.ops.mkldnn._linear_pointwise, torch.ops.mkldnn._reorder_linear_weight
        with torch.inference_mode():
            result = product(x, pack(weight, None), bias, "gelu", [], "none")
    except (AttributeError, TypeError, RuntimeError):
        return None
    expected = functional.gelu(functional.linear(x, weight, bias))
    return (product, pack) if torch.allclose(result, expected, atol=1e-4) else None


class Linear:
    """``x @ weight.T + bias``, through oneDNN where torch has it."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor, dtype: torch.dtype) -> None:
        self.weight = weight.to(dtype).contiguous()
        self.bias = bias.to(dtype).contiguous()
        self._product: Any = None
        if fused := _onednn():
            self._product, pack = fused
            self.weight = pack(self.weight, None)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """``[tokens, inputs] -> [tokens, outputs]``."""
        from torch.nn import functional

        if self._product:
            return self._product(x, self.weight, self.bias, "none", [], "")  # type: ignore[no-any-return]
        return functional.linear(x, self.weight, self.bias)

    def gelu(self, x: torch.Tensor) -> torch.Tensor:
        """The same, then the exact (erf) GELU."""
        from torch.nn import functional

        if self._product:
            return self._product(x, self.weight, self.bias, "gelu", [], "none")  # type: ignore[no-any-return]
        return functional.gelu(self(x))


@dataclass(frozen=True, slots=True)
class BertSize:
    """The shape of a BERT encoder; `eps` is that of its normalisation."""

    hidden: int
    heads: int
    layers: int
    eps: float


class PackedBert:
    """A BERT encoder. `weights` have the names of transformers' `BertModel`."""

    def __init__(self, size: BertSize, weights: Mapping[str, torch.Tensor], dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.hidden, self.heads, self.eps = size.hidden, size.heads, size.eps
        self.words = weights["embeddings.word_embeddings.weight"]
        positions = weights["embeddings.position_embeddings.weight"]
        self.positions = positions + weights["embeddings.token_type_embeddings.weight"][0]
        self.norm = _norm(weights, "embeddings.LayerNorm", positions.dtype)
        self.layers = [_Layer(weights, f"encoder.layer.{i}.", self.heads, dtype) for i in range(size.layers)]

    @classmethod
    def read(cls, folder: Path, dtype: torch.dtype) -> PackedBert:
        """The model in a folder with ``config.json`` and ``model.safetensors``."""
        from safetensors.torch import load_file

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        size = BertSize(
            config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"], config["layer_norm_eps"]
        )
        return cls(size, load_file(folder / "model.safetensors"), dtype)

    def means(self, texts: Sequence[Sequence[int]]) -> VectorArray:
        """Mean token vector of each text, as long as it comes out: ``[n, hidden]``.

        `texts` holds token ids with special tokens. Neighbours of equal length are computed together: sort by length.
        """
        return self.pooled(self.states(texts), texts)

    def states(self, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """The last layer's vector of each token of `texts`, in the precision of the model: ``[tokens, hidden]``."""
        import torch

        with torch.inference_mode():
            return self._tokens(texts, _groups(texts))

    def pooled(self, states: torch.Tensor, texts: Sequence[Sequence[int]]) -> VectorArray:
        """What `means` makes of the `states` of `texts`, for a caller who needs those as well."""
        import torch

        with torch.inference_mode():
            parts = _parts(states, _groups(texts))
            means = [part.view(n, length, self.hidden).float().mean(1) for part, (length, n) in parts]
            vectors: VectorArray = torch.cat(means).numpy()
            return vectors

    def _tokens(self, texts: Sequence[Sequence[int]], groups: list[tuple[int, int]]) -> torch.Tensor:
        """Last layer's token vectors, ``[tokens, hidden]``."""
        import torch
        from torch.nn import functional

        flat = torch.tensor([token for ids in texts for token in ids])
        positions = torch.cat([torch.arange(len(ids)) for ids in texts])
        summed = functional.embedding(flat, self.words) + functional.embedding(positions, self.positions)
        x = functional.layer_norm(summed, (self.hidden,), *self.norm, self.eps).to(self.dtype)
        for layer in self.layers:
            mixed = layer.output(self._attend(layer.query_key_value(x), groups)).add_(x)
            x = functional.layer_norm(mixed, (self.hidden,), *layer.output_norm, self.eps)
            grown = layer.shrink(layer.grow.gelu(x)).add_(x)
            x = functional.layer_norm(grown, (self.hidden,), *layer.shrink_norm, self.eps)
        return x

    def _attend(self, projected: torch.Tensor, groups: list[tuple[int, int]]) -> torch.Tensor:
        """Attention within each text: ``[tokens, 3 * hidden] -> [tokens, hidden]``."""
        import torch

        width = self.hidden // self.heads
        longest = max(length for length, _ in groups)
        # One buffer for all groups: a fresh one for each would be paged in by the kernel every time.
        room = torch.empty(max(SCORES_AT_ONCE, self.heads * longest * longest), dtype=self.dtype)
        mixed = torch.empty((len(projected), self.hidden), dtype=self.dtype)
        start = 0
        for length, size in groups:
            at_once = max(1, SCORES_AT_ONCE // (self.heads * length * length))
            for first in range(0, size, at_once):
                n = min(at_once, size - first)
                end = start + n * length
                split = projected[start:end].view(n, length, 3, self.heads, width).permute(2, 0, 3, 1, 4)
                query, key, value = split.reshape(3, n * self.heads, length, width)
                scores = room[: n * self.heads * length * length].view(n * self.heads, length, length)
                torch.bmm(query, key.transpose(1, 2), out=scores)
                torch.softmax(scores, -1, out=scores)
                heads = torch.bmm(scores, value).view(n, self.heads, length, width)
                mixed[start:end].view(n, length, self.heads, width).copy_(heads.transpose(1, 2))
                start = end
        return mixed


def unit(vectors: VectorArray) -> VectorArray:
    """Each row scaled to length 1."""
    import torch
    from torch.nn import functional

    scaled: VectorArray = functional.normalize(torch.from_numpy(vectors), dim=1).numpy()
    return scaled


class _Layer:
    """The weights of one transformer layer; the 1/sqrt(width) of attention is part of the query projection."""

    def __init__(self, weights: Mapping[str, torch.Tensor], prefix: str, heads: int, dtype: torch.dtype) -> None:
        import torch

        def read(name: str) -> tuple[torch.Tensor, torch.Tensor]:
            return weights[f"{prefix}{name}.weight"], weights[f"{prefix}{name}.bias"]

        query, key, value = (read(f"attention.self.{name}") for name in ("query", "key", "value"))
        scale = 1 / math.sqrt(query[0].shape[0] // heads)
        weight = torch.cat([query[0] * scale, key[0], value[0]])
        bias = torch.cat([query[1] * scale, key[1], value[1]])
        self.query_key_value = Linear(weight, bias, dtype)
        self.output = Linear(*read("attention.output.dense"), dtype)
        self.grow = Linear(*read("intermediate.dense"), dtype)
        self.shrink = Linear(*read("output.dense"), dtype)
        self.output_norm = _norm(weights, f"{prefix}attention.output.LayerNorm", dtype)
        self.shrink_norm = _norm(weights, f"{prefix}output.LayerNorm", dtype)


def _groups(texts: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Length and number of neighbours of equal length."""
    return [(length, len(list(same))) for length, same in groupby(len(ids) for ids in texts)]


def _norm(weights: Mapping[str, torch.Tensor], name: str, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    return weights[f"{name}.weight"].to(dtype), weights[f"{name}.bias"].to(dtype)


def _parts(tokens: torch.Tensor, groups: list[tuple[int, int]]) -> list[tuple[torch.Tensor, tuple[int, int]]]:
    """The rows of each group of equally long texts."""
    import torch

    sizes = [length * n for length, n in groups]
    return list(zip(torch.split(tokens, sizes), groups, strict=True))
