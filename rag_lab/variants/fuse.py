"""Stages that make one ranking out of several channels."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator

from rag_lab.contracts import FloatArray, RagLabError, Ranking
from rag_lab.datasets import Dataset
from rag_lab.retrieval.fusion import (
    METRIC,
    Judgments,
    Normalisation,
    Pool,
    learn_weights,
    normalised_scores,
    reciprocal_rank_fusion,
    weighted_sum,
)
from rag_lab.variants.learning import TRAINING, Learned, Learner, Lesson
from rag_lab.variants.stage import Output, Plan, Stage, State, Step, register

LEARNED: Literal["learned"] = "learned"

Weights = dict[str, Annotated[float, Field(ge=0)]]


class Fusion(Stage):
    """A stage that fuses all channels so far. `weights` names channels; one that is not named weighs 1."""

    step: ClassVar[Step] = Step.RANK
    reads_ranking: ClassVar[bool] = True
    fuses: ClassVar[bool] = True
    weights: Weights | Literal["learned"] = Field(default_factory=dict)

    @abstractmethod
    def fuse(self, rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
        """One ranking from those of the channels, with a weight for each."""

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """Weights name channels, and not all are 0; nothing was ranked before, for that would be dropped."""
        ranked = [stage.name for stage in before if stage.step is Step.RANK]
        if ranked:
            raise RagLabError(
                f"{place}: '{self.name}' fuses the channels and would drop what '{ranked[0]}' did; put it first"
            )
        if not isinstance(self.weights, str):
            _check_weights(f"{place}.{self.name}.weights", self.weights, before)

    def inputs(self, state: State) -> list[str]:
        """The channels."""
        return [f"{channel}={state.keys[channel]}" for channel in state.channels]

    def plan(self, state: State) -> Plan:  # noqa: ARG002 - one interface
        """Fusing spends nothing that is capped."""
        return {}

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """One array operation over the batch."""
        if isinstance(self.weights, str):
            raise RagLabError(f"{self.name}.weights: are still to be learned; run the variant in an experiment")
        started = time.perf_counter()
        fused = self.fuse(list(state.channels.values()), [self.weights.get(name, 1.0) for name in state.channels])
        return Output(fused, shares(started, fused.size))

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:  # noqa: ARG002 - one interface
        """The fused ranking replaces the channels for later stages."""
        hand_on(state, output, key)


@register
class ReciprocalRankFusion(Fusion):
    """Fuse by reciprocal rank (`rag_lab.retrieval.fusion.reciprocal_rank`)."""

    name: ClassVar[str] = "rrf"
    k: int = Field(60, ge=0)
    weights: Weights = Field(default_factory=dict)

    def fuse(self, rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
        """Reciprocal rank fusion."""
        return reciprocal_rank_fusion(rankings, self.k, weights)


@register
class WeightedSum(Fusion, Learner):
    """Fuse by a weighted sum of scores that are normalised within each query (`rag_lab.retrieval.fusion.weighted_sum`).

    ``weights: learned`` are chosen on the dataset's training questions, those of the split `learned_on` ("train" where
    it says nothing), before the variant runs; see `rag_lab.training`.
    """

    name: ClassVar[str] = "weighted_sum"
    normalise: Normalisation = "minmax"
    learned_on: str | None = Field(None, min_length=1)

    @field_validator("weights", mode="before")
    @classmethod
    def _given_or_learned(cls, given: Any) -> Any:
        if given != LEARNED and not isinstance(given, Mapping):
            raise ValueError(f"must be '{LEARNED}', or a mapping of channels to weights")
        return given

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """A split to learn on goes with weights that are learned."""
        super().check(place, before)
        if self.learned_on is not None and self.weights != LEARNED:
            raise RagLabError(
                f"{place}.{self.name}.learned_on: the weights are given, so nothing is learned; write 'weights: "
                f"{LEARNED}', or remove it"
            )

    @property
    def training_split(self) -> str | None:
        """The split whose questions the weights are to be learned on, None for weights that are given."""
        return (self.learned_on or TRAINING) if self.weights == LEARNED else None

    def learn(self, lesson: Lesson) -> Learned:
        """The weights that serve the training questions best (`rag_lab.retrieval.fusion.learning`)."""
        rankings = list(lesson.state.channels.values())
        pool = Pool.of(self.name, rankings, [1.0] * len(rankings))
        documents = lesson.state.batch.snapshot.chunks.documents
        codes = {name: code for code, name in enumerate(documents)}
        lengths = [rows.stop - rows.start for rows in documents.values()]
        document = np.repeat(np.arange(len(codes), dtype=np.int32), lengths)[pool.chunk]
        kept = np.ones(len(document), dtype=bool)
        if lesson.dataset.remove_identical_ids:
            itself = np.array([codes.get(question.query_id, -1) for question in lesson.dataset.questions])
            kept = document != itself[pool.query]
        scores = normalised_scores(pool, self.normalise)[kept]
        found = learn_weights(scores, pool.query[kept], document[kept], _judgments(lesson.dataset, codes))
        weights = dict(zip(lesson.state.channels, found.weights, strict=True))
        facts = {
            "questions": found.questions,
            "metric": METRIC,
            "weights": weights,
            "score": found.score,
            "equal": found.equal,
        }
        return Learned(self.model_copy(update={"weights": weights}), facts)

    def fuse(self, rankings: Sequence[Ranking], weights: Sequence[float]) -> Ranking:
        """Weighted sum."""
        return weighted_sum(rankings, self.normalise, weights)


def _judgments(dataset: Dataset, codes: Mapping[str, int]) -> Judgments:
    """The relevant documents of a dataset's questions, by the `codes` of documents."""
    judged = [
        (number, codes.get(name, -1), grade)
        for number, question in enumerate(dataset.questions)
        for name, grade in dataset.qrels.get(question.query_id, {}).items()
        if grade > 0
    ]
    listed = np.array(judged, dtype=np.int64).reshape(-1, 3)
    return Judgments(listed[:, 0], listed[:, 1], listed[:, 2].astype(np.float64))


def _check_weights(place: str, weights: Mapping[str, float], before: Sequence[Stage]) -> None:
    """Refuse weights of channels that there are not, and those that leave nothing."""
    channels = [stage.name for stage in before if stage.step is Step.RETRIEVE]
    if unknown := [name for name in weights if name not in channels]:
        raise RagLabError(f"{place}: no channel named '{unknown[0]}'; channels are {', '.join(channels)}")
    if not any(weights.get(name, 1.0) for name in channels):
        raise RagLabError(f"{place}: every channel weighs 0; give one of them more")


def hand_on(state: State, output: Output, key: str) -> None:
    """Make the output the ranking of later stages."""
    assert isinstance(output.payload, Ranking)
    state.fused = output.payload
    state.keys["ranking"] = key


def shares(started: float, size: int) -> FloatArray:
    """Each question's share of the time since `started`, in ms, ``[size]``."""
    return np.full(size, (time.perf_counter() - started) * 1000 / max(1, size))
