"""The threshold below which a reader abstains, chosen on what variants answered to calibration questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag_lab.contracts import Abstention, Answer, Question, RagLabError
from rag_lab.generation.calibration import Threshold, calibrate
from rag_lab.metrics.answers import contains
from rag_lab.variants.stage import State

FEW = 10
"""With fewer questions of a kind a threshold is not a good one."""


def choose_threshold(questions: Sequence[Question], states: Mapping[str, State]) -> tuple[Threshold | None, list[str]]:
    """The threshold that serves all variants, None where none can be chosen, and what a reader should know of it.

    states: what each variant did with `questions`, whose answers are known or known not to be there.
    """
    if not states:
        return None, ["abstention is not calibrated: no calibration questions with known answers"]
    confidences, right, answerable = [], [], []
    for state in states.values():
        for i, completion in enumerate(state.completions or ()):
            if i in state.failures or not isinstance(completion.outcome, Answer | Abstention):
                continue
            text = completion.outcome.text if isinstance(completion.outcome, Answer) else ""
            confidences.append(completion.outcome.confidence or 0.0)
            answerable.append(questions[i].answerable is not False)
            right.append(bool(questions[i].answers) and contains(text, questions[i].answers))
    try:
        chosen = calibrate(confidences, right, answerable)
    except RagLabError as error:
        return None, [f"abstention is not calibrated: {error}"]
    without = sum(question.answerable is False for question in questions)
    if min(without, len(questions) - without) >= FEW:
        return chosen, []
    return chosen, [
        f"the abstention threshold rests on {len(questions) - without} answerable and {without} unanswerable "
        "calibration questions: too few for a good one; raise generator.calibration"
    ]
