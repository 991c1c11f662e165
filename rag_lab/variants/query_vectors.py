"""Vectors of questions, kept in the store: the same questions to the same encoder are encoded once.

What is kept is the batch, and not the question, because a model may give a text slightly other numbers in other
company, and figures must not depend on which questions were asked before.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rag_lab.contracts import Encoder, FloatArray
from rag_lab.retrieval.encoders import Embeddings, embed_passages, embed_queries
from rag_lab.retrieval.late.vectors import LateEncoder, TokenVectors
from rag_lab.retrieval.sparse.vectors import SparseEncoder, SparseVectors
from rag_lab.store import Store, digest


class QueryVectors(NamedTuple):
    """Vectors of a batch; ``ms [n]``: each question's share of the time when they were made; `cached`: read back."""

    vectors: Embeddings
    ms: FloatArray
    cached: bool = False


def query_vectors(store: Store, encoder: Encoder, queries: Sequence[str]) -> QueryVectors:
    """Encode questions, or read the vectors that this version of the encoder once gave the same batch."""
    return _vectors(store, encoder, queries, as_passages=False)


def passage_vectors(store: Store, encoder: Encoder, texts: Sequence[str]) -> QueryVectors:
    """The same for texts to search by that read like passages."""
    return _vectors(store, encoder, texts, as_passages=True)


def _vectors(store: Store, encoder: Encoder, texts: Sequence[str], as_passages: bool) -> QueryVectors:
    role = ["passages"] if as_passages else []
    key = digest(*role, encoder.name, encoder.version, encoder.dimension, list(texts))
    kept = store.read("queries", key, "vectors.npz")
    if kept is not None:
        with np.load(io.BytesIO(kept), allow_pickle=False) as arrays:
            found = Embeddings(arrays["vectors"], encoder.name, encoder.version)
            return QueryVectors(found, arrays["ms"], True)
    encoder.encode_queries(texts[:1])  # loading the model is not part of any question's time
    started = time.perf_counter()
    made = (embed_passages if as_passages else embed_queries)(encoder, texts)
    ms = np.full(len(texts), (time.perf_counter() - started) * 1000 / max(1, len(texts)))
    buffer = io.BytesIO()
    np.savez(buffer, vectors=made.vectors, ms=ms)
    store.write("queries", key, "vectors.npz", buffer.getvalue())
    return QueryVectors(made, ms)


class QueryTokenVectors(NamedTuple):
    """Token vectors of a batch; ``ms [n]``: each question's share of the time when they were made; `cached`: read."""

    vectors: TokenVectors
    ms: FloatArray
    cached: bool = False


def query_token_vectors(store: Store, encoder: LateEncoder, queries: Sequence[str]) -> QueryTokenVectors:
    """The same with a vector a token."""
    key = digest("tokens", encoder.name, encoder.version, encoder.dimension, list(queries))
    kept = store.read("queries", key, "tokens.npz")
    if kept is not None:
        with np.load(io.BytesIO(kept), allow_pickle=False) as arrays:
            about = (encoder.name, encoder.version)
            found = TokenVectors(arrays["vectors"], arrays["lengths"], arrays["tokens"], *about)
            return QueryTokenVectors(found, arrays["ms"], True)
    encoder.encode_queries(queries[:1])  # loading the model is not part of any question's time
    started = time.perf_counter()
    made = encoder.encode_queries(queries)
    ms = np.full(len(queries), (time.perf_counter() - started) * 1000 / max(1, len(queries)))
    buffer = io.BytesIO()
    np.savez(buffer, vectors=made.vectors, lengths=made.lengths, tokens=made.tokens, ms=ms)
    store.write("queries", key, "tokens.npz", buffer.getvalue())
    return QueryTokenVectors(made, ms)


class QuerySparseVectors(NamedTuple):
    """Weighted terms of a batch; ``ms [n]``: each question's share of the time when they were made; `cached`: read."""

    vectors: SparseVectors
    ms: FloatArray
    cached: bool = False


def query_sparse_vectors(store: Store, encoder: SparseEncoder, queries: Sequence[str]) -> QuerySparseVectors:
    """The same with weighted terms."""
    key = digest("terms", encoder.name, encoder.version, list(queries))
    kept = store.read("queries", key, "terms.npz")
    if kept is not None:
        with np.load(io.BytesIO(kept), allow_pickle=False) as arrays:
            parts = (arrays["lengths"], arrays["terms"], arrays["impacts"])
            return QuerySparseVectors(SparseVectors(*parts, encoder.name, encoder.version), arrays["ms"], True)
    encoder.encode_queries(queries[:1])  # loading the model is not part of any question's time
    started = time.perf_counter()
    made = encoder.encode_queries(queries)
    ms = np.full(len(queries), (time.perf_counter() - started) * 1000 / max(1, len(queries)))
    buffer = io.BytesIO()
    np.savez(buffer, lengths=made.lengths, terms=made.terms, impacts=made.impacts, ms=ms)
    store.write("queries", key, "terms.npz", buffer.getvalue())
    return QuerySparseVectors(made, ms)
