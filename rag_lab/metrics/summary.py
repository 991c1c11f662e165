"""Figures over questions: from `Scores` of many variants and metrics to values, intervals and tests.

Scores over the same questions share one set of resamples, so a whole table costs little more than one figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rag_lab.contracts import BoolArray, FloatArray, RagLabError
from rag_lab.metrics import stats
from rag_lab.metrics.scores import Scores


@dataclass(frozen=True, slots=True)
class Settings:
    """How intervals and tests are computed."""

    resamples: int = stats.RESAMPLES
    permutations: int = stats.RESAMPLES
    confidence: float = stats.CONFIDENCE
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """A figure with its interval. `n` questions are in the denominator; `missing` eligible ones had no result."""

    value: float
    low: float
    high: float
    n: int
    missing: int
    note: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A variant against the baseline, as `stats.Comparison` explains; `n` questions are paired."""

    delta: float
    low: float
    high: float
    p: float
    effect: float
    detectable: float
    n: int
    note: str


def summarise(
    scores: Sequence[Scores], query_ids: Sequence[str], rows: BoolArray | None = None, settings: Settings | None = None
) -> list[Summary]:
    """One summary per `Scores`, over all questions or those in `rows` ``[n]`` (a group)."""
    given = settings or Settings()
    inside = np.ones(len(query_ids), dtype=bool) if rows is None else rows
    summaries: dict[int, Summary] = {}
    for used, members in _by_questions(scores, inside):
        above, below = _columns([scores[i] for i in members], used)
        interval = stats.bootstrap_ratio(
            above,
            below,
            _ids(query_ids, used),
            resamples=given.resamples,
            confidence=given.confidence,
            seed=given.seed,
        )
        for column, i in enumerate(members):
            summaries[i] = Summary(
                float(interval.value[column]),
                float(interval.low[column]),
                float(interval.high[column]),
                len({query_ids[row] for row in np.flatnonzero(used & scores[i].counted).tolist()}),
                int((scores[i].missing & used).sum()),
                interval.notes[column],
            )
    return [summaries[i] for i in range(len(scores))]


def differences(
    baseline: Scores,
    variants: Sequence[Scores],
    query_ids: Sequence[str],
    rows: BoolArray | None = None,
    settings: Settings | None = None,
) -> list[Difference]:
    """Each variant against the baseline on one metric, over all questions or those in `rows` ``[n]``."""
    given = settings or Settings()
    for variant in variants:
        if variant.metric != baseline.metric or not np.array_equal(variant.eligible, baseline.eligible):
            raise RagLabError(f"comparison: {variant.metric} and {baseline.metric} are not over the same questions")
    used = baseline.eligible if rows is None else baseline.eligible & rows
    above, below = _columns([baseline, *variants], used)
    result = stats.compare_ratio(
        above[:, 0],
        below[:, 0],
        above[:, 1:],
        below[:, 1:],
        _ids(query_ids, used),
        resamples=given.resamples,
        permutations=given.permutations,
        confidence=given.confidence,
        seed=given.seed,
    )
    return [
        Difference(
            float(result.delta[j]),
            float(result.low[j]),
            float(result.high[j]),
            float(result.p[j]),
            float(result.effect[j]),
            float(result.detectable[j]),
            result.n,
            note,
        )
        for j, note in enumerate(result.notes)
    ]


def _by_questions(scores: Sequence[Scores], inside: BoolArray) -> Iterable[tuple[BoolArray, list[int]]]:
    """Positions of scores over the same questions, with those questions ``[n]``."""
    groups: dict[bytes, tuple[BoolArray, list[int]]] = {}
    for i, one in enumerate(scores):
        used = one.eligible & inside
        groups.setdefault(used.tobytes(), (used, []))[1].append(i)
    return groups.values()


def _columns(scores: Sequence[Scores], used: BoolArray) -> tuple[FloatArray, FloatArray]:
    above = np.column_stack([one.numerator[used] for one in scores])
    return above, np.column_stack([one.denominator[used] for one in scores])


def _ids(query_ids: Sequence[str], used: BoolArray) -> list[str]:
    return [query_ids[row] for row in np.flatnonzero(used).tolist()]
