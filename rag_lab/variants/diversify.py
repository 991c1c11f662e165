"""The stage that keeps passages which say the same from filling the first ranks."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
from pydantic import Field

from rag_lab.retrieval.mmr import marginal_relevance
from rag_lab.retrieval.rerank import reranked
from rag_lab.variants.fuse import hand_on, shares
from rag_lab.variants.stage import LARGEST, Output, Plan, Stage, State, Step, register


@register
class MaximalMarginalRelevance(Stage):
    """Choose anew among the first `depth` candidates of each question by maximal marginal relevance.

    `diversity` is 1 - l for the l of Carbonell and Goldstein (`rag_lab.retrieval.mmr`): with 0 the order stays as it
    was, and the nearer it is to 1, the less counts but unlikeness to what ranks above. At 1 nothing would say what
    ranks first. What ranks below `depth` follows as it was.
    """

    name: ClassVar[str] = "mmr"
    step: ClassVar[Step] = Step.RANK
    reads_ranking: ClassVar[bool] = True
    diversity: float = Field(0.3, ge=0, lt=1)
    depth: int = Field(50, ge=1, le=LARGEST, description="candidates a question")

    def needs(self) -> frozenset[str]:
        """Vectors of the passages."""
        return frozenset({"faiss:Flat"})

    def inputs(self, state: State) -> list[str]:
        """The ranking."""
        return [state.keys["ranking"]]

    def plan(self, state: State) -> Plan:  # noqa: ARG002 - one interface
        """Nothing that is capped is spent."""
        return {}

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """All questions of the batch together."""
        ranking, vectors = state.ranking, state.batch.snapshot.vectors
        assert ranking is not None
        started = time.perf_counter()
        score = np.full(len(ranking.chunk), np.nan)
        score[ranking.rank <= self.depth] = marginal_relevance(ranking.top(self.depth), vectors, self.diversity)
        return Output(reranked(ranking, score, self.name), shares(started, ranking.size))

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:  # noqa: ARG002 - one interface
        """The new order replaces the ranking for later stages."""
        hand_on(state, output, key)
