"""Does the variant abstain where it should, and only there? Over questions that are known to be answerable or not.

Recall is the share of the unanswerable questions that were declined; precision is the share of the declined questions
that were unanswerable. Both are ratios over the corpus. A failure is neither an answer nor an abstention.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_lab.contracts import BoolArray, Outcome, Question
from rag_lab.metrics.scores import Family, Metric, Observation, Scores, in_state, named

_PRECISION = Metric(
    "AbstentionPrecision",
    ("unanswerable", "generation"),
    "Share of the abstentions, on questions of known answerability, that are on unanswerable questions.",
)
_RECALL = Metric(
    "AbstentionRecall", ("unanswerable", "generation"), "Share of the unanswerable questions that end in an abstention."
)


def abstention_scores(questions: Sequence[Question], outcomes: Sequence[Outcome | None]) -> dict[str, Scores]:
    """Precision and recall of abstaining, with numerator and denominator of every question."""
    known, unanswerable = _answerability(questions)
    abstained, failed = in_state(outcomes, "abstained"), in_state(outcomes, "failed")
    right = (abstained & unanswerable).astype(np.float64)
    declined = (abstained & known).astype(np.float64)
    notes = () if declined.any() else ("no abstention: precision is undefined and shown as 0",)
    return {
        _PRECISION.name: Scores(_PRECISION.name, right, declined, known, failed & known, notes),
        _RECALL.name: Scores.mean(_RECALL.name, right, unanswerable, failed),
    }


def _answerability(questions: Sequence[Question]) -> tuple[BoolArray, BoolArray]:
    given = [question.answerable for question in questions]
    known = np.fromiter((answerable is not None for answerable in given), dtype=bool, count=len(given))
    return known, np.fromiter((answerable is False for answerable in given), dtype=bool, count=len(given))


def _compute(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    scores = abstention_scores(seen.questions, seen.outcomes or ())
    return {name: scores[name] for name in names}


FAMILY = Family(named(_PRECISION, _RECALL), _compute)
