"""The vectors of a study: of the dataset's passages and questions, and collections made from the passages."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rag_lab.ann.enlarging import RECIPE, enlarge
from rag_lab.ann.resident import available_bytes
from rag_lab.contracts import RagLabError
from rag_lab.definition import MAIN
from rag_lab.preparation import Preparation
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.store import digest
from rag_lab.variants.query_vectors import query_vectors

# What a study holds at once, in vectors of its largest size: the vectors, an index with a copy of them (HNSW), and that
# index once more in the process that weighs it.
COPIES = 3.5
_STREAM = 4


class Collection(NamedTuple):
    """`size` vectors, the first of those that the first `parents` real ones give."""

    size: int
    parents: int


class Vectors:
    """Vectors in an order drawn by `seed`, those of denied documents left out; each is encoded once and kept."""

    def __init__(self, work: Preparation, seed: int) -> None:
        self.work, self.seed = work, seed
        self.snapshot, self.encoder = work.snapshots[MAIN], work.encoders[MAIN]
        self.query_ids = [question.query_id for question in work.dataset.questions]
        self._enlarged = np.empty((0, self.encoder.dimension), dtype=np.float32)

    @cached_property
    def real(self) -> npt.NDArray[np.float32]:
        """The vectors of the passages, ``[n, dimension]``."""
        denied = self.work.denied()
        documents = self.snapshot.chunks.document_id
        rows = np.array([row for row, name in enumerate(documents) if name not in denied], dtype=np.intp)
        order = np.random.default_rng([self.seed, _STREAM]).permutation(len(rows))
        return np.ascontiguousarray(self.snapshot.vectors[rows[order]], dtype=np.float32)

    @cached_property
    def queries(self) -> Embeddings:
        """The vectors of the questions."""
        texts = [question.text for question in self.work.dataset.questions]
        return query_vectors(self.work.store, self.encoder, texts).vectors

    @cached_property
    def key(self) -> str:
        """All that decides the vectors."""
        texts = [question.text for question in self.work.dataset.questions]
        return digest(self.snapshot.id, sorted(self.work.denied()), self.encoder.version, texts, RECIPE, self.seed)

    def of(self, collection: Collection, largest: int) -> Embeddings:
        """The vectors of a collection; those up to `largest` are made once for all that have the same parents."""
        if collection.parents < len(self.real):
            vectors = enlarge(self.real[: collection.parents], collection.size, self.seed)
        else:
            if collection.size > len(self._enlarged):
                self._enlarged = enlarge(self.real, max(collection.size, largest), self.seed)
            vectors = self._enlarged[: collection.size]
        return Embeddings(vectors, self.encoder.name, self.encoder.version)

    def check_memory(self, size: int) -> None:
        """Refuse a size that the memory does not hold, before anything is made of it."""
        row, available = 4 * self.encoder.dimension, available_bytes()
        if COPIES * size * row > available:
            raise RagLabError(
                f"sizes: {size:,} vectors and an index of them take about {COPIES * size * row / 1e9:.1f} GB, and "
                f"{available / 1e9:.1f} GB of memory are free; take at most {int(available / COPIES / row):,}"
            )
