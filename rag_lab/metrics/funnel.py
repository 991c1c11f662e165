"""Where was the evidence lost? For each question with gold evidence, the first stage that lost it.

A stage keeps the evidence of a question when what it hands on still covers it: every gold piece, or one where one is
enough. What an earlier stage lost stays lost: a question that is answered rightly all the same (from memory, or from
another passage) is still counted where its evidence was lost, for the funnel follows the evidence and not the luck.

A stage that a variant does not have (None) loses nothing. A question whose retrieval failed has no candidates and is
lost there; one whose generation failed, or that was declined, is lost at generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, Context, Outcome, RagLabError, Ranking
from rag_lab.metrics.citations import citation_recall
from rag_lab.metrics.evidence import Evidence, Pairs
from rag_lab.metrics.scores import Collection, in_state

STAGES = ("ingest", "scope", "candidates", "cut", "assembly", "generation", "citation", "answered")
_LOSING = STAGES[:-1]


@dataclass(frozen=True, slots=True)
class StageLoss:
    """Questions that a stage lost, and their share of all questions with gold evidence."""

    stage: str
    lost: int
    share: float


@dataclass(frozen=True, eq=False)
class Passed:
    """What each stage of a variant handed on; None for a stage that it does not have.

    allowed: for each question the rows that it may see, ``[n][rows]``, None for a question that may see all;
    candidates: what retrieval found, all channels together; cut: what was handed to assembly; contexts and outcomes:
    one for each question, None where it did not get there; correct: whether the answer is right ``[n]``, and
    `judged` whether that is known; direct: whose context holds more than what was retrieved, so that retrieval lost
    nothing ``[n]``.
    """

    allowed: Sequence[BoolArray | None] | BoolArray | None = None
    candidates: Ranking | None = None
    cut: Ranking | None = None
    contexts: Sequence[Context | None] | None = None
    outcomes: Sequence[Outcome | None] | None = None
    correct: BoolArray | None = None
    judged: BoolArray | None = None
    direct: BoolArray | None = None


def lost_at(kept: Mapping[str, BoolArray], has_gold: BoolArray) -> npt.NDArray[np.str_]:
    """The first stage that lost the evidence of each question ``[n]``: "answered" if none did, "" without evidence.

    `kept` says for each stage which questions still have their evidence; a stage that is not in it loses nothing.
    """
    unknown = [stage for stage in kept if stage not in _LOSING]
    if unknown:
        raise RagLabError(f"funnel: {unknown[0]!r} cannot lose evidence; stages are {', '.join(_LOSING)}")
    lost = np.full(len(has_gold), STAGES[-1], dtype=f"U{max(map(len, STAGES))}")
    for stage in reversed(_LOSING):
        if stage in kept:
            lost[~np.asarray(kept[stage], dtype=bool)] = stage
    return np.where(has_gold, lost, "")


def shares(lost: npt.NDArray[np.str_]) -> list[StageLoss]:
    """Count and share of every stage; the counts add up to the questions with gold evidence, the shares to 1."""
    counts = {stage: int(np.count_nonzero(lost == stage)) for stage in STAGES}
    total = sum(counts.values())
    return [StageLoss(stage, count, count / total if total else 0.0) for stage, count in counts.items()]


def funnel(evidence: Evidence, collection: Collection, passed: Passed) -> tuple[npt.NDArray[np.str_], tuple[str, ...]]:
    """The stage that lost the evidence of each question ``[n]``, and notes on what could not be followed."""
    pairs = evidence.pairs(collection.chunk_documents, collection.chunk_spans)
    kept = {"ingest": evidence.kept(evidence.coverage_by_collection(pairs))}
    if passed.allowed is not None:
        kept["scope"] = _by_rows(evidence, pairs, _allowed(pairs, evidence.question, passed.allowed))
    for stage, ranking in (("candidates", passed.candidates), ("cut", passed.cut)):
        if ranking is not None:
            kept[stage] = _by_rows(evidence, pairs, _listed(pairs, evidence.question, ranking))
            if passed.direct is not None:
                kept[stage] = kept[stage] | passed.direct
    if passed.contexts is not None:
        kept["assembly"] = evidence.kept(evidence.coverage(evidence.of_contexts(passed.contexts)))
    notes: tuple[str, ...] = ()
    if passed.outcomes is None:
        notes = ("no answers are generated: 'answered' means that the evidence reached the end",)
    else:
        kept["generation"], unjudged = _generated(passed, passed.outcomes, evidence.has)
        kept["citation"] = citation_recall(evidence, passed.outcomes) >= 1
        if unjudged:
            notes = (f"{unjudged} questions have no reference answer: any answer passes generation",)
    return lost_at(kept, evidence.has), notes


def _by_rows(evidence: Evidence, pairs: Pairs, there: BoolArray) -> BoolArray:
    return evidence.kept(evidence.coverage_by_collection(pairs, there))


def _allowed(
    pairs: Pairs, question: npt.NDArray[np.int64], allowed: Sequence[BoolArray | None] | BoolArray
) -> BoolArray:
    """Pairs whose row the question of the piece may see, ``[pairs]``."""
    seen = np.ones(len(pairs.row), dtype=bool)
    owner = question[pairs.piece]
    for position in np.unique(owner).tolist():
        rows = allowed[position]
        if rows is not None:
            mine = owner == position
            seen[mine] = rows[pairs.row[mine]]
    return seen


def _listed(pairs: Pairs, question: npt.NDArray[np.int64], ranking: Ranking) -> BoolArray:
    """Pairs whose row the ranking lists for the question of the piece, ``[pairs]``."""
    listed = ranking.query.astype(np.int64) << 32 | ranking.chunk
    return np.isin(question[pairs.piece] << 32 | pairs.row, listed)


def _generated(passed: Passed, outcomes: Sequence[Outcome | None], has: BoolArray) -> tuple[BoolArray, int]:
    """Questions that generation did not lose ``[n]``, and how many of them could not be judged."""
    answered = in_state(outcomes, "answered")
    if passed.correct is None:
        return answered, int(has.sum())
    judged = np.ones(len(has), dtype=bool) if passed.judged is None else passed.judged
    return answered & (passed.correct | ~judged), int((has & ~judged).sum())
