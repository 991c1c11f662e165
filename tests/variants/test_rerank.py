"""The rerank stage: orders worked by hand, every cap reached, and what goes wrong for one question stays with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_cross_encoder import make

from rag_lab.budgets import Budget, Ledger
from rag_lab.contracts import (
    Acl,
    Answer,
    Document,
    Event,
    Failure,
    IntArray,
    Principal,
    Queries,
    RagLabError,
    Ranking,
    Written,
)
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.publishing import publish
from rag_lab.retrieval.late import LateIndex
from rag_lab.retrieval.rerank import Pairs, Scored
from rag_lab.retrieval.rerank.listwise import order_tokens
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.handing_out import CAUSE, candidates, hand_out
from rag_lab.variants.query_vectors import QueryTokenVectors
from rag_lab.variants.rerank import Rerank
from rag_lab.variants.stage import Batch, Output, State, trace

COLOURS = ["red", "red", "green", "blue", "red", "white", "black", "green"]
WORTH = {"red": 0.1, "green": 0.9, "blue": 0.5, "white": 0.7, "black": 0.3}
CHEAP = [{"bm25": {"depth": 6}}, {"rerank": {"scorer": "colours", "depth": 3}}, "assemble", "generate"]


class Colours:
    """A `Reranker` that knows what each text is worth; it counts the pairs that it was asked for."""

    name, version = "colours", "1"

    def __init__(self, worth: Mapping[str, float] = WORTH) -> None:
        self.worth = worth
        self.asked: list[tuple[str, str]] = []

    def score(self, pairs: Pairs) -> Scored:
        asked = [(pairs.queries[i], pairs.texts[row]) for i, row in zip(pairs.query, pairs.rows, strict=True)]
        self.asked += asked
        score = np.array([self.worth[text.split()[0]] for _, text in asked])
        return Scored(score, np.ones(len(asked), dtype=bool), pairs.shares(6.0))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, hash_encoder: Any, hash_late_encoder: Any) -> Any:
    """Eight documents of one word each, three of them red and two green; d5 is for hr alone."""
    documents = [
        Document(f"d{i}", f"{colour} paint", tenant="t", language="en",
                 acl=Acl(groups=("hr",)) if i == 5 else Acl(public=True))
        for i, colour in enumerate(COLOURS)
    ]  # fmt: skip
    store = Store(tmp_path_factory.mktemp("shop"))
    return publish(store, documents, Whole(), analyzer="en", encoder=hash_encoder, factories=["Flat"],
                   late=hash_late_encoder, corpus="shop"), documents  # fmt: skip


@pytest.fixture
def batch(shop: Any, house: Any, ask: Any, store: Store, hash_late_encoder: Any) -> Callable[..., Batch]:
    """Questions for paint, by default one, by members of hr."""

    def of(queries: Sequence[str] = ("paint",), groups: tuple[str, ...] = ("hr",), **fields: Any) -> Batch:
        snapshot, _ = shop
        requests = [ask(query, number, principal=Principal("t", groups)) for number, query in enumerate(queries)]
        made = replace(house, snapshot=snapshot).batch(requests, store)

        def tokens(texts: Sequence[str]) -> QueryTokenVectors:
            return QueryTokenVectors(hash_late_encoder.encode_queries(texts), np.full(len(texts), 0.5))

        return replace(made, token_vectors=tokens, **fields)

    return of


@pytest.fixture
def colours(monkeypatch: pytest.MonkeyPatch) -> Colours:
    """The scorer by which the stages of these tests order paints."""
    found = Colours()
    monkeypatch.setattr("rag_lab.variants.rerank.load_cross_encoder", lambda name: found)
    return found


def state_of(batch: Batch, rankings: Sequence[Sequence[int]], budget: Budget | None = None, answer: int = 0) -> State:
    """As a channel leaves it that found these rows, in this order."""
    query = np.repeat(np.arange(len(rankings)), [len(rows) for rows in rankings]).astype(np.int32)
    rows = np.array([row for ranked in rankings for row in ranked], dtype=np.int32)
    score = np.concatenate([np.arange(len(ranked), 0, -1.0) for ranked in rankings])
    found = Ranking("bm25", batch.size, query, rows, score)
    ledger, asked = Ledger(budget or Budget(), batch.size), Queries.of_requests(batch.requests)
    state = State(batch, ledger, 0, answer, asked, np.zeros(batch.size, dtype=bool))
    state.channels["bm25"] = found
    state.keys["ranking"] = "found"
    return state


def apply(stage: Rerank, state: State) -> Output:
    plan = stage.plan(state)
    output = stage.compute(state, plan, "key")
    stage.apply(state, plan, output, "key")
    return output


def ranked(state: State, question: int = 0) -> list[int]:
    assert state.ranking is not None
    return state.ranking.of(question).tolist()


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("depth", "order", "score"),
    [(10, [2, 3, 0], [0.9, 0.5, 0.1]), (2, [2, 0, 3], [0.9, 0.1, -0.9]), (1, [0, 2, 3], [0.1, -0.9, -1.9])],
)
def test_s10_scores_stay_with_their_texts(
    batch: Any, colours: Colours, depth: int, order: list[int], score: list[float]
) -> None:
    """d0 red, again d0, d2 green, d3 blue: the second d0 is one with the first, and no other text gets its score."""
    state = state_of(batch(), [[0, 0, 2, 3]])
    state.channels["bm25"] = Ranking.from_scores("bm25", 1, [0, 0, 0, 0], [0, 0, 2, 3], [4, 3, 2, 1])
    apply(Rerank(scorer="colours", depth=depth), state)
    assert ranked(state) == order
    assert state.ranking.score.tolist() == pytest.approx(score)


def test_s10_equal_texts_are_scored_once_counted_once_and_tie(batch: Any, colours: Colours) -> None:
    state = state_of(batch(), [[1, 3, 0, 2, 4]])
    output = apply(Rerank(scorer="colours", depth=4), state)
    assert colours.asked == [("paint", "red paint"), ("paint", "blue paint"), ("paint", "green paint")]
    assert ranked(state) == [2, 3, 0, 1, 4]
    assert state.ledger.spent["rerank_pairs"].tolist() == [3]
    assert output.events == {0: (Event("rerank", "duplicates", value=1.0),)}
    assert state.fused.score.tolist() == pytest.approx([0.9, 0.5, 0.1, 0.1, -0.9])


def test_candidates_below_the_depth_keep_their_order_beneath(batch: Any, colours: Colours) -> None:
    state = state_of(batch(["paint", "colour", "none"]), [[0, 6, 3, 5, 2], [7, 5, 3, 0], []])
    apply(Rerank(scorer="colours", depth=3), state)
    assert [ranked(state, i) for i in range(3)] == [[3, 6, 0, 5, 2], [7, 5, 3, 0], []]
    assert state.ranking.channel == "rerank"
    assert [row for row, kept in zip(state.reranked.before.chunk, state.reranked.read, strict=True) if kept] == [
        0, 6, 3, 7, 5, 3,
    ]  # fmt: skip


@given(st.lists(st.permutations(range(8)), min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_a_reranker_adds_nothing_loses_nothing_and_stays_within_its_pairs(
    shop: Any, rankings: list[list[int]], depth: int, cap: int
) -> None:
    snapshot, _ = shop
    size = len(rankings)
    ledger = Ledger(Budget(rerank_pairs=cap), size)
    requests = [type("Request", (), {"query": f"q{i}", "request_id": f"r{i}"})() for i in range(size)]
    batch: Any = type("Batch", (), {"snapshot": snapshot, "size": size, "requests": requests})()
    asked = Queries(size, np.arange(size, dtype=np.int32), ("q",) * size, ("question",) * size, ("",) * size)
    state = State(batch, ledger, 0, 0, asked, np.zeros(size, dtype=bool))
    query = np.repeat(np.arange(size), 8).astype(np.int32)
    rows = np.array(rankings, dtype=np.int32).ravel()
    state.channels["bm25"] = Ranking("bm25", size, query, rows, np.tile(np.arange(8, 0, -1.0), size))
    state.keys["ranking"] = "found"
    scorer = Colours()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rag_lab.variants.rerank.load_cross_encoder", lambda name: scorer)
        apply(Rerank(scorer="colours", depth=depth), state)
    for i, before in enumerate(rankings):
        after = ranked(state, i)
        assert sorted(after) == sorted(before)
        texts = list(dict.fromkeys(COLOURS[row] for row in before[:depth]))[:cap]
        read = [row for row in before[:depth] if COLOURS[row] in texts]
        assert after[: len(read)] == sorted(read, key=lambda row: (-WORTH[COLOURS[row]], row))
        assert after[len(read) :] == [row for row in before if row not in read]
        assert state.ledger.spent["rerank_pairs"][i] == len(texts) <= cap
    assert len(scorer.asked) == len(set(scorer.asked)) == state.ledger.spent["rerank_pairs"].sum()


# --- caps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "order", "spent"), [(0, [0, 3, 2, 6], 0), (1, [0, 3, 2, 6], 1), (3, [2, 3, 0, 6], 3), (9, [2, 3, 6, 0], 4)]
)
def test_the_cap_on_pairs_holds_and_its_cut_is_recorded(
    batch: Any, colours: Colours, cap: int, order: list[int], spent: int
) -> None:
    state = state_of(batch(), [[0, 3, 2, 6]], Budget(rerank_pairs=cap))
    apply(Rerank(scorer="colours", depth=50), state)
    assert ranked(state) == order
    assert state.ledger.spent["rerank_pairs"].tolist() == [spent]
    cuts = [(cut.stage, cut.resource, cut.wanted, cut.granted) for cut in state.ledger.curtailments[0]]
    assert cuts == ([("rerank", "rerank_pairs", 4.0, float(cap))] if cap < 4 else [])


def test_a_whole_variant_runs_is_cached_and_is_traced(batch: Any, colours: Colours) -> None:
    questions = batch(["paint", "green paint"])
    variant = load_variant("cheap", CHEAP)
    state = run_variant(variant, questions, Budget(rerank_pairs=2), Memory())
    assert not state.failures
    assert {len(state.ranking.of(i)) for i in range(2)} == {6}
    path = trace(state, 1)
    assert path.usage.rerank_pairs == 2
    assert [timing.stage for timing in path.timings] == ["bm25", "rerank", "assemble", "generate"]
    assert path.timings[1].ms == 3.0
    again = run_variant(variant, questions, Budget(rerank_pairs=2), Memory())
    assert all(ran.cached for ran in again.ran)
    assert again.events == state.events
    assert again.reranked.score.tolist() == pytest.approx(state.reranked.score.tolist(), nan_ok=True)
    assert candidates(again, 1) == candidates(state, 1)


def test_another_depth_cap_or_model_is_another_entry(batch: Any, colours: Colours, monkeypatch: Any) -> None:
    def key(depth: int = 3, cap: int = 9) -> str:
        stages = [{"bm25": {}}, {"rerank": {"scorer": "colours", "depth": depth}}]
        return run_variant(load_variant("x", stages), batch(), Budget(rerank_pairs=cap), Memory()).ran[1].key

    keys = [key(), key(depth=4), key(cap=1)]
    monkeypatch.setattr(Colours, "version", "2")
    assert len({*keys, key()}) == 4


def test_a_question_is_scored_in_its_own_words_or_as_it_was_rewritten(batch: Any, colours: Colours) -> None:
    state = state_of(batch(["and that one?", "green paint"]), [[0], [2]])
    rows = [(0, "red paint", "rewrite", ""), (0, "paint in general", "step_back", ""), (1, "a green", "hyde", "dense")]
    state.queries = Queries.build(2, rows)
    state.keys["queries"] = "rewritten"
    apply(Rerank(scorer="colours"), state)
    assert colours.asked == [("red paint", "red paint"), ("green paint", "green paint")]
    assert Rerank(scorer="colours").inputs(state) == ["key", "rewritten"]


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_fails_its_question_alone(batch: Any, monkeypatch: Any, value: float) -> None:
    asked: list[int] = []

    class Broken(Colours):
        def score(self, pairs: Pairs) -> Scored:
            scored = super().score(pairs)
            asked.append(len(pairs))
            if len(asked) == 1:
                scored.score[pairs.query == 1] = [WORTH["red"], value, WORTH["blue"]]
            return scored

    scorer = Broken()
    monkeypatch.setattr("rag_lab.variants.rerank.load_cross_encoder", lambda name: scorer)
    questions = batch(["paint", "paint", "paint"])
    variant = load_variant(
        "cheap", [{"bm25": {}}, {"rerank": {"scorer": "colours", "depth": 4}}, "assemble", "generate"]
    )
    state = run_variant(variant, questions, Budget(), Memory())
    failed = Failure("r1", "rerank", "colours gave scores that are not finite numbers")
    assert state.failures == {1: failed}
    assert ranked(state, 1) == []
    assert ranked(state, 0) == ranked(state, 2) == [2, 3, 0, 1, 4, 5, 6, 7]
    assert isinstance(state.completions[0].outcome, Answer)
    assert not state.contexts[1].passages
    assert state.ledger.spent["rerank_pairs"].tolist() == [3, 3, 3]
    again = run_variant(variant, questions, Budget(), Memory())
    assert not again.failures
    assert [ran.cached for ran in again.ran] == [True, False, False, False]


def test_a_model_that_cannot_be_loaded_is_named(batch: Any, tmp_path: Path) -> None:
    stages = [{"bm25": {}}, {"rerank": {"scorer": str(make(tmp_path / "m", "BertModel"))}}]
    state = run_variant(load_variant("x", stages), batch(["paint", "red"]), Budget(), Memory())
    assert {failure.stage for failure in state.failures.values()} == {"rerank"}
    assert "is no cross-encoder: it is a BertModel" in state.failures[0].cause
    assert sorted(state.failures) == [0, 1]
    with pytest.raises(RagLabError, match="is no cross-encoder"):
        Rerank(scorer=str(tmp_path / "m")).models()


# --- rights -----------------------------------------------------------------------------------------------------------


def test_only_texts_of_the_callers_scope_are_read(batch: Any, colours: Colours) -> None:
    state = run_variant(load_variant("cheap", CHEAP), batch(["white paint"], groups=()), Budget(), Memory())
    assert 5 not in ranked(state)
    assert ("white paint", "white paint") not in colours.asked
    state = run_variant(load_variant("cheap", CHEAP), batch(["white paint"]), Budget(), Memory())
    assert 5 in ranked(state)
    assert ("white paint", "white paint") in colours.asked


def test_what_is_denied_meanwhile_leaves_no_score(shop: Any, batch: Any, colours: Colours) -> None:
    snapshot, _ = shop
    questions = batch(["white paint", "blue paint"])
    stages = [{"bm25": {"depth": 1}}, {"rerank": {"scorer": "colours"}}]
    state = run_variant(load_variant("x", stages), questions, Budget(), Memory())
    assert [ranked(state, i) for i in range(2)] == [[5], [3]]
    denials = DenyList(snapshot.store)
    denials.deny("shop", ["d5"], "test", by="test")
    try:
        with hand_out(state) as checked:
            assert checked.failures == {0: Failure("r0", "hand-out", CAUSE)}
            assert checked.reranked.before.chunk.tolist() == checked.ranking.chunk.tolist() == [3]
            assert checked.reranked.score.tolist() == [0.5]
    finally:
        denials.lift("shop", ["d5"], by="test")


# --- records ----------------------------------------------------------------------------------------------------------


def test_candidates_have_the_score_before_and_after(batch: Any, colours: Colours) -> None:
    stages = [{"bm25": {}}, {"dense": {}}, {"rrf": {}}, {"rerank": {"scorer": "colours", "depth": 4}}]
    state = run_variant(load_variant("x", stages), batch(), Budget(), Memory())
    before = dict(zip(state.reranked.before.chunk.tolist(), state.reranked.before.score.tolist(), strict=True))
    found = {(c.chunk.document_id, c.channel): c for c in candidates(state, 0)}
    assert len(found) == 16
    for (document, _), candidate in found.items():
        row = int(document[1])
        assert candidate.fused_score == before[row]
        read = row in state.reranked.before.of(0)[:4]
        assert candidate.rerank_score == (WORTH[COLOURS[row]] if read else None)


def test_without_a_fusion_there_is_no_fused_score(batch: Any, colours: Colours) -> None:
    state = run_variant(load_variant("cheap", CHEAP), batch(), Budget(), Memory())
    assert {candidate.fused_score for candidate in candidates(state, 0)} == {None}
    assert candidates(state, 0)[0].rerank_score == 0.9
    assert {
        c.rerank_score for c in candidates(run_variant(load_variant("x", ["bm25"]), batch(), Budget(), Memory()), 0)
    } == {None}


# --- the scorers ------------------------------------------------------------------------------------------------------


def test_a_cross_encoder_from_a_folder(batch: Any, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    folder = str(make(tmp_path / "cross", "BertForSequenceClassification"))
    stages = [{"bm25": {}}, {"rerank": {"scorer": folder, "depth": 8}}]
    state = run_variant(load_variant("x", stages), batch(["pump paint", "lamp wheel paint"]), Budget(), Memory())
    model = CrossEncoder(folder)
    for i, query in enumerate(["pump paint", "lamp wheel paint"]):
        alone = {row: float(model.predict([(query, f"{COLOURS[row]} paint")])[0]) for row in range(8)}
        scores = dict(zip(ranked(state, i), state.ranking.score[state.ranking.query == i].tolist(), strict=True))
        assert scores == pytest.approx(alone, abs=2e-6)
    assert state.ledger.spent["rerank_pairs"].tolist() == [5, 5]


def test_late_interaction_over_the_vectors_of_the_snapshot(batch: Any, shop: Any, hash_late_encoder: Any) -> None:
    snapshot, _ = shop
    queries = ["green paint", "black paint"]
    stages = [{"bm25": {}}, {"rerank": {"scorer": "late", "depth": 8}}]
    state = run_variant(load_variant("x", stages), batch(queries), Budget(), Memory())
    index: LateIndex = snapshot.late("exact")
    exact = index.search(hash_late_encoder.encode_queries(queries), 8).ranking
    assert state.ranking.chunk.tolist() == exact.chunk.tolist()
    assert state.ranking.score.tolist() == exact.score.tolist()
    assert ranked(state, 0)[:2] == [2, 7]
    assert load_variant("x", stages).needs >= {"late:exact"}


class Model:
    """A `Writer` whose tokens are words; it orders colours by their worth, or writes what it is told to."""

    name, version, window = "model", "1", None

    def __init__(self, text: str = "", cause: str = "") -> None:
        self.text, self.cause, self.calls = text, cause, 0

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        return np.array([len(instructions.split()) + len(text.split()) for text in texts], dtype=np.int32)

    def write(self, instructions: str, texts: Sequence[str], output_tokens: IntArray) -> list[Written]:
        self.calls += len(texts)
        lengths = self.count_prompts(instructions, texts).tolist()
        return [
            Written(self.text or self._order(t), n, 6, 3.0, self.cause) for t, n in zip(texts, lengths, strict=True)
        ]

    def _order(self, text: str) -> str:
        worth = [WORTH[colour] for colour in re.findall(r"^\[\d+\] (\w+)", text, re.MULTILINE)]
        return " > ".join(f"[{i + 1}]" for i in sorted(range(len(worth)), key=lambda i: -worth[i]))


LISTWISE = Rerank(scorer="listwise", depth=50, window=2, stride=1)


def test_a_language_model_orders_by_windows_and_every_call_is_booked(batch: Any) -> None:
    """red, blue, green, black: windows (green black), (blue green), (red green); then green is on top, red second."""
    model = Model()
    state = state_of(batch(writer=model), [[0, 3, 2, 6, 1]])
    output = apply(LISTWISE, state)
    assert ranked(state) == [2, 0, 1, 3, 6]
    assert model.calls == 3
    assert {name: state.ledger.spent[name].tolist() for name in ("llm_calls", "rerank_pairs", "output_tokens")} == {
        "llm_calls": [3],
        "rerank_pairs": [4],
        "output_tokens": [18],
    }
    assert state.ledger.spent["context_tokens"][0] > 3 * 30
    assert output.ms.tolist() == [9.0]
    assert state.ledger.curtailments == [[]]


@pytest.mark.parametrize(
    ("caps", "calls", "pairs", "order"),
    [
        ({"llm_calls": 0}, 0, 0, [0, 3, 2, 6]),
        ({"llm_calls": 1}, 1, 2, [3, 0, 2, 6]),
        ({"llm_calls": 2}, 2, 3, [2, 0, 3, 6]),
        ({"output_tokens": order_tokens(2) - 1}, 0, 0, [0, 3, 2, 6]),
        ({"output_tokens": 2 * order_tokens(2) - 1}, 1, 2, [3, 0, 2, 6]),
        ({"context_tokens": 10}, 0, 0, [0, 3, 2, 6]),
        ({"context_tokens": 100}, 2, 3, [2, 0, 3, 6]),
        ({"rerank_pairs": 2}, 1, 2, [3, 0, 2, 6]),
        ({"rerank_pairs": 0}, 0, 0, [0, 3, 2, 6]),
    ],
)
def test_every_cap_of_a_language_model_holds(
    batch: Any, caps: dict[str, int], calls: int, pairs: int, order: list[int]
) -> None:
    model = Model()
    state = state_of(batch(writer=model), [[0, 3, 2, 6]], Budget(**caps))
    apply(LISTWISE, state)
    assert model.calls == calls
    assert ranked(state) == order
    assert state.ledger.spent["rerank_pairs"].tolist() == [pairs]
    (cut,) = state.ledger.curtailments[0]
    (resource,) = caps
    assert (cut.resource, cut.granted) == (resource, state.ledger.spent[resource][0])
    if resource == "llm_calls":
        assert cut.wanted == 3


def test_what_the_answer_needs_is_left(batch: Any) -> None:
    model = Model()
    questions = batch(writer=model)
    object.__setattr__(questions, "generator", type("Calling", (type(questions.generator),), {"calls": 1})())
    state = state_of(questions, [[0, 3, 2, 6]], Budget(llm_calls=2, output_tokens=100), answer=40)
    plan = LISTWISE.plan(state)
    assert plan["llm_calls"].tolist() == [1]
    assert plan["output_tokens"].tolist() == [60]
    state = state_of(questions, [[0, 3, 2, 6]], Budget(llm_calls=0, output_tokens=30, context_tokens=901), answer=40)
    plan = LISTWISE.plan(state)
    assert {name: values.tolist() for name, values in plan.items()} == {
        "rerank_pairs": [4],
        "llm_calls": [0],
        "output_tokens": [0],
        "context_tokens": [450],
    }


@pytest.mark.parametrize(
    ("model", "kind", "text"),
    [
        (Model('{"order": [2, '), "mended_order", "1 missing"),
        (Model("I think that"), "kept_order", "no order could be read"),
        (Model("[1]", "not finished after 1 s"), "failed", "not finished after 1 s"),
    ],
)
def test_a_model_that_fails_is_told_and_nothing_is_lost(batch: Any, model: Model, kind: str, text: str) -> None:
    stages = [{"bm25": {"depth": 4}}, {"rerank": LISTWISE.settings()}, "assemble", "generate"]
    questions = batch(["paint", "red paint"], writer=model)
    state = run_variant(load_variant("x", stages), questions, Budget(), Memory())
    assert not state.failures
    for i in range(2):
        told = [event for event in trace(state, i).events if event.kind != "duplicates"]
        assert {(event.kind, event.text) for event in told} == {(kind, text)}
        assert [event.round for event in told] == list(range(1, len(told) + 1))
        assert sorted(ranked(state, i)) == sorted(state.channels["bm25"].of(i).tolist())
        assert isinstance(state.completions[i].outcome, Answer)
        if kind != "mended_order":
            assert ranked(state, i) == state.channels["bm25"].of(i).tolist()


def test_a_call_that_failed_is_made_again_by_the_next_run(batch: Any) -> None:
    stages = [{"bm25": {"depth": 4}}, {"rerank": LISTWISE.settings()}, "assemble", "generate"]
    variant, model = load_variant("x", stages), Model(cause="not finished after 1 s")
    first = run_variant(variant, batch(writer=model), Budget(), Memory())
    model.cause = ""
    second = run_variant(variant, batch(writer=model), Budget(), Memory())
    assert [ran.cached for ran in second.ran] == [True, False, False, False]
    assert ranked(first) == first.channels["bm25"].of(0).tolist() != ranked(second)
    assert [passage.row for passage in second.contexts[0].passages] == [row for row in ranked(second) if row != 1]
    assert all(ran.cached for ran in run_variant(variant, batch(writer=model), Budget(), Memory()).ran)


def test_without_a_language_model_the_error_says_how_to_get_one(batch: Any) -> None:
    stages = [{"bm25": {}}, {"rerank": {"scorer": "listwise"}}]
    state = run_variant(load_variant("x", stages), batch(), Budget(), Memory())
    assert "set 'writer'" in state.failures[0].cause


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (["bm25", "dense", "rerank"], "2 retrieving stages need a fusing stage"),
        (["bm25", "dense", "rerank", "rrf"], "'rerank' needs one ranking, and there are bm25 and dense; put a"),
        (["bm25", "rerank", "rrf"], "'rrf' fuses the channels and would drop what 'rerank' did"),
        (["rerank", "bm25"], "stages must come as"),
        (["rerank"], "nothing retrieves"),
        (["bm25", {"rerank": {"depth": 0}}], r"rerank\.depth: .*greater than or equal to 1"),
        (["bm25", {"rerank": {"scorer": ""}}], r"rerank\.scorer"),
        (["bm25", {"rerank": {"window": 5}}], r"rerank\.window: goes with scorer listwise, not 'late'"),
        (["bm25", {"rerank": {"scorer": "listwise", "window": 4, "stride": 5}}], r"rerank\.stride: 5 is more than"),
        (
            ["bm25", {"rerank": {"scorer": "listwise", "stride": 11}}],
            r"rerank\.stride: 11 is more than the window of 10",
        ),
        (["bm25", {"rerank": {"scorer": "listwise", "window": 1}}], r"rerank\.window: .*greater than or equal to 2"),
    ],
)
def test_bad_settings_name_the_field(stages: list[Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("x", stages)


@pytest.mark.parametrize("own", [{}, {"scorer": "a/b", "depth": 7}, {"scorer": "listwise", "window": 4, "stride": 2}])
def test_the_settings_map_one_to_one(own: dict[str, Any]) -> None:
    variant = load_variant("x", ["bm25", "dense", "rrf", {"rerank": own}])
    assert load_variant("x", variant.to_yaml()) == variant
