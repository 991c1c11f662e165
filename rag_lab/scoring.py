"""From what the variants did with every question to the frames of `Results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rag_lab import metrics
from rag_lab.contracts import (
    RESOURCES,
    Abstention,
    Answer,
    BoolArray,
    Claim,
    Context,
    Failure,
    Outcome,
    Question,
    Ranking,
    Source,
)
from rag_lab.datasets import Dataset
from rag_lab.metrics.ann import neighbour_recall
from rag_lab.metrics.ceiling import ceilings
from rag_lab.metrics.cost import latency
from rag_lab.metrics.evidence import Evidence
from rag_lab.metrics.funnel import Passed, funnel, shares
from rag_lab.metrics.ranking import ranked_documents
from rag_lab.metrics.scores import Collection, Scores, state_of
from rag_lab.metrics.stats import holm
from rag_lab.metrics.summary import Difference, Settings, differences, summarise
from rag_lab.results import frame
from rag_lab.variants import is_bound
from rag_lab.variants.retrieve import NEIGHBOURS
from rag_lab.variants.stage import State, trace

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
SHOWN_CHARACTERS = 50_000
"""Of a long context the results keep the beginning: whole corpora beside every answer would be most of the folder."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One variant under one budget: its state, ranked documents, outcomes, scores, and where evidence was lost."""

    variant: str
    budget: str
    state: State
    run: dict[str, list[tuple[str, float]]]
    outcomes: list[Outcome | None]
    scores: dict[str, Scores]
    lost: npt.NDArray[np.str_]
    notes: tuple[str, ...]
    over: BoolArray


@dataclass(eq=False)
class Scorer:
    """Judges states against one dataset; holds what they have in common."""

    dataset: Dataset
    metric_names: Sequence[str]
    settings: Settings
    texts: Mapping[str, str] = field(init=False)
    evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        gold = {piece.document_id for question in self.questions for piece in question.gold}
        self.texts = {d.document_id: d.text for d in self.dataset.documents if d.document_id in gold}
        self.evidence = Evidence.of(self.questions, self.texts)

    @property
    def questions(self) -> Sequence[Question]:
        """The scored questions, in the order of every array."""
        return self.dataset.questions

    @property
    def query_ids(self) -> list[str]:
        """Ids of the scored questions."""
        return [question.query_id for question in self.questions]

    def judge(self, variant: str, budget: str, state: State) -> Judged:
        """Score one variant under one budget."""
        chunks = state.batch.snapshot.chunks
        run = self._documents(state.ranking, chunks.document_id) if state.ranking else {}
        failed_at = {i: failure.stage for i, failure in state.failures.items()}
        retrieval_failed = {self.query_ids[i] for i, stage in failed_at.items() if stage != "generate"}
        run = {query: ranked for query, ranked in run.items() if query not in retrieval_failed}
        outcomes = [self._outcome(state, i) for i in range(len(self.questions))]
        contexts = [None if i in failed_at else context for i, context in enumerate(state.contexts or ())]
        observation = metrics.Observation(
            self.questions,
            self.dataset.qrels,
            {query: [document for document, _ in ranked] for query, ranked in run.items()}
            if run or failed_at
            else None,
            contexts or None,
            outcomes if state.answers else None,
            self.texts,
            ranking=state.ranking,
            collection=_collection(state),
            reranked=self._given(state),
        )
        names = list(dict.fromkeys([*self.metric_names, *(ceilings(self.metric_names) if state.reranked else ())]))
        scores = metrics.evaluate(names, observation)
        scores = {name: _told_of_unsearched(one, state.skipped) for name, one in scores.items()}
        if state.exact_neighbours is not None:
            near = neighbour_recall(state.channels[state.exact_neighbours.channel], state.exact_neighbours, NEIGHBOURS)
            scores[near.metric] = near
        lost, notes = self._funnel(state, observation, scores)
        over = np.zeros(len(self.questions), dtype=bool)
        for flags in state.ledger.over().values():
            over |= flags
        return Judged(variant, budget, state, run, outcomes, scores, lost, notes, over)

    def _documents(self, ranking: Ranking, of_row: Sequence[str]) -> dict[str, list[tuple[str, float]]]:
        """Ranked document ids with scores by query id, without the question's own document where it is left out."""
        run = ranked_documents(ranking, of_row, self.query_ids)
        if self.dataset.remove_identical_ids:
            run = {query: [pair for pair in ranked if pair[0] != query] for query, ranked in run.items()}
        return run

    def _given(self, state: State) -> dict[str, list[str]] | None:
        """The documents that a reranker was given, by query id; None where there is no reranker."""
        if state.reranked is None:
            return None
        before, read = state.reranked.before, state.reranked.read
        given = Ranking(before.channel, before.size, before.query[read], before.chunk[read], before.score[read])
        run = self._documents(given, state.batch.snapshot.chunks.document_id)
        return {query: [document for document, _ in ranked] for query, ranked in run.items()}

    def _outcome(self, state: State, i: int) -> Outcome | None:
        if i in state.failures:
            return state.failures[i]
        return state.completions[i].outcome if state.completions is not None else None

    def _funnel(
        self, state: State, observation: metrics.Observation, scores: Mapping[str, Scores]
    ) -> tuple[npt.NDArray[np.str_], tuple[str, ...]]:
        cut = state.ranking.top(state.looked_at) if state.ranking and state.looked_at is not None else state.ranking
        correct = scores.get("Correct")
        passed = Passed(
            allowed=[state.batch.scopes.rows(i) for i in range(state.batch.size)],
            candidates=_pool(state) if state.channels else None,
            cut=cut,
            contexts=observation.contexts,
            outcomes=observation.outcomes,
            correct=correct.values > 0 if correct else None,
            judged=correct.eligible if correct else None,
            direct=state.direct,
        )
        return funnel(self.evidence, _collection(state), passed)

    def frames(self, judged: Sequence[Judged], baseline: str) -> dict[str, pd.DataFrame]:
        """All frames of `Results`."""
        return {
            "metrics": frame("metrics", self._metric_rows(judged)),
            "comparisons": frame("comparisons", self._comparison_rows(judged, baseline)),
            "budget_use": frame("budget_use", [row for one in judged for row in _budget_rows(one)]),
            "curtailments": frame("curtailments", [row for one in judged for row in _curtailment_rows(one)]),
            "funnel": frame("funnel", [row for one in judged for row in _funnel_rows(one)]),
            "questions": frame("questions", [row for one in judged for row in self._question_rows(one)]),
            "outcomes": frame("outcomes", [row for one in judged for row in self._outcome_rows(one)]),
            "events": frame("events", [row for one in judged for row in self._event_rows(one)]),
            "timings": frame("timings", _timing_rows(judged)),
        }

    def _measured(self, judged: Sequence[Judged]) -> list[str]:
        """The metrics asked for, then those that come with an approximate index or a reranker."""
        return list(dict.fromkeys([*self.metric_names, *(name for one in judged for name in one.scores)]))

    def _groups(self) -> dict[str, BoolArray]:
        of = np.array([question.group for question in self.questions], dtype=object)
        names = sorted(set(of.tolist()) - {ALL})
        return {ALL: np.ones(len(of), dtype=bool)} | {name: of == name for name in names}

    def _metric_rows(self, judged: Sequence[Judged]) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for group, members in self._groups().items():
            entries = [
                (one, name, one.scores[name])
                for name in self._measured(judged)
                for one in judged
                if name in one.scores and (one.scores[name].eligible & members).any()
            ]
            summaries = summarise([scores for _, _, scores in entries], self.query_ids, members, self.settings)
            for (one, name, scores), summary in zip(entries, summaries, strict=True):
                used = scores.eligible & members
                rows.append(
                    {
                        "variant": one.variant,
                        "budget": one.budget,
                        "group": group,
                        "metric": name,
                        "value": summary.value,
                        "ci_low": summary.low,
                        "ci_high": summary.high,
                        "n": summary.n,
                        "n_failed": summary.missing,
                        "n_abstained": sum(
                            isinstance(one.outcomes[i], Abstention) for i in np.flatnonzero(used).tolist()
                        ),
                        "value_within_budget": _within_budget(scores, used, one.over),
                    }
                )
        return rows

    def _comparison_rows(self, judged: Sequence[Judged], baseline: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for budget in dict.fromkeys(one.budget for one in judged):
            mine = {one.variant: one for one in judged if one.budget == budget}
            for name in self._measured(judged):
                if baseline not in mine or name not in mine[baseline].scores:
                    continue
                base = mine[baseline].scores[name]
                others = [
                    one
                    for one in mine.values()
                    if one.variant != baseline and not is_bound(one.variant, baseline) and name in one.scores
                ]
                if not others or not base.eligible.any():
                    continue
                found = differences(base, [one.scores[name] for one in others], self.query_ids, None, self.settings)
                adjusted = holm([difference.p for difference in found])
                within = self._differences_within_budget(mine[baseline], others, name) or found
                adjusted_within = holm([difference.p for difference in within])
                for one, difference, p_holm, inside, p_inside in zip(
                    others, found, adjusted, within, adjusted_within, strict=True
                ):
                    rows.append(
                        {
                            "baseline": baseline,
                            "variant": one.variant,
                            "budget": budget,
                            "metric": name,
                            "delta": difference.delta,
                            "ci_low": difference.low,
                            "ci_high": difference.high,
                            "p": difference.p,
                            "p_holm": float(p_holm),
                            "effect": difference.effect,
                            "n": difference.n,
                            "note": difference.note,
                            "delta_within": inside.delta,
                            "ci_low_within": inside.low,
                            "ci_high_within": inside.high,
                            "p_holm_within": float(p_inside),
                        }
                    )
        return rows

    def _differences_within_budget(self, base: Judged, others: Sequence[Judged], name: str) -> list[Difference]:
        """The differences with questions over budget counted as 0 on either side; empty when none went over."""
        if not any(one.over.any() for one in (base, *others)):
            return []
        first, *rest = (one.scores[name].with_zero(one.over) for one in (base, *others))
        return differences(first, rest, self.query_ids, None, self.settings)

    def _question_rows(self, one: Judged) -> list[dict[str, Any]]:
        return [
            {
                "variant": one.variant,
                "budget": one.budget,
                "query_id": self.query_ids[i],
                "group": self.questions[i].group,
                "metric": name,
                "value": float(scores.values[i]),
            }
            for name, scores in one.scores.items()
            for i in np.flatnonzero(scores.counted).tolist()
        ]

    def _outcome_rows(self, one: Judged) -> list[dict[str, Any]]:
        correct = one.scores.get("Correct")
        rows = []
        for i, question in enumerate(self.questions):
            outcome, sources = one.outcomes[i], _sources(one.outcomes[i])
            context = one.state.contexts[i] if one.state.contexts and i not in one.state.failures else None
            path = trace(one.state, i)
            known = correct is not None and bool(correct.eligible[i])
            rows.append(
                {
                    "variant": one.variant,
                    "budget": one.budget,
                    "query_id": question.query_id,
                    "group": question.group,
                    "language": question.language,
                    "question": question.text,
                    "state": state_of(outcome) if one.state.answers or outcome is not None else "not_generated",
                    "reason": _reason(outcome),
                    "answer": _shown(outcome),
                    "gold_answers": list(question.answers),
                    "answerable": question.answerable,
                    "correct": bool(correct.values[i] > 0) if correct is not None and known else None,
                    "cited": list(dict.fromkeys(source.document_id for source in sources)),
                    "quotes": [source.quote for source in sources],
                    "gold_documents": list(dict.fromkeys(piece.document_id for piece in question.gold)),
                    "context_documents": [passage.document_id for passage in context.passages] if context else [],
                    "context_texts": _texts(context) if context else [],
                    "lost_at": str(one.lost[i]),
                    "over_budget": bool(path.over_budget),
                    **{resource: getattr(path.usage, resource) for resource in RESOURCES},
                }
            )
        return rows

    def _event_rows(self, one: Judged) -> list[dict[str, Any]]:
        return [
            {"variant": one.variant, "budget": one.budget, "query_id": self.query_ids[i], **asdict(event)}
            for i in sorted(one.state.events)
            for event in one.state.events[i]
        ]


def notes_of(judged: Sequence[Judged]) -> list[str]:
    """What a reader of the figures should know, each said once with the metrics and variants that it is about."""
    about: dict[str, tuple[list[str], list[str]]] = {}
    for one in judged:
        named = [(name, note) for name, scores in one.scores.items() for note in scores.notes]
        for name, note in [*named, *(("funnel", note) for note in one.notes)]:
            names, variants = about.setdefault(note, ([], []))
            names.append(name)
            variants.append(one.variant)
    return [
        f"{', '.join(dict.fromkeys(names))} ({', '.join(dict.fromkeys(variants))}): {note}"
        for note, (names, variants) in about.items()
    ]


def _collection(state: State) -> Collection:
    chunks = state.batch.snapshot.chunks
    spans = np.column_stack([chunks.shown_start, chunks.shown_end]).astype(np.int64)
    return Collection(chunks.document_id, spans)


def _pool(state: State) -> Ranking:
    """All candidates of all channels, and what a stage brought along, as one ranking without meaning in its order."""
    rankings = [*state.channels.values(), *filter(None, [state.fused])]
    query = np.concatenate([ranking.query for ranking in rankings])
    chunk = np.concatenate([ranking.chunk for ranking in rankings])
    return Ranking.from_scores("candidates", state.batch.size, query, chunk, np.zeros(len(query)))


def _within_budget(scores: Scores, used: BoolArray, over: BoolArray) -> float:
    total = float(scores.denominator[used].sum())
    return float(scores.numerator[used & ~over].sum()) / total if total else 0.0


def _told_of_unsearched(scores: Scores, skipped: BoolArray) -> Scores:
    """The scores, those of a ranking with a note on questions that the variant chose not to search for."""
    count = int((skipped & scores.eligible).sum())
    if not count or not {"ranking", "spans"} & {*metrics.metric(scores.metric).needs}:
        return scores
    note = f"{count} questions were not searched for, by the variant's own rule, and score 0 for want of a ranking"
    return replace(scores, notes=(*scores.notes, note))


def _texts(context: Context) -> list[str]:
    """The texts of the passages, in order, up to `SHOWN_CHARACTERS` of them together and at least one."""
    lengths = accumulate(len(passage.text) for passage in context.passages)
    shown = sum(length <= SHOWN_CHARACTERS for length in lengths)
    return [passage.text for passage in context.passages[: max(shown, 1)]]


def _claims(outcome: Outcome | None) -> Sequence[Claim]:
    return outcome.claims if isinstance(outcome, Answer) else ()


def _sources(outcome: Outcome | None) -> list[Source]:
    if isinstance(outcome, Abstention):
        return list(outcome.sources)
    return [source for claim in _claims(outcome) for source in claim.sources]


def _reason(outcome: Outcome | None) -> str:
    if isinstance(outcome, Abstention):
        return outcome.reason.value
    return f"{outcome.stage}: {outcome.cause}" if isinstance(outcome, Failure) else ""


def _shown(outcome: Outcome | None) -> str:
    """The answer as its reader sees it, with announced changes named."""
    if not isinstance(outcome, Answer | Abstention):
        return ""
    upcoming = [claim.text for claim in _claims(outcome) if claim.kind == "upcoming" and claim.text != outcome.text]
    return "\n".join([outcome.text, *(f"[upcoming] {text}" for text in upcoming)])


def _budget_rows(one: Judged) -> list[dict[str, Any]]:
    ledger, caps = one.state.ledger, one.state.ledger.budget.caps()
    over = ledger.over()
    rows = []
    for resource in RESOURCES:
        spent = ledger.spent[resource]
        if resource not in caps and not spent.any():
            continue
        curtailed = sum(any(c.resource == resource for c in cuts) for cuts in ledger.curtailments)
        rows.append(
            {
                "variant": one.variant,
                "budget": one.budget,
                "resource": resource,
                "cap": caps.get(resource),
                "mean": float(spent.mean()) if len(spent) else 0.0,
                "max": float(spent.max()) if len(spent) else 0.0,
                "curtailed": curtailed,
                "over": int(over[resource].sum()) if resource in over else 0,
            }
        )
    return rows


def _curtailment_rows(one: Judged) -> list[dict[str, Any]]:
    cuts: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for question in one.state.ledger.curtailments:
        for cut in question:
            cuts.setdefault((cut.stage, cut.resource), []).append((cut.wanted, cut.granted))
    return [
        {
            "variant": one.variant,
            "budget": one.budget,
            "stage": stage,
            "resource": resource,
            "questions": len(amounts),
            "wanted": float(np.mean([wanted for wanted, _ in amounts])),
            "granted": float(np.mean([granted for _, granted in amounts])),
        }
        for (stage, resource), amounts in cuts.items()
    ]


def _funnel_rows(one: Judged) -> list[dict[str, Any]]:
    if not (one.lost != "").any():
        return []
    return [
        {"variant": one.variant, "budget": one.budget, "stage": loss.stage, "lost": loss.lost, "share": loss.share}
        for loss in shares(one.lost)
    ]


def _timing_rows(judged: Sequence[Judged]) -> list[dict[str, Any]]:
    users: dict[str, list[str]] = {}
    for one in judged:
        for ran in one.state.ran:
            users.setdefault(ran.key, []).append(one.variant)
    rows = []
    for one in judged:
        stages = [(ran.stage, ran.ms, ran.cached, users[ran.key]) for ran in one.state.ran]
        stages.append(("total", one.state.ledger.spent["latency_ms"], all(ran.cached for ran in one.state.ran), []))
        for stage, ms, cached, sharing in stages:
            took = latency(ms)
            rows.append(
                {
                    "variant": one.variant,
                    "budget": one.budget,
                    "stage": stage,
                    "ms_mean": took.ms_mean,
                    "ms_p50": took.ms_p50,
                    "ms_p95": took.ms_p95,
                    "ms_p99": took.ms_p99,
                    "total_s": took.total_s,
                    "cached": cached,
                    "shared_with": [name for name in dict.fromkeys(sharing) if name != one.variant],
                }
            )
    return rows
