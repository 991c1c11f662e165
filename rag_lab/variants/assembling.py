"""What stages that assemble contexts have in common: room under the budget, and how a context is booked."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Context
from rag_lab.variants.stage import Batch, Output, Plan, Stage, State, Step

OPEN_CONTEXT = 1 << 30


class Assembling(Stage):
    """A stage that makes the contexts. Its output has the facts `wanted` and `granted`, prompt tokens ``[size]``.

    direct: whether its contexts hold more than what was retrieved.
    """

    step: ClassVar[Step] = Step.ASSEMBLE
    direct: ClassVar[bool] = False

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the generator, whose tokenizer counts."""
        return [self.settings(), *counted_by(batch)]

    def plan(self, state: State) -> Plan:
        """Room for the prompt, and for the answer that has to fit beside it in the generator's window."""
        return prompt_room(state, capped=self._decides(state))

    def _decides(self, state: State) -> bool:
        """Whether its contexts are those that the prompt is made of."""
        return self.cuts_context or not state.cut_later

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Hand on the contexts; what was left out for want of tokens is a curtailment."""
        contexts: tuple[Context, ...] = output.payload  # type: ignore[assignment]
        if state.from_memory is not None:
            # A context that nobody assembled is what a generator answers from memory.
            contexts = tuple(
                Context(context.request_id) if memory else context
                for context, memory in zip(contexts, state.from_memory.tolist(), strict=True)
            )
        state.contexts = contexts
        state.looked_at = output.facts.get("looked_at")
        state.keys["contexts"] = key
        if self.direct:
            state.direct = np.ones(state.batch.size, dtype=bool)
        state.ledger.curtail(self.name, "context_tokens", output.facts["wanted"], output.facts["granted"])
        if not state.batch.generates and self._decides(state):
            tokens = np.array([context.prompt_tokens for context in contexts], dtype=np.int64)
            state.ledger.spend("context_tokens", np.where(tokens <= plan["context_tokens"], tokens, 0))


def counted_by(batch: Batch) -> list[Any]:
    """What decides how many tokens a prompt has, and how many it may have."""
    return [batch.generator.name, batch.generator.version, batch.generator.window]


def prompt_room(state: State, capped: bool = True) -> Plan:
    """Tokens left for each prompt and each answer, ``[size]``; `OPEN_CONTEXT` where the prompt is not capped, or not to
    be `capped` yet."""
    room = state.ledger.room("context_tokens") if capped else np.full(state.batch.size, np.inf)
    answer: npt.NDArray[Any] = np.minimum(state.ledger.room("output_tokens"), state.answer_tokens)
    return {
        "context_tokens": np.minimum(room, OPEN_CONTEXT).astype(np.int64),
        "output_tokens": answer.astype(np.int64),
    }
