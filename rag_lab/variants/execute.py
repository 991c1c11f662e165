"""Run variants over one batch under one budget. A stage whose output is already known is not run again.

Known means: computed earlier in this run for another variant, or kept in the store by an earlier run. The times that
were measured when the output was computed stay with it, so a variant's latency does not depend on who ran first.

Documents may be denied while a variant runs. When the snapshot holds them, the variant starts again with the scopes of
now; after `ATTEMPTS` it goes on, and the questions that the denied documents have touched fail.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rag_lab import records
from rag_lab.budgets import Budget, Ledger
from rag_lab.contracts import Failure, RagLabError, Ranking
from rag_lab.store import digest
from rag_lab.variants.answer import Generate
from rag_lab.variants.handing_out import check_output, hand_out
from rag_lab.variants.retrieve import Dense
from rag_lab.variants.stage import Batch, Output, Plan, Ran, Stage, State, Step
from rag_lab.variants.variant import Variant

ATTEMPTS = 3


@dataclass
class Memory:
    """Outputs of stages by key: those of this run, backed by the store."""

    outputs: dict[str, Output] = field(default_factory=dict)
    computed: set[str] = field(default_factory=set)


def run_variant(variant: Variant, batch: Batch, budget: Budget, memory: Memory) -> State:
    """Take the batch through the stages. A stage that raises fails every question that has not failed before.

    The state's own batch has the scopes that it was computed under. Nothing in it was denied when the call returned;
    what is handed on later goes through `hand_out`.
    """
    for attempt in range(1, ATTEMPTS + 1):
        state = _run(variant, batch.current(), budget, memory, attempt < ATTEMPTS)
        if state is None:
            continue
        with hand_out(state) as checked:
            if checked is state or attempt == ATTEMPTS:
                return checked
    raise AssertionError("the last attempt ends in a state")


def _run(variant: Variant, batch: Batch, budget: Budget, memory: Memory, may_stop: bool) -> State | None:
    """One attempt; None if it `may_stop` and documents of the batch were denied meanwhile."""
    channels = sum(stage.step is Step.RETRIEVE for stage in variant.stages)
    answer = sum(stage.output_tokens for stage in variant.stages if isinstance(stage, Generate) and batch.generates)
    state = State(batch, Ledger(budget, batch.size), channels, answer)
    for stage in variant.stages:
        if stage.step is Step.GENERATE and not batch.generates:
            continue
        try:
            _run_stage(stage, state, memory)
            if may_stop and not batch.holds():
                return None
        except Exception as error:  # noqa: BLE001 - any cause fails the stage's questions, none may stop the run
            for i, request in enumerate(batch.requests):
                state.failures.setdefault(i, Failure(request.request_id, stage.name, _cause(error, batch)))
            break
    compute_ms = np.sum([ran.ms for ran in state.ran], axis=0) if state.ran else np.zeros(batch.size)
    state.ledger.spend("latency_ms", compute_ms)
    state.ledger.spend("usd", batch.prices.compute(compute_ms))
    return state


def _cause(error: Exception, batch: Batch) -> str:
    """What a failure says. It goes to every question of the batch, so where rights withhold anything from anybody, an
    error that is not ours is named by its type alone: its text may quote what only one of them may read."""
    if isinstance(error, RagLabError):
        return str(error)
    open_to_all = all(scope.whole for scope in batch.scopes.scopes)
    return f"{type(error).__name__}: {error}" if open_to_all else type(error).__name__


def _run_stage(stage: Stage, state: State, memory: Memory) -> None:
    batch = state.batch
    plan = stage.plan(state)
    key = digest(batch.key, stage.name, stage.identity(batch), stage.inputs(state), _plain_plan(plan))
    cached = key not in memory.computed
    if key not in memory.outputs:
        kept = batch.kept(key, "output.bin")
        if kept is None:
            batch.progress(stage.name, 0, batch.size)
            output = check_output(stage.name, batch, stage.compute(state, plan, key))
            cached = False
            memory.computed.add(key)
            if not _failed(output):
                batch.keep(key, "output.bin", dump_output(output))
        else:
            output = check_output(stage.name, batch, load_output(kept))
        memory.outputs[key] = output
    vectors_cached = batch.query_vectors().cached if isinstance(stage, Dense) and not cached else None
    state.ran.append(Ran(stage.name, key, memory.outputs[key].ms, cached, vectors_cached))
    stage.apply(state, plan, memory.outputs[key], key)
    batch.progress(stage.name, batch.size, batch.size)


def _plain_plan(plan: Plan) -> dict[str, Any]:
    """The plan as JSON: one number where it is the same for all questions."""
    plain: dict[str, Any] = {}
    for name, values in plan.items():
        distinct = np.unique(values)
        plain[name] = distinct.tolist() if len(distinct) <= 1 else values.tolist()
    return plain


def _failed(output: Output) -> bool:
    return not isinstance(output.payload, Ranking) and any(
        isinstance(getattr(item, "outcome", None), Failure) for item in output.payload
    )


def dump_output(output: Output) -> bytes:
    """A stage's output as bytes: arrays for a ranking, JSON for records; no code is ever read back."""
    buffer = io.BytesIO()
    facts: dict[str, Any] = {f"fact {name}": values for name, values in output.facts.items()}
    if isinstance(output.payload, Ranking):
        ranking = output.payload
        arrays: dict[str, Any] = {"query": ranking.query, "chunk": ranking.chunk, "score": ranking.score}
        arrays |= {f"rank {name}": ranks for name, ranks in ranking.ranks.items()}
        about = json.dumps({"channel": ranking.channel, "size": ranking.size}).encode()
        np.savez(buffer, ms=output.ms, **facts, about=np.frombuffer(about, np.uint8), **arrays)
    else:
        payload = np.frombuffer(records.dumps(output.payload), np.uint8)
        np.savez_compressed(buffer, ms=output.ms, **facts, records=payload)
    return buffer.getvalue()


def load_output(data: bytes) -> Output:
    """The inverse of `dump_output`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        facts = {name.removeprefix("fact "): arrays[name] for name in arrays if name.startswith("fact ")}
        if "records" in arrays:
            return Output(records.loads(arrays["records"].tobytes()), arrays["ms"], facts)
        about = json.loads(arrays["about"].tobytes())
        ranks = {name.removeprefix("rank "): arrays[name] for name in arrays if name.startswith("rank ")}
        ranking = Ranking(about["channel"], about["size"], arrays["query"], arrays["chunk"], arrays["score"], ranks)
        return Output(ranking, arrays["ms"], facts)
