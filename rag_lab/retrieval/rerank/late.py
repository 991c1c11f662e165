"""Late interaction as a reranker: MaxSim over the snapshot's token vectors (Khattab and Zaharia, SIGIR 2020).

Nothing is encoded but the questions, so hundreds of passages are scored in the time that a cross-encoder takes for one.
"""

from __future__ import annotations

import time

import numpy as np

from rag_lab.contracts import FloatArray, RagLabError
from rag_lab.retrieval.late import LateIndex, TokenVectors
from rag_lab.retrieval.rerank.reranker import Pairs, Scored


class LateReranker:
    """A `Reranker` on an index of token vectors. queries, ms: the token vectors of the questions, in the order in which
    they come in pairs, and the time that each took to encode, ``[n]``."""

    def __init__(self, index: LateIndex, queries: TokenVectors, ms: FloatArray) -> None:
        self.name = f"late {index.card.encoder}"
        self.version = index.card.version
        self._index, self._queries, self._ms = index, queries, ms

    def score(self, pairs: Pairs) -> Scored:
        """The score that a search of the index gives each pair."""
        if len(self._queries) != pairs.size:
            raise RagLabError(
                f"{self.name}: {len(self._queries)} encoded questions for {pairs.size}; encode all of them"
            )
        started = time.perf_counter()
        score = self._index.score(self._queries, pairs.query, pairs.rows)
        ms = pairs.shares((time.perf_counter() - started) * 1000)
        return Scored(score, np.ones(len(pairs), dtype=bool), ms + np.where(pairs.counts > 0, self._ms, 0.0))
