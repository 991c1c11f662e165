"""What a reranker is: a second, closer look at candidates, which it scores and never adds to.

Scores and passages are kept together by position: pair i has score i, whatever order the work is done in. A text that a
question has several times is one pair, so all its rows get one score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, Event, FloatArray, IntArray, Ranking


@dataclass(frozen=True, eq=False)
class Pairs:
    """Questions with the passages that a reranker is to score for them, best first within each question.

    queries: the questions' texts, ``[n]``; query, rows: the question of each pair, ascending, and the row of its
    passage, ``[pairs]``; texts: the text of each row that is in a pair.
    """

    queries: Sequence[str]
    query: IntArray
    rows: IntArray
    texts: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.query)

    @property
    def size(self) -> int:
        """Number of questions."""
        return len(self.queries)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many pairs each question has, ``[n]``."""
        return np.bincount(self.query, minlength=self.size).astype(np.int64)

    def shares(self, ms: float) -> FloatArray:
        """Time spent on all pairs as each question's share, by its number of pairs, ``[n]``."""
        return ms * self.counts / max(1, len(self))


@dataclass(frozen=True, eq=False)
class Scored:
    """What a reranker says of pairs.

    score: higher is better, NaN where the model gave none, ``[pairs]``; read: the pairs that it looked at (the others
    keep the order that they had), ``[pairs]``; ms: each question's share of the time, ``[n]``; events: what it did for
    a question and no figure tells.
    """

    score: FloatArray
    read: BoolArray
    ms: FloatArray
    events: Mapping[int, tuple[Event, ...]] = field(default_factory=dict)


class Reranker(Protocol):
    """Scores pairs of a question and a passage. `version` changes whenever a score may.

    The score of a pair does not depend on the pairs of other questions.
    """

    name: str
    version: str

    def score(self, pairs: Pairs) -> Scored:
        """A score for each pair; one that cannot be computed does not stop the others."""
        ...


def distinct_texts(ranking: Ranking, texts: npt.NDArray[np.integer]) -> IntArray:
    """For each entry the number, from 0, of its text among those of its query, by their best ranks: ``[entries]``.

    texts: the text of each entry as a number, equal for equal texts, ``[entries]``.
    """
    key = ranking.query.astype(np.int64) * (int(texts.max(initial=0)) + 1) + texts
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    new = np.zeros(len(key) + 1, dtype=np.int64)
    new[first + 1] = 1
    before = np.cumsum(new)
    numbers: IntArray = (before[first][which] - before[ranking.offsets[ranking.query]]).astype(np.int32)
    return numbers


def reranked(before: Ranking, score: FloatArray, channel: str = "rerank") -> Ranking:
    """The ranking with some of its entries scored anew, ``[entries]``, NaN for those that keep their order beneath.

    Scored entries come first, by score and then by row. The others follow in their old order: the j-th of them gets the
    lowest new score of its query minus j steps, so that the one tie rule holds for the whole. A step is 1, or a
    millionth of that score where it is so large that 1 would vanish in it.
    """
    scored = ~np.isnan(score)
    lowest = np.full(before.size, np.inf)
    np.minimum.at(lowest, before.query[scored], score[scored])
    base = np.where(np.isfinite(lowest), lowest, 0.0)[before.query]
    beneath = np.cumsum(~scored)
    start = np.concatenate([[0], beneath])[before.offsets[:-1]]
    place = beneath - start[before.query]
    final = np.where(scored, score, base - place * np.maximum(1.0, np.abs(base) * 1e-6))
    return Ranking.from_scores(channel, before.size, before.query, before.chunk, final, before.ranks)
