"""A small corpus with rights, and batches on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_lab.budgets import Prices
from rag_lab.contracts import Acl, Document, Principal, Request
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.policies import NO_BOOK, PolicyBook
from rag_lab.corpus.publishing import publish
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.retrieval.encoders import embed_queries
from rag_lab.store import Store
from rag_lab.variants.query_vectors import QuerySparseVectors, QueryTokenVectors, QueryVectors
from rag_lab.variants.stage import Batch

WORDS = ["pump", "valve", "sensor", "lamp", "wheel", "axle", "brake", "cable"]
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def day(number: int) -> datetime:
    return datetime(2026, number, 1, tzinfo=UTC)


def make_documents() -> list[Document]:
    """Sixty documents of two tenants, with all kinds of ACLs and validity intervals."""
    random = np.random.default_rng(7)
    acls = [Acl(public=True), Acl(groups=("hr",)), Acl(groups=("hr", "ops")), Acl(groups=("ops",)), Acl()]
    spans = [(None, None), (day(3), None), (None, day(6)), (day(6), day(9)), (day(7), None)]
    return [
        Document(
            f"d{number:02}",
            " ".join(random.choice(WORDS, size=8)) + f" unit{number}.",
            tenant="t" if number % 3 else "u",
            acl=acls[number % len(acls)],
            valid_from=spans[number % 7 % len(spans)][0],
            valid_until=spans[number % 7 % len(spans)][1],
            language="en",
        )
        for number in range(60)
    ]


@dataclass(frozen=True, repr=False)
class House:
    """The corpus as a snapshot, and what a batch needs."""

    documents: list[Document]
    snapshot: Snapshot
    encoder: Any
    late_encoder: Any
    sparse_encoder: Any

    def batch(
        self,
        requests: Sequence[Request],
        store: Store,
        gold: Sequence[Sequence[int]] | None = None,
        book: PolicyBook = NO_BOOK,
    ) -> Batch:
        """A batch of requests, with the extractive reader as generator."""
        return Batch(
            requests=list(requests),
            gold=[np.array(rows, dtype=np.int32) for rows in gold or [[] for _ in requests]],
            snapshot=self.snapshot,
            book=book,
            scopes=self.snapshot.scopes(requests, book),
            generator=ExtractiveReader(),
            generates=True,
            prices=Prices.load(),
            store=store,
            encoder=lambda: self.encoder,
            query_vectors=lambda texts: QueryVectors(embed_queries(self.encoder, texts), np.full(len(texts), 0.25)),
            progress=lambda stage, done, total: None,
            late_encoder=lambda: self.late_encoder,
            token_vectors=lambda texts: QueryTokenVectors(
                self.late_encoder.encode_queries(texts), np.full(len(texts), 0.5)
            ),
            sparse_encoder={"hash-sparse": self.sparse_encoder}.__getitem__,
            sparse_vectors=lambda model, texts: QuerySparseVectors(
                {"hash-sparse": self.sparse_encoder}[model].encode_queries(texts), np.full(len(texts), 0.75)
            ),
        )


@pytest.fixture(scope="session")
def house(
    tmp_path_factory: pytest.TempPathFactory, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any
) -> House:
    documents = make_documents()
    snapshot = publish(
        Store(tmp_path_factory.mktemp("house")),
        documents,
        Whole(),
        analyzer="en",
        encoder=hash_encoder,
        factories=["Flat", "HNSW8"],
        late=hash_late_encoder,
        late_indexes=["auto", "exact", "plaid"],
        sparse=[hash_sparse_encoder],
        corpus="house",
    )
    return House(documents, snapshot, hash_encoder, hash_late_encoder, hash_sparse_encoder)


@pytest.fixture
def ask() -> Callable[..., Request]:
    """A request by a member of no group, changed by keywords."""

    def make(query: str = "pump valve", number: int = 0, **fields: Any) -> Request:
        given: dict[str, Any] = {"principal": Principal("t"), "tenant": "t", "time": NOW, "language": "en"} | fields
        return Request(f"r{number}", query, **given)

    return make


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")
