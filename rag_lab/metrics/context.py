"""What of the evidence the context holds, and what of the context is evidence. Relevance goes by overlap of spans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_lab.contracts import BoolArray, Context, FloatArray
from rag_lab.metrics.evidence import FULL, Evidence
from rag_lab.metrics.scores import Family, Metric, Observation, Scores, named


def assembled_recall(evidence: Evidence, contexts: Sequence[Context | None]) -> FloatArray:
    """Share of the needed evidence that the context holds in full ``[n]``; 1 or 0 where one piece is enough."""
    return evidence.share(evidence.coverage(evidence.of_contexts(contexts)) >= FULL)


def gold_in_context(evidence: Evidence, contexts: Sequence[Context | None]) -> FloatArray:
    """1 where the context holds, in full, all the gold evidence that the question needs, else 0, ``[n]``."""
    return evidence.kept(evidence.coverage(evidence.of_contexts(contexts))).astype(np.float64)


def relevant_tokens(evidence: Evidence, contexts: Sequence[Context | None]) -> FloatArray:
    """Share of the context's tokens that lie in gold evidence ``[n]``; 0 for an empty context.

    Tokens of a passage are taken to be spread evenly over its characters. Passages without a token count weigh as many
    tokens as they have characters, all of them, so that no context mixes the two units.
    """
    flat = [(i, passage) for i, context in enumerate(contexts) if context for passage in context.passages]
    question = np.array([i for i, _ in flat], dtype=np.int64)
    tokens = np.array([passage.tokens for _, passage in flat], dtype=np.float64)
    if (tokens <= 0).any():
        tokens = np.array([len(passage.text) for _, passage in flat], dtype=np.float64)
    code = evidence.code([passage.document_id for _, passage in flat])
    gold = np.zeros(len(flat))
    gold[code >= 0] = evidence.gold_share(evidence.of_contexts(contexts))
    total = np.bincount(question, weights=tokens, minlength=len(contexts))
    relevant = np.bincount(question, weights=tokens * gold, minlength=len(contexts))
    return np.divide(relevant, total, out=np.zeros(len(contexts)), where=total > 0)


def _missing(contexts: Sequence[Context | None]) -> BoolArray:
    return np.fromiter((context is None for context in contexts), dtype=bool, count=len(contexts))


_ASSEMBLED = Metric(
    "AssembledRecall", ("gold", "context"), "Share of the needed gold evidence that the context holds in full."
)
_GOLD = Metric(
    "GoldInContext",
    ("gold", "context"),
    "Share of the questions whose context holds, in full, all the gold evidence that they need.",
)
_RELEVANT = Metric("RelevantTokens", ("gold", "context"), "Share of the context's tokens that lie in gold evidence.")
_FUNCTIONS = {_ASSEMBLED.name: assembled_recall, _GOLD.name: gold_in_context, _RELEVANT.name: relevant_tokens}


def _compute(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    evidence = Evidence.of(seen.questions, seen.texts)
    contexts = seen.contexts or ()
    missing = _missing(contexts)
    return {name: Scores.mean(name, _FUNCTIONS[name](evidence, contexts), evidence.has, missing) for name in names}


FAMILY = Family(named(_ASSEMBLED, _GOLD, _RELEVANT), _compute)
