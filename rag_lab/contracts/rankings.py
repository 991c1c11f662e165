"""Rankings: candidates of all queries at once, in arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts.arrays import FloatArray, IntArray
from rag_lab.contracts.documents import Chunk
from rag_lab.contracts.errors import RagLabError


@dataclass(frozen=True, slots=True)
class Candidate:
    """One retrieved chunk with every score it got on the way. `query`: the text that the channel found it by."""

    chunk: Chunk
    channel: str
    raw_rank: int
    raw_score: float
    fused_score: float | None
    rerank_score: float | None
    snapshot: str
    query: str = ""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranked chunks for a batch of queries.

    Arrays share one length; entries are grouped by query (ascending) and, within a query, ordered best first.

    query: position of the query in the batch; chunk: row in the snapshot; score: higher is better;
    ranks: for each contributing channel the rank (from 1) it gave the entry, 0 where it did not return it.
    found_by: the position among the channel's queries of the one that ranked the entry best; None where each question
    had one query, or none.
    """

    channel: str
    size: int
    query: IntArray
    chunk: IntArray
    score: FloatArray
    ranks: Mapping[str, IntArray] = field(default_factory=dict)
    found_by: IntArray | None = None

    @classmethod
    def from_scores(
        cls,
        channel: str,
        size: int,
        query: npt.ArrayLike,
        chunk: npt.ArrayLike,
        score: npt.ArrayLike,
        ranks: Mapping[str, IntArray] | None = None,
    ) -> Ranking:
        """Order entries by the one tie rule: score, best first, then row. A chunk listed twice keeps its best score."""
        q = np.asarray(query, dtype=np.int32)
        c = np.asarray(chunk, dtype=np.int32)
        s = np.asarray(score, dtype=np.float64)
        if not np.isfinite(s).all():
            raise RagLabError(f"{channel}: {int((~np.isfinite(s)).sum())} scores are NaN or infinite")
        order = np.lexsort((c, -s, q))
        q, c, s = q[order], c[order], s[order]
        key = q.astype(np.int64) << 32 | c
        first = np.zeros(len(key), dtype=bool)
        first[np.unique(key, return_index=True)[1]] = True
        kept = order[first]
        given = {name: array[kept] for name, array in (ranks or {}).items()}
        return cls(channel, size, q[first], c[first], s[first], given)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """``[size + 1]``: entries of query i lie in ``offsets[i]:offsets[i + 1]``."""
        return np.searchsorted(self.query, np.arange(self.size + 1))

    @property
    def rank(self) -> IntArray:
        """Rank of each entry within its query, from 1."""
        return (np.arange(len(self.query)) - self.offsets[self.query] + 1).astype(np.int32)

    def of(self, query: int) -> IntArray:
        """Rows of one query, best first."""
        start, end = np.searchsorted(self.query, [query, query + 1])
        return self.chunk[start:end]

    def top(self, depth: int | npt.NDArray[Any]) -> Ranking:
        """The first `depth` entries of each query; `depth` may differ by query (``[size]``)."""
        limit = np.broadcast_to(np.asarray(depth), (self.size,))
        keep = self.rank <= limit[self.query]
        return Ranking(
            self.channel,
            self.size,
            self.query[keep],
            self.chunk[keep],
            self.score[keep],
            {name: array[keep] for name, array in self.ranks.items()},
            None if self.found_by is None else self.found_by[keep],
        )
