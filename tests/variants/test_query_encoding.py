"""Vectors of what is searched by: queries as queries, made-up passages as passages, each kept apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rag_lab.contracts import Queries, Request
from rag_lab.store import Store
from rag_lab.variants.query_encoding import HYPOTHETICAL, encoded
from rag_lab.variants.query_vectors import passage_vectors, query_vectors
from rag_lab.variants.stage import Batch


class Counting:
    """An encoder of unit vectors in the plane: a query lies at its length in degrees, a passage a right angle on."""

    name, version, dimension, max_tokens, languages = "counting", "1", 2, 100, frozenset({"en"})

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def encode_queries(self, texts: Sequence[str]) -> Any:
        self.asked.append(("queries", tuple(texts)))
        return at([len(text) for text in texts])

    def encode_passages(self, texts: Sequence[str]) -> Any:
        self.asked.append(("passages", tuple(texts)))
        return at([len(text) + 90 for text in texts])


def at(degrees: Sequence[float]) -> Any:
    angles = np.radians(np.array(degrees, dtype=np.float64))
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def batch_of(house: Any, store: Store, ask: Callable[..., Request], encoder: Counting) -> Batch:
    batch: Batch = house.batch([ask()], store)
    return replace(batch, encoder=lambda: encoder, query_vectors=lambda texts: query_vectors(store, encoder, texts))


def test_a_text_as_a_query_and_as_a_passage_are_two_vectors_and_both_are_kept(store: Store) -> None:
    encoder = Counting()
    first = [make(store, encoder, ["abc"]) for make in (query_vectors, passage_vectors)]
    np.testing.assert_allclose([one.vectors.vectors[0] for one in first], at([3, 93]), atol=1e-6)
    assert [one.cached for one in first] == [False, False]
    asked = len(encoder.asked)
    again = [make(store, encoder, ["abc"]) for make in (query_vectors, passage_vectors)]
    assert [one.cached for one in again] == [True, True]
    assert [one.vectors.vectors.tolist() for one in again] == [one.vectors.vectors.tolist() for one in first]
    assert len(encoder.asked) == asked


def test_every_text_gets_its_own_vector(house: Any, store: Store, ask: Callable[..., Request]) -> None:
    rows = [
        (0, "a" * 10, "question", ""),
        (0, "a" * 20, HYPOTHETICAL, "", "a" * 10),
        (1, "a" * 30, HYPOTHETICAL, ""),
        (2, "a" * 40, "question", ""),
        (3, "a" * 50, HYPOTHETICAL, "", "a" * 60),
    ]
    found = encoded(batch_of(house, store, ask, Counting()), Queries.build(4, rows))
    # The mean of two unit vectors lies half-way between them: 110 and 10 degrees, 140 and 60.
    np.testing.assert_allclose(found.vectors.vectors, at([10, 60, 120, 40, 100]), atol=1e-6)
    assert found.ms.shape == (5,)
    assert (found.ms[[1, 4]] >= found.ms[[2]]).all()
    assert not found.cached


def test_without_a_made_up_passage_nothing_is_encoded_as_one(
    house: Any, store: Store, ask: Callable[..., Request]
) -> None:
    encoder = Counting()
    batch = batch_of(house, store, ask, encoder)
    found = encoded(batch, Queries.of_requests(batch.requests))
    assert {kind for kind, _ in encoder.asked} == {"queries"}
    np.testing.assert_allclose(found.vectors.vectors, at([len(batch.requests[0].query)]), atol=1e-6)
