"""Do citations support, and is the evidence cited? Judged by gold spans, not by what the cited text seems to say.

A source supports when it overlaps a gold span of the question, or lies in a gold document without spans. Only questions
with gold evidence are judged. An answer without citation, an abstention and a failure score 0.

A claim about an upcoming change is not what was asked: its sources can complete the recall, and never hurt the
precision.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_lab.contracts import Answer, BoolArray, FloatArray, Outcome, Source
from rag_lab.metrics.evidence import Evidence
from rag_lab.metrics.scores import Family, Metric, Observation, Scores, in_state, named


def cited_sources(outcome: Outcome | None, upcoming: bool) -> list[Source]:
    """The distinct sources of an answer's claims, in order; with or without those of upcoming changes."""
    if not isinstance(outcome, Answer):
        return []
    kinds = ("answer", "upcoming") if upcoming else ("answer",)
    sources = (source for claim in outcome.claims if claim.kind in kinds for source in claim.sources)
    return list({(source.document_id, source.span): source for source in sources}.values())


def citation_precision(evidence: Evidence, outcomes: Sequence[Outcome | None]) -> FloatArray:
    """Cited sources that support over cited sources, ``[n]``; 0 where nothing is cited."""
    sources = [cited_sources(outcome, upcoming=False) for outcome in outcomes]
    passages = evidence.of_sources(sources)
    supporting = passages.question[evidence.gold_share(passages) > 0]
    supported = np.bincount(supporting, minlength=evidence.size).astype(np.float64)
    cited = np.fromiter(map(len, sources), dtype=np.float64, count=evidence.size)
    return np.divide(supported, cited, out=np.zeros(evidence.size), where=cited > 0)


def citation_recall(evidence: Evidence, outcomes: Sequence[Outcome | None]) -> FloatArray:
    """Share of the needed gold pieces that are cited, ``[n]``; 1 or 0 where one piece is enough."""
    passages = evidence.of_sources([cited_sources(outcome, upcoming=True) for outcome in outcomes])
    return evidence.share(evidence.touched(passages))


_PRECISION = Metric(
    "CitationPrecision",
    ("gold", "generation"),
    "Share of the cited sources that overlap gold evidence.",
)
_RECALL = Metric("CitationRecall", ("gold", "generation"), "Share of the needed gold evidence that the answer cites.")
_FUNCTIONS = {_PRECISION.name: citation_precision, _RECALL.name: citation_recall}


def _notes(about: BoolArray, outcomes: Sequence[Outcome | None]) -> tuple[str, ...]:
    uncited = np.fromiter((not cited_sources(outcome, upcoming=True) for outcome in outcomes), bool, len(outcomes))
    counts = (
        ((in_state(outcomes, "answered") & uncited & about).sum(), "answers cite nothing and score 0"),
        ((in_state(outcomes, "abstained") & about).sum(), "abstentions score 0"),
        ((in_state(outcomes, "failed") & about).sum(), "failures score 0"),
    )
    return tuple(f"{count} {what}" for count, what in counts if count)


def _compute(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    evidence = Evidence.of(seen.questions, seen.texts)
    outcomes = seen.outcomes or ()
    failed, notes = in_state(outcomes, "failed"), _notes(evidence.has, outcomes)
    values = {name: _FUNCTIONS[name](evidence, outcomes) for name in names}
    return {name: Scores.mean(name, value, evidence.has, failed, notes) for name, value in values.items()}


FAMILY = Family(named(_PRECISION, _RECALL), _compute)
