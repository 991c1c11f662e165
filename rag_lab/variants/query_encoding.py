"""Vectors of the texts that a batch is searched by.

A text of kind `HYPOTHETICAL` reads like a passage that answers the question, and is encoded as one (HyDE: Gao et al.,
*Precise Zero-Shot Dense Retrieval without Relevance Labels*, 2022). There the vector that searches is the mean of those
of the hypothetical passage and of the question; here it is brought back to unit length, which changes no order.
"""

from __future__ import annotations

import numpy as np

from rag_lab.contracts import Queries
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.variants.query_vectors import QueryVectors, passage_vectors
from rag_lab.variants.stage import Batch

HYPOTHETICAL = "hyde"


def encoded(batch: Batch, queries: Queries) -> QueryVectors:
    """A unit vector for each text, ``[m, dimension]``, and its share of the time."""
    supposed = np.array([kind == HYPOTHETICAL for kind in queries.kinds], dtype=bool)
    if not supposed.any():
        return batch.query_vectors(queries.texts)
    places = np.flatnonzero(supposed).tolist()
    beside = [queries.averaged[i] if queries.averaged else "" for i in places]
    # One batch of everything that is encoded as a query: the other texts, then those to be averaged with.
    asked = [text for text, of_passage in zip(queries.texts, supposed, strict=True) if not of_passage]
    as_queries = batch.query_vectors([*asked, *filter(None, beside)])
    as_passages = passage_vectors(batch.store, batch.encoder(), [queries.texts[i] for i in places])
    vectors = np.empty((len(supposed), as_passages.vectors.dimension), dtype=np.float32)
    ms = np.empty(len(supposed))
    vectors[~supposed], ms[~supposed] = as_queries.vectors.vectors[: len(asked)], as_queries.ms[: len(asked)]
    vectors[supposed], ms[supposed] = as_passages.vectors.vectors, as_passages.ms
    mixed = [i for i, text in zip(places, beside, strict=True) if text]
    vectors[mixed] += as_queries.vectors.vectors[len(asked) :]
    vectors[mixed] /= np.linalg.norm(vectors[mixed], axis=1, keepdims=True)
    ms[mixed] += as_queries.ms[len(asked) :]
    made_by = as_passages.vectors
    found = Embeddings(vectors, made_by.encoder, made_by.version)
    return QueryVectors(found, ms, as_queries.cached and as_passages.cached)
