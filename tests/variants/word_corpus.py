"""Batches on an open corpus of given texts, in which tokens are white-space words, and what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.budgets import Budget
from rag_lab.contracts import Acl, Document, IntArray, Passage, Principal, Request
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.publishing import publish
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.store import Store
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.stage import Batch, State


def words(prefix: str, n: int) -> str:
    return " ".join(f"{prefix}{i}" for i in range(n))


FIVE = {name: words(name, n) for name, n in (("a", 10), ("b", 20), ("c", 5), ("d", 8), ("e", 30))}
BARE, ALL = 5, 5 + 73 + 10


class Words(ExtractiveReader):
    """Counts white-space words: 3 of instructions, the question, and 2 of header for each passage."""

    name = "words"

    def __init__(self, window: int | None = None, surcharge: int = 0) -> None:
        super().__init__()
        self.window, self.surcharge = window, surcharge
        self.version = f"words {window} {surcharge}"
        self.asked: list[int] = []

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        return np.array([len(text.split()) for text in texts], dtype=np.int32)

    def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Sequence[Passage]]) -> IntArray:
        self.asked.extend(map(len, contexts))
        return np.array(
            [
                3 + len(r.query.split()) + sum(2 + len(p.text.split()) for p in c) + self.surcharge * (len(c) > 1)
                for r, c in zip(requests, contexts, strict=True)
            ],
            dtype=np.int32,
        )


def run(variant: Any, batch: Batch, **caps: Any) -> State:
    state = run_variant(variant, batch, Budget(**caps), Memory())
    assert not state.failures, state.failures
    return state


def word_batch(
    house: Any,
    at: Path,
    texts: dict[str, str],
    queries: Sequence[str] = ("one two",),
    chunker: Any = None,
    **fields: Any,
) -> Batch:
    """A batch on documents that everybody may read."""
    documents = [Document(name, text, acl=Acl(public=True), language="en") for name, text in texts.items()]
    snapshot = publish(
        Store(at / "corpus"),
        documents,
        chunker or Whole(),
        analyzer="en",
        token_encoder=house.encoder if chunker else None,
    )
    requests = [
        Request(f"r{i}", query, Principal("default"), "default", datetime(2026, 6, 1, tzinfo=UTC), language="en")
        for i, query in enumerate(queries)
    ]
    given: dict[str, Any] = {"generator": Words(), "texts": lambda: texts} | fields
    batch = house.batch(requests, Store(at / "store"))
    return replace(batch, snapshot=snapshot, scopes=snapshot.scopes(requests), **given)


def ids(state: State, question: int = 0) -> list[str]:
    assert state.contexts is not None
    return [passage.document_id for passage in state.contexts[question].passages]
