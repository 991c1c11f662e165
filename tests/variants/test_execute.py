from __future__ import annotations

import numpy as np
import pytest

from rag_lab.budgets import Budget
from rag_lab.contracts import Abstention, Failure, Principal, RagLabError, Ranking
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, dump_output, load_output, run_variant
from rag_lab.variants.handing_out import candidates
from rag_lab.variants.stage import Output, trace


def test_equal_stages_run_once_and_are_read_the_next_time(house, ask, store) -> None:
    batch = house.batch([ask("pump unit1", 1), ask("brake", 2)], store)
    memory = Memory()
    states = {name: run_variant(load_variant(name), batch, Budget(), memory) for name in ("bm25", "dense", "hybrid")}
    keys = {name: {ran.stage: ran.key for ran in state.ran} for name, state in states.items()}
    assert keys["bm25"]["bm25"] == keys["hybrid"]["bm25"]
    assert keys["dense"]["dense"] == keys["hybrid"]["dense"]
    assert len(memory.computed) == 2 + 1 + 3 + 3
    assert not any(ran.cached for state in states.values() for ran in state.ran)
    again = run_variant(load_variant("hybrid"), batch, Budget(), Memory())
    assert all(ran.cached for ran in again.ran)
    first = states["hybrid"]
    assert again.completions == first.completions
    assert np.array_equal(again.ranking.score, first.ranking.score)
    assert again.ranking.ranks["bm25"].tolist() == first.ranking.ranks["bm25"].tolist()
    assert again.ledger.spent["latency_ms"].tolist() == first.ledger.spent["latency_ms"].tolist()


@pytest.mark.parametrize(
    ("other", "fields"),
    [
        ("query", {"query": "pump unit2"}),
        ("rights", {"principal": Principal("t", ("hr",))}),
        ("scope", {"scope": frozenset({"d01"})}),
    ],
)
def test_s22_another_query_or_right_is_another_entry(house, ask, store, other: str, fields: dict[str, object]) -> None:
    first = house.batch([ask("pump unit1")], store)
    run_variant(load_variant("bm25"), first, Budget(), Memory())
    changed = house.batch([ask(**{"query": "pump unit1", **fields})], store)
    assert not any(ran.cached for ran in run_variant(load_variant("bm25"), changed, Budget(), Memory()).ran)


def test_channels_share_the_candidates_and_the_cut_is_recorded(house, ask, store) -> None:
    batch = house.batch([ask("pump valve sensor lamp")], store)
    state = run_variant(load_variant("hybrid"), batch, Budget(candidates=7), Memory())
    assert [len(state.channels[name].chunk) for name in ("bm25", "dense")] == [3, 4]
    assert state.ledger.spent["candidates"].tolist() == [7]
    assert [(cut.stage, cut.granted) for cut in state.ledger.curtailments[0]] == [("bm25", 3), ("dense", 4)]


def test_the_context_cap_holds_and_its_cut_is_recorded(house, ask, store) -> None:
    batch = house.batch([ask("pump valve sensor lamp")], store)
    open_state = run_variant(load_variant("bm25"), batch, Budget(), Memory())
    full = int(open_state.ledger.spent["context_tokens"][0])
    state = run_variant(load_variant("bm25"), batch, Budget(context_tokens=full - 1), Memory())
    assert state.ledger.spent["context_tokens"][0] < full
    assert len(state.contexts[0].passages) < len(open_state.contexts[0].passages)
    assert [cut.resource for cut in state.ledger.curtailments[0]] == ["context_tokens"]


@pytest.mark.parametrize("caps", [{"context_tokens": 1}, {"output_tokens": 0}])
def test_a_question_that_the_budget_does_not_cover_is_not_asked(house, ask, store, caps: dict[str, int]) -> None:
    batch = house.batch([ask("pump valve")], store)
    state = run_variant(load_variant("bm25"), batch, Budget(**caps), Memory())
    assert isinstance(state.completions[0].outcome, Abstention)
    assert state.completions[0].outcome.reason == "over_budget"
    assert state.ledger.spent["context_tokens"].tolist() == [0]
    assert state.ledger.spent["output_tokens"].tolist() == [0]


def test_late_costs_are_marked(house, ask, store) -> None:
    batch = house.batch([ask("pump valve")], store)
    state = run_variant(load_variant("dense"), batch, Budget(latency_ms=0.0001, usd=0), Memory())
    assert {name: flags.tolist() for name, flags in state.ledger.over().items()} == {
        "usd": [True],
        "latency_ms": [True],
    }
    assert state.completions[0].outcome.request_id == "r0"


def test_a_stage_that_fails_fails_its_questions_and_names_the_cause(house, ask, store) -> None:
    batch = house.batch([ask("pump", 1), ask("valve", 2)], store)

    def broken(*arguments: object, **settings: object) -> None:
        raise RagLabError("encoder hash: 1 vector is NaN")

    object.__setattr__(batch, "query_vectors", broken)
    state = run_variant(load_variant("hybrid"), batch, Budget(), Memory())
    assert state.failures == {i: Failure(f"r{i + 1}", "dense", "encoder hash: 1 vector is NaN") for i in range(2)}
    assert state.contexts is None
    assert [ran.stage for ran in state.ran] == ["bm25"]


def test_a_generator_that_fails_one_question_keeps_the_rest_and_is_asked_again(house, ask, store) -> None:
    batch = house.batch([ask("pump", 1), ask("valve", 2)], store)
    reader = batch.generator
    calls = []

    class Flaky(type(reader)):
        def generate(self, requests, contexts, output_tokens):
            calls.append(len(requests))
            made = super().generate(requests, contexts, output_tokens)
            if len(calls) == 1:
                failure = Failure(requests[1].request_id, "generate", "time-out after 60 s")
                made[1] = type(made[1])(failure, 0, 0, 1, 0.0)
            return made

    object.__setattr__(batch, "generator", Flaky())
    first = run_variant(load_variant("bm25"), batch, Budget(), Memory())
    assert list(first.failures) == [1]
    assert first.completions[0].outcome.request_id == "r1"
    second = run_variant(load_variant("bm25"), batch, Budget(), Memory())
    assert not second.failures
    assert calls == [2, 2]


def test_gold_context_holds_the_permitted_gold_and_no_retrieval_holds_nothing(house, ask, store) -> None:
    table = house.snapshot.chunks
    public = [row for row in range(60) if house.snapshot.scopes([ask()]).rows(0)[row]]
    forbidden = next(row for row in range(60) if row not in public)
    batch = house.batch([ask()], store, gold=[[public[0], forbidden]])
    state = run_variant(load_variant("gold_context"), batch, Budget(), Memory())
    assert [passage.document_id for passage in state.contexts[0].passages] == [table.document_id[public[0]]]
    alone = run_variant(load_variant("no_retrieval"), batch, Budget(), Memory())
    assert alone.contexts is None
    assert isinstance(alone.completions[0].outcome, Abstention)


def test_an_empty_batch_runs(house, store) -> None:
    state = run_variant(load_variant("hybrid"), house.batch([], store), Budget(), Memory())
    assert not state.failures
    assert state.completions == ()


def test_outputs_survive_the_disk() -> None:
    ranking = Ranking.from_scores("a", 2, [0, 1], [3, 4], [0.5, 0.25], {"bm25": np.array([1, 2], dtype=np.int32)})
    kept = load_output(dump_output(Output(ranking, np.array([1.0, 2.0]), {"looked_at": np.array([1, 1])})))
    assert kept.payload.chunk.tolist() == [3, 4]
    assert kept.payload.ranks["bm25"].tolist() == [1, 2]
    assert kept.ms.tolist() == [1.0, 2.0]
    assert kept.facts["looked_at"].tolist() == [1, 1]


def test_an_approximate_index_is_measured_against_exact_search(house, ask, store) -> None:
    batch = house.batch([ask("pump valve", 1), ask("brake axle", 2)], store)
    near = load_variant("near", [{"dense": {"index": "HNSW8", "depth": 5}}, "assemble", "generate"])
    state = run_variant(near, batch, Budget(), Memory())
    exact = run_variant(load_variant("dense"), batch, Budget(), Memory())
    assert exact.exact_neighbours is None
    for i in range(2):
        assert state.exact_neighbours.of(i).tolist() == exact.ranking.of(i)[:10].tolist()
    assert state.ranking.rank.max() == 5


def test_s22_one_field_changed_is_a_miss_and_the_same_call_a_hit(house, ask, store) -> None:
    calls = []

    class Counting(type(house.batch([], store).generator)):
        def __init__(self, name: str = "m1", settings: str = "system s, temperature 0, seed 1") -> None:
            super().__init__()
            self.name, self.version = name, f"{self.version} {settings}"

        def generate(self, requests, contexts, output_tokens):
            calls.append(len(requests))
            return super().generate(requests, contexts, output_tokens)

    def call(question: str = "pump valve", tokens: int = 64, **generator: str) -> bool:
        batch = house.batch([ask(question)], store)
        object.__setattr__(batch, "generator", Counting(**generator))
        stages = [{"bm25": {}}, {"assemble": {}}, {"generate": {"output_tokens": tokens}}]
        return run_variant(load_variant("x", stages), batch, Budget(), Memory()).ran[-1].cached

    hits = [
        call(),
        call(name="m2"),
        call(settings="system t, temperature 0, seed 1"),
        call(question="pump valves"),
        call(settings="system s, temperature 1, seed 1"),
        call(tokens=65),
        call(settings="system s, temperature 0, seed 2"),
        call(),
    ]
    assert hits == [False] * 7 + [True]
    assert len(calls) == 7


def test_s22_what_is_read_back_still_counts_toward_the_budget(house, ask, store) -> None:
    batch = house.batch([ask("pump valve")], store)
    first, again = (run_variant(load_variant("bm25"), batch, Budget(), Memory()).ledger for _ in range(2))
    for resource in ("candidates", "context_tokens", "output_tokens", "latency_ms", "usd"):
        assert again.spent[resource].tolist() == first.spent[resource].tolist()
        assert again.spent[resource][0] > 0


def test_the_trace_of_a_question_says_what_it_used_and_where_it_was_cut(house, ask, store) -> None:
    batch = house.batch([ask("pump valve sensor lamp", 1)], store)
    state = run_variant(load_variant("hybrid"), batch, Budget(candidates=7, latency_ms=0.0001), Memory())
    path = trace(state, 0)
    assert path.request_id == "r1"
    assert [timing.stage for timing in path.timings] == ["bm25", "dense", "rrf", "assemble", "generate"]
    assert sum(timing.ms for timing in path.timings) == pytest.approx(path.usage.latency_ms)
    assert [cut.stage for cut in path.curtailed] == ["bm25", "dense"]
    assert path.over_budget == ("latency_ms",)
    assert path.usage.candidates == 7


def test_candidates_keep_every_contributing_rank(house, ask, store) -> None:
    batch = house.batch([ask("pump valve sensor lamp")], store)
    state = run_variant(load_variant("hybrid"), batch, Budget(candidates=12), Memory())
    found = candidates(state, 0, depth=3)
    for candidate in found:
        row = house.snapshot.chunks.chunk_id.index(candidate.chunk.chunk_id)
        own = state.channels[candidate.channel]
        assert own.of(0)[candidate.raw_rank - 1] == row
    by_chunk: dict[str, list[int]] = {}
    for candidate in found:
        by_chunk.setdefault(candidate.chunk.chunk_id, []).append(candidate.raw_rank)
        assert candidate.snapshot == house.snapshot.id
    assert len(by_chunk) == 3
    for candidate in found:
        expected = sum(1 / (60 + rank) for rank in by_chunk[candidate.chunk.chunk_id])
        assert candidate.fused_score == pytest.approx(expected, abs=1e-11)


def test_gold_evidence_judged_anew_is_not_read_from_an_earlier_judgment(house, ask, store) -> None:
    requests = [ask()]
    readable = np.flatnonzero(house.snapshot.scopes(requests).rows(0))[:2].tolist()
    for row in readable:
        batch = house.batch(requests, store, gold=[[row]])
        state = run_variant(load_variant("gold_context"), batch, Budget(), Memory())
        assert state.ranking is not None
        assert state.ranking.chunk.tolist() == [row]


def test_retrieval_alone_has_no_answers(house, ask, store) -> None:
    batch = house.batch([ask()], store)
    assert not run_variant(load_variant("x", ["bm25"]), batch, Budget(), Memory()).answers
    assert run_variant(load_variant("bm25"), batch, Budget(), Memory()).answers
