"""Every cap, for every variant: what a variant spends when nothing is capped is taken from it, one cap at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scripted_writer import ScriptedWriter

from rag_lab.budgets import LATE, Budget
from rag_lab.contracts import RESOURCES, Answer, Completion, Request
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.store import Store
from rag_lab.variants import catalogue, load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.stage import Batch, State, trace
from rag_lab.variants.variant import Variant

SEARCH: list[Any] = ["bm25", "dense", "rrf"]
END: list[Any] = [{"assemble": {"passages": 5}}, "generate"]
MADE: dict[str, list[Any]] = {
    "splade": [{"splade": {"model": "hash-sparse"}}, *END],
    "mmr": [*SEARCH, "mmr", *END],
    "expand": [*SEARCH, {"expand": {"to": "neighbours"}}, *END],
    "compress": [*SEARCH, {"assemble": {"passages": 5}}, "compress", "generate"],
    "listwise": [*SEARCH, {"rerank": {"scorer": "listwise", "depth": 6}}, *END],
    **{
        f"{name} by {by}": [{name: {"by": by}}, *SEARCH, *END]
        for name, ways in {
            "rewrite": ("rules", "llm"),
            "multi_query": ("rules", "llm"),
            "step_back": ("rules", "llm"),
            "decompose": ("rules", "llm"),
            "hyde": ("llm",),
        }.items()
        for by in ways
    },
    **{
        f"{mode} by {by}": [{"adaptive": {"mode": mode, "by": by}}, *END]
        for mode in ("steps", "self_rag", "corrective", "interleaved")
        for by in ("rules", "llm")
    },
}
VARIANTS: dict[str, Variant] = {name: load_variant(name) for name in catalogue()} | {
    name: load_variant(name, stages) for name, stages in MADE.items()
}
REPLY = (
    '{"steps": "several", "parts": ["Which pump?", "Which valve has #1?"], "sufficient": false, "answer": "unit7", '
    '"query": "valve sensor", "relevant": true, "supported": false, "order": [2, 1]}'
)
LONG = "Which pump and which valve are beside the sensor of the lamp?"

Run = Callable[..., State]


class Calling(ExtractiveReader):
    """The extractive reader, as a generator whose answers take a call."""

    calls = 1

    def generate(self, *given: Any) -> list[Completion]:
        return [replace(completion, llm_calls=1) for completion in super().generate(*given)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("budgets"))


@pytest.fixture
def run(house: Any, ask: Callable[..., Request], kept: Store) -> Run:
    requests = [ask("pump valve", 0), ask(LONG, 1, history=("And the brake?",)), ask("list brake axle", 2)]
    readable = np.flatnonzero(house.snapshot.scopes(requests).rows(0)).tolist()
    assert len(readable) > 5

    def go(name: str, **caps: float) -> State:
        batch: Batch = house.batch(requests, kept, gold=[readable, readable[:2], readable[3:5]])
        batch = replace(batch, generator=Calling(), writer=ScriptedWriter(lambda *_: REPLY))
        return run_variant(VARIANTS[name], batch, Budget.from_mapping(caps), Memory())

    return go


def outcomes(state: State) -> list[Any]:
    return [completion.outcome for completion in state.completions]


@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("name", VARIANTS)
def test_every_cap_is_reached_and_none_is_passed(run: Run, name: str, resource: str) -> None:
    free = run(name)
    assert not free.failures
    assert name == "no_retrieval" or any(isinstance(outcome, Answer) for outcome in outcomes(free))
    spent = free.ledger.spent[resource]
    cap = 0.0 if resource in LATE else max(0.0, float(spent.max()) - 1)
    capped = run(name, **{resource: cap if resource in LATE else int(cap)})
    assert not capped.failures
    if resource in LATE:
        assert (spent > 0).all()
        assert capped.ledger.over()[resource].all()
        return
    assert (capped.ledger.spent[resource] <= cap).all()
    reached = [i for i in range(len(spent)) if spent[i] > cap]
    assert reached or not spent.any()
    for i in reached:
        cut = [cut for cut in capped.ledger.curtailments[i] if cut.resource == resource]
        searched = "retrieval" in {event.kind for event in trace(capped, i).events if event.stage == "route"}
        assert cut or searched or getattr(outcomes(capped)[i], "reason", "") == "over_budget"
        assert all(one.granted < one.wanted for one in cut)


@pytest.mark.parametrize("resource", [name for name in RESOURCES if name not in LATE])
@pytest.mark.parametrize("name", VARIANTS)
def test_with_nothing_left_every_question_ends_in_an_outcome(run: Run, name: str, resource: str) -> None:
    free, capped = run(name), run(name, **{resource: 0})
    assert not capped.failures
    assert not capped.ledger.spent[resource].any()
    if not free.ledger.spent[resource].any() and not any(capped.ledger.curtailments):
        assert outcomes(capped) == outcomes(free)


def test_the_catalogue_draws_on_what_its_names_say(run: Run) -> None:
    """Which resources each variant spends at all, and so which of its caps can be reached."""
    spends = {
        name: {resource for resource in RESOURCES if run(name).ledger.spent[resource].any()} - set(LATE)
        for name in catalogue()
    }
    asked = {"context_tokens", "output_tokens", "llm_calls"}
    found = asked | {"candidates"}
    assert spends == {
        "bm25": found,
        "dense": found,
        "colbert": found,
        "hybrid": found,
        "rerank": found | {"rerank_pairs"},
        "fusion": found,
        "multi_query": found,
        "long_context": asked,
        "router": asked,
        "adaptive": found | {"rounds"},
        "no_retrieval": asked - {"output_tokens"},
        "gold_context": found,
        "gold_first": found,
        "gold_middle": found,
        "gold_last": found,
    }


def test_all_caps_at_once_hold(run: Run) -> None:
    tight = {
        "candidates": 4,
        "rerank_pairs": 2,
        "context_tokens": 60,
        "output_tokens": 12,
        "llm_calls": 2,
        "rounds": 1,
    }
    for name in VARIANTS:
        state = run(name, **tight)
        assert not state.failures, name
        for resource, cap in tight.items():
            assert (state.ledger.spent[resource] <= cap).all(), (name, resource)
        assert np.isfinite(state.ledger.spent["latency_ms"]).all()
