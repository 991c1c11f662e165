"""What a metric is, what it needs, what it is computed from, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import (
    Abstention,
    Answer,
    BoolArray,
    Context,
    FloatArray,
    Outcome,
    Question,
    RagLabError,
    Ranking,
)

WHY_NOT = {
    "qrels": "the dataset has no relevance judgments",
    "answers": "the dataset has no reference answers",
    "gold": "the dataset names no gold evidence",
    "unanswerable": "the dataset has no question that is known to be unanswerable",
    "ranking": "the variant retrieves nothing",
    "spans": "the variant retrieves nothing",
    "reranked": "the variant reranks nothing",
    "context": "the variant assembles no context",
    "generation": "the variant generates no answers",
}


@dataclass(frozen=True, eq=False)
class Scores:
    """One metric of one variant, question by question: arrays ``[n]`` in the order of the questions.

    The value over a set of questions is the sum of `numerator` over the sum of `denominator`. For a mean the
    denominator is 1 where the question is eligible; for a corpus-level ratio it depends on the outcome.

    eligible: questions that the metric is about, whatever a variant did; missing: eligible questions without a result,
    which score 0; notes: what a reader of the figure should know.
    """

    metric: str
    numerator: FloatArray
    denominator: FloatArray
    eligible: BoolArray
    missing: BoolArray
    notes: tuple[str, ...] = ()

    @classmethod
    def mean(
        cls,
        metric: str,
        values: npt.ArrayLike,
        eligible: npt.ArrayLike,
        missing: npt.ArrayLike,
        notes: tuple[str, ...] = (),
    ) -> Scores:
        """Scores whose value is a mean over the eligible questions; a missing result is 0."""
        about = np.asarray(eligible, dtype=bool)
        lacking = np.asarray(missing, dtype=bool) & about
        given = np.where(about & ~lacking, np.asarray(values, dtype=np.float64), 0.0)
        if not np.isfinite(given).all():
            raise RagLabError(f"{metric}: {int((~np.isfinite(given)).sum())} values are NaN or infinite")
        return cls(metric, given, about.astype(np.float64), about, lacking, notes)

    @property
    def counted(self) -> BoolArray:
        """Questions with a value of their own, ``[n]``."""
        return self.denominator > 0

    @property
    def values(self) -> FloatArray:
        """Value of each question ``[n]``; 0 where it does not count."""
        return np.divide(self.numerator, self.denominator, out=np.zeros_like(self.numerator), where=self.counted)

    @property
    def value(self) -> float:
        """The figure over all questions; 0 when none counts."""
        total = float(self.denominator.sum())
        return float(self.numerator.sum()) / total if total else 0.0

    def with_zero(self, where: BoolArray) -> Scores:
        """The same scores with those of some questions ``[n]`` counted as 0, say of those over budget."""
        return replace(self, numerator=np.where(where, 0.0, self.numerator))


@dataclass(frozen=True, eq=False)
class Collection:
    """What metrics need of a snapshot: the document of every chunk, and the span of it that a context shows, by row."""

    chunk_documents: Sequence[str] | npt.NDArray[np.str_]
    chunk_spans: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Observation:
    """What one variant did with every question, and what is known about the right answers.

    `documents` holds ranked document ids by query id. Contexts and outcomes are in the order of the questions; None in
    them is a question that did not get there. A part that the variant does not have is None as a whole. `texts` holds
    the text of documents that gold spans lie in: with it white space need not be retrieved to cover a span. `ranking`
    holds the ranked rows of `collection`, `reranked` the document ids that a reranker was given by query id.
    """

    questions: Sequence[Question]
    qrels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    documents: Mapping[str, Sequence[str]] | None = None
    contexts: Sequence[Context | None] | None = None
    outcomes: Sequence[Outcome | None] | None = None
    texts: Mapping[str, str] | None = None
    ranking: Ranking | None = None
    collection: Collection | None = None
    reranked: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        for name, part in (("contexts", self.contexts), ("outcomes", self.outcomes)):
            if part is not None and len(part) != len(self.questions):
                raise RagLabError(f"metrics: {len(part)} {name} for {len(self.questions)} questions")

    @property
    def query_ids(self) -> list[str]:
        """Query ids in the order of every array ``[n]``."""
        return [question.query_id for question in self.questions]

    def offers(self) -> frozenset[str]:
        """Which of the needs in `WHY_NOT` are met."""
        given = {
            "qrels": any(grade > 0 for judged in self.qrels.values() for grade in judged.values()),
            "answers": any(question.answers for question in self.questions),
            "gold": any(question.gold and question.answerable is not False for question in self.questions),
            "unanswerable": any(question.answerable is False for question in self.questions),
            "ranking": self.documents is not None,
            "spans": self.ranking is not None and self.collection is not None,
            "reranked": self.reranked is not None,
            "context": self.contexts is not None,
            "generation": self.outcomes is not None,
        }
        return frozenset(name for name, met in given.items() if met)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric by name: what it needs, as keys of `WHY_NOT`, and one sentence of meaning."""

    name: str
    needs: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics that are computed together. `find` returns None for a name of another family."""

    find: Callable[[str], Metric | None]
    compute: Callable[[Sequence[str], Observation], dict[str, Scores]]


def named(*metrics: Metric) -> Callable[[str], Metric | None]:
    """The `find` of a family whose metrics have fixed names."""
    return {metric.name: metric for metric in metrics}.get


def state_of(outcome: Outcome | None) -> str:
    """``answered``, ``abstained`` or ``failed``; a question without outcome has failed, and so has an empty answer."""
    if isinstance(outcome, Abstention):
        return "abstained"
    return "answered" if isinstance(outcome, Answer) and (outcome.claims or outcome.text.strip()) else "failed"


def in_state(outcomes: Sequence[Outcome | None], state: str) -> BoolArray:
    """Which outcomes are in a state, ``[n]``."""
    return np.fromiter((state_of(outcome) == state for outcome in outcomes), dtype=bool, count=len(outcomes))
