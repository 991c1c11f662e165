"""Metrics by name: what each needs and means, and its scores for every question of a variant.

A new metric is one file with a `FAMILY` and one entry in `_FAMILIES`. Statistics over scores are in `stats` and
`summary`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rag_lab.contracts import RagLabError
from rag_lab.metrics import abstention, answers, ceiling, citations, context, ranking, spans
from rag_lab.metrics.scores import WHY_NOT, Family, Metric, Observation, Scores

__all__ = ["DEFAULT", "Metric", "Observation", "Scores", "evaluate", "metric", "not_measured"]

_FAMILIES: tuple[Family, ...] = (
    ranking.FAMILY,
    ceiling.FAMILY,
    spans.FAMILY,
    answers.FAMILY,
    context.FAMILY,
    citations.FAMILY,
    abstention.FAMILY,
)

DEFAULT = (
    "nDCG@10",
    "Recall@100",
    "RR",
    "AP",
    "P@5",
    "Hit@5",
    "EM",
    "F1",
    "Correct",
    "AssembledRecall",
    "GoldInContext",
    "RelevantTokens",
    "CitationPrecision",
    "CitationRecall",
    "AbstentionPrecision",
    "AbstentionRecall",
)


def metric(name: str) -> Metric:
    """The metric called `name`. Raises RagLabError for a name that no family knows."""
    return _find(name)[1]


def not_measured(names: Iterable[str], offered: Iterable[str]) -> dict[str, str]:
    """Metrics whose needs `offered` does not meet, with the reason."""
    given = frozenset(offered)
    lacking = {name: [need for need in metric(name).needs if need not in given] for name in names}
    return {name: WHY_NOT[needs[0]] for name, needs in lacking.items() if needs}


def evaluate(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    """Scores of every metric that can be measured, in the order of `names`; arrays follow ``seen.questions``."""
    refused = not_measured(names, seen.offers())
    grouped: dict[int, list[str]] = {}
    for name in names:
        if name not in refused:
            grouped.setdefault(_FAMILIES.index(_find(name)[0]), []).append(name)
    scores = {name: found for i, group in grouped.items() for name, found in _FAMILIES[i].compute(group, seen).items()}
    return {name: scores[name] for name in names if name in scores}


def _find(name: str) -> tuple[Family, Metric]:
    for family in _FAMILIES:
        found = family.find(name)
        if found is not None:
            return family, found
    raise RagLabError(
        f"unknown metric {name!r}; known are {', '.join(DEFAULT)}, and at any cutoff the ranking metrics, SpanNDCG, "
        "SpanRecall and RelevantText"
    )
