"""Ranking metrics on spans of evidence, so that the size of chunks does not decide who is relevant.

A gold span is found when the passages retrieved so far together cover it all: what counts of a chunk is the text that
it shows. Chunks that show the same text (children of one parent) are one passage, at their best rank. The cutoff is a
number of passages (``@10``) or of characters of text (``@4000c``; the last passage counts up to there). At one number
of passages larger chunks bring more text, and the share of it that is evidence says at what price; at one number of
characters all chunkers bring the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, Ranking
from rag_lab.metrics.evidence import FULL, Evidence, Ints, Passages
from rag_lab.metrics.scores import Collection, Family, Metric, Observation, Scores

_MEANINGS = {
    "SpanRecall": "Share of the needed gold spans that the first {at} cover in full.",
    "SpanNDCG": (
        "Mean over the needed gold spans of 1 / log2(1 + rank at which the first {at} cover it in full); the ideal is "
        "all evidence in the first passage, however the documents are cut."
    ),
    "RelevantText": "Share of the characters of the first {at} that lie in gold spans; the rest is carried along.",
}
_NAME = re.compile(r"(SpanRecall|SpanNDCG|RelevantText)@([1-9]\d{0,6})(c?)")


@dataclass(frozen=True, slots=True)
class _Cutoff:
    """So many passages, or so many characters."""

    measure: str
    limit: int
    characters: bool

    @classmethod
    def parse(cls, name: str) -> _Cutoff | None:
        found = _NAME.fullmatch(name)
        if not found or (found[1] == "SpanNDCG" and found[3]):
            return None
        return cls(found[1], int(found[2]), bool(found[3]))

    @property
    def meaning(self) -> str:
        unit = "characters of retrieved text" if self.characters else "passages"
        return _MEANINGS[self.measure].format(at=f"{self.limit} {unit}")


@dataclass(frozen=True, eq=False)
class Retrieved:
    """Passages in the order of the ranking, ``[k]``.

    question: position of the question; row: in the collection; rank: from 1 within the question; before: characters
    of the passages ahead of it; start, end: what it shows.
    """

    question: Ints
    row: Ints
    rank: Ints
    before: Ints
    start: Ints
    end: Ints

    @classmethod
    def of(cls, ranking: Ranking, collection: Collection) -> Retrieved:
        """The first chunk of each shown text, ranked anew."""
        spans = collection.chunk_spans[ranking.chunk]
        key = ranking.query.astype(np.int64) * max(len(collection.chunk_documents), 1)
        key += _first_with_the_same_span(collection)[ranking.chunk]
        kept = np.sort(np.unique(key, return_index=True)[1])
        question, spans = ranking.query[kept].astype(np.int64), spans[kept].astype(np.int64)
        first = np.searchsorted(question, question)
        length = spans[:, 1] - spans[:, 0]
        through = np.cumsum(length)
        before = through - length
        return cls(
            question,
            ranking.chunk[kept].astype(np.int64),
            np.arange(len(kept)) - first + 1,
            before - before[first] if len(kept) else before,
            spans[:, 0],
            spans[:, 1],
        )

    def cut(self, limit: int, characters: bool) -> Retrieved:
        """The passages within so many characters, the last of them shortened, or the first so many passages."""
        if not characters:
            return self._only(self.rank <= limit, self.end)
        return self._only(self.before < limit, np.minimum(self.end, self.start + limit - self.before))

    def _only(self, kept: npt.NDArray[np.bool_], end: Ints) -> Retrieved:
        columns = (self.question, self.row, self.rank, self.before, self.start, end)
        return Retrieved(*(column[kept] for column in columns))

    def passages(self, evidence: Evidence, codes: Ints) -> Passages:
        """What of it lies in documents with gold; ``codes [rows]`` are the documents of the collection's rows."""
        return evidence.passages(self.question, codes[self.row], np.column_stack([self.start, self.end]))


def span_recall(evidence: Evidence, found: Retrieved, codes: Ints) -> FloatArray:
    """Share of the needed pieces that are covered in full ``[n]``; 1 or 0 where one is enough."""
    return evidence.share(evidence.coverage(found.passages(evidence, codes)) >= FULL)


def span_ndcg(evidence: Evidence, found: Retrieved, codes: Ints) -> FloatArray:
    """Mean of ``1 / log2(1 + rank)`` over the needed pieces, with the rank that completes each ``[n]``."""
    gain = np.zeros(len(evidence.question))
    open_pieces = np.ones(len(gain), dtype=bool)
    for rank in range(1, int(found.rank.max(initial=0)) + 1):
        covered = evidence.coverage(found.cut(rank, characters=False).passages(evidence, codes)) >= FULL
        gain[covered & open_pieces] = 1 / np.log2(1 + rank)
        open_pieces &= ~covered
    total = np.bincount(evidence.question, weights=gain, minlength=evidence.size)
    needed = np.maximum(np.bincount(evidence.question, minlength=evidence.size), 1)
    best = np.zeros(evidence.size)
    np.maximum.at(best, evidence.question, gain)
    return np.where(evidence.every, total / needed, best)


def relevant_text(evidence: Evidence, found: Retrieved, codes: Ints) -> FloatArray:
    """Share of the characters that lie in gold pieces of their own question ``[n]``; 0 where nothing is found."""
    length = (found.end - found.start).astype(np.float64)
    gold = np.zeros(len(length))
    gold[codes[found.row] >= 0] = evidence.gold_share(found.passages(evidence, codes))
    total = np.bincount(found.question, weights=length, minlength=evidence.size)
    relevant = np.bincount(found.question, weights=length * gold, minlength=evidence.size)
    return np.divide(relevant, total, out=np.zeros(evidence.size), where=total > 0)


_FUNCTIONS = {"SpanRecall": span_recall, "SpanNDCG": span_ndcg, "RelevantText": relevant_text}


def _first_with_the_same_span(collection: Collection) -> Ints:
    """For each row the first that shows the same part of the same document, ``[rows]``."""
    names: dict[str, int] = {}
    codes = [names.setdefault(str(name), len(names)) for name in collection.chunk_documents]
    table = np.column_stack([np.array(codes, dtype=np.int64), collection.chunk_spans])
    _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return first[which.reshape(-1)].astype(np.int64)


def _find(name: str) -> Metric | None:
    cutoff = _Cutoff.parse(name)
    return Metric(name, ("gold", "spans"), cutoff.meaning) if cutoff else None


def _compute(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    evidence = Evidence.of(seen.questions, seen.texts)
    assert seen.ranking is not None
    assert seen.collection is not None
    codes = evidence.code(seen.collection.chunk_documents)
    found = Retrieved.of(seen.ranking, seen.collection)
    documents = seen.documents or {}
    missing = np.array([query_id not in documents for query_id in seen.query_ids], dtype=bool)
    scores = {}
    for name in names:
        cutoff = _Cutoff.parse(name)
        assert cutoff is not None
        within = found.cut(cutoff.limit, cutoff.characters)
        scores[name] = Scores.mean(name, _FUNCTIONS[cutoff.measure](evidence, within, codes), evidence.has, missing)
    return scores


FAMILY = Family(_find, _compute)
