"""Drawing questions by seed: the same ones in every process and whatever order they were read in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rag_lab.contracts import Question


def draw(questions: Mapping[str, Question], size: int | None, seed: int) -> dict[str, Question]:
    """`size` questions drawn without replacement, by id; all of them when `size` is None or there are no more."""
    ids = sorted(questions)
    if size is not None and size < len(ids):
        ids = sorted(ids[i] for i in np.random.default_rng(seed).choice(len(ids), size=size, replace=False))
    return {query_id: questions[query_id] for query_id in ids}


def hold_out(
    questions: Mapping[str, Question], size: int, seed: int
) -> tuple[dict[str, Question], dict[str, Question]]:
    """Questions to score, and `size` others (at most half) to calibrate on: the same ones whatever is drawn later."""
    held = draw(questions, min(size, len(questions) // 2), seed + 1) if size > 0 else {}
    return {query_id: question for query_id, question in questions.items() if query_id not in held}, held
