"""Searching for a batch by several queries a question and several channels, within what each question was granted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, FloatArray, Queries, Ranking
from rag_lab.retrieval.fusion import reciprocal_rank_fusion
from rag_lab.variants.retrieve import Channel
from rag_lab.variants.stage import Batch

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Findings:
    """What a round found: one ranking a query fused over the channels, those of the channels, and what it took.

    drawn, ms: candidates and time of each query, ``[queries]``.
    """

    ranking: Ranking
    by_channel: list[Ranking]
    drawn: Ints
    ms: FloatArray


def search(
    batch: Batch, channels: Sequence[Channel], queries: Queries, used: BoolArray, candidates: Ints, k: int
) -> Findings:
    """Draw up to `candidates` ``[queries]`` from the channels that are ``used [queries, channels]``, and fuse them.

    A query's channels share its candidates equally; what one does not find is left for those after it.
    """
    size = len(queries.of)
    left, waiting = candidates.copy(), used.sum(axis=1)
    drawn, ms = np.zeros(size, dtype=np.int64), np.zeros(size)
    rankings = []
    for number, channel in enumerate(channels):
        depth = np.where(used[:, number], left // np.maximum(waiting, 1), 0)
        waiting = waiting - used[:, number]
        asking = np.flatnonzero(depth > 0)
        ranking = Ranking.from_scores(channel.name, size, [], [], [])
        if len(asking):
            found = channel.search(batch, queries.where(depth > 0), depth[asking])
            query = asking[found.ranking.query].astype(np.int32)
            ranking = Ranking(channel.name, size, query, found.ranking.chunk, found.ranking.score)
            ms[asking] += found.ms
        count = np.bincount(ranking.query, minlength=size).astype(np.int64)
        drawn += count
        left -= count
        rankings.append(ranking)
    return Findings(reciprocal_rank_fusion(rankings, k), rankings, drawn, ms)
