from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rag_lab.budgets import Budget
from rag_lab.contracts import Principal, RagLabError, Ranking
from rag_lab.retrieval.mmr import marginal_relevance
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant


def variant(**settings: Any) -> Any:
    return load_variant("v", ["bm25", "dense", "rrf", {"mmr": settings}, "assemble", "generate"])


def test_the_first_candidates_are_chosen_anew_and_the_rest_follows(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask("pump valve", 1), ask("brake", 2, principal=Principal("t", ("hr",)))], store)
    memory = Memory()
    before = run_variant(load_variant("hybrid"), batch, Budget(), memory).ranking
    state = run_variant(variant(diversity=0.6, depth=6), batch, Budget(), memory)
    after = state.ranking
    assert not state.failures
    value = marginal_relevance(before.top(6), house.snapshot.vectors, 0.6)
    expected = Ranking.from_scores("mmr", 2, before.top(6).query, before.top(6).chunk, value)
    for question in range(2):
        assert after.of(question)[:6].tolist() == expected.of(question).tolist() != before.of(question)[:6].tolist()
        assert after.of(question)[6:].tolist() == before.of(question)[6:].tolist()
        assert (np.diff(after.score[after.query == question]) <= 0).all()
    assert batch.scopes.check(after) is after
    places = {(q, c): i for i, (q, c) in enumerate(zip(before.query.tolist(), before.chunk.tolist(), strict=True))}
    own = [places[pair] for pair in zip(after.query.tolist(), after.chunk.tolist(), strict=True)]
    assert after.ranks["bm25"].tolist() == before.ranks["bm25"][own].tolist()


def test_without_diversity_the_order_stays(house: Any, ask: Any, store: Any) -> None:
    batch, memory = house.batch([ask("pump valve")], store), Memory()
    before = run_variant(load_variant("hybrid"), batch, Budget(), memory).ranking
    assert run_variant(variant(diversity=0), batch, Budget(), memory).ranking.chunk.tolist() == before.chunk.tolist()


def test_nothing_found_and_an_empty_batch(house: Any, ask: Any, store: Any) -> None:
    state = run_variant(variant(), house.batch([ask("pump", principal=None)], store), Budget(), Memory())
    assert len(state.ranking.chunk) == 0
    assert not state.failures
    assert run_variant(variant(), house.batch([], store), Budget(), Memory()).completions == ()


def test_it_needs_vectors() -> None:
    assert "faiss:Flat" in load_variant("v", ["bm25", "mmr", "assemble"]).needs


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"diversity": 1}, "diversity: Input should be less than 1"), ({"diversity": -0.1}, "greater than or equal to 0")],
)
def test_settings_that_cannot_be_are_named(settings: Any, message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        variant(**settings)
