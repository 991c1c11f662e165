"""Does the place of the evidence in the context matter? The same passages, the gold ones first, in the middle or last.

A diagnostic like `gold_context`: it uses the judgments, so it bounds and explains, and does not compete. Whatever a
place changes in the answers is due to the reader, since nothing else differs: the gold passages are put into every
context, the best others fill it up, and the set is one that fits the budget in each of the three orders.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab.context import assemble, prompt_limits
from rag_lab.contracts import Context, Event, Passage, Ranking
from rag_lab.passages import renumbered
from rag_lab.variants.assembling import Assembling
from rag_lab.variants.stage import LARGEST, Batch, Output, Plan, State, register

Place: TypeAlias = Literal["start", "middle", "end"]
PLACES: tuple[Place, ...] = get_args(Place)
Ints: TypeAlias = npt.NDArray[np.int64]
Parts: TypeAlias = tuple[tuple[Passage, ...], tuple[Passage, ...]]


@register
class PlaceGold(Assembling):
    """The gold passages that the caller may read and the best others, `passages` at most, the gold ones `at` a place.

    Gold that was not retrieved takes the place of the lowest passage. With an odd number of others the middle has one
    more of them behind it. A question without readable gold has the others alone, in one order.
    """

    name: ClassVar[str] = "place_gold"
    reads_ranking: ClassVar[bool] = True
    direct: ClassVar[bool] = True
    at: Place = "start"
    passages: int = Field(5, ge=1, le=LARGEST, description="passages at most, gold ones among them")

    def identity(self, batch: Batch) -> list[Any]:
        """Settings, the generator, and the judged rows: equal questions on one snapshot may have been judged anew."""
        return [*super().identity(batch), [rows.tolist() for rows in batch.gold]]

    def inputs(self, state: State) -> list[str]:
        """The ranking."""
        return [state.keys["ranking"]]

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Assemble with the gold rows ranked first, then put them where they belong."""
        batch = state.batch
        assert state.ranking is not None
        started = time.perf_counter()
        gold = [rows[batch.scopes.rows(i)[rows]] for i, rows in enumerate(batch.gold)]
        assembly = assemble(
            batch.requests,
            _gold_first(gold, state.ranking),
            batch.snapshot.chunks,
            batch.generator,
            plan["context_tokens"],
            plan["output_tokens"],
            passages=self.passages,
            empty_scope=[batch.scopes.scopes[of].empty for of in batch.scopes.of],
        )
        parts = [_parts(batch, context, rows) for context, rows in zip(assembly.contexts, gold, strict=True)]
        limit = prompt_limits(batch.size, plan["context_tokens"], plan["output_tokens"], batch.generator.window)
        fitted = _fitted(batch, parts, limit)
        orders = [_ordered(*both, self.at) for both in fitted]
        granted = _tokens(batch, range(batch.size), orders)
        dropped = [
            context.dropped + tuple((p.row, "budget") for p in before[1][len(after[1]) :])
            for context, before, after in zip(assembly.contexts, parts, fitted, strict=True)
        ]
        cut = np.array([any(reason == "budget" for _, reason in left) for left in dropped], dtype=bool)
        contexts = tuple(
            Context(request.request_id, passages, left, int(tokens))
            for request, passages, left, tokens in zip(batch.requests, orders, dropped, granted, strict=True)
        )
        each = (time.perf_counter() - started) * 1000 / max(1, batch.size)
        facts = {"wanted": np.where(cut, assembly.wanted, granted), "granted": granted}
        events = {i: (self._event(both),) for i, both in enumerate(fitted) if both[0]}
        return Output(contexts, np.full(batch.size, each), facts, events)

    def _event(self, parts: Parts) -> Event:
        """Where the first gold passage stands, from 1, and how many there are."""
        gold, others = parts
        told = f"{len(gold)} gold of {len(gold) + len(others)} passages"
        return Event(self.name, "placed", told, _ahead(len(others), self.at) + 1)


def _gold_first(gold: Sequence[npt.NDArray[np.int32]], ranking: Ranking) -> Ranking:
    """The ranking with each question's gold rows before all others, whether it lists them or not."""
    query = np.repeat(np.arange(ranking.size), [len(rows) for rows in gold])
    rows = np.concatenate([np.zeros(0, dtype=np.int32), *gold])
    return Ranking.from_scores(
        PlaceGold.name,
        ranking.size,
        np.concatenate([query, ranking.query]),
        np.concatenate([rows, ranking.chunk]),
        np.concatenate([np.ones(len(rows)), -ranking.rank.astype(np.float64)]),
    )


def _parts(batch: Batch, context: Context, gold: npt.NDArray[np.int32]) -> Parts:
    """The passages that show gold rows, and the others as they are ranked."""
    chunks = batch.snapshot.chunks
    spans = [(chunks.document_id[r], int(chunks.shown_start[r]), int(chunks.shown_end[r])) for r in gold.tolist()]

    def golden(passage: Passage) -> bool:
        begin, end = passage.span
        return any(passage.document_id == name and begin <= first and last <= end for name, first, last in spans)

    gold_ones = tuple(passage for passage in context.passages if golden(passage))
    return gold_ones, tuple(passage for passage in context.passages if not golden(passage))


def _ahead(others: int, at: Place) -> int:
    """How many of the other passages stand before the gold ones."""
    return {"start": 0, "middle": others // 2, "end": others}[at]


def _ordered(gold: tuple[Passage, ...], others: tuple[Passage, ...], at: Place) -> tuple[Passage, ...]:
    """The passages with the gold ones at their place, numbered from 1."""
    first = _ahead(len(others), at)
    return renumbered((*others[:first], *gold, *others[first:]))


def _fitted(batch: Batch, parts: Sequence[Parts], limit: Ints) -> list[Parts]:
    """The same without the lowest others that do not fit in one of the three orders: numbers take tokens, too."""
    fitted = list(parts)
    over = list(range(batch.size))
    while over:
        most = np.max([_tokens(batch, over, [_ordered(*fitted[i], at) for i in over]) for at in PLACES], axis=0)
        over = [i for i, tokens in zip(over, most.tolist(), strict=True) if tokens > limit[i] and fitted[i][1]]
        for i in over:
            fitted[i] = fitted[i][0], fitted[i][1][:-1]
    return fitted


def _tokens(batch: Batch, questions: Sequence[int], passages: Sequence[tuple[Passage, ...]]) -> Ints:
    """Tokens of the prompts of some questions, ``[questions]``."""
    if not len(questions):
        return np.zeros(0, dtype=np.int64)
    requests = [batch.requests[i] for i in questions]
    return np.asarray(batch.generator.prompt_tokens(requests, passages), dtype=np.int64)
