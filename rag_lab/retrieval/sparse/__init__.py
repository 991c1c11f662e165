"""Learned sparse retrieval: a model weighs the words of its vocabulary for a text, and Lucene adds up products."""

from __future__ import annotations

from rag_lab.retrieval.sparse.index import CHANNEL, ImpactIndex
from rag_lab.retrieval.sparse.vectors import SparseEncoder, SparseVectors

__all__ = ["CHANNEL", "ImpactIndex", "SparseEncoder", "SparseVectors", "load_sparse_encoder"]


def load_sparse_encoder(name: str) -> SparseEncoder:
    """A SPLADE model by folder or hub name, such as ``naver/splade-cocondenser-ensembledistil``.

    Raises `RagLabError` when nothing of that name can be loaded, or it is no masked language model.
    """
    from rag_lab.retrieval.sparse.splade import SpladeEncoder

    return SpladeEncoder(name)
