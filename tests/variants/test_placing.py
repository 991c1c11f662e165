from __future__ import annotations

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.variants import is_bound, place

VARIANTS = {"bm25": None, "mine": ["bm25", "assemble"], "no_retrieval": None, "gold_context": None}


def test_one_snapshot_leaves_the_names_as_they_are() -> None:
    placed = place(VARIANTS, ["main"], several=False)
    assert {name: (one.variant.name, one.snapshot) for name, one in placed.items()} == {
        name: (name, "main") for name in VARIANTS
    }


def test_every_variant_that_retrieves_runs_on_every_snapshot() -> None:
    placed = place(VARIANTS, ["small", "large"], several=True)
    assert {name: one.snapshot for name, one in placed.items()} == {
        "bm25@small": "small",
        "bm25@large": "large",
        "mine@small": "small",
        "mine@large": "large",
        "no_retrieval": "small",
        "gold_context@small": "small",
        "gold_context@large": "large",
    }
    assert all(one.variant.name == name for name, one in placed.items())
    assert placed["mine@large"].variant.stages == placed["mine@small"].variant.stages
    assert list(place(VARIANTS, ["only"], several=True)) == [
        "bm25@only",
        "mine@only",
        "no_retrieval",
        "gold_context@only",
    ]


def test_bounds_are_bounds_on_every_snapshot() -> None:
    assert [name for name in place(VARIANTS, ["s"], several=True) if is_bound(name)] == [
        "no_retrieval",
        "gold_context@s",
    ]


def test_a_variant_cannot_be_called_like_a_placed_one() -> None:
    with pytest.raises(RagLabError, match="no name for a variant"):
        place({"bm25@small": ["bm25"]}, ["main"], several=False)
