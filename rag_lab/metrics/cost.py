"""What questions cost: time with its percentiles, tokens, calls and money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RESOURCES, FloatArray, RagLabError, Usage


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of a question, and seconds in all. Percentiles are times that were measured, never a mixture."""

    ms_mean: float
    ms_p50: float
    ms_p95: float
    ms_p99: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Spending:
    """One resource over all questions, in its own unit."""

    mean: float
    max: float
    total: float


def latency(ms: npt.ArrayLike, measured: npt.NDArray[Any] | Sequence[bool] | None = None) -> Latency:
    """Summary of times ``[n]``; `measured` leaves out those that were read from a cache. All zero when none is left.

    The q-th percentile is the smallest time that at least q % of the questions did not exceed (the inverse of the
    empirical distribution, nearest rank).
    """
    times = np.asarray(ms, dtype=np.float64)
    if measured is not None:
        times = times[np.asarray(measured, dtype=bool)]
    if not np.isfinite(times).all() or (times < 0).any():
        raise RagLabError("latency: a time is negative, NaN or infinite")
    if not len(times):
        return Latency(0.0, 0.0, 0.0, 0.0, 0.0)
    p50, p95, p99 = np.quantile(times, [0.5, 0.95, 0.99], method="inverted_cdf").tolist()
    return Latency(float(times.mean()), p50, p95, p99, float(times.sum()) / 1000)


def usage_table(usages: Sequence[Usage]) -> FloatArray:
    """One row per question and one column per resource, in the order of `RESOURCES`, ``[n, 8]``."""
    rows = [[getattr(usage, resource) for resource in RESOURCES] for usage in usages]
    return np.array(rows, dtype=np.float64).reshape(-1, len(RESOURCES))


def spending(usages: Sequence[Usage]) -> dict[str, Spending]:
    """Mean, maximum and total of every resource."""
    table = usage_table(usages)
    if not len(table):
        return {resource: Spending(0.0, 0.0, 0.0) for resource in RESOURCES}
    columns = zip(table.mean(axis=0).tolist(), table.max(axis=0).tolist(), table.sum(axis=0).tolist(), strict=True)
    return {resource: Spending(*column) for resource, column in zip(RESOURCES, columns, strict=True)}
