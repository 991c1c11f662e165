"""Ranking metrics on trec_eval's own code (pytrec_eval): nDCG, recall, precision, hit rate, RR and AP, at any cutoff.

One tie rule holds everywhere: score, best first, then document id. A ranking comes here in that order and goes to
trec_eval with scores that fall by rank, so that no tie is left for it to break.

The denominator is the questions with a positive judgment: one that the run lacks scores 0, one without any positive
judgment cannot be scored. Grades below 1 (trec_eval's -1 and -2 among them) are not relevant. nDCG has linear gain, and
its ideal comes from the judgments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.metrics.scores import Family, Metric, Observation, Scores

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Sequence[str]]

_MEANINGS = {
    "nDCG": "Discounted gain of the ranking{at} over that of the best possible ranking",
    "Recall": "Share of the relevant documents that are found{at}",
    "P": "Share of the results{at} that are relevant",
    "Hit": "Share of the questions with a relevant document{at}",
    "RR": "One over the rank of the first relevant document{at}",
    "AP": "Mean of the precision at the rank of each relevant document{at}",
}
_WITHOUT_CUTOFF = {"nDCG": "ndcg", "RR": "recip_rank", "AP": "map"}
_WITH_CUTOFF = {"nDCG": "ndcg_cut", "Recall": "recall", "P": "P", "Hit": "success", "RR": "recip_rank", "AP": "map_cut"}
_NAME = re.compile(r"([A-Za-z]+)(?:@([1-9]\d*))?")


@dataclass(frozen=True, slots=True)
class RankingMetric:
    """A measure and its cutoff; None looks at the whole ranking. ``str`` and `parse` are inverse."""

    measure: str
    cutoff: int | None = None

    @classmethod
    def parse(cls, name: str) -> RankingMetric | None:
        """The metric called `name`, None when it is not a ranking metric."""
        found = _NAME.fullmatch(name)
        if not found or found[1] not in _MEANINGS or (found[2] is None and found[1] not in _WITHOUT_CUTOFF):
            return None
        return cls(found[1], int(found[2]) if found[2] else None)

    def __str__(self) -> str:
        return self.measure if self.cutoff is None else f"{self.measure}@{self.cutoff}"

    @property
    def trec_name(self) -> str:
        """What trec_eval calls it. It has no RR with a cutoff."""
        if self.cutoff is None or self.measure == "RR":
            return _WITHOUT_CUTOFF[self.measure]
        return f"{_WITH_CUTOFF[self.measure]}_{self.cutoff}"

    @property
    def meaning(self) -> str:
        """One sentence."""
        at = "" if self.cutoff is None else f" among the first {self.cutoff}"
        return _MEANINGS[self.measure].format(at=at) + "."


def score_rankings(names: Sequence[str], run: Run, qrels: Qrels, query_ids: Sequence[str]) -> dict[str, Scores]:
    """Score ranked document ids against judgments, one `Scores` per name, in the order of `query_ids`.

    A document that is listed twice counts at its best rank. Raises RagLabError for an unknown name and for ids or
    grades of a wrong type.
    """
    metrics = {name: RankingMetric.parse(name) for name in names}
    known = {name: metric for name, metric in metrics.items() if metric is not None}
    if len(known) < len(metrics):
        raise RagLabError(f"unknown ranking metric {next(name for name in metrics if name not in known)!r}")
    check_qrels(qrels)
    ranked, duplicates = without_duplicates(run)
    relevant = {query_id: _relevant(qrels.get(query_id, {})) for query_id in query_ids}
    table = _trec_eval({metric.trec_name for metric in known.values()}, relevant, ranked)
    eligible = np.array([bool(relevant[query_id]) for query_id in query_ids], dtype=bool)
    missing = np.array([query_id not in run for query_id in query_ids], dtype=bool)
    notes = _notes(len(query_ids) - int(eligible.sum()), int((missing & eligible).sum()), duplicates)
    return {
        name: Scores.mean(name, _column(metric, table, query_ids), eligible, missing, notes)
        for name, metric in known.items()
    }


def _relevant(judged: Mapping[str, int]) -> dict[str, int]:
    return {document: int(grade) for document, grade in judged.items() if grade > 0}


def _trec_eval(measures: set[str], relevant: Qrels, ranked: Run) -> dict[str, dict[str, float]]:
    import pytrec_eval

    judged = {query_id: dict(documents) for query_id, documents in relevant.items() if documents}
    scored = {
        query_id: {document: float(-rank) for rank, document in enumerate(ranked[query_id])}
        for query_id in judged
        if ranked.get(query_id)
    }
    result: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(judged, measures).evaluate(scored)
    return result


def _column(metric: RankingMetric, table: dict[str, dict[str, float]], query_ids: Sequence[str]) -> list[float]:
    values = [table.get(query_id, {}).get(metric.trec_name, 0.0) for query_id in query_ids]
    if metric.measure == "RR" and metric.cutoff is not None:
        return [value if value > 1 / (metric.cutoff + 0.5) else 0.0 for value in values]
    return values


def _notes(unjudged: int, missing: int, duplicates: int) -> tuple[str, ...]:
    counts = (
        (unjudged, "questions without a positive judgment are not in the denominator"),
        (missing, "judged questions are missing from the run and score 0"),
        (duplicates, "results repeated a document and count at its best rank"),
    )
    return tuple(f"{count} {what}" for count, what in counts if count)


def without_duplicates(run: Run) -> tuple[dict[str, list[str]], int]:
    """Rankings with each document at its best rank, and how many entries that took away."""
    kept = {query_id: list(dict.fromkeys(documents)) for query_id, documents in run.items()}
    for query_id, documents in kept.items():
        for document in documents:
            if not isinstance(document, str):
                raise RagLabError(_wrong_type(f"run, query {query_id!r}", "document id", document))
    return kept, sum(map(len, run.values())) - sum(map(len, kept.values()))


def check_qrels(qrels: Qrels) -> None:
    """Raise RagLabError for an id that is not a string or a grade that is not a whole number."""
    for query_id, judged in qrels.items():
        if not isinstance(query_id, str):
            raise RagLabError(_wrong_type("qrels", "query id", query_id))
        for document, grade in judged.items():
            if not isinstance(document, str):
                raise RagLabError(_wrong_type(f"qrels, query {query_id!r}", "document id", document))
            if isinstance(grade, bool) or not isinstance(grade, int | np.integer):
                place = f"qrels, query {query_id!r}, document {document!r}"
                raise RagLabError(f"{place}: grade {grade!r} is a {type(grade).__name__}; grades are whole numbers")


def _wrong_type(place: str, field: str, value: object) -> str:
    return f"{place}: {field} {value!r} is a {type(value).__name__}; ids are strings"


def check_overlap(found: Iterable[str], known: Iterable[str], what: str = "run") -> None:
    """Raise RagLabError when no id of `found` is among `known`: the two then name documents in different ways."""
    ours, theirs = set(found), set(known)
    if ours and ours.isdisjoint(theirs):
        example = f"{min(ours)!r} against {min(theirs)!r}" if theirs else "the other side has none"
        raise RagLabError(f"{what}: none of its {len(ours)} document ids is known ({example}); check how ids are made")


def documents_of(ranking: Ranking, chunk_documents: Sequence[str] | npt.NDArray[np.str_]) -> Ranking:
    """Keep the best chunk of each document: ``chunk_documents[row]`` is the document id of a row."""
    codes: dict[str, int] = {}
    code_of = np.fromiter((codes.setdefault(str(name), len(codes)) for name in chunk_documents), dtype=np.int64)
    keys = ranking.query.astype(np.int64) * max(len(codes), 1) + code_of[ranking.chunk]
    first = np.zeros(len(keys), dtype=bool)
    first[np.unique(keys, return_index=True)[1]] = True
    ranks = {name: array[first] for name, array in ranking.ranks.items()}
    return Ranking(
        ranking.channel, ranking.size, ranking.query[first], ranking.chunk[first], ranking.score[first], ranks
    )


def ranked_documents(
    ranking: Ranking, chunk_documents: Sequence[str] | npt.NDArray[np.str_], query_ids: Sequence[str]
) -> dict[str, list[tuple[str, float]]]:
    """Document ids with scores, best first, by query id, as `write_trec` takes them; empty without results."""
    best = documents_of(ranking, chunk_documents)
    bounds = best.offsets.tolist()
    names = [str(chunk_documents[row]) for row in best.chunk.tolist()]
    pairs = list(zip(names, best.score.tolist(), strict=True))
    return {query_id: pairs[bounds[i] : bounds[i + 1]] for i, query_id in enumerate(query_ids)}


def _find(name: str) -> Metric | None:
    metric = RankingMetric.parse(name)
    return Metric(name, ("qrels", "ranking"), metric.meaning) if metric else None


def _compute(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    return score_rankings(names, seen.documents or {}, seen.qrels, seen.query_ids)


FAMILY = Family(_find, _compute)
