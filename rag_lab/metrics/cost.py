"""What questions cost in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RagLabError


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of a question, and seconds in all. Percentiles are times that were measured, never a mixture."""

    ms_mean: float
    ms_p50: float
    ms_p95: float
    ms_p99: float
    total_s: float


def latency(ms: npt.ArrayLike) -> Latency:
    """Summary of times in milliseconds, ``[n]``; all zero without questions.

    The q-th percentile is the smallest time that at least q % of the questions did not exceed (the inverse of the
    empirical distribution, nearest rank).
    """
    times = np.asarray(ms, dtype=np.float64)
    if not np.isfinite(times).all() or (times < 0).any():
        raise RagLabError("latency: a time is negative, NaN or infinite")
    if not len(times):
        return Latency(0.0, 0.0, 0.0, 0.0, 0.0)
    p50, p95, p99 = np.quantile(times, [0.5, 0.95, 0.99], method="inverted_cdf").tolist()
    return Latency(float(times.mean()), p50, p95, p99, float(times.sum()) / 1000)
