"""Stages that make one ranking out of several channels."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.retrieval.fusion import reciprocal_rank_fusion
from rag_lab.variants.stage import Output, Plan, Stage, State, Step, register


@register
class ReciprocalRankFusion(Stage):
    """Fuse all channels so far by reciprocal rank; `weights` names channels and defaults to 1 each."""

    name: ClassVar[str] = "rrf"
    step: ClassVar[Step] = Step.RANK
    k: int = Field(60, ge=0)
    weights: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    reads_ranking: ClassVar[bool] = True
    fuses: ClassVar[bool] = True

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """Weights name channels, and not all are 0."""
        check_weights(f"{place}.{self.name}.weights", self.weights, before)

    def inputs(self, state: State) -> list[str]:
        """The channels."""
        return [f"{channel}={state.keys[channel]}" for channel in state.channels]

    def plan(self, state: State) -> Plan:  # noqa: ARG002 - one interface
        """Fusing spends nothing that is capped."""
        return {}

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """One array operation over the batch."""
        started = time.perf_counter()
        weights = [self.weights.get(name, 1.0) for name in state.channels]
        fused = reciprocal_rank_fusion(list(state.channels.values()), self.k, weights)
        return Output(fused, np.full(fused.size, (time.perf_counter() - started) * 1000 / max(1, fused.size)))

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:  # noqa: ARG002 - one interface
        """The fused ranking replaces the channels for later stages."""
        assert isinstance(output.payload, Ranking)
        state.fused = output.payload
        state.keys["ranking"] = key


def check_weights(place: str, weights: Mapping[str, float], before: Sequence[Stage]) -> None:
    """Refuse weights of channels that there are not, and those that leave nothing."""
    channels = [stage.name for stage in before if stage.step is Step.RETRIEVE]
    if unknown := [name for name in weights if name not in channels]:
        raise RagLabError(f"{place}: no channel named '{unknown[0]}'; channels are {', '.join(channels)}")
    if not any(weights.get(name, 1.0) for name in channels):
        raise RagLabError(f"{place}: every channel weighs 0; give one of them more")
