"""What stages learn on a dataset's training questions, which are never scored, before a run begins."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rag_lab.budgets import Budget
from rag_lab.contracts import Question, RagLabError
from rag_lab.datasets import Dataset
from rag_lab.variants import Variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.learning import Learner, Lesson
from rag_lab.variants.stage import Batch


def training_splits(variants: Mapping[str, Variant]) -> dict[str, str]:
    """The splits that stages learn on, each with the first place that names it, ``variants.fusion.weighted_sum``."""
    found: dict[str, str] = {}
    for name, variant in variants.items():
        for stage in variant.stages:
            if isinstance(stage, Learner) and stage.training_split is not None:
                found.setdefault(stage.training_split, f"variants.{name}.{stage.name}")
    return found


def training_part(scored: Dataset, split: str, place: str, load: Callable[[str], Dataset]) -> Dataset:
    """The questions of a split, if none of them is scored. Raises RagLabError, in the name of `place`, where one is,
    by its id or by its text, and where the dataset has no such split."""
    if split == scored.split:
        raise RagLabError(f"{place}: split '{split}' is the one that is scored; learn on another, or set split")
    try:
        found = load(split)
    except RagLabError as error:
        raise RagLabError(
            f"{place}: cannot learn on split '{split}': {error}; name a split of training questions, or give the values"
        ) from error
    if not found.questions:
        raise RagLabError(f"{place}: split '{split}' of {found.name} has no questions to learn on")
    known = {question.query_id for question in scored.questions} | {_plain(question) for question in scored.questions}
    for question in found.questions:
        if question.query_id in known or _plain(question) in known:
            raise RagLabError(
                f"{place}: question '{question.query_id}' of split '{split}' is among the questions of split "
                f"'{scored.split}', which are scored; learn on a split that shares none"
            )
    return found


def _plain(question: Question) -> tuple[str, ...]:
    """A question's words without case, form or punctuation: what makes two questions the same."""
    folded = unicodedata.normalize("NFKC", question.text).casefold()
    return tuple("".join(c if c.isalnum() else " " for c in folded).split())


def learned(
    variant: Variant, training: Mapping[str, Dataset], batch_of: Callable[[Dataset], Batch], budget: Budget
) -> tuple[Variant, list[dict[str, Any]]]:
    """The variant with stages that have learned, and the facts of each lesson.

    The stages before one that learns run on the training questions, under the same budget and on the same snapshot as
    on the scored ones.
    """
    facts: list[dict[str, Any]] = []
    for number, stage in enumerate(variant.stages):
        if not isinstance(stage, Learner) or stage.training_split is None:
            continue
        place, dataset = f"variants.{variant.name}.{stage.name}", training[stage.training_split]
        before = replace(variant, stages=variant.stages[:number])
        state = run_variant(before, batch_of(dataset), budget, Memory())
        if state.failures:
            failure = next(iter(state.failures.values()))
            raise RagLabError(f"{place}: cannot learn, for its training questions failed: {failure.cause}")
        try:
            lesson = stage.learn(Lesson(dataset, state))
        except RagLabError as error:
            raise RagLabError(f"{place}: cannot learn on split '{stage.training_split}': {error}") from error
        variant = replace(variant, stages=(*variant.stages[:number], lesson.stage, *variant.stages[number + 1 :]))
        facts.append({"variant": variant.name, "stage": stage.name, "split": stage.training_split, **lesson.facts})
    return variant, facts
