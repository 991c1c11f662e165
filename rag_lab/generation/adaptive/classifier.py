"""A small logistic regression that tells questions for which one search is enough from those that take several.

It maximises the likelihood less half the squared weights of standardised features (L2 with strength 1, the bias free)
by Newton's method; the weights are given back for features as they are, rounded, so that no library's last digits are
in them.
"""

from __future__ import annotations

import numpy as np

from rag_lab.contracts import BoolArray, FloatArray, RagLabError

FEWEST = 5
"""Questions of each kind that are needed at least."""
STEPS, CLOSE = 50, 1e-10


def fit(features: FloatArray, several: BoolArray) -> tuple[float, ...]:
    """Bias and weights from ``features [n, k]`` and whether each question took several searches ``[n]``.

    Raises RagLabError where there are too few of either kind.
    """
    few = min(int(several.sum()), int((~several).sum()))
    if few < FEWEST:
        raise RagLabError(
            f"one search was enough for {int((~several).sum())} questions and not for {int(several.sum())}; at least "
            f"{FEWEST} of each are needed"
        )
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    table = np.column_stack([np.ones(len(features)), (features - mean) / spread])
    penalty = np.diag([0.0, *np.ones(features.shape[1])])
    weights = np.zeros(table.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(table @ weights)))
        gradient = table.T @ (several - p) - penalty @ weights
        step = np.linalg.solve((table * (p * (1 - p))[:, None]).T @ table + penalty, gradient)
        weights = weights + step
        if np.abs(step).max() < CLOSE:
            break
    scaled = weights[1:] / spread
    return tuple(np.round([weights[0] - scaled @ mean, *scaled], 6).tolist())


def probability(features: FloatArray, weights: tuple[float, ...]) -> FloatArray:
    """How probable it is that each question takes several searches, ``[n]``."""
    return np.asarray(1 / (1 + np.exp(-(weights[0] + features @ np.array(weights[1:])))), dtype=np.float64)
