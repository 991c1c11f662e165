from __future__ import annotations

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.variants import catalogue, load_variant


@pytest.mark.parametrize("name", list(catalogue()))
def test_the_yaml_form_maps_one_to_one(name: str) -> None:
    variant = load_variant(name)
    assert load_variant(name, variant.to_yaml()) == variant
    assert [next(iter(stage)) for stage in variant.to_yaml()] == [
        entry if isinstance(entry, str) else next(iter(entry)) for entry in catalogue()[name]
    ]


def test_what_a_variant_needs_follows_from_its_stages() -> None:
    hybrid = load_variant("hybrid", ["bm25", {"dense": {"index": "HNSW32"}}, "rrf"])
    assert hybrid.needs_lucene
    assert hybrid.factories == ("HNSW32",)
    assert hybrid.retrieves
    assert not load_variant("no_retrieval").retrieves


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"bm26": {}}], r"variants\.x\[1\]: stage 'bm26' is unknown; known are .*bm25, .*dense, .*gold"),
        ([{"bm25": {"depth": 0}}], r"variants\.x\[1\]\.bm25\.depth: .*greater than or equal to 1"),
        ([{"bm25": {"deep": 5}}], r"variants\.x\[1\]\.bm25\.deep"),
        (["bm25", "dense"], "2 retrieving stages need a fusing stage"),
        (["assemble", "bm25"], "stages must come as query, retrieve, rank, assemble, generate"),
        (["bm25", "bm25", "rrf"], "stage 'bm25' appears twice"),
        (["assemble", "generate"], "nothing retrieves"),
        ([], "must be a list of stages"),
        ("bm25", "must be a list of stages"),
        ([{"bm25": {"k1": float("inf")}}], r"variants\.x\[1\]\.bm25\.k1: .*finite"),
        ([{"bm25": {"depth": 10**25}}], r"variants\.x\[1\]\.bm25\.depth"),
        (["bm25", "dense", {"rrf": {"weights": {"bm52": 2}}}], r"x\.rrf\.weights: no channel named 'bm52'"),
        (["bm25", "dense", {"rrf": {"weights": {"bm25": -1}}}], r"rrf\.weights\.bm25: .*greater than or equal to 0"),
        (["bm25", "dense", {"rrf": {"weights": {"bm25": 0, "dense": 0}}}], "every channel weighs 0"),
        (["bm25", "generate"], "'generate' would see nothing of what is retrieved"),
        ([{"bm25": {}, "dense": {}}], r"variants\.x\[1\]: must be one stage"),
        ([7], r"variants\.x\[1\]: must be one stage"),
    ],
)
def test_bad_stages_name_variant_stage_and_field(stages: object, message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("x", stages)


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(RagLabError, match="'magic' is unknown; known are bm25, dense, colbert, hybrid"):
        load_variant("magic")


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "bm25@context_tokens=50", "x" * 65, "line\nbreak"])
def test_a_name_that_cannot_name_files_is_refused(name: str) -> None:
    with pytest.raises(RagLabError, match="is no name for a variant"):
        load_variant(name, ["bm25"])
