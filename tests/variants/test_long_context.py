"""Whole documents as context: all that the caller may read, or as much as fits, and never a part of a document."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_no_leaks import VARIANTS, check_nothing_forbidden_leaves, run_trial
from word_corpus import ALL, BARE, FIVE, Words, ids, run, word_batch, words

from rag_lab.context import EMPTY_SCOPE
from rag_lab.contracts import (
    Acl,
    Document,
    Event,
    Principal,
    RagLabError,
    Reason,
    Request,
    SectionRights,
)
from rag_lab.corpus.chunking import Blocks, Recursive, Whole
from rag_lab.corpus.publishing import publish
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import dump_output, load_output
from rag_lab.variants.stage import Batch, Output, trace

LONG = load_variant("long_context")
RANKED = load_variant("ranked", ["bm25", {"long_context": {"order": "ranking"}}, "generate"])


def readable(house: Any, request: Request) -> list[str]:
    rows = np.flatnonzero(house.snapshot.scopes([request]).rows(0))
    return [house.snapshot.chunks.document_id[row] for row in rows]


@pytest.fixture
def make(house: Any, tmp_path: Path) -> Callable[..., Batch]:
    return partial(word_batch, house, tmp_path)


# --- all of it -------------------------------------------------------------------------------------------------------


def test_the_whole_authorised_corpus_in_source_order(house, ask, store) -> None:
    requests = [ask("pump", 0), ask("brake", 1, principal=Principal("t", ("hr",)))]
    state = run(LONG, house.batch(requests, store))
    texts = {document.document_id: document.text for document in house.documents}
    for i, request in enumerate(requests):
        assert ids(state, i) == readable(house, request) == sorted(readable(house, request))
        assert [p.text for p in state.contexts[i].passages] == [texts[name] for name in ids(state, i)]
        assert [p.number for p in state.contexts[i].passages] == list(range(1, len(ids(state, i)) + 1))
        assert state.events[i] == (Event("long_context", "documents", value=len(ids(state, i))),)
    assert ids(state, 0) != ids(state, 1)
    assert state.ledger.curtailments == [[], []]
    assert state.ledger.spent["candidates"].tolist() == [0, 0]
    tokens = house.batch(requests, store).generator.prompt_tokens(requests, [c.passages for c in state.contexts])
    assert state.ledger.spent["context_tokens"].tolist() == tokens.tolist()
    assert all(p.tokens == ExtractiveReader().count_tokens([p.text])[0] for p in state.contexts[0].passages)


def test_questions_of_one_readership_share_their_passages_and_documents_are_counted_once(house, ask, store) -> None:
    generator = Words()
    batch = replace(house.batch([ask(f"pump {i}", i) for i in range(20)], store), generator=generator)
    state = run(LONG, batch)
    n = len(ids(state))
    assert all(context.passages is state.contexts[0].passages for context in state.contexts)
    assert generator.asked.count(1) == n
    generator.asked.clear()
    for variant in (LONG, RANKED, load_variant("router")):
        run(variant, batch, context_tokens=30)
    assert n not in generator.asked


def test_the_time_of_counting_is_charged_to_all_who_need_it(house, ask, store) -> None:
    class Slow(Words):
        def prompt_tokens(self, requests, contexts):
            import time

            time.sleep(0.05 * (max(map(len, contexts), default=0) > 1))
            return super().prompt_tokens(requests, contexts)

    batch = replace(house.batch([ask("pump", 0), ask("valve", 1)], store), generator=Slow())
    first, second = (run(LONG, batch, context_tokens=cap).ran[0] for cap in (50, 40))
    assert not second.cached
    assert min(first.ms.sum(), second.ms.sum()) >= 50


# --- as much as fits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "expected"),
    [
        (ALL, "abcde"),
        (ALL - 1, "abcd"),
        (BARE + 12, "a"),
        (BARE + 12 + 7, "ac"),
        (BARE + 12 + 7 + 10, "acd"),
        (BARE + 11, "c"),
        (BARE + 7, "c"),
        (BARE + 6, ""),
        (BARE, ""),
        (BARE - 1, ""),
        (0, ""),
    ],
)
def test_documents_that_fit_in_source_order(make, cap: int, expected: str) -> None:
    state = run(LONG, make(FIVE), context_tokens=cap)
    assert "".join(ids(state)) == expected
    spent = BARE + sum(len(FIVE[name].split()) + 2 for name in expected)
    assert state.contexts[0].prompt_tokens == spent
    assert state.ledger.spent["context_tokens"].tolist() == [spent if cap >= BARE else 0]
    cuts = [(c.stage, c.resource, c.wanted, c.granted) for c in state.ledger.curtailments[0]]
    assert cuts == ([] if expected == "abcde" else [("long_context", "context_tokens", ALL, spent)])
    events = [Event("long_context", "documents", value=len(expected))]
    if expected != "abcde":
        events.append(Event("long_context", "left_out", f"{ALL - spent} tokens", 5 - len(expected)))
    assert trace(state, 0).events == tuple(events)
    assert state.contexts[0].dropped == ()
    over = state.completions[0].outcome
    assert (getattr(over, "reason", None) == Reason.OVER_BUDGET) == (cap < BARE)


@pytest.mark.parametrize(
    ("window", "room", "expected"), [(60, 20, "ab"), (60, 0, "abcd"), (32, 20, "c"), (25, 20, ""), (10, 20, "")]
)
def test_the_answers_room_is_kept_in_the_window(make, window: int, room: int, expected: str) -> None:
    batch = make(FIVE, generator=Words(window))
    variant = load_variant("x", ["long_context", {"generate": {"output_tokens": max(room, 1)}}])
    if room:
        assert "".join(ids(run(variant, batch))) == expected
    else:
        assert "".join(ids(run(variant, replace(batch, generates=False)))) == expected


def test_without_answers_the_prompt_is_still_booked_and_one_that_cannot_be_sent_is_not(make) -> None:
    batch = replace(make(FIVE), generates=False)
    assert run(LONG, batch, context_tokens=40).ledger.spent["context_tokens"].tolist() == [39]
    assert run(LONG, batch, context_tokens=4).ledger.spent["context_tokens"].tolist() == [0]


def test_no_room_for_an_answer_is_over_budget(make) -> None:
    state = run(LONG, make(FIVE), output_tokens=0)
    assert state.completions[0].outcome.reason == Reason.OVER_BUDGET
    assert state.ledger.spent["context_tokens"].tolist() == [0]


def test_the_generator_has_the_last_word(make) -> None:
    """Two passages together cost 10 more than each alone suggests: the last one that the sums admit has to go."""
    batch = make(FIVE, generator=Words(surcharge=10))
    assert "".join(ids(run(LONG, batch, context_tokens=ALL + 10))) == "abcde"
    assert "".join(ids(run(LONG, batch, context_tokens=ALL))) == "abcd"
    state = run(LONG, batch, context_tokens=BARE + 12 + 7)
    assert "".join(ids(state)) == "a"
    assert state.contexts[0].prompt_tokens == BARE + 12


def test_questions_of_other_length_have_other_room(make) -> None:
    batch = make(FIVE, queries=["one", "one two three four five six seven eight"])
    state = run(LONG, batch, context_tokens=4 + 12 + 7)
    assert ["".join(ids(state, i)) for i in range(2)] == ["ac", "a"]


def oracle(costs: dict[str, int], order: Sequence[str], room: int) -> list[str]:
    """What greedy taking gives, by a plain loop."""
    if sum(costs.values()) <= room:
        return sorted(costs)
    taken = []
    for name in order:
        if costs[name] <= room:
            taken.append(name)
            room -= costs[name]
    return taken


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 400), min_size=1, max_size=4), st.integers(0, 3))
def test_contexts_are_those_of_a_plain_loop(house, ask, store, caps: list[int], group: int) -> None:
    principal = Principal("t", ((), ("hr",), ("ops",), ("hr", "ops"))[group])
    requests = [ask("pump valve"[: 4 + i], i, principal=principal) for i in range(3)]
    generator = Words()
    batch = replace(house.batch(requests, store), generator=generator)
    texts = {document.document_id: document.text for document in house.documents}
    names = house.snapshot.chunks.document_id
    for cap in caps:
        plain, ranked = run(LONG, batch, context_tokens=cap), run(RANKED, batch, context_tokens=cap)
        for i, request in enumerate(requests):
            permitted = readable(house, request)
            costs = {name: 2 + len(texts[name].split()) for name in permitted}
            room = cap - 3 - len(request.query.split())
            assert ids(plain, i) == oracle(costs, sorted(costs), room)
            found = [names[row] for row in ranked.ranking.of(i)]
            order = [*found, *(name for name in sorted(costs) if name not in found)]
            assert ids(ranked, i) == oracle(costs, order, room)


CAPPED = {name: load_variant(name) for name in ("long_context", "router", "gold_first", "gold_middle", "gold_last")}


@pytest.mark.parametrize("name", [*CAPPED, "ranked"])
@pytest.mark.parametrize(
    "caps",
    [
        {"candidates": 1},
        {"candidates": 0},
        {"context_tokens": 25},
        {"context_tokens": 1},
        {"output_tokens": 1},
        {"output_tokens": 0},
        {"llm_calls": 0, "rerank_pairs": 0, "rounds": 0},
        {"latency_ms": 0.0001, "usd": 0},
        {"candidates": 1, "context_tokens": 25, "output_tokens": 1},
    ],
    ids=str,
)
def test_no_variant_spends_above_a_cap(house, ask, store, name: str, caps: dict[str, float]) -> None:
    variant = CAPPED.get(name, RANKED)
    batch = house.batch([ask("pump valve", 0), ask("list brake axle", 1)], store, gold=[[0, 30], [3]])
    state = run(variant, batch, **caps)
    for resource, cap in caps.items():
        if resource in ("latency_ms", "usd"):
            assert state.ledger.over()[resource].all()
        else:
            assert (state.ledger.spent[resource] <= cap).all()
    cut = {c.resource for cuts in state.ledger.curtailments for c in cuts}
    if "candidates" in caps and variant.retrieves and "route" not in {stage.name for stage in variant.stages}:
        assert "candidates" in cut
    if set(caps) == {"context_tokens"}:
        assert "context_tokens" in cut


# --- in the order of a ranking ---------------------------------------------------------------------------------------


def test_documents_by_their_best_chunk_then_the_rest(make) -> None:
    texts = {
        "a": "alpha one. " + words("x", 12),
        "b": words("y", 12) + "\n\n" + "zebra zebra zebra.",
        "c": "zebra once. " + words("z", 12),
        "d": words("w", 4),
    }
    batch = make(texts, queries=["zebra"], chunker=Recursive(size=12))
    rows = run(RANKED, batch).ranking.of(0)
    best = list(dict.fromkeys(batch.snapshot.chunks.document_id[row] for row in rows))
    assert best == ["b", "c"]
    assert ids(run(RANKED, batch)) == ["a", "b", "c", "d"]
    whole = {name: len(text.split()) + 2 for name, text in texts.items()}
    assert ids(run(RANKED, batch, context_tokens=4 + whole["b"] + whole["c"] + whole["d"])) == ["b", "c", "d"]
    assert ids(run(RANKED, batch, context_tokens=4 + whole["b"])) == ["b"]
    assert ids(run(RANKED, batch, context_tokens=4 + whole["d"])) == ["d"]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"long_context": {"order": "ranking"}}], r"x\.long_context\.order: nothing ranks the documents"),
        (["bm25", "long_context"], r"x\.long_context\.order: source order makes no use of 'bm25'"),
        ([{"long_context": {"order": "random"}}], r"variants\.x\[1\]\.long_context\.order: "),
        (["long_context", "bm25"], "stages must come as query, retrieve"),
    ],
)
def test_combinations_that_make_no_sense_are_refused(stages: list[Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("x", stages)


# --- rights, gaps, languages -----------------------------------------------------------------------------------------

READING = {name: VARIANTS[name] for name in ("long_context", "router")} | {"ranked": RANKED}


@pytest.mark.parametrize("seed", range(1000, 1008))
def test_contexts_hold_exactly_what_is_permitted(
    seed: int, tmp_path: Path, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any
) -> None:
    """Sections with rights of their own, all chunkers: every permitted character, and no other but white space."""
    trial = run_trial(seed, tmp_path, (hash_encoder, hash_late_encoder, hash_sparse_encoder), 60, READING)
    check_nothing_forbidden_leaves(trial)
    table, texts = trial.batch.snapshot.chunks, trial.batch.texts()
    for state in trial.states.values():
        for number, context in enumerate(state.contexts):
            expected = {
                (table.document_id[row], place)
                for row in np.flatnonzero(trial.allowed[number]).tolist()
                for place in range(int(table.shown_start[row]), int(table.shown_end[row]))
            }
            held: list[tuple[str, int]] = []
            for passage in context.passages:
                assert passage.text == texts[passage.document_id][slice(*passage.span)]
                held += [(passage.document_id, place) for place in range(*passage.span)]
            assert len(held) == len(set(held))
            assert expected <= set(held)
            assert all(texts[name][place].isspace() for name, place in set(held) - expected)
            assert (context.dropped == (EMPTY_SCOPE,)) == (not expected)


def test_a_document_is_one_passage_unless_something_forbidden_or_of_other_validity_parts_it(
    tmp_path: Path, ask, house, store, hash_encoder
) -> None:
    parts = [f"{number} part of the text here." for number in ("First", "Second", "Third")]
    text = "\n\n".join(parts)
    middle = (text.index("Second"), text.index("Second") + len(parts[1]))
    later = datetime(2026, 5, 1, tzinfo=UTC)
    documents = [
        Document("open", text, tenant="t", acl=Acl(public=True), language="en"),
        Document(
            "secret",
            text,
            tenant="t",
            acl=Acl(public=True),
            sections=(SectionRights(middle, Acl(groups=("board",))),),
            language="en",
        ),
        Document(
            "timed",
            text,
            tenant="t",
            acl=Acl(public=True),
            sections=(SectionRights(middle, Acl(public=True), valid_from=later),),
            language="en",
        ),
    ]
    snapshot = publish(Store(tmp_path), documents, Blocks(size=8), token_encoder=hash_encoder)
    requests = [ask("part"), ask("part", 1, principal=Principal("t", ("board",)))]
    batch = replace(
        house.batch(requests, store),
        snapshot=snapshot,
        scopes=snapshot.scopes(requests),
        texts=lambda: {document.document_id: document.text for document in documents},
    )
    outsider, board = ([(p.document_id, p.text) for p in context.passages] for context in run(LONG, batch).contexts)
    timed = [("timed", part) for part in parts]
    assert outsider == [("open", text), ("secret", parts[0]), ("secret", parts[2]), *timed]
    assert board == [("open", text), ("secret", text), *timed]
    apart = run(LONG, replace(batch, texts=None))
    assert [p.text for p in apart.contexts[0].passages if p.document_id == "open"] == parts


def test_an_empty_scope_is_said_and_nobody_is_asked(house, ask, store) -> None:
    batch = house.batch([ask("pump", principal=None), ask("pump", 1)], store)
    state = run(LONG, batch, context_tokens=100)
    assert state.contexts[0].passages == ()
    assert state.contexts[0].dropped == (EMPTY_SCOPE,)
    assert state.completions[0].outcome.reason == Reason.NO_AUTHORISED_EVIDENCE
    assert state.ledger.curtailments[0] == []
    assert state.contexts[1].passages


def test_a_corpus_without_text_is_an_empty_scope(make) -> None:
    for variant in (LONG, RANKED, load_variant("router")):
        state = run(LONG if variant.name == "router" else variant, make({"a": "", "b": " \n"}))
        assert state.contexts[0].dropped == (EMPTY_SCOPE,)
        assert state.completions[0].outcome.reason == Reason.NO_AUTHORISED_EVIDENCE


def test_an_empty_batch_runs(house, store) -> None:
    for variant in (LONG, RANKED):
        assert run(variant, house.batch([], store)).contexts == ()


def test_chinese_documents_are_counted_by_character_and_headed_in_the_questions_language(
    tmp_path: Path, ask, house
) -> None:
    texts = {"一": "出差津贴为每天五百元。", "二": "住宿费另行报销，凭发票。"}
    valid = datetime(2026, 1, 1, tzinfo=UTC)
    documents = [
        Document(name, text, title=name, acl=Acl(public=True), tenant="t", language="zh", valid_from=valid)
        for name, text in texts.items()
    ]
    snapshot = publish(Store(tmp_path / "zh"), documents, Whole())
    requests = [ask("津贴是多少？", language=""), ask("What is the allowance?", 1, language="")]
    batch = replace(
        house.batch(requests, Store(tmp_path / "store")), snapshot=snapshot, scopes=snapshot.scopes(requests)
    )
    state = run(LONG, batch)
    assert ids(state, 0) == ["一", "二"]
    counted = ExtractiveReader().prompt_tokens(requests, [context.passages for context in state.contexts])
    assert [context.prompt_tokens for context in state.contexts] == counted.tolist()
    alone = counted - ExtractiveReader().prompt_tokens(requests, [(), ()])
    assert alone[0] != alone[1]
    for i in range(2):
        caps = {"context_tokens": int(counted[i])}
        assert len(ids(run(LONG, batch, **caps), i)) == 2
        assert len(ids(run(LONG, batch, context_tokens=int(counted[i]) - 1), i)) == 1


# --- determinism and what is kept ------------------------------------------------------------------------------------


def test_a_context_does_not_depend_on_the_other_questions(house, ask, tmp_path: Path) -> None:
    draw = random.Random(1)
    requests = [
        ask(words("w", 1 + i % 4), i, principal=Principal("t", ("hr",) if i % 3 else ()), language=("en", "zh")[i % 2])
        for i in range(12)
    ]
    order = draw.sample(range(12), 12)
    for variant in (LONG, RANKED):
        first = run(variant, house.batch(requests, Store(tmp_path / variant.name)), context_tokens=60)
        shuffled = [requests[i] for i in order]
        second = run(variant, house.batch(shuffled, Store(tmp_path / f"{variant.name} 2")), context_tokens=60)
        assert [second.contexts[place] for place in range(12)] == [first.contexts[i] for i in order]


def test_a_second_run_reads_the_same_contexts_and_keeps_each_text_once(house, ask, store) -> None:
    batch = house.batch([ask(f"pump {i}", i) for i in range(30)], store)
    first, second = run(LONG, batch), run(LONG, batch)
    assert second.ran[0].cached
    assert second.contexts == first.contexts
    assert all(context.passages[0] is second.contexts[0].passages[0] for context in second.contexts)
    assert second.events == first.events
    one = dump_output(Output(first.contexts[:1], np.zeros(1)))
    all_of_them = dump_output(Output(first.contexts, np.zeros(30)))
    assert len(all_of_them) < 2 * len(one)


def test_contexts_with_passages_in_another_order_survive_the_disk(house, ask, store) -> None:
    batch = house.batch([ask("pump", 0), ask("valve", 1), ask("lamp", 2, principal=None)], store)
    contexts = run(RANKED, batch, context_tokens=60).contexts
    assert contexts[0].passages[0].document_id != contexts[1].passages[0].document_id
    assert load_output(dump_output(Output(contexts, np.zeros(3)))).payload == contexts


def test_without_and_with_the_texts_are_two_entries(make) -> None:
    batch = make(FIVE)
    run(LONG, batch)
    assert not run(LONG, replace(batch, texts=None)).ran[0].cached
    assert run(LONG, batch).ran[0].cached
