"""The gold passages at the start, in the middle and at the end of contexts that are equal otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_corpus import Words, run, word_batch

from rag_lab.contracts import Event, RagLabError
from rag_lab.corpus.chunking import Recursive
from rag_lab.variants import load_variant
from rag_lab.variants.place_gold import PLACES
from rag_lab.variants.stage import Batch, State, trace
from rag_lab.variants.variant import is_bound

TEXTS = {
    "a": "pump one two three",
    "b": "pump pump four five",
    "c": "pump pump pump six",
    "d": "valve seven eight nine",
    "e": "pump ten eleven twelve thirteen fourteen fifteen sixteen",
    "f": "lamp seventeen",
}
COST = {name: 2 + len(text.split()) for name, text in TEXTS.items()}
BARE = 4


def variant(at: str, passages: int = 3) -> Any:
    return load_variant("x", ["bm25", {"place_gold": {"at": at, "passages": passages}}, "generate"])


@pytest.fixture
def make(house: Any, tmp_path: Path) -> Callable[..., Batch]:
    return partial(word_batch, house, tmp_path)


@pytest.fixture(scope="module")
def pumps(house: Any, tmp_path_factory: pytest.TempPathFactory) -> Batch:
    return word_batch(house, tmp_path_factory.mktemp("pumps"), TEXTS, ["pump"])


def with_gold(batch: Batch, *gold: str) -> Batch:
    """The batch with these documents as the evidence of each question."""
    ids = batch.snapshot.chunks.document_id
    rows = [np.array([row for row, name in enumerate(ids) if name in names], dtype=np.int32) for names in gold]
    return replace(batch, gold=rows)


def shown(state: State, question: int = 0) -> str:
    return "".join(passage.document_id for passage in state.contexts[question].passages)


def placed(batch: Batch, passages: int = 3, **caps: Any) -> list[str]:
    return [shown(run(variant(at, passages), batch, **caps)) for at in PLACES]


def ranked(batch: Batch) -> str:
    state = run(load_variant("bm25", ["bm25"]), batch)
    return "".join(batch.snapshot.chunks.document_id[row] for row in state.ranking.of(0))


def test_the_same_passages_in_three_orders(make) -> None:
    batch = make(TEXTS, queries=["pump"])
    assert ranked(batch) == "cbae"
    assert placed(with_gold(batch, "a")) == ["acb", "cab", "cba"]
    assert placed(with_gold(batch, "c"), passages=4) == ["cbae", "bcae", "baec"]
    assert placed(with_gold(batch, "c"), passages=5) == ["cbae", "bcae", "baec"]
    assert placed(with_gold(batch, "c"), passages=1) == ["c", "c", "c"]


def test_gold_that_was_not_found_takes_the_place_of_the_lowest(make) -> None:
    batch = with_gold(make(TEXTS, queries=["pump"]), "d")
    assert placed(batch) == ["dcb", "cdb", "cbd"]
    state = run(variant("middle"), batch)
    assert trace(state, 0).events == (Event("place_gold", "placed", "1 gold of 3 passages", 2),)
    assert [passage.number for passage in state.contexts[0].passages] == [1, 2, 3]
    assert state.ledger.spent["context_tokens"].tolist() == [BARE + COST["b"] + COST["c"] + COST["d"]]


def test_several_gold_passages_stay_together_in_source_order(make) -> None:
    assert placed(with_gold(make(TEXTS, queries=["pump"]), "fd"), passages=4) == ["dfcb", "cdfb", "cbdf"]


def test_gold_in_two_chunks_that_touch_is_one_passage(make) -> None:
    text = "valve " * 6 + "lamp " * 6
    batch = make({"a": text, **{n: f"pump {n}" for n in "bcd"}}, queries=["pump"], chunker=Recursive(size=6, overlap=2))
    gold = [row for row, name in enumerate(batch.snapshot.chunks.document_id) if name == "a"]
    assert len(gold) > 1
    state = run(variant("end", 4), replace(batch, gold=[np.array(gold[:2], dtype=np.int32)]))
    assert shown(state) == "bca"


def test_without_gold_and_with_gold_that_is_forbidden_the_three_are_equal(house, ask, store) -> None:
    requests = [ask("pump valve", 0), ask("pump valve", 1)]
    rows = house.snapshot.scopes(requests).rows(0)
    forbidden = int(np.flatnonzero(~rows)[0])
    batch = house.batch(requests, store, gold=[[], [forbidden]])
    states = [run(variant(at), batch) for at in PLACES]
    plain = run(load_variant("p", ["bm25", {"assemble": {"passages": 3}}, "generate"]), batch)
    for state in states:
        assert [c.passages for c in state.contexts] == [c.passages for c in plain.contexts]
        assert state.events == {}


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        (BARE + COST["a"] + COST["c"] + COST["b"], ["acb", "cab", "cba"]),
        (BARE + COST["a"] + COST["c"] + COST["b"] - 1, ["ac", "ac", "ca"]),
        (BARE + COST["a"], ["a", "a", "a"]),
        (BARE + COST["a"] - 1, ["", "", ""]),
        (BARE - 1, ["", "", ""]),
    ],
)
def test_the_gold_comes_first_when_tokens_are_short(make, cap: int, expected: list[str]) -> None:
    batch = with_gold(make(TEXTS, queries=["pump"]), "a")
    states = [run(variant(at), batch, context_tokens=cap) for at in PLACES]
    assert [shown(state) for state in states] == expected
    for state in states:
        assert state.ledger.spent["context_tokens"][0] <= cap
        cut = [(c.stage, c.resource) for c in state.ledger.curtailments[0]]
        assert cut == ([] if len(expected[0]) == 3 else [("place_gold", "context_tokens")])


def test_the_set_fits_in_each_order_although_numbers_take_tokens(make) -> None:
    class Numbered(Words):
        """A passage of number n takes n tokens more for each word that it has."""

        def prompt_tokens(self, requests, contexts):
            more = [sum(p.number * len(p.text.split()) for p in c) for c in contexts]
            return super().prompt_tokens(requests, contexts) + np.array(more, dtype=np.int32)

    texts = {"a": "pump " * 2 + "long " * 8, "b": "pump one", "c": "pump two"}
    batch = replace(with_gold(make(texts, queries=["pump"]), "a"), generator=Numbered())
    tokens = {at: int(run(variant(at), batch).ledger.spent["context_tokens"][0]) for at in PLACES}
    assert tokens["start"] < tokens["middle"] < tokens["end"]
    assert [len(s) for s in placed(batch, context_tokens=tokens["end"])] == [3, 3, 3]
    shorter = [run(variant(at), batch, context_tokens=tokens["end"] - 1) for at in PLACES]
    assert [len(shown(state)) for state in shorter] == [2, 2, 2]
    assert len({"".join(sorted(shown(state))) for state in shorter}) == 1
    assert [reason for _, reason in shorter[0].contexts[0].dropped] == ["budget"]


@settings(max_examples=30, deadline=None)
@given(st.sets(st.sampled_from("abcdef"), max_size=3), st.integers(1, 6), st.integers(0, 60))
def test_any_budget_gives_three_orders_of_one_set(
    house, tmp_path_factory, gold: set[str], passages: int, cap: int
) -> None:
    batch = with_gold(word_batch(house, tmp_path_factory.mktemp("any"), TEXTS, ["pump"]), "".join(gold))
    states = [run(variant(at, passages), batch, context_tokens=cap) for at in PLACES]
    first, middle, last = (shown(state) for state in states)
    assert sorted(first) == sorted(middle) == sorted(last)
    assert len(first) <= passages
    golden = "".join(name for name in first if name in gold)
    others = "".join(name for name in first if name not in gold)
    half = len(others) // 2
    assert (first, middle, last) == (golden + others, others[:half] + golden + others[half:], others + golden)
    spent = BARE + sum(COST[name] for name in first)
    assert {state.contexts[0].prompt_tokens for state in states} == {spent}
    assert spent <= max(cap, BARE)


def test_evidence_judged_anew_is_another_entry(make) -> None:
    batch = make(TEXTS, queries=["pump"])
    assert shown(run(variant("start"), with_gold(batch, "a"))) == "acb"
    assert shown(run(variant("start"), with_gold(batch, "b"))) == "bca"
    assert run(variant("start"), with_gold(batch, "a")).ran[1].cached


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (["place_gold", "generate"], "nothing retrieves"),
        (["bm25", {"place_gold": {"at": "top"}}], r"variants\.x\[2\]\.place_gold\.at: "),
        (["bm25", {"place_gold": {"passages": 0}}], r"variants\.x\[2\]\.place_gold\.passages: "),
    ],
)
def test_bad_settings_are_refused(stages: Sequence[Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("x", stages)


def test_places_compete_with_one_another_alone() -> None:
    names = ("gold_first", "gold_last@small", "bm25", "gold_context")
    assert [is_bound(name) for name in names] == [True, True, False, True]
    assert [is_bound(name, "bm25@small") for name in names] == [True, True, False, True]
    assert [is_bound(name, "gold_first@small") for name in names] == [False, False, True, True]


def test_an_empty_batch_runs(house, store) -> None:
    for at in PLACES:
        assert run(variant(at), house.batch([], store)).completions == ()


def test_an_empty_scope_is_said(house, ask, store) -> None:
    state = run(variant("middle"), house.batch([ask("pump", principal=None)], store, gold=[[3]]))
    assert state.completions[0].outcome.reason == "no_authorised_evidence"
    assert state.contexts[0].passages == ()
