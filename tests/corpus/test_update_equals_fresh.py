"""However a snapshot came about, it reads and ranks as the one that publishing its documents afresh gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_lab.contracts import Acl, Document
from rag_lab.corpus.chunk_table import COLUMNS
from rag_lab.corpus.chunking import Window
from rag_lab.corpus.publishing import compact, publish, rewrite_without
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.retrieval.encoders import embed_queries
from rag_lab.store import Store

WORDS = ["pump", "valve", "sensor", "lamp", "wheel", "axle", "brake", "cable", "红灯", "détente"]
QUERIES = ["pump valve", "sensor", "lamp lamp wheel", "红灯 axle", "détente brake cable pump", "nothing known"]
ACLS = [Acl(public=True), Acl(groups=("hr",)), Acl(groups=("ops", "hr")), Acl()]
STEPS = ("add", "change", "remove", "rights", "nothing", "compact", "rewrite")


def drawn_document(random: np.random.Generator, number: int) -> Document:
    """Ids sort differently as numbers, code units and code points; texts repeat; some have no chunk at all."""
    name = f"{random.choice(['d', 'D', 'é', '文', '𝔡'])}{number}"
    text = " ".join(random.choice(WORDS, size=random.integers(0, 12)).tolist())
    return Document(name, text, title=str(random.choice(["", "Manual"])), acl=ACLS[random.integers(len(ACLS))])


def step(kind: str, random: np.random.Generator, held: dict[str, Document]) -> tuple[list[Document], set[str]]:
    """What a step publishes, and what it takes away."""
    some = [str(name) for name in random.permutation(sorted(held))[: random.integers(1, 5)]]
    if kind == "add":
        fresh = [drawn_document(random, int(random.integers(1000))) for _ in range(random.integers(1, 9))]
        return list({document.document_id: document for document in fresh}.values()), set()
    if kind == "change":
        return [replace(held[name], text=drawn_document(random, 0).text) for name in some], set()
    if kind == "rights":
        return [replace(held[name], acl=ACLS[random.integers(len(ACLS))]) for name in some], set()
    if kind == "nothing":
        return [held[name] for name in some], {"never there"}
    return [], set(some)


def check_equal(made: Snapshot, fresh: Snapshot, encoder: Any, late: Any, sparse: Any) -> None:
    ours, theirs = made.chunks, fresh.chunks
    for name in COLUMNS:
        assert list(getattr(ours, name)) == list(getattr(theirs, name)), name
    assert ours.classes == theirs.classes
    assert ours.rights.tolist() == theirs.rights.tolist()
    assert made.documents == fresh.documents
    assert [made.facts[name] for name in ("documents", "chunks")] == [fresh.facts[n] for n in ("documents", "chunks")]
    assert np.array_equal(made.vectors, fresh.vectors)
    codes = [rights.key for rights in ours.classes]
    for scope in (None, [codes[::2]] * len(QUERIES)):
        mine, other = (snapshot.bm25.search(QUERIES, 1000, scope) for snapshot in (made, fresh))
        for name in ("query", "row", "score"):
            assert getattr(mine, name).tolist() == getattr(other, name).tolist()
    queries = embed_queries(encoder, QUERIES)
    for factory in ("Flat", "HNSW8"):
        mine, other = (snapshot.dense(factory).search(queries, 1000).ranking for snapshot in (made, fresh))
        for name in ("query", "chunk", "score"):
            assert getattr(mine, name).tolist() == getattr(other, name).tolist(), factory
    for name in ("vectors", "lengths", "tokens"):
        assert np.array_equal(getattr(made.token_vectors, name), getattr(fresh.token_vectors, name)), name
    mine, other = (snapshot.encoded("impacts:hash-sparse") for snapshot in (made, fresh))
    assert mine.lengths.tolist() == other.lengths.tolist()
    for name in ("terms", "impacts"):
        assert np.array_equal(mine.arrays[name], other.arrays[name]), name
    terms = sparse.encode_queries(QUERIES)
    for scope in (None, [codes[::2]] * len(QUERIES)):
        mine, other = (snapshot.impact("hash-sparse").search(terms, 1000, scope) for snapshot in (made, fresh))
        for name in ("query", "row", "score"):
            assert getattr(mine, name).tolist() == getattr(other, name).tolist()
    tokens = late.encode_queries(QUERIES)
    for kind in ("exact", "plaid"):
        mine, other = (snapshot.late(kind).search(tokens, 1000).ranking for snapshot in (made, fresh))
        for name in ("query", "chunk", "score"):
            assert getattr(mine, name).tolist() == getattr(other, name).tolist(), kind


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_of_updates_equals_a_fresh_build(
    tmp_path: Path, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any, seed: int
) -> None:
    random = np.random.default_rng(seed)
    settings = {
        "token_encoder": hash_encoder,
        "analyzer": "multilingual",
        "encoder": hash_encoder,
        "factories": ["Flat", "HNSW8"],
        "late": hash_late_encoder,
        "late_indexes": ["exact", "plaid"],
        "sparse": [hash_sparse_encoder],
        "corpus": "c",
    }
    held = {d.document_id: d for d in (drawn_document(random, number) for number in range(random.integers(1, 60)))}
    store, chunker = Store(tmp_path / "store"), Window(size=4, overlap=1)
    snapshot = publish(store, list(held.values()), chunker, **settings)
    for turn in range(14):
        kind = str(random.choice(STEPS))
        documents, removed = step(kind, random, held)
        if kind == "compact":
            snapshot = compact(store, snapshot)
        else:
            for name in removed:
                held.pop(name, None)
            held |= {document.document_id: document for document in documents}
            if kind == "rewrite":
                snapshot = rewrite_without(store, snapshot, lambda name, _, gone=frozenset(removed): name in gone)
            else:
                snapshot = publish(store, documents, chunker, **settings, base=snapshot, removed=removed)
        snapshot.verify()
        fresh = publish(Store(tmp_path / f"fresh{turn}"), list(held.values()), chunker, **settings)
        check_equal(snapshot, fresh, hash_encoder, hash_late_encoder, hash_sparse_encoder)
        if not held:
            held = {"d": Document("d", "pump")}
            snapshot = publish(store, list(held.values()), chunker, **settings, base=snapshot)
    assert compact(store, snapshot).facts["segments"] == fresh.facts["segments"]
