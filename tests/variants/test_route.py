"""The router: its rule, what it writes down, and what a question that goes directly does not pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from word_corpus import BARE, FIVE, Words, ids, run, word_batch

from rag_lab.contracts import Event, RagLabError, Reason, Request
from rag_lab.variants import load_variant
from rag_lab.variants.route import about_everything
from rag_lab.variants.stage import Batch, trace

ROUTER = load_variant("router")
HYBRID = load_variant("hybrid")
EVERYTHING = "how many one two"
SIZE = {"one two": BARE + 83, EVERYTHING: BARE + 85}


@pytest.fixture
def make(house: Any, tmp_path: Path) -> Callable[..., Batch]:
    return partial(word_batch, house, tmp_path)


def routed(**settings: Any) -> Any:
    return load_variant("x", [{"route": settings}, "bm25", "assemble", "generate"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How many vans are at the Hull depot?", True),
        ("List the depots that open on Sunday.", True),
        ("What do all incident reports say about brakes?", True),
        ("Which rule holds for every driver?", True),
        ("Summarise the travel rules.", True),
        ("Give me an overview of the leave policy.", True),
        ("What is paid in total?", True),
        ("公司总共有几个仓库？", True),
        ("列出所有的班车。", True),
        ("有哪些产品？", True),
        ("一共有多少个站点？", True),
        ("请总结出差规定。", True),
        ("What is the daily allowance?", False),
        ("Is the hall open on Monday?", False),
        ("Where is the enlisted man?", False),
        ("津贴是多少？", False),
        ("仓库在哪里？", False),
        ("", False),
        ("ＨＯＷ ＭＡＮＹ are there?", True),
    ],
)
def test_which_questions_are_about_everything(ask: Callable[..., Request], text: str, expected: bool) -> None:
    assert about_everything([ask(text)]).tolist() == [expected]


@pytest.mark.parametrize(
    ("query", "cap", "direct"),
    [
        ("one two", 2 * 88, True),
        ("one two", 2 * 88 - 1, False),
        (EVERYTHING, 90, True),
        (EVERYTHING, 89, False),
        ("one two", 5, False),
        ("one two", 0, False),
        ("one two", None, True),
    ],
)
def test_the_rule_is_size_against_a_part_of_the_room(make, query: str, cap: int | None, direct: bool) -> None:
    state = run(routed(), make(FIVE, queries=[query]), context_tokens=cap)
    size, limit = SIZE[query], "1" if query == EVERYTHING else "0.5"
    kind = "everything" if query == EVERYTHING else "something"
    told = "no cap" if cap is None else f"{limit} of a room of {cap}"
    expected = Event("route", "direct" if direct else "retrieval", f"size {size}, limit {told}; about {kind}", size)
    assert trace(state, 0).events[0] == expected
    if direct:
        assert "".join(ids(state)) == "abcde"
        assert trace(state, 0).events[1:] == (Event("assemble", "documents", value=5),)
    else:
        assert ids(state) == []
        assert len(trace(state, 0).events) == 1


def test_shares_are_settings_and_the_window_is_room_too(make) -> None:
    batch = make(FIVE, generator=Words(window=88 + 96))
    assert run(routed(share=1.0), batch).direct.tolist() == [True]
    assert run(routed(share=0.99), batch).direct is None
    assert run(routed(share=0.0, share_of_all=0.0), batch, context_tokens=10**6).direct is None
    assert run(routed(share=1.0), on_window(batch, 87 + 96)).direct is None


def on_window(batch: Batch, window: int) -> Batch:
    return replace(batch, generator=Words(window=window))


@pytest.mark.parametrize("settings", [{"share": -0.1}, {"share": 1.1}, {"share_of_all": float("nan")}, {"size": 3}])
def test_bad_settings_name_the_field(settings: dict[str, float]) -> None:
    with pytest.raises(RagLabError, match=rf"variants\.x\[1\]\.route\.{next(iter(settings))}: "):
        routed(**settings)


MIXED = ["alpha", "how many alpha beta", "beta", "list beta"]
TEXTS = {"a": "alpha " * 10, "b": "beta " * 20, "c": "gamma " * 30}


def test_a_direct_question_draws_no_candidates_and_pays_for_no_search(make) -> None:
    batch = make(TEXTS, queries=MIXED)
    variant = load_variant("x", ["route", {"bm25": {"depth": 1}}, "assemble", "generate"])
    state = run(variant, batch, context_tokens=100)
    assert state.direct.tolist() == [False, True, False, True]
    assert state.ledger.spent["candidates"].tolist() == [1, 0, 1, 0]
    ms = {ran.stage: ran.ms for ran in state.ran}
    assert (ms["bm25"] > 0).tolist() == [True, False, True, False]
    assert (ms["route"] > 0).all()
    assert [ids(state, i) for i in range(4)] == [["a"], ["a", "b", "c"], ["b"], ["a", "b", "c"]]
    assert [cut for cuts in state.ledger.curtailments for cut in cuts] == []
    assert state.looked_at.tolist() == [1, 0, 1, 0]


def test_questions_that_are_searched_for_get_what_hybrid_gives_them(house, ask, store) -> None:
    queries = ["pump valve", "list pump", "brake axle", "all cables"]
    requests = [ask(query, i) for i, query in enumerate(queries)]
    batch = house.batch(requests, store)
    size = int(run(load_variant("long_context"), batch).ledger.spent["context_tokens"].max())
    caps = {"context_tokens": size, "candidates": 6}
    router, hybrid, long = (run(v, batch, **caps) for v in (ROUTER, HYBRID, load_variant("long_context")))
    assert router.direct.tolist() == [False, True, False, True]
    for i in range(4):
        assert router.contexts[i] == (long if router.direct[i] else hybrid).contexts[i]
        assert router.ranking.of(i).tolist() == ([] if router.direct[i] else hybrid.ranking.of(i).tolist())


def test_where_no_question_goes_directly_the_searches_are_those_of_hybrid(house, ask, store) -> None:
    batch = house.batch([ask("pump", 0), ask("list valve", 1)], store)
    router, hybrid = (run(variant, batch, context_tokens=20) for variant in (ROUTER, HYBRID))
    assert router.direct is None
    keys = {ran.stage: ran.key for ran in router.ran}
    assert all(keys[ran.stage] == ran.key for ran in hybrid.ran)


def test_where_every_question_goes_directly_nothing_is_encoded_or_searched(house, ask, store) -> None:
    batch = house.batch([ask("pump", 0), ask("valve", 1)], store)

    def refuse(texts: Sequence[str]) -> Any:
        raise AssertionError("no query is left to encode")

    state = run(ROUTER, replace(batch, query_vectors=refuse))
    assert state.direct.all()
    assert all(ranking.chunk.tolist() == [] for ranking in [*state.channels.values(), state.ranking])
    assert state.completions is not None


def test_an_approximate_index_is_measured_on_the_questions_that_it_was_asked(house, ask, store) -> None:
    batch = house.batch([ask("pump valve", 0), ask("list brake", 1), ask("axle", 2)], store)
    size = int(run(load_variant("long_context"), batch).ledger.spent["context_tokens"].max())
    near = load_variant("x", ["route", {"dense": {"index": "HNSW8"}}, "assemble", "generate"])
    state = run(near, batch, context_tokens=size)
    assert state.direct.tolist() == [False, True, False]
    exact = run(load_variant("dense"), batch)
    assert [len(state.exact_neighbours.of(i)) for i in range(3)] == [min(10, len(exact.ranking.of(0))), 0, 7]
    for i in (0, 2):
        assert state.exact_neighbours.of(i).tolist() == exact.ranking.of(i)[:10].tolist()
    assert run(near, batch).exact_neighbours is None


def test_an_empty_scope_goes_directly_and_is_told_so(house, ask, store) -> None:
    state = run(ROUTER, house.batch([ask("pump", principal=None)], store), context_tokens=50)
    assert state.direct.tolist() == [True]
    assert state.completions[0].outcome.reason == Reason.NO_AUTHORISED_EVIDENCE


def test_a_second_run_reads_the_same_decisions(make) -> None:
    batch = make(TEXTS, queries=MIXED)
    first, second = (run(routed(), batch, context_tokens=100) for _ in range(2))
    assert all(ran.cached for ran in second.ran)
    assert second.direct.tolist() == first.direct.tolist()
    assert second.contexts == first.contexts
    assert second.events == first.events
    assert np.array_equal(second.ledger.spent["latency_ms"], first.ledger.spent["latency_ms"])


def test_an_empty_batch_runs(house, store) -> None:
    assert run(ROUTER, house.batch([], store)).completions == ()
