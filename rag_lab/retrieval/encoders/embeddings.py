"""Vectors that travel with the name of the model that made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_lab.contracts import Encoder
from rag_lab.retrieval.encoders.texts import VectorArray


@dataclass(frozen=True, eq=False)
class Embeddings:
    """`vectors`: ``[n, dimension]`` in float32; `encoder` and `version`: who made them."""

    vectors: VectorArray
    encoder: str
    version: str

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return int(self.vectors.shape[1])

    def __len__(self) -> int:
        return len(self.vectors)


def embed_queries(encoder: Encoder, texts: Sequence[str]) -> Embeddings:
    """Encode `texts` as queries."""
    return Embeddings(encoder.encode_queries(texts), encoder.name, encoder.version)


def embed_passages(encoder: Encoder, texts: Sequence[str]) -> Embeddings:
    """Encode `texts` as passages."""
    return Embeddings(encoder.encode_passages(texts), encoder.name, encoder.version)
