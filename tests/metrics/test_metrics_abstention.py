"""Abstention precision and recall as ratios over the corpus."""

from __future__ import annotations

import pytest

from rag_lab.contracts import Abstention, Answer, Failure, Outcome, Question, Reason
from rag_lab.metrics import Observation, evaluate
from rag_lab.metrics.scores import state_of

ABSTAINED = Abstention("q", Reason.INSUFFICIENT)
ANSWERED = Answer("q", "x", ())
FAILED = Failure("q", "generate", "boom")


def questions(*answerable: bool | None) -> list[Question]:
    return [Question(f"q{i}", "?", answerable=known) for i, known in enumerate(answerable)]


def test_precision_and_recall_by_hand() -> None:
    """Four unanswerable: 2 declined, 1 answered, 1 failed. Two answerable: 1 declined. One unknown, declined."""
    asked = questions(False, False, False, False, True, True, None)
    outcomes: list[Outcome | None] = [ABSTAINED, ABSTAINED, ANSWERED, FAILED, ABSTAINED, ANSWERED, ABSTAINED]
    found = evaluate(["AbstentionPrecision", "AbstentionRecall"], Observation(asked, outcomes=outcomes))
    assert found["AbstentionPrecision"].value == pytest.approx(2 / 3)
    assert found["AbstentionPrecision"].counted.tolist() == [True, True, False, False, True, False, False]
    assert found["AbstentionRecall"].value == 2 / 4
    assert found["AbstentionRecall"].missing.sum() == found["AbstentionPrecision"].missing.sum() == 1


def test_no_abstention_is_zero_and_noted() -> None:
    found = evaluate(["AbstentionPrecision"], Observation(questions(False), outcomes=[ANSWERED]))["AbstentionPrecision"]
    assert found.value == 0
    assert found.notes == ("no abstention: precision is undefined and shown as 0",)


@pytest.mark.parametrize(
    "outcome, state",
    [
        (ANSWERED, "answered"),
        (ABSTAINED, "abstained"),
        (FAILED, "failed"),
        (None, "failed"),
        (Answer("q", "  \n", ()), "failed"),
    ],
)
def test_states(outcome: Outcome | None, state: str) -> None:
    """S18: an empty answer is neither an answer nor an abstention."""
    assert state_of(outcome) == state
