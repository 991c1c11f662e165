"""A router: the corpus itself, or a search in it, by a written rule.

The rule, for each question on its own:

1. *size* is what the whole prompt would take with every document that the caller may read, in the generator's tokens;
   *room* is what the prompt may take (the budget, and what the answer leaves of the generator's window).
2. A question asks *about everything* where its words match `ABOUT_EVERYTHING`: counts, lists, totals and summaries,
   which a few passages cannot answer however well they are found.
3. The question goes directly to the corpus when size <= limit x room, where the limit is `share`, or `share_of_all` for
   a question about everything. Otherwise the corpus is searched. Without a cap on the prompt every question goes
   directly.

What was decided, and on what, is an event of the question: `direct` or `retrieval` with size, room, limit and kind.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from rag_lab.context import prompt_limits
from rag_lab.contracts import BoolArray, Event, Queries, Request
from rag_lab.variants.assembling import OPEN_CONTEXT, counted_by, prompt_room
from rag_lab.variants.authorised import counts, readerships
from rag_lab.variants.stage import Batch, Output, Plan, Stage, State, Step, register

ABOUT_EVERYTHING = re.compile(
    r"\b(?:how many|all|every|list|overall|altogether|in total|total number|summari[sz]e|summary|overview)\b"
    r"|总共|一共|共有|总计|合计|所有|全部|列出|列举|哪些|汇总|总结|概括|概述|多少(?:个|种|项|份|家|次|条|类|名)",
    re.IGNORECASE,
)
"""What a question about everything says, in English or Chinese."""


@register
class Route(Stage):
    """Decide for each question whether it is answered from the corpus itself or from what is retrieved.

    Nothing is retrieved for a question that goes directly, so it costs no candidates and no time to search; the stage
    `assemble` gives it whole documents. The others go on as if there were no router.
    """

    name: ClassVar[str] = "route"
    step: ClassVar[Step] = Step.QUERY
    share: float = Field(0.5, ge=0, le=1, description="part of the room that the corpus may take")
    share_of_all: float = Field(1.0, ge=0, le=1, description="the same for a question about everything")

    def identity(self, batch: Batch) -> list[Any]:
        """Settings, the words that it looks for, and the generator, whose tokenizer counts."""
        return [self.settings(), ABOUT_EVERYTHING.pattern, batch.texts is None, *counted_by(batch)]

    def inputs(self, state: State) -> list[str]:
        """The queries, where they are not just the questions."""
        return [state.keys[name] for name in ("queries", "skipped") if name in state.keys]

    def plan(self, state: State) -> Plan:
        """Room for prompt and answer, as the assembly will have it."""
        return prompt_room(state)

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Count the documents of every readership once, then decide by size and words."""
        batch = state.batch
        groups = readerships(batch)
        counted = counts(batch, groups)
        started = time.perf_counter()
        size = np.zeros(batch.size, dtype=np.int64)
        for number, group in enumerate(groups):
            size[group.members] = group.bare() + counted.whole[number]
        room = prompt_limits(batch.size, plan["context_tokens"], plan["output_tokens"], batch.generator.window)
        everything = about_everything(batch.requests)
        limit = np.where(everything, self.share_of_all, self.share)
        direct = (room >= OPEN_CONTEXT) | (size <= limit * room)
        ms = (time.perf_counter() - started) * 1000 / max(1, batch.size) + counted.ms
        rest = state.queries.where(~direct[state.queries.of])
        events = {i: (self._event(direct[i], size[i], room[i], limit[i], everything[i]),) for i in range(batch.size)}
        return Output(rest, np.full(batch.size, ms), {"direct": direct}, events)

    def _event(self, direct: bool, size: int, room: int, limit: float, everything: bool) -> Event:
        told = "no cap" if room >= OPEN_CONTEXT else f"{limit:g} of a room of {room}"
        kind = "about everything" if everything else "about something"
        return Event(self.name, "direct" if direct else "retrieval", f"size {size}, limit {told}; {kind}", float(size))

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:  # noqa: ARG002 - one interface
        """Questions that go directly are not searched for; where none does, all is as without a router."""
        direct: BoolArray = output.facts["direct"]
        if not direct.any():
            return
        assert isinstance(output.payload, Queries)
        state.direct = direct
        state.skipped = state.skipped | direct
        state.queries = output.payload
        for name in ("direct", "skipped", "queries"):
            state.keys[name] = key


def about_everything(requests: Sequence[Request]) -> BoolArray:
    """Which questions ask about everything, by their words, ``[n]``."""
    folded = (unicodedata.normalize("NFKC", request.query) for request in requests)
    return np.fromiter((bool(ABOUT_EVERYTHING.search(text)) for text in folded), dtype=bool, count=len(requests))
