"""Stages that learn a setting from judged questions before a variant runs; which questions is not theirs to say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_lab.datasets import Dataset
from rag_lab.variants.stage import Stage, State

TRAINING = "train"
"""The split that is learned on where a stage names none."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training questions with their judgments, and what the stages before the one that learns made of them."""

    dataset: Dataset
    state: State


@dataclass(frozen=True, eq=False)
class Learned:
    """The stage with what it learned in place, and the facts of it for provenance: plain values by name."""

    stage: Stage
    facts: Mapping[str, Any]


class Learner(ABC):
    """What a stage is that can learn."""

    @property
    @abstractmethod
    def training_split(self) -> str | None:
        """The split whose questions are to be learned from, None where nothing is left to learn."""

    @abstractmethod
    def learn(self, lesson: Lesson) -> Learned:
        """Learn. Raises RagLabError, without a place, where the lesson teaches nothing."""
