"""The stage of late interaction: what it needs, draws, books, keeps and refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_lab.budgets import Budget
from rag_lab.contracts import Queries, RagLabError
from rag_lab.retrieval.late import LateIndex
from rag_lab.retrieval.late import index as late_index
from rag_lab.scoring import neighbour_recall
from rag_lab.variants import load_variant
from rag_lab.variants.colbert import ColBert
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.query_vectors import query_token_vectors
from rag_lab.variants.stage import Output, State, trace

EXACT = load_variant("x", [{"colbert": {"index": "exact"}}])
PLAID = load_variant("x", [{"colbert": {"index": "plaid"}}])
QUERIES = ["pump valve", "sensor lamp lamp", "unit7 wheel", "nothing known", "?!", "axle brake cable"]


def of(state: State, question: int) -> list[tuple[int, float]]:
    ranking = state.channels["colbert"]
    mine = slice(*ranking.offsets[[question, question + 1]])
    return list(zip(ranking.chunk[mine].tolist(), ranking.score[mine].tolist(), strict=True))


def by_hand(house: Any, query: str, rows: Sequence[int], depth: int) -> list[tuple[int, float]]:
    """MaxSim by loops over tokens, in float64."""
    late, table = house.late_encoder, house.snapshot.chunks
    asked = late.encode_queries([query])
    texts = [late.encode_passages([table.indexed_text(row)]) for row in range(len(table))]
    scores = {}
    for row in rows:
        passage = texts[row].vectors.astype(float)
        total = sum(max(float(other @ vector) for other in passage) for vector in asked.vectors.astype(float))
        scores[row] = round(float(total), 6)
    found = sorted(scores, key=lambda row: (-scores[row], row))[:depth]
    return [(row, scores[row]) for row in found] if len(asked.tokens) else []


def test_candidates_are_the_best_of_the_scope_by_maxsim(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)
    rows = np.flatnonzero(batch.scopes.rows(0)).tolist()
    assert 3 < len(rows) < 60
    state = run_variant(EXACT, batch, Budget(candidates=5), Memory())
    assert not state.failures
    for number, query in enumerate(QUERIES):
        assert of(state, number) == by_hand(house, query, rows, 5)


def test_what_is_drawn_is_booked_and_what_the_cap_cuts_is_told(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)
    state = run_variant(EXACT, batch, Budget(candidates=3), Memory())
    assert state.ledger.spent["candidates"].tolist() == [3, 3, 3, 3, 0, 3]
    (cut,) = trace(state, 0).curtailed
    assert (cut.stage, cut.resource, cut.wanted, cut.granted) == ("colbert", "candidates", 1000, 3)
    assert trace(state, 4).curtailed == ()
    open_ended = run_variant(EXACT, batch, Budget(), Memory())
    rows = int(batch.scopes.rows(0).sum())
    assert open_ended.ledger.spent["candidates"].tolist() == [rows] * 4 + [0, rows]
    assert trace(open_ended, 0).curtailed == ()
    assert len(run_variant(EXACT, batch, Budget(candidates=0), Memory()).channels["colbert"].chunk) == 0


def test_channels_share_the_candidates(house: Any, ask: Any, store: Any) -> None:
    variant = load_variant("x", ["bm25", {"colbert": {"index": "exact"}}, "rrf"])
    state = run_variant(variant, house.batch([ask()], store), Budget(candidates=8), Memory())
    assert state.ledger.spent["candidates"].tolist() == [8]
    assert len(of(state, 0)) == 8 - len(state.channels["bm25"].chunk)


def test_encoding_counts_as_time_of_the_question_and_is_done_once(house: Any, ask: Any, store: Any) -> None:
    asked: list[tuple[str, ...]] = []
    given = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)

    def token_vectors(texts: Sequence[str]) -> Any:
        asked.append(tuple(texts))
        return query_token_vectors(store, house.late_encoder, texts)

    batch, memory = replace(given, token_vectors=token_vectors), Memory()
    first = run_variant(EXACT, batch, Budget(), memory)
    again = run_variant(EXACT, batch, Budget(candidates=4), memory)
    assert [ran.vectors_cached for ran in (*first.ran, *again.ran)] == [False, True]
    assert set(asked) == {tuple(QUERIES)}
    assert (first.ran[0].ms > query_token_vectors(store, house.late_encoder, QUERIES).ms).all()
    kept = run_variant(EXACT, batch, Budget(), Memory())
    assert kept.ran[0].cached
    assert kept.ran[0].ms.tolist() == first.ran[0].ms.tolist()
    assert len(asked) == 2


def test_kept_token_vectors_are_those_that_were_made(house: Any, store: Any) -> None:
    made, read = (query_token_vectors(store, house.late_encoder, QUERIES) for _ in range(2))
    assert (made.cached, read.cached) == (False, True)
    for name in ("vectors", "lengths", "tokens"):
        assert np.array_equal(getattr(made.vectors, name), getattr(read.vectors, name))
        assert getattr(made.vectors, name).dtype == getattr(read.vectors, name).dtype
    assert (read.vectors.encoder, read.vectors.version) == ("hash-late", "hash-late-1")
    assert read.ms.tolist() == made.ms.tolist()


def test_another_encoder_or_setting_is_computed_anew(house: Any, ask: Any, store: Any) -> None:
    class Other(type(house.late_encoder)):  # type: ignore[misc]
        version = "hash-late-2"

    batch = house.batch([ask()], store)
    keys = [
        run_variant(variant, given, Budget(), Memory()).ran[0].key
        for variant in (EXACT, PLAID)
        for given in (batch, replace(batch, late_encoder=Other))
    ]
    assert len(set(keys)) == 4


def test_a_skipped_question_costs_nothing_and_several_queries_share_the_candidates(
    house: Any, ask: Any, store: Any
) -> None:
    batch = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)
    state = run_variant(EXACT, batch, Budget(candidates=6), Memory())
    stage = EXACT.stages[0]
    assert isinstance(stage, ColBert)
    state.skipped = np.array([False, True, False, False, False, False])
    rows = [(0, "pump", "part", ""), (0, "valve", "part", ""), (0, "lamp", "part", "bm25"), (2, "axle", "x", "colbert")]
    state.queries = Queries.build(6, rows)
    plan = {"depth": np.array([5, 0, 5, 5, 5, 5])}
    output = stage.compute(state, plan, "key")
    assert isinstance(output, Output)
    assert output.facts["drawn"].tolist() == [5, 0, 5, 0, 0, 0]
    assert set(output.facts["found_by"][output.payload.query == 0].tolist()) == {0, 1}
    assert stage.plan(state)["depth"].tolist()[1] == 0
    assert (output.ms > 0).tolist() == [True, False, True, False, False, False]


def test_nobody_to_search_for_is_nothing_found(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask(principal=None)], store)
    for variant in (EXACT, PLAID):
        assert len(run_variant(variant, batch, Budget(), Memory()).channels["colbert"].chunk) == 0


def test_neighbours_that_plaid_misses_are_told(house: Any, ask: Any, store: Any, monkeypatch: Any) -> None:
    """One cell and one passage are looked at, so most of the neighbours are missed; beside exact search none are."""
    monkeypatch.setattr(late_index, "TOGETHER", 0)
    narrow = load_variant("x", [{"colbert": {"index": "plaid", "cells": 1, "compared": 1, "depth": 1}}])
    batch = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)
    state = run_variant(narrow, batch, Budget(), Memory())
    assert not state.failures
    whole = run_variant(EXACT, batch, Budget(), Memory())
    assert whole.exact_neighbours is None
    near = state.exact_neighbours
    assert near is not None
    assert near.channel == "colbert"
    for number in range(len(QUERIES)):
        assert near.of(number).tolist() == [row for row, _ in of(whole, number)][:10]
    recall = neighbour_recall(state.channels["colbert"], near, 10)
    assert recall.eligible.tolist() == [True, True, True, True, False, True]
    rows = int(batch.scopes.rows(0).sum())
    assert recall.values[recall.eligible].tolist() == [1 / min(10, rows)] * 5
    wide = load_variant("x", [{"colbert": {"index": "plaid", "cells": 10_000, "compared": 10_000}}])
    found = run_variant(wide, batch, Budget(), Memory())
    for number in range(len(QUERIES)):
        assert of(found, number) == of(whole, number)


def test_of_many_questions_some_evenly_spread_ones_are_checked(
    house: Any, ask: Any, store: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(ColBert, "checked", 3)
    batch = house.batch([ask("pump", number) for number in range(9)], store)
    near = run_variant(PLAID, batch, Budget(), Memory()).exact_neighbours
    assert near is not None
    assert sorted(set(near.query.tolist())) == [0, 4, 8]


def test_auto_is_exact_for_few_chunks(house: Any, ask: Any, store: Any) -> None:
    auto = load_variant("colbert")
    assert auto.late_indexes == ("auto",)
    assert house.snapshot.late("auto") is house.snapshot.late("exact")
    state = run_variant(auto, house.batch([ask()], store), Budget(), Memory())
    assert not state.failures
    assert state.exact_neighbours is None


def test_a_filter_that_the_index_forgets_is_an_error(house: Any, ask: Any, store: Any, monkeypatch: Any) -> None:
    search = LateIndex.search
    monkeypatch.setattr(LateIndex, "search", lambda self, queries, depth, *_: search(self, queries, depth))
    state = run_variant(EXACT, house.batch([ask()], store), Budget(), Memory())
    assert "colbert: the index returned chunks outside the caller's scope" in state.failures[0].cause


def test_a_batch_without_a_late_encoder_says_what_to_do(house: Any, ask: Any, store: Any) -> None:
    given = house.batch([ask()], store)
    fields = {name: getattr(given, name) for name in given.__dataclass_fields__}
    for name in ("late_encoder", "token_vectors"):
        batch = type(given)(**{key: value for key, value in fields.items() if key != name})
        state = run_variant(EXACT, batch, Budget(), Memory())
        assert state.failures[0].cause == (
            "colbert: there is no late-interaction encoder; set 'colbert' in the snapshot's settings"
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"index": "hnsw"}, r"variants\.x\[1\]\.colbert\.index: Input should be 'auto', 'exact' or 'plaid'"),
        ({"depth": 0}, r"variants\.x\[1\]\.colbert\.depth: Input should be greater than or equal to 1"),
        ({"cells": 3}, r"variants\.x\.colbert\.cells: goes with 'compared'; set both, or neither"),
        ({"compared": 3}, r"variants\.x\.colbert\.compared: goes with 'cells'; set both, or neither"),
        (
            {"index": "exact", "cells": 3, "compared": 9},
            r"variants\.x\.colbert\.cells: exact search compares everything; remove it",
        ),
        ({"breadth": 3}, r"variants\.x\[1\]\.colbert\.breadth: Extra inputs are not permitted"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("x", [{"colbert": settings}])
