"""The stage of learned sparse retrieval: what it needs, draws, books, keeps and refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rag_lab
from rag_lab.budgets import Budget
from rag_lab.contracts import Queries, RagLabError
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.query_vectors import query_sparse_vectors
from rag_lab.variants.retrieve import Splade
from rag_lab.variants.stage import State, trace

VARIANT = load_variant("x", [{"splade": {"model": "hash-sparse"}}])
QUERIES = ["pump valve", "sensor lamp lamp", "unit7 wheel", "?!", "axle brake cable"]


def of(state: State, question: int) -> list[tuple[int, float]]:
    ranking = state.channels["splade"]
    mine = slice(*ranking.offsets[[question, question + 1]])
    return list(zip(ranking.chunk[mine].tolist(), ranking.score[mine].tolist(), strict=True))


def by_hand(house: Any, query: str, rows: Sequence[int], depth: int) -> list[tuple[int, float]]:
    """Products of impacts, added up in Python."""

    def weigh(text: str) -> dict[int, int]:
        made = house.sparse_encoder.encode_passages([text])
        return dict(zip(made.terms.tolist(), made.impacts.tolist(), strict=True))

    asked, table = weigh(query), house.snapshot.chunks
    texts = {row: weigh(table.indexed_text(row)) for row in rows}
    scores = {row: sum(asked[term] * text.get(term, 0) for term in asked) for row, text in texts.items()}
    best = sorted((row for row in rows if scores[row]), key=lambda row: (-scores[row], row))[:depth]
    return [(row, float(scores[row])) for row in best]


def test_candidates_are_the_best_of_the_scope_by_the_sum_of_products(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)
    rows = np.flatnonzero(batch.scopes.rows(0)).tolist()
    state = run_variant(VARIANT, batch, Budget(), Memory())
    assert not state.failures
    for number, query in enumerate(QUERIES):
        assert of(state, number) == by_hand(house, query, rows, 1000)
    assert len(of(state, 0)) > 3
    narrow = house.batch([ask(QUERIES[0], scope=frozenset({"d05", "d20"}))], store)
    assert {row for row, _ in of(run_variant(VARIANT, narrow, Budget(), Memory()), 0)} <= {5, 20}


def test_what_is_drawn_is_booked_and_what_the_cap_cuts_is_told(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)
    rows = np.flatnonzero(batch.scopes.rows(0)).tolist()
    state = run_variant(VARIANT, batch, Budget(candidates=2), Memory())
    expected = [len(by_hand(house, query, rows, 2)) for query in QUERIES]
    assert expected[0] == 2
    assert expected[3] == 0
    assert state.ledger.spent["candidates"].tolist() == expected
    (cut,) = trace(state, 0).curtailed
    assert (cut.stage, cut.resource, cut.wanted, cut.granted) == ("splade", "candidates", 1000, 2)
    assert trace(state, 3).curtailed == ()
    assert len(run_variant(VARIANT, batch, Budget(candidates=0), Memory()).channels["splade"].chunk) == 0


def test_terms_of_queries_are_weighed_once_and_are_part_of_the_time(house: Any, ask: Any, store: Any) -> None:
    asked: list[tuple[str, ...]] = []
    given = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)

    def sparse_vectors(model: str, texts: Sequence[str]) -> Any:
        asked.append((model, *texts))
        return query_sparse_vectors(store, house.sparse_encoder, texts)

    batch, memory = replace(given, sparse_vectors=sparse_vectors), Memory()
    first = run_variant(VARIANT, batch, Budget(), memory)
    again = run_variant(VARIANT, batch, Budget(candidates=4), memory)
    assert [ran.vectors_cached for ran in (*first.ran, *again.ran)] == [False, True]
    assert set(asked) == {("hash-sparse", *QUERIES)}
    kept = query_sparse_vectors(store, house.sparse_encoder, QUERIES)
    assert kept.cached
    made = house.sparse_encoder.encode_queries(QUERIES)
    for name in ("lengths", "terms", "impacts"):
        assert np.array_equal(getattr(kept.vectors, name), getattr(made, name))
    assert (first.ran[0].ms > kept.ms).all()


def test_several_queries_share_the_candidates_and_a_skipped_question_has_none(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask(query, number) for number, query in enumerate(QUERIES)], store)
    state = run_variant(VARIANT, batch, Budget(candidates=6), Memory())
    stage = VARIANT.stages[0]
    assert isinstance(stage, Splade)
    state.skipped = np.array([False, True, False, False, False])
    state.queries = Queries.build(5, [(0, "pump", "part", ""), (0, "valve", "part", ""), (2, "axle", "x", "splade")])
    output = stage.compute(state, {"depth": np.array([4, 0, 4, 4, 4])}, "key")
    assert output.facts["drawn"].tolist()[1::2] == [0, 0]
    assert 0 < output.facts["drawn"][0] <= 4
    assert stage.plan(state)["depth"].tolist()[1] == 0


def test_another_model_is_computed_anew_and_one_that_is_not_there_is_named(house: Any, ask: Any, store: Any) -> None:
    class Other(type(house.sparse_encoder)):  # type: ignore[misc]
        version = "hash-sparse-2"

    batch = house.batch([ask()], store)
    given = (batch, replace(batch, sparse_encoder=lambda model: Other()))
    assert len({run_variant(VARIANT, one, Budget(), Memory()).ran[0].key for one in given}) == 2
    fields = {name: getattr(batch, name) for name in batch.__dataclass_fields__ if not name.startswith("sparse_")}
    state = run_variant(VARIANT, type(batch)(**fields), Budget(), Memory())
    assert state.failures[0].cause == "splade: there is no sparse encoder 'hash-sparse' in this batch"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"variants\.x\[1\]\.splade\.model: Field required"),
        ({"model": ""}, r"variants\.x\[1\]\.splade\.model: String should have at least 1 character"),
        ({"model": "m", "depth": 0}, r"variants\.x\[1\]\.splade\.depth: Input should be greater than or equal to 1"),
        ({"model": "m", "k1": 1}, r"variants\.x\[1\]\.splade\.k1: Extra inputs are not permitted"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("x", [{"splade": settings}])


def test_an_experiment_names_its_model(tmp_path: Path, make_tiny_bert: Callable[..., Path]) -> None:
    short = {
        "dataset": "handbook",
        "generator": "none",
        "limit": 6,
        "time": "2026-09-10",
        "metrics": ["nDCG@10"],
        "statistics": {"resamples": 200, "permutations": 200},
    }
    model = str(make_tiny_bert(tmp_path / "model"))
    stages = [{"splade": {"model": model}}]
    results = rag_lab.run(short, store=Store(tmp_path / "store"), progress=False, variants=[{"learned": stages}])
    assert not results.failures
    assert results.provenance["models"]["splade"].startswith(f"{model} ")
    caches = results.provenance["caches"]
    assert sum(caches["sparse vectors"].values()) == results.provenance["snapshots"]["main"]["chunks"]
    more = [{"learned": stages}, {"few": [{"splade": {"model": model, "depth": 2}}]}]
    again = rag_lab.run(short, store=Store(tmp_path / "store"), progress=False, variants=more)
    assert again.runs["learned"] == results.runs["learned"]
    assert again.provenance["caches"]["query"] == {"hits": 1, "misses": 0}
    assert again.provenance["caches"]["sparse vectors"]["misses"] == 0
    wrong = str(make_tiny_bert(tmp_path / "wrong", "BertModel"))
    with pytest.raises(RagLabError, match=f"sparse encoder '{wrong}' is no masked language model") as error:
        rag_lab.run(short, store=Store(tmp_path / "store"), variants=[{"x": [{"splade": {"model": wrong}}]}])
    assert "\n" not in str(error.value)
