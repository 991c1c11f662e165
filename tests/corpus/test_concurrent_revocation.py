"""Readers in several processes, and a writer that revokes and purges: nothing is handed out after it was revoked.

`time.monotonic` is one clock for all processes of a machine. A reader notes the time inside the hand-out, the writer
after its call has returned.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_lab.contracts import Acl, Document
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.publishing import publish
from rag_lab.store import Store

DOCUMENTS, REVOKED, BATCHES = 60, 50, 300
WORDS = ["pump", "valve", "sensor", "lamp", "wheel", "axle", "brake", "cable"]
STAGES = (
    "dense",
    "bm25",
    {"colbert": {"index": "exact"}},
    {"colbert": {"index": "plaid", "cells": 8, "compared": 8, "depth": 30}},
    {"splade": {"model": "hash-sparse"}},
)

READER = """
import json, random, sys, time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np

sys.path.insert(0, sys.argv[1])
from conftest import HashEncoder, HashLateEncoder, HashSparseEncoder
from rag_lab.budgets import Budget, Prices
from rag_lab.contracts import Principal, RagLabError, Request
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.policies import NO_BOOK
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.handing_out import hand_out
from rag_lab.variants.query_vectors import query_sparse_vectors, query_token_vectors, query_vectors
from rag_lab.variants.stage import Batch

store, encoder, late, reader = Store(Path(sys.argv[2])), HashEncoder(), HashLateEncoder(), ExtractiveReader()
sparse = HashSparseEncoder()


def opened():
    # the snapshot that was named, or the one that the corpus has now
    if sys.argv[3]:
        return Snapshot(store, sys.argv[3])
    with Corpus.open(store, "manuals") as corpus:
        return corpus.snapshot()


snapshot = opened()
variant = load_variant("x", [json.loads(sys.argv[4]), {"assemble": {"passages": 20}}])
reads, words, draw = int(sys.argv[5]), sys.argv[6].split(), random.Random(sys.argv[4] + sys.argv[7])
prices, stop, done = Prices.load(), Path(sys.argv[8]), 0
asked = [[f"{a} {b}" for b in words[:4]] for a in words[:4]]
while done < reads or not stop.exists():
    if not sys.argv[3] and done % 10 == 0:
        snapshot = opened()
    queries = draw.choice(asked)
    requests = [
        Request(f"r{i}", query, Principal("default"), "default", datetime(2026, 1, 1, tzinfo=UTC))
        for i, query in enumerate(queries)
    ]
    try:
        scopes = snapshot.scopes(requests)
    except RagLabError as error:
        assert "purged" in str(error) or "not a published folder" in str(error), error
        snapshot = opened()
        continue
    batch = Batch(
        requests=requests,
        gold=[np.zeros(0, dtype=np.int32)] * len(requests),
        snapshot=snapshot,
        book=NO_BOOK,
        scopes=scopes,
        generator=reader,
        generates=False,
        prices=prices,
        store=store,
        encoder=lambda: encoder,
        query_vectors=cache(lambda texts: query_vectors(store, encoder, texts)),
        progress=lambda *_: None,
        late_encoder=lambda: late,
        token_vectors=cache(lambda texts: query_token_vectors(store, late, texts)),
        sparse_encoder=lambda model: sparse,
        sparse_vectors=cache(lambda model, texts: query_sparse_vectors(store, sparse, texts)),
    )
    state = run_variant(variant, batch, Budget(), Memory())
    if state.ranking is None:  # parts of the snapshot went while it was read
        snapshot = opened()
        continue
    with hand_out(state) as checked:
        ids = {snapshot.chunks.document_id[row] for row in checked.ranking.chunk.tolist()}
        ids |= {passage.document_id for context in checked.contexts or () for passage in context.passages}
        now = time.monotonic()
    print(now, len(state.failures), *sorted(ids), flush=True)
    done += 1
"""


@pytest.fixture
def readers() -> Iterator[list[Any]]:
    """Processes that end with the test, however it ends."""
    started: list[Any] = []
    yield started
    for reader in started:
        reader.kill()
        reader.wait()


def start_readers(readers: list[Any], tmp_path: Path, store: Store, snapshot: str, stop: Path) -> list[Path]:
    """Start a reader for each stage, wait until each has handed out something, and return their logs."""
    tests = str(Path(__file__).parents[1])
    logs = [tmp_path / f"log{n}" for n in range(len(STAGES))]
    for number, (log, stage) in enumerate(zip(logs, map(json.dumps, STAGES), strict=True)):
        arguments = [tests, str(store.root), snapshot, stage, str(BATCHES), " ".join(WORDS), str(number), str(stop)]
        with log.open("w") as file:
            readers.append(subprocess.Popen([sys.executable, "-c", READER, *arguments], stdout=file))
    while not all(log.read_text().count("\n") > 20 for log in logs):
        assert [reader.poll() for reader in readers] == [None] * len(STAGES)
        time.sleep(0.05)
    return logs


@pytest.mark.slow
def test_no_revoked_document_is_handed_out_after_the_call_returned(
    tmp_path: Path, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any, readers: list[Any]
) -> None:
    draw, store, stop = random.Random(5), Store(tmp_path / "store"), tmp_path / "stop"
    documents = [
        Document(f"d{n}", " ".join(draw.choices(WORDS, k=6)) + f" unit{n}.", acl=Acl(public=True), language="en")
        for n in range(DOCUMENTS)
    ]
    snapshot = publish(
        store,
        documents,
        Whole(),
        analyzer="en",
        encoder=hash_encoder,
        factories=["Flat"],
        late=hash_late_encoder,
        late_indexes=["exact", "plaid"],
        sparse=[hash_sparse_encoder],
        corpus="manuals",
    )
    logs = start_readers(readers, tmp_path, store, snapshot.id, stop)
    deny, returned, took = DenyList(store), {}, []
    order = [document.document_id for document in documents]
    draw.shuffle(order)
    for number in range(0, REVOKED, 2):
        began = time.monotonic()
        deny.deny("manuals", order[number : number + 2], "leaked", by="test")
        returned |= dict.fromkeys(order[number : number + 2], time.monotonic())
        took.append(time.monotonic() - began)
        time.sleep(0.2)
    stop.touch()
    assert [reader.wait(timeout=120) for reader in readers] == [0] * len(STAGES)
    reads = [line.split() for log in logs for line in log.read_text().splitlines()]
    handed_out = [(float(moment), set(ids)) for moment, _, *ids in reads]
    late = [(moment, d) for moment, ids in handed_out for d in ids & returned.keys() if moment > returned[d]]
    assert late == []
    assert len(reads) >= len(STAGES) * BATCHES  # of four requests each
    during = [ids for moment, ids in handed_out if min(returned.values()) < moment < max(returned.values())]
    assert len(during) > 50
    assert all(any(d in ids for _, ids in handed_out) for d in returned)  # each had been handed out before
    assert set().union(*(ids for moment, ids in handed_out if moment > max(returned.values()))) <= set(order[REVOKED:])
    assert max(took) < 5


@pytest.mark.slow
def test_no_purged_document_is_handed_out(
    tmp_path: Path,
    hash_encoder: Any,
    hash_late_encoder: Any,
    hash_sparse_encoder: Any,
    monkeypatch: pytest.MonkeyPatch,
    readers: list[Any],
) -> None:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr("rag_lab.retrieval.late.load_late_encoder", lambda name: hash_late_encoder)
    monkeypatch.setattr("rag_lab.retrieval.sparse.load_sparse_encoder", lambda name: hash_sparse_encoder)
    draw, store, stop = random.Random(7), Store(tmp_path / "store"), tmp_path / "stop"
    docs = tmp_path / "docs"
    docs.mkdir()
    names = [f"d{n:02}.txt" for n in range(DOCUMENTS)]
    for name in names:
        (docs / name).write_text(" ".join(draw.choices(WORDS, k=6)) + f" stands in {name} and nowhere else.")
    settings = {"encoder": "hash", "analyzer": "en", "colbert": "hash", "colbert_indexes": ["exact", "plaid"]}
    with Corpus.create(store, "manuals", **settings, splade=["hash-sparse"], keep=2) as corpus:
        corpus.add(docs, tenant="default", public=True)
        logs = start_readers(readers, tmp_path, store, "", stop)
        returned: dict[str, float] = {}
        for number in range(0, 20, 4):
            gone = names[number : number + 4]
            corpus.revoke(gone, "leaked", by="test")
            returned |= dict.fromkeys(gone, time.monotonic())
            assert corpus.purge().proof.clean
        stop.touch()
        assert [reader.wait(timeout=120) for reader in readers] == [0] * len(STAGES)
    reads = [line.split() for log in logs for line in log.read_text().splitlines()]
    handed_out = [(float(moment), set(ids)) for moment, _, *ids in reads]
    assert [(m, d) for m, ids in handed_out for d in ids & returned.keys() if m > returned[d]] == []
    assert len(reads) >= len(STAGES) * BATCHES
    assert all(any(d in ids for _, ids in handed_out) for d in returned)
    after = [ids for moment, ids in handed_out if moment > max(returned.values())]
    assert set().union(*after) <= set(names[20:])
