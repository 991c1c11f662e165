"""Run variants over one batch under one budget. A stage whose output is already known is not run again.

Known means: computed earlier in this run for another variant, or kept in the store by an earlier run. The times that
were measured when the output was computed stay with it, so a variant's latency does not depend on who ran first.

Documents may be denied while a variant runs. When the snapshot holds them, the variant starts again with the scopes of
now; after `ATTEMPTS` it goes on, and the questions that the denied documents have touched fail.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab import records
from rag_lab.budgets import Budget, Ledger
from rag_lab.contracts import Context, Failure, Passage, Queries, RagLabError, Ranking
from rag_lab.passages import without_number
from rag_lab.store import digest
from rag_lab.variants.answer import Generate
from rag_lab.variants.handing_out import check_output, hand_out
from rag_lab.variants.query_vectors import QuerySparseVectors, QueryTokenVectors, QueryVectors
from rag_lab.variants.stage import Batch, Output, Payload, Plan, Ran, Stage, State, Step
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
    asked = Queries.of_requests(batch.requests)
    state = State(batch, Ledger(budget, batch.size), channels, answer, asked, np.zeros(batch.size, dtype=bool))
    state.cut_later = any(stage.cuts_context for stage in variant.stages)
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
    cached, vectors_cached = key not in memory.computed, None
    if key not in memory.outputs:
        kept = batch.kept(key, "output.bin")
        if kept is None:
            batch.progress(stage.name, 0, batch.size)
            watched, asked = _watched(state)
            output = check_output(stage.name, batch, stage.compute(watched, plan, key))
            cached, vectors_cached = False, all(asked) if asked else None
            memory.computed.add(key)
            if not _failed(output):
                batch.keep(key, "output.bin", dump_output(output))
        else:
            output = check_output(stage.name, batch, load_output(kept))
        memory.outputs[key] = output
    state.ran.append(Ran(stage.name, key, memory.outputs[key].ms, cached, None if cached else vectors_cached))
    for question, events in memory.outputs[key].events.items():
        state.events[question] = (*state.events.get(question, ()), *events)
    for question, cause in memory.outputs[key].failures.items():
        state.failures.setdefault(question, Failure(batch.requests[question].request_id, stage.name, cause))
    stage.apply(state, plan, memory.outputs[key], _handed_on(key, memory.outputs[key]))
    batch.progress(stage.name, batch.size, batch.size)


def _watched(state: State) -> tuple[State, list[bool]]:
    """The state, with a list that tells for every call for query vectors whether they were read back."""
    asked: list[bool] = []
    batch = state.batch

    def query_vectors(texts: Sequence[str]) -> QueryVectors:
        found = batch.query_vectors(texts)
        asked.append(found.cached)
        return found

    def token_vectors(texts: Sequence[str]) -> QueryTokenVectors:
        found = batch.token_vectors(texts)
        asked.append(found.cached)
        return found

    def sparse_vectors(model: str, texts: Sequence[str]) -> QuerySparseVectors:
        found = batch.sparse_vectors(model, texts)
        asked.append(found.cached)
        return found

    watched = copy(state)
    watched.batch = replace(
        batch, query_vectors=query_vectors, token_vectors=token_vectors, sparse_vectors=sparse_vectors
    )
    return watched, asked


def _plain_plan(plan: Plan) -> dict[str, Any]:
    """The plan as JSON: one number where it is the same for all questions."""
    plain: dict[str, Any] = {}
    for name, values in plan.items():
        distinct = np.unique(values)
        plain[name] = distinct.tolist() if len(distinct) <= 1 else values.tolist()
    return plain


def _failed(output: Output) -> bool:
    if output.failures or output.transient:
        return True
    if isinstance(output.payload, Ranking | Queries):
        return False
    return any(isinstance(getattr(item, "outcome", None), Failure) for item in output.payload)


def _handed_on(key: str, output: Output) -> str:
    """The key that later stages go by. What follows from an output that is not kept does not follow from another one
    under the same key, so there its content counts."""
    if not _failed(output):
        return key
    return digest(key, hashlib.sha256(dump_output(replace(output, ms=np.zeros(0)))).hexdigest())


def dump_output(output: Output) -> bytes:
    """A stage's output as bytes: arrays for a ranking, JSON for records; no code is ever read back.

    Passages that several contexts share are kept once: long contexts hold the same documents for every question.
    """
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {f"fact {name}": values for name, values in output.facts.items()}
    if output.events:
        arrays["events"] = _bytes(records.dumps([[question, events] for question, events in output.events.items()]))
    payload, save = output.payload, np.savez
    if isinstance(payload, Ranking):
        arrays |= {"query": payload.query, "chunk": payload.chunk, "score": payload.score}
        arrays |= {f"rank {name}": ranks for name, ranks in payload.ranks.items()}
        arrays["about"] = _bytes(json.dumps({"channel": payload.channel, "size": payload.size}).encode())
    elif isinstance(payload, Queries):
        listed = [payload.size, payload.of.tolist(), payload.texts, payload.kinds, payload.channels, payload.averaged]
        arrays["queries"] = _bytes(records.dumps(listed))
    elif payload and isinstance(payload[0], Context):
        arrays |= _shelved([context for context in payload if isinstance(context, Context)])
        save = np.savez_compressed
    else:
        arrays["records"], save = _bytes(records.dumps(payload)), np.savez_compressed
    save(buffer, ms=output.ms, **arrays)
    return buffer.getvalue()


def _bytes(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def _shelved(contexts: Sequence[Context]) -> dict[str, Any]:
    """Contexts as the distinct passages, which of them each one holds, in order, and the rest of the records."""
    place: dict[tuple[Any, ...], int] = {}
    of_object: dict[int, int] = {}
    held: list[int] = []
    for context in contexts:
        for passage in context.passages:
            if id(passage) not in of_object:
                of_object[id(passage)] = place.setdefault(without_number(passage), len(place))
            held.append(of_object[id(passage)])
    return {
        "passages": _bytes(records.dumps([Passage(0, *others) for others in place])),
        "contexts": _bytes(records.dumps([replace(context, passages=()) for context in contexts])),
        "held": np.array(held, dtype=np.int32),
        "numbers": np.array([p.number for context in contexts for p in context.passages], dtype=np.int32),
        "sizes": np.array([len(context.passages) for context in contexts], dtype=np.int32),
    }


def _unshelved(arrays: Mapping[str, Any]) -> tuple[Context, ...]:
    """The inverse of `_shelved`; equal passages are one object."""
    passages = records.loads(arrays["passages"].tobytes())
    numbered = cache(lambda place, number: Passage(number, *without_number(passages[place])))
    found = list(map(numbered, arrays["held"].tolist(), arrays["numbers"].tolist()))
    edges = pairwise(accumulate(arrays["sizes"].tolist(), initial=0))
    contexts = records.loads(arrays["contexts"].tobytes())
    return tuple(replace(context, passages=tuple(found[a:b])) for context, (a, b) in zip(contexts, edges, strict=True))


def load_output(data: bytes) -> Output:
    """The inverse of `dump_output`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        facts = {name.removeprefix("fact "): arrays[name] for name in arrays if name.startswith("fact ")}
        events = dict(records.loads(arrays["events"].tobytes())) if "events" in arrays else {}
        payload: Payload
        if "held" in arrays:
            payload = _unshelved(arrays)
        elif "records" in arrays:
            payload = records.loads(arrays["records"].tobytes())
        elif "queries" in arrays:
            size, of, *others = records.loads(arrays["queries"].tobytes())
            payload = Queries(size, np.array(of, dtype=np.int32), *others)
        else:
            about = json.loads(arrays["about"].tobytes())
            ranks = {name.removeprefix("rank "): arrays[name] for name in arrays if name.startswith("rank ")}
            query, chunk, score = (arrays[name] for name in ("query", "chunk", "score"))
            payload = Ranking(about["channel"], about["size"], query, chunk, score, ranks)
        return Output(payload, arrays["ms"], facts, events)
