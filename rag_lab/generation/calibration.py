"""The confidence from which a reader answers, chosen on questions that are then never scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, RagLabError

OBJECTIVE = "balanced accuracy of answering when right and abstaining when unanswerable"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Answer when the confidence is at least `value`.

    score: the objective at `value`; auc: probability that a right answer is more confident than an answer to an
    unanswerable question; right, unanswerable, neutral: how many questions of each kind it was chosen on.
    """

    value: float
    score: float
    auc: float
    right: int
    unanswerable: int
    neutral: int
    objective: str = OBJECTIVE


def calibrate(confidences: npt.ArrayLike, right: npt.ArrayLike, answerable: npt.ArrayLike) -> Threshold:
    """The threshold that maximises (share of right answers given + share of unanswerable questions declined) / 2.

    Answerable questions that were answered wrongly are neutral: neither answering nor abstaining earns anything.
    Candidates lie midway between neighbouring confidences, below all and above all; the lowest of the best wins.

    Args:
        confidences: of the reader without a threshold, ``[n]``, in [0, 1].
        right: whether its answer was right, ``[n]``; ignored where not answerable.
        answerable: ``[n]``.
    """
    confidence = np.asarray(confidences, dtype=np.float64)
    can_answer = np.asarray(answerable, dtype=bool)
    is_right = np.asarray(right, dtype=bool) & can_answer
    if not confidence.shape == can_answer.shape == is_right.shape or confidence.ndim != 1:
        raise RagLabError("calibration: confidences, right and answerable must be three lists of one length")
    if not np.isfinite(confidence).all():
        raise RagLabError("calibration: a confidence is NaN or infinite")
    keep, decline = confidence[is_right], confidence[~can_answer]
    if not len(keep) or not len(decline):
        missing = "question answered rightly" if not len(keep) else "unanswerable question"
        raise RagLabError(f"calibration: not one {missing} among the calibration questions; add some to their split")
    levels = np.unique(np.concatenate([keep, decline]))
    cuts = np.concatenate([[0.0], (levels[:-1] + levels[1:]) / 2, [np.nextafter(levels[-1], np.inf)]])
    given = _share_from(keep, cuts)
    declined = 1 - _share_from(decline, cuts)
    score = (given + declined) / 2
    best = int(np.argmax(score))
    neutral = len(confidence) - len(keep) - len(decline)
    return Threshold(float(cuts[best]), float(score[best]), _auc(keep, decline), len(keep), len(decline), neutral)


def _share_from(values: FloatArray, cuts: FloatArray) -> FloatArray:
    """Share of `values` that reach each cut."""
    ordered = np.sort(values)
    return 1 - np.searchsorted(ordered, cuts, side="left") / len(ordered)


def _auc(keep: FloatArray, decline: FloatArray) -> float:
    ordered = np.sort(decline)
    below = np.searchsorted(ordered, keep, side="left")
    upto = np.searchsorted(ordered, keep, side="right")
    return float((below + upto).mean() / 2 / len(ordered))
