"""Documents that are denied before, while and after a variant runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_lab.budgets import Budget, Prices
from rag_lab.contracts import Acl, CacheUse, Document, Principal, RagLabError, Request
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.policies import Policy, PolicyBook
from rag_lab.corpus.publishing import publish
from rag_lab.corpus.segment import document_digest
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import ATTEMPTS, Memory, dump_output, run_variant
from rag_lab.variants.handing_out import CAUSE, STAGE, candidates, hand_out
from rag_lab.variants.query_vectors import query_vectors
from rag_lab.variants.stage import Batch, Output, State, cache_use, trace

NOW = datetime(2026, 6, 1, tzinfo=UTC)
DENSE = load_variant("x", [{"dense": {"depth": 4}}, "assemble", "generate"])


@pytest.fixture
def place(tmp_path: Path, hash_encoder: Any) -> Place:
    return Place(Store(tmp_path), hash_encoder)


class Place:
    """Six documents about pumps and six about lamps, and batches on them."""

    def __init__(self, store: Store, encoder: Any) -> None:
        self.store, self.encoder, self.deny = store, encoder, DenyList(store)
        self.documents = [
            Document(f"{word}{n}", f"The {word} number{n} runs.", acl=Acl(public=True), language="en")
            for word in ("pump", "lamp")
            for n in range(6)
        ]
        self.documents.append(Document("empty", "", acl=Acl(public=True)))
        self.snapshot = publish(store, self.documents, Whole(), encoder=encoder, factories=["Flat"], corpus="c")

    def batch(
        self,
        queries: Sequence[str] = ("pump", "lamp"),
        book: PolicyBook | None = None,
        progress: Callable[[str, int, int], None] = lambda *_: None,
    ) -> Batch:
        book = book or PolicyBook()
        requests = [
            Request(f"r{i}", query, Principal("default"), "default", NOW, policy_version=book.version)
            for i, query in enumerate(queries)
        ]
        return Batch(
            requests=requests,
            gold=[np.zeros(0, dtype=np.int32)] * len(queries),
            snapshot=self.snapshot,
            book=book,
            scopes=self.snapshot.scopes(requests, book),
            generator=ExtractiveReader(),
            generates=True,
            prices=Prices.load(),
            store=self.store,
            encoder=lambda: self.encoder,
            query_vectors=cache(lambda texts: query_vectors(self.store, self.encoder, texts)),
            progress=progress,
        )


def seen(state: State, question: int = 0) -> set[str]:
    """Documents in the ranking and the context of a question."""
    ids = state.batch.snapshot.chunks.document_id
    return {ids[row] for row in state.ranking.of(question)} | {p.document_id for p in state.contexts[question].passages}


def first(state: State) -> str:
    """The document at the top for the first question."""
    return state.batch.snapshot.chunks.document_id[state.ranking.of(0)[0]]


def run(batch: Batch) -> State:
    return run_variant(DENSE, batch, Budget(), Memory())


def test_what_is_denied_while_a_stage_runs_is_not_in_the_state(place: Place) -> None:
    best = first(run(place.batch()))
    place.store.remove("stages", place.snapshot.id)

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "assemble" and not done and best not in place.deny.denied("c"):
            place.deny.deny("c", [best], "leaked", by="test")

    batch = place.batch(progress=progress)
    state = run(batch)
    assert best not in seen(state)
    assert not state.failures
    assert len(seen(state)) == 4
    assert state.batch.scopes.denied == {best}
    assert batch.scopes.denied == frozenset()


def test_denials_without_end_fail_the_questions_that_they_touch_and_no_others(place: Place) -> None:
    denied = []

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "generate" and not done:
            denied.append(f"pump{len(denied)}")
            place.deny.deny("c", denied, "leaked", by="test")

    state = run(place.batch(progress=progress))
    assert len(denied) == ATTEMPTS
    assert {i: (failure.stage, failure.cause) for i, failure in state.failures.items()} == {0: (STAGE, CAUSE)}
    assert seen(state, 0) == set()
    assert len(seen(state, 1)) == 4
    assert state.completions[0].outcome == state.failures[0]
    assert not any(name in CAUSE for name in denied)


def test_what_is_denied_after_the_run_is_withheld_when_it_is_handed_out(place: Place) -> None:
    state = run(place.batch())
    best = first(state)
    assert candidates(state, 0)[0].chunk.document_id == best
    place.deny.deny("c", [best], "leaked", by="test")
    assert candidates(state, 0) == ()
    assert len(candidates(state, 1)) == 4
    with hand_out(state) as checked:
        assert seen(checked) == set()
        assert list(checked.failures) == [0]
        assert checked.looked_at[0] == 0
    place.deny.lift("c", [best], by="test")
    with hand_out(state) as checked:
        assert checked is state


def test_nothing_is_denied_while_it_is_handed_out(place: Place) -> None:
    import threading

    state = run(place.batch())
    writer = threading.Thread(target=lambda: place.deny.deny("c", [first(state)], "leaked", by="test"))
    with hand_out(state) as checked:
        writer.start()
        writer.join(timeout=0.2)
        assert writer.is_alive()
        assert checked is state
    writer.join(timeout=10)
    assert place.deny.epoch("c") == 1


def test_what_was_computed_of_a_denied_document_is_not_kept(place: Place) -> None:
    best = first(run(place.batch()))
    place.store.remove("stages", place.snapshot.id)
    reader = ExtractiveReader()

    class Slow(ExtractiveReader):
        def generate(self, requests, contexts, output_tokens):
            made = super().generate(requests, contexts, output_tokens)
            place.deny.deny("c", [best], "leaked", by="test")
            place.store.remove("stages", place.snapshot.id)  # as a purge does
            return made

    batch = replace(place.batch(), generator=Slow())
    assert best not in seen(run(batch))
    number = best[-1]
    left = [path for path in place.store.path("stages", place.snapshot.id).rglob("*") if path.is_file()]
    assert left
    assert not any(f"number{number}" in path.read_text("utf-8", "replace") for path in left if path.suffix == ".json")
    assert reader.name == "extractive"


def test_a_denial_empties_the_caches_of_snapshots_that_hold_the_document_and_no_others(place: Place) -> None:
    run(place.batch())
    place.deny.deny("c", ["elsewhere"], "leaked", by="test")
    place.deny.delete("c", {"pump0": "of other content"}, "old", by="test")
    assert all(ran.cached for ran in run(place.batch()).ran)
    place.deny.delete("c", {"pump0": document_digest(place.documents[0])}, "old", by="test")
    after = run(place.batch())
    assert not any(ran.cached for ran in after.ran)
    assert "pump0" not in seen(after)
    place.deny.lift("c", ["pump0"], by="test")
    assert all(ran.cached for ran in run(place.batch()).ran)


def test_a_denied_document_without_a_chunk_costs_one_run_and_no_more(place: Place) -> None:
    place.deny.deny("c", ["empty"], "leaked", by="test")
    stages = []
    batch = place.batch(progress=lambda stage, done, total: stages.append(stage) if not done else None)
    assert batch.current() is batch
    assert len(seen(run(batch))) == 4
    assert stages == ["dense", "assemble", "generate"]
    assert all(ran.cached for ran in run(place.batch()).ran)


def test_another_policy_book_is_another_entry(place: Place) -> None:
    run(place.batch())
    books = [PolicyBook((Policy("p", version, Acl(public=True)),)) for version in ("1", "2")]
    assert not any(ran.cached for book in books for ran in run(place.batch(book=book)).ran)
    assert all(ran.cached for ran in run(place.batch(book=books[0])).ran)


def test_a_damaged_deny_list_stops_every_read_and_names_the_file(place: Place) -> None:
    batch = place.batch()
    state = run(batch)
    place.deny.deny("c", ["lamp0"], "leaked", by="test")
    path = place.store.path("denied", "corpus-c") / "list.json"
    path.write_bytes(b"")
    for read in (place.batch, lambda: run(batch), lambda: candidates(state, 0)):
        with pytest.raises(RagLabError, match="the deny list cannot be read") as caught:
            read()
        assert str(path) in str(caught.value)


def test_an_output_on_disk_that_holds_what_is_out_of_scope_is_refused(place: Place) -> None:
    state = run(place.batch())
    place.deny.deny("c", [first(state)], "leaked", by="test")
    after = run(place.batch())
    by_stage = {
        ran.stage: (ran.key, payload)
        for ran, payload in zip(after.ran, (state.ranking, state.contexts, state.completions), strict=True)
    }
    for stage, (key, payload) in by_stage.items():
        facts = {name: np.zeros(2, dtype=np.int64) for name in ("wanted", "granted", "looked_at")}
        kept = place.batch().kept(key, "output.bin")
        place.batch().keep(key, "output.bin", dump_output(Output(payload, np.zeros(2), facts)))
        failures = run(place.batch()).failures
        assert {(f.stage, f.cause.partition(": ")[2]) for f in failures.values()} in (
            {(stage, "the index returned chunks outside the caller's scope; nothing was kept")},
            {(stage, "its output holds text outside the caller's scope; nothing was kept")},
        )
        place.batch().keep(key, "output.bin", kept)
        assert not run(place.batch()).failures


@pytest.mark.parametrize(("denied", "shown"), [([], "KeyError: 'of pump1'"), (["lamp0"], "KeyError")])
def test_an_error_quotes_nothing_where_something_is_withheld(place: Place, denied: list[str], shown: str) -> None:
    if denied:
        place.deny.deny("c", denied, "leaked", by="test")

    def broken(texts: Sequence[str]) -> None:
        raise KeyError("of pump1")

    state = run(replace(place.batch(), query_vectors=broken))
    assert {failure.cause for failure in state.failures.values()} == {shown}


def test_the_trace_tells_what_was_read_back(place: Place) -> None:
    fresh, again = run(place.batch()), run(place.batch())
    assert trace(fresh, 0).caches == (CacheUse("query", 0, 1), CacheUse("retrieval", 0, 2), CacheUse("answer", 0, 1))
    assert trace(again, 0).caches == (CacheUse("retrieval", 2, 0), CacheUse("answer", 1, 0))
    other = run_variant(load_variant("y", [{"dense": {"depth": 3}}]), place.batch(), Budget(), Memory())
    assert cache_use(other.ran) == (CacheUse("query", 1, 0), CacheUse("retrieval", 0, 1))
    assert other.ran[0].ms.tolist() != [0, 0]


def test_query_vectors_are_kept_by_encoder_and_batch_with_the_time_they_took(place: Place) -> None:
    made = query_vectors(place.store, place.encoder, ["pump", "lamp"])
    again = query_vectors(place.store, place.encoder, ["pump", "lamp"])
    assert (made.cached, again.cached) == (False, True)
    assert np.array_equal(made.vectors.vectors, again.vectors.vectors)
    assert made.ms.tolist() == again.ms.tolist()
    assert not query_vectors(place.store, place.encoder, ["lamp", "pump"]).cached

    class Newer(type(place.encoder)):
        version = "hash-2"

    assert not query_vectors(place.store, Newer(), ["pump", "lamp"]).cached
