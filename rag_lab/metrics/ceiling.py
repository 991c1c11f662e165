"""The most that a reranker could reach with the candidates that it was given.

A reranker adds nothing: the relevant documents that are not among its candidates are lost to it. The ceiling of nDCG
puts those candidates into the best order, by the judgments, and leaves beneath them what ranks lower, as it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rag_lab.metrics.ranking import score_rankings
from rag_lab.metrics.scores import Family, Metric, Observation, Scores

RECALL = "CandidateRecall"
_CEILING = re.compile(r"CeilingNDCG@([1-9]\d*)")
_NDCG = re.compile(r"nDCG@([1-9]\d*)")


def ceilings(names: Sequence[str]) -> tuple[str, ...]:
    """The metrics that stand beside these where a reranker was at work: a ceiling for each nDCG, and the recall."""
    return (*(found for name in names if (found := ceiling_name(name))), RECALL)


def ceiling_name(name: str) -> str | None:
    """The metric that is the ceiling of `name`, None where there is none."""
    found = _NDCG.fullmatch(name)
    return f"CeilingNDCG@{found[1]}" if found else None


def candidate_recall(seen: Observation) -> Scores:
    """Share of the relevant documents that the reranker was given, ``[n]``."""
    given = seen.reranked or {}
    cutoff = max(1, *map(len, given.values()), 1)
    name = f"Recall@{cutoff}"
    return replace(score_rankings([name], given, seen.qrels, seen.query_ids)[name], metric=RECALL)


def ceiling_ndcg(seen: Observation, cutoff: int) -> Scores:
    """nDCG of the candidates that the reranker was given in their best order, with the others beneath, ``[n]``."""
    best = {query: _perfect(seen, query, given) for query, given in (seen.reranked or {}).items()}
    name = f"nDCG@{cutoff}"
    return replace(score_rankings([name], best, seen.qrels, seen.query_ids)[name], metric=f"CeilingNDCG@{cutoff}")


def _perfect(seen: Observation, query: str, given: Sequence[str]) -> list[str]:
    grades = seen.qrels.get(query, {})
    held = set(given)
    beneath = [document for document in (seen.documents or {}).get(query, ()) if document not in held]
    return [*sorted(given, key=lambda document: -grades.get(document, 0)), *beneath]


def _find(name: str) -> Metric | None:
    if name == RECALL:
        return Metric(name, ("qrels", "reranked"), "Share of the relevant documents that the reranker was given.")
    found = _CEILING.fullmatch(name)
    if not found:
        return None
    meaning = f"nDCG@{found[1]} that a perfect reranker would reach with the candidates that it was given."
    return Metric(name, ("qrels", "reranked"), meaning)


def _compute(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    return {
        name: candidate_recall(seen) if name == RECALL else ceiling_ndcg(seen, int(name.partition("@")[2]))
        for name in names
    }


FAMILY = Family(_find, _compute)
