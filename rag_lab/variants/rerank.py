"""The stage that looks at the best candidates again, more closely, and puts them into a new order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab.contracts import Event, FloatArray, IntArray, RagLabError, Ranking
from rag_lab.retrieval.dense import text_numbers
from rag_lab.retrieval.rerank import Pairs, Reranker, Scored, distinct_texts, reranked
from rag_lab.retrieval.rerank.cross_encoder import load_cross_encoder
from rag_lab.retrieval.rerank.late import LateReranker
from rag_lab.retrieval.rerank.listwise import ListwiseReranker, Means, window_count
from rag_lab.variants import writing
from rag_lab.variants.stage import LARGEST, Batch, Output, Plan, Reranked, Stage, State, Step, register
from rag_lab.variants.transforms import OWN

LATE, LISTWISE = "late", "listwise"
_, REWRITTEN = OWN
WINDOW, STRIDE, PASSAGE_TOKENS = 10, 5, 128


@register
class Rerank(Stage):
    """Score the first `depth` candidates of each question anew; what ranks lower stays beneath them in its order.

    scorer: "late" (MaxSim over the snapshot's token vectors), "listwise" (the experiment's `writer` orders passages),
    or a cross-encoder by hub name or folder. window, stride and passage_tokens belong to listwise: passages a call, how
    far the window moves up after it, and how many tokens of a passage are shown at most.

    A pair is a question with a text: candidates with one text are scored once, count once and tie. Where the budget
    grants fewer pairs than there are, the candidates that rank first are scored. A question for which a score is no
    finite number fails alone.
    """

    name: ClassVar[str] = "rerank"
    step: ClassVar[Step] = Step.RANK
    reads_ranking: ClassVar[bool] = True
    intervention: ClassVar[str] = "reranker"
    scorer: str = Field(LATE, min_length=1)
    depth: int = Field(50, ge=1, le=LARGEST, description="candidates a question")
    window: int | None = Field(None, ge=2, le=1000)
    stride: int | None = Field(None, ge=1, le=1000)
    passage_tokens: int | None = Field(None, ge=1, le=LARGEST)

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """One ranking comes in, and settings of listwise go with listwise."""
        channels = [stage.name for stage in before if stage.step is Step.RETRIEVE]
        if len(channels) > 1 and not any(stage.fuses for stage in before):
            raise RagLabError(
                f"{place}: 'rerank' needs one ranking, and there are {' and '.join(channels)}; put a fusing stage such "
                "as 'rrf' before it"
            )
        own = {"window": self.window, "stride": self.stride, "passage_tokens": self.passage_tokens}
        if self.scorer != LISTWISE and (given := [name for name, value in own.items() if value is not None]):
            raise RagLabError(f"{place}.rerank.{given[0]}: goes with scorer listwise, not '{self.scorer}'; remove it")
        if self._stride > self._window:
            raise RagLabError(
                f"{place}.rerank.stride: {self._stride} is more than the window of {self._window}, so passages would "
                "be passed over; use less"
            )

    @property
    def _window(self) -> int:
        return self.window or WINDOW

    @property
    def _stride(self) -> int:
        return self.stride or min(STRIDE, self._window)

    @property
    def writes(self) -> bool:
        """Whether it is the run's writer that orders the passages."""
        return self.scorer == LISTWISE

    def needs(self) -> frozenset[str]:
        """Token vectors, for late interaction."""
        return frozenset({"late:exact"}) if self.scorer == LATE else frozenset()

    def models(self) -> dict[str, str]:
        """The cross-encoder; a checkpoint of another kind is an error."""
        return {} if self.scorer in (LATE, LISTWISE) else {self.scorer: load_cross_encoder(self.scorer).version}

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the model."""
        if self.scorer == LISTWISE:
            writer = writing.writer_of(batch, self.name)
            return [self.settings(), writer.name, writer.version]
        if self.scorer == LATE:
            encoder = batch.late_encoder()
            return [self.settings(), encoder.name, encoder.version]
        return [self.settings(), self.models()]

    def inputs(self, state: State) -> list[str]:
        """The ranking, and the queries where they are not just the questions."""
        return [state.keys[name] for name in ("ranking", "queries") if name in state.keys]

    def plan(self, state: State) -> Plan:
        """Pairs granted, and what can be spared for a language model."""
        pairs = state.ledger.grant("rerank_pairs", _Chosen.of(state, self.depth).wanted)
        if self.scorer != LISTWISE:
            return {"rerank_pairs": pairs}
        return {"rerank_pairs": pairs, **writing.spare(state, window_count(pairs, self._window, self._stride))}

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Score the pairs, and give each candidate the score of its text."""
        batch, before = state.batch, state.ranking
        assert before is not None
        candidates = _Chosen.of(state, self.depth)
        chosen = candidates.within(plan["rerank_pairs"])
        pairs = chosen.pairs(state)
        scored, facts = self._score(batch, plan, pairs)
        read, score = chosen.spread(scored)
        finite = np.isfinite(scored.score)
        failed = np.unique(pairs.query[scored.read & ~finite])
        kept = np.full(batch.size, len(before.query))
        kept[failed] = 0
        counts = np.bincount(pairs.query[scored.read], minlength=batch.size)
        copies = np.bincount(before.query[read], minlength=batch.size) - counts
        return Output(
            reranked(before, np.where(np.isfinite(score), score, np.nan)).top(kept),
            scored.ms,
            {**facts, "read": read, "score": score, "wanted": candidates.wanted, "pairs": counts},
            _events(copies, scored),
            dict.fromkeys(failed.tolist(), f"{self.scorer} gave scores that are not finite numbers"),
            transient=any(event.kind == "failed" for told in scored.events.values() for event in told),
        )

    def _score(self, batch: Batch, plan: Plan, pairs: Pairs) -> tuple[Scored, dict[str, npt.NDArray[Any]]]:
        """What the scorer says of the pairs, and what it took of a language model."""
        if self.scorer != LISTWISE:
            return self._reranker(batch, pairs).score(pairs), {}
        pen = writing.Pen(batch, self.name, plan)
        means = Means(plan["llm_calls"], plan["context_tokens"], plan["output_tokens"])
        reader = ListwiseReranker(
            writing.writer_of(batch, self.name),
            pen.write,
            means,
            self._window,
            self._stride,
            self.passage_tokens or PASSAGE_TOKENS,
        )
        scored = reader.score(pairs)
        return scored, {**pen.facts, **{f"lacked_{name}": amount for name, amount in reader.lacked.items()}}

    def _reranker(self, batch: Batch, pairs: Pairs) -> Reranker:
        if self.scorer != LATE:
            return load_cross_encoder(self.scorer)
        found = batch.token_vectors(pairs.queries)
        return LateReranker(batch.snapshot.late("exact"), found.vectors, found.ms)

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book pairs and what a language model took; the new ranking is handed on, and the old one kept beside it."""
        before = state.ranking
        assert before is not None
        assert isinstance(output.payload, Ranking)
        state.ledger.spend("rerank_pairs", output.facts["pairs"])
        state.ledger.curtail(self.name, "rerank_pairs", output.facts["wanted"], plan["rerank_pairs"])
        if self.scorer == LISTWISE:
            writing.book(state, self.name, output)
        state.reranked = Reranked(before, output.facts["read"], output.facts["score"])
        state.fused = output.payload
        state.keys["ranking"] = key


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Entries of a ranking that are to be scored: their positions in it, and for each the number of its text among
    those of its question, by the best rank, ``[chosen]``."""

    ranking: Ranking
    at: npt.NDArray[np.intp]
    number: IntArray

    @classmethod
    def of(cls, state: State, depth: int) -> _Chosen:
        """The first `depth` candidates of each question."""
        ranking = state.ranking
        assert ranking is not None
        at = np.flatnonzero(ranking.rank <= depth)
        rows, which = np.unique(ranking.chunk[at], return_inverse=True)
        texts = text_numbers(state.batch.snapshot.keys.text_key[rows])
        return cls(ranking, at, distinct_texts(ranking.top(depth), texts[which]))

    def within(self, most: npt.NDArray[np.int64]) -> _Chosen:
        """Those with the first texts of each question, as many as it may have scored, ``[size]``."""
        keep = self.number < most[self.ranking.query[self.at]]
        return _Chosen(self.ranking, self.at[keep], self.number[keep])

    @property
    def wanted(self) -> npt.NDArray[np.int64]:
        """How many texts each question has, ``[size]``."""
        most = np.zeros(self.ranking.size, dtype=np.int64)
        np.maximum.at(most, self.ranking.query[self.at], self.number + 1)
        return most

    @property
    def _first_and_pair(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The entry at which each pair comes first, and the pair of each entry."""
        key = self.ranking.query[self.at].astype(np.int64) << 32 | self.number
        _, first, pair = np.unique(key, return_index=True, return_inverse=True)
        return first, pair

    def pairs(self, state: State) -> Pairs:
        """Every question with every text of its own."""
        first = self.at[self._first_and_pair[0]]
        rows, table = self.ranking.chunk[first], state.batch.snapshot.chunks
        texts = {row: table.indexed_text(row) for row in np.unique(rows).tolist()}
        return Pairs(_questions(state), self.ranking.query[first], rows, texts)

    def spread(self, scored: Scored) -> tuple[npt.NDArray[np.bool_], FloatArray]:
        """Which entries of the whole ranking were read, and their scores, NaN elsewhere, ``[entries]``."""
        pair = self._first_and_pair[1]
        read, score = np.zeros(len(self.ranking.query), dtype=bool), np.full(len(self.ranking.query), np.nan)
        read[self.at], score[self.at] = scored.read[pair], scored.score[pair]
        return read, score


def _questions(state: State) -> list[str]:
    """Each question in the user's own words, or as they were rewritten to stand alone."""
    texts, queries = [request.query for request in state.batch.requests], state.queries
    for question, text, kind in zip(queries.of.tolist(), queries.texts, queries.kinds, strict=True):
        if kind == REWRITTEN:
            texts[question] = text
    return texts


def _events(copies: npt.NDArray[np.int64], scored: Scored) -> dict[int, tuple[Event, ...]]:
    """Copies of texts that were not scored again, and what the scorer tells, by question."""
    events = {
        i: (Event(Rerank.name, "duplicates", value=float(copies[i])),) for i in np.flatnonzero(copies > 0).tolist()
    }
    return {i: (*events.get(i, ()), *scored.events.get(i, ())) for i in sorted({*events, *scored.events})}
