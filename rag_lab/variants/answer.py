"""Stages that turn a ranking into a context, and a context into an answer or an abstention."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab import records
from rag_lab.context import assemble
from rag_lab.contracts import Abstention, BoolArray, Completion, Context, Failure, IntArray, Reason, batches
from rag_lab.variants.assembling import OPEN_CONTEXT, Assembling
from rag_lab.variants.expand import BROUGHT
from rag_lab.variants.long_context import with_whole_documents
from rag_lab.variants.stage import LARGEST, Batch, Output, Plan, Stage, State, Step, register

SLICE = 64


@register
class Assemble(Assembling):
    """Choose evidence under the token budget, which covers the whole prompt.

    Questions that a stage before sent directly to the corpus (`State.direct`) get whole documents, as `long_context`
    gives them.
    """

    name: ClassVar[str] = "assemble"
    reads_ranking: ClassVar[bool] = True
    passages: int = Field(5, ge=1, le=LARGEST, description="passages at most")
    order: Literal["rank", "source"] = "rank"

    def inputs(self, state: State) -> list[str]:
        """The ranking, and which questions do without."""
        return [state.keys["ranking"], *filter(None, [state.keys.get("direct")])]

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Assemble all contexts of the batch."""
        batch, ranking = state.batch, state.ranking
        assert ranking is not None
        started = time.perf_counter()
        bringer = ranking.ranks.get(BROUGHT)
        assembly = assemble(
            batch.requests,
            ranking,
            batch.snapshot.chunks,
            batch.generator,
            plan["context_tokens"],
            plan["output_tokens"],
            passages=self.passages,
            order=self.order,
            empty_scope=[batch.scopes.scopes[of].empty for of in batch.scopes.of],
            brought=None if bringer is None else bringer > 0,
            texts=None if bringer is None or batch.texts is None else batch.texts(),
        )
        ms = np.full(batch.size, (time.perf_counter() - started) * 1000 / max(1, batch.size))
        looked_at = [
            len(rows) + sum(row >= 0 for row, _ in context.dropped)
            for rows, context in zip(assembly.rows, assembly.contexts, strict=True)
        ]
        facts: dict[str, npt.NDArray[Any]] = {
            "wanted": assembly.wanted,
            "granted": assembly.granted,
            "looked_at": np.array(looked_at, dtype=np.int64),
        }
        output = Output(tuple(assembly.contexts), ms, facts)
        return output if state.direct is None else with_whole_documents(self.name, state.direct, batch, plan, output)


@register
class Generate(Stage):
    """Answer from the context, or abstain."""

    name: ClassVar[str] = "generate"
    step: ClassVar[Step] = Step.GENERATE
    output_tokens: int = Field(96, ge=1, le=LARGEST)

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the generator."""
        return [self.settings(), batch.generator.name, batch.generator.version]

    def inputs(self, state: State) -> list[str]:
        """The contexts, none for a variant that does not retrieve, and what was decided before."""
        return [state.keys.get("contexts", "no context"), *filter(None, [state.keys.get("decided")])]

    def plan(self, state: State) -> Plan:
        """Tokens granted for each answer, calls granted, and room for the prompt."""
        ledger, calls = state.ledger, state.batch.generator.calls
        return {
            "output_tokens": ledger.grant("output_tokens", self.output_tokens),
            "llm_calls": ledger.grant("llm_calls", calls),
            "context_tokens": np.minimum(ledger.room("context_tokens"), OPEN_CONTEXT).astype(np.int64),
        }

    def compute(self, state: State, plan: Plan, key: str) -> Output:
        """Generate in slices that are kept one by one, so that an interrupted run goes on where it stopped."""
        batch = state.batch
        contexts = state.contexts or tuple(Context(request.request_id) for request in batch.requests)
        prompt = batch.generator.prompt_tokens(batch.requests, [context.passages for context in contexts])
        affordable = (
            (prompt <= plan["context_tokens"])
            & (plan["output_tokens"] > 0)
            & (plan["llm_calls"] >= batch.generator.calls)
        )
        decided = {i: Completion(outcome, 0, 0, 0, 0.0) for i, outcome in state.decided.items()}
        done: list[Completion] = []
        for number, part in enumerate(batches(batch.size, SLICE)):
            kept = batch.kept(key, f"part-{number}.json")
            if kept is None:
                members = range(part.start, part.stop)
                made = _generate(batch, contexts, plan["output_tokens"], affordable, members, decided)
                if not any(isinstance(completion.outcome, Failure) for completion in made):
                    batch.keep(key, f"part-{number}.json", records.dumps(made))
            else:
                made = list(records.loads(kept))
            done.extend(made)
            batch.progress(self.name, len(done), batch.size)
        return Output(tuple(done), np.array([completion.ms for completion in done]))

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book tokens and calls; a question that the generator could not finish is failed."""
        completions: tuple[Completion, ...] = output.payload  # type: ignore[assignment]
        state.completions = completions
        state.keys["completions"] = key
        prompt = np.array([completion.prompt_tokens for completion in completions], dtype=np.float64)
        answer = np.array([completion.output_tokens for completion in completions], dtype=np.float64)
        ledger = state.ledger
        capped = answer >= plan["output_tokens"]
        ledger.curtail(self.name, "output_tokens", np.where(capped, self.output_tokens, 0), plan["output_tokens"])
        ledger.curtail(self.name, "llm_calls", state.batch.generator.calls, plan["llm_calls"])
        ledger.spend("context_tokens", prompt)
        ledger.spend("output_tokens", answer)
        ledger.spend("llm_calls", np.array([completion.llm_calls for completion in completions]))
        ledger.spend("usd", state.batch.prices.tokens(state.batch.generator.name, prompt, answer))
        for i, completion in enumerate(completions):
            if isinstance(completion.outcome, Failure):
                state.failures.setdefault(i, completion.outcome)


def _generate(
    batch: Batch,
    contexts: Sequence[Context],
    output_tokens: IntArray,
    affordable: BoolArray,
    members: Sequence[int],
    decided: Mapping[int, Completion],
) -> list[Completion]:
    """Completions of some questions; one that is decided, or whose prompt or answer the budget does not cover, is not
    asked at all."""
    asked = [i for i in members if affordable[i] and i not in decided]
    made = batch.generator.generate(
        [batch.requests[i] for i in asked], [contexts[i] for i in asked], output_tokens[asked].astype(np.int32)
    )
    answers = {**decided, **dict(zip(asked, made, strict=True))}
    return [
        answers.get(i) or Completion(Abstention(batch.requests[i].request_id, Reason.OVER_BUDGET), 0, 0, 0, 0.0)
        for i in members
    ]
