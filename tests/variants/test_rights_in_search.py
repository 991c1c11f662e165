"""No id, text or score of a forbidden chunk leaves candidate generation; permitted ones rank as if alone."""

from __future__ import annotations

import dataclasses
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab import records
from rag_lab.budgets import Budget
from rag_lab.contracts import Principal, RagLabError, Ranking, Request
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant

WORDS = ["pump", "valve", "sensor", "lamp", "wheel", "axle", "brake", "cable"]
VARIANTS = {
    "bm25": load_variant("bm25"),
    "dense": load_variant("dense"),
    "colbert": load_variant("colbert"),
    "plaid": load_variant(
        "plaid", [{"colbert": {"index": "plaid", "cells": 1, "compared": 2}}, "assemble", "generate"]
    ),
    "splade": load_variant("splade", [{"splade": {"model": "hash-sparse"}}, "assemble", "generate"]),
    "approximate": load_variant("approximate", [{"dense": {"index": "HNSW8"}}, "assemble", "generate"]),
    "hybrid": load_variant("hybrid"),
    "rerank": load_variant("rerank"),
    "multi_query": load_variant("multi_query"),
    "gold_context": load_variant("gold_context"),
}

requests = st.builds(
    lambda words, tenant, claimed, groups, month, scope: Request(
        request_id="",
        query=" ".join(words),
        principal=None if tenant is None else Principal(tenant, tuple(groups)),
        tenant=claimed,
        time=datetime(2026, month, 1, tzinfo=UTC),
        scope=scope,
        language="en",
    ),
    st.lists(st.sampled_from([*WORDS, "unit7", "unknown"]), min_size=1, max_size=4),
    st.sampled_from(["t", "u", "v", None]),
    st.sampled_from(["t", "t", "u", ""]),
    st.lists(st.sampled_from(["hr", "ops", "*", "", "HR"]), max_size=2),
    st.integers(2, 10),
    st.none() | st.frozensets(st.sampled_from([f"d{i:02}" for i in range(60)]), max_size=30),
)


def permitted(document, request: Request) -> bool:
    """The rule, written a second time and plainly."""
    caller = request.principal
    return (
        caller is not None
        and caller.tenant == request.tenant == document.tenant
        and (document.acl.public or any(group in caller.groups for group in document.acl.groups))
        and (document.valid_from is None or document.valid_from <= request.time)
        and (document.valid_until is None or request.time < document.valid_until)
        and (request.scope is None or document.document_id in request.scope)
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(requests, min_size=1, max_size=12), st.integers(1, 70))
def test_nothing_forbidden_leaves_and_the_permitted_rank_as_if_alone(house, drawn: list[Request], depth: int) -> None:
    asked = [dataclasses.replace(request, request_id=f"r{i}") for i, request in enumerate(drawn)]
    ids = house.snapshot.chunks.document_id
    by_id = {document.document_id: document for document in house.documents}
    allowed = [np.array([permitted(by_id[name], request) for name in ids]) for request in asked]
    with tempfile.TemporaryDirectory() as folder:
        batch = house.batch(asked, Store(Path(folder)), gold=[range(60)] * len(asked))
        memory = Memory()
        states = {name: run_variant(v, batch, Budget(candidates=depth), memory) for name, v in VARIANTS.items()}
    for state in states.values():
        assert not state.failures
        for ranking in [*state.channels.values(), state.ranking]:
            assert all(allowed[q][row] for q, row in zip(ranking.query, ranking.chunk, strict=True))
        for i, context in enumerate(state.contexts):
            assert all(allowed[i][passage.row] for passage in context.passages)
            assert all(allowed[i][row] for row, _ in context.dropped if row >= 0)
            written = records.dumps(state.completions[i]).decode()
            assert not any(f"{ids[row]}#0" in written for row in np.flatnonzero(~allowed[i]))
    vectors = batch.query_vectors([request.query for request in asked]).vectors.vectors
    index = house.snapshot.dense("Flat")
    card = (house.encoder.name, house.encoder.version)
    for i, mine in enumerate(allowed):
        alone = DenseIndex.build(Embeddings(index.vectors[mine], *card)).search(
            Embeddings(vectors[i : i + 1], *card), depth
        )
        assert states["dense"].ranking.of(i).tolist() == np.flatnonzero(mine)[alone.ranking.chunk].tolist()
        everything = house.snapshot.bm25.search([asked[i].query], 60, None)
        expected = [row for row in everything.row.tolist() if mine[row]][:depth]
        assert states["bm25"].ranking.of(i).tolist() == expected


def test_an_index_that_forgets_the_filter_is_stopped(house, ask, store) -> None:
    batch = house.batch([ask()], store)
    leaking = Ranking.from_scores("leaky", 1, [0] * 60, list(range(60)), np.ones(60))
    with pytest.raises(RagLabError, match="leaky: the index returned chunks outside the caller's scope"):
        batch.scopes.check(leaking)


def test_a_caller_who_may_read_nothing_gets_an_abstention_that_says_so(house, ask, store) -> None:
    batch = house.batch([ask(principal=None)], store)
    state = run_variant(VARIANTS["hybrid"], batch, Budget(), Memory())
    assert state.completions[0].outcome.reason == "no_authorised_evidence"
    assert len(state.ranking.chunk) == 0
