"""Long context: the corpus itself as context, as far as the caller may read it and the budget reaches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from rag_lab.contracts import BoolArray, Event, RagLabError, Ranking
from rag_lab.variants.assembling import Assembling
from rag_lab.variants.authorised import Counts, Readership, WholeContexts, counts, readerships, whole_contexts
from rag_lab.variants.stage import Batch, Output, Plan, Stage, State, Step, register


@register
class LongContext(Assembling):
    """All that the caller may read, in source order, where the whole prompt fits; else whole documents, in `order`.

    Order "source" goes by document id and needs no retrieval; "ranking" by each document's best-ranked chunk, what no
    channel found coming last. A document that does not fit is left out, never cut, and a shorter one further down may
    still fit. The event `documents` says how many are in the context, `left_out` how many are not and how many tokens
    were wanted for them.
    """

    name: ClassVar[str] = "long_context"
    direct: ClassVar[bool] = True
    order: Literal["source", "ranking"] = "source"

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """An order by rank needs a ranking, and what is retrieved has to have a use."""
        channels = [stage.name for stage in before if stage.step is Step.RETRIEVE]
        if self.order == "ranking" and not channels:
            raise RagLabError(
                f"{place}.{self.name}.order: nothing ranks the documents; put a stage such as 'bm25' before it, or set "
                "order: source"
            )
        if self.order == "source" and channels:
            raise RagLabError(
                f"{place}.{self.name}.order: source order makes no use of '{channels[0]}'; take it away, or set order: "
                "ranking"
            )

    def identity(self, batch: Batch) -> list[Any]:
        """Settings, the generator, and whether white space between chunks is known."""
        return [*super().identity(batch), batch.texts is None]

    def inputs(self, state: State) -> list[str]:
        """The ranking, where documents go by it."""
        return [state.keys["ranking"]] if self.order == "ranking" else []

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Join, count and choose the documents of every readership once."""
        batch = state.batch
        groups = readerships(batch)
        counted = counts(batch, groups)
        ranking = state.ranking if self.order == "ranking" else None
        output = _contexts(self.name, batch, groups, counted, plan, ranking)
        return replace(output, ms=output.ms + counted.ms)


def with_whole_documents(stage: str, direct: BoolArray, batch: Batch, plan: Plan, output: Output) -> Output:
    """The output of an assembling stage with whole documents for the questions that are `direct`, ``[size]``.

    Which questions those are was decided by counting the documents, so that is not charged once more.
    """
    groups = readerships(batch)
    counted = counts(batch, groups)
    mine = [replace(group, members=group.members[direct[group.members]]) for group in groups]
    whole = _contexts(stage, batch, mine, counted, plan)
    assert isinstance(output.payload, tuple)
    assert isinstance(whole.payload, tuple)
    both = zip(direct.tolist(), whole.payload, output.payload, strict=True)
    contexts: Any = tuple(mine if is_direct else other for is_direct, mine, other in both)
    facts = {name: np.where(direct, whole.facts.get(name, 0), values) for name, values in output.facts.items()}
    others = output.ms * (batch.size / max(1, int(np.count_nonzero(~direct))))
    return Output(contexts, np.where(direct, whole.ms, others), facts, {**output.events, **whole.events})


def _contexts(
    stage: str,
    batch: Batch,
    groups: Sequence[Readership],
    counted: Counts,
    plan: Plan,
    ranking: Ranking | None = None,
) -> Output:
    """Whole documents for the members of the readerships, which share the time."""
    started = time.perf_counter()
    found = whole_contexts(batch, groups, counted, plan, ranking)
    members = sorted(i for group in groups for i in group.members.tolist())
    each = (time.perf_counter() - started) * 1000 / max(1, len(members))
    events = {i: _told(stage, found, i) for i in members}
    facts = {"wanted": found.wanted, "granted": found.granted}
    return Output(tuple(found.contexts), np.full(batch.size, each), facts, events)


def _told(stage: str, found: WholeContexts, i: int) -> tuple[Event, ...]:
    """How many documents are in a context and, if any are not, how many and with how many tokens."""
    held, lacking = int(found.held[i]), int(found.readable[i] - found.held[i])
    told = [Event(stage, "documents", value=held)]
    if lacking:
        told.append(Event(stage, "left_out", f"{found.wanted[i] - found.granted[i]} tokens", value=lacking))
    return tuple(told)
