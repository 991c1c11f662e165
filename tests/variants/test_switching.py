"""The variants of an ablation."""

from __future__ import annotations

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.variants.switching import switches
from rag_lab.variants.variant import load_variant

FRAME = ["assemble", "generate"]


def told(name: str, stages: list[object]) -> list[tuple[str, str, str, str, list[str]]]:
    found = switches(load_variant(name, stages))
    return [(s.direction, s.step, s.variant.name, s.against, [stage.name for stage in s.variant.stages]) for s in found]


def test_each_channel_is_left_out_and_added_and_fusion_comes_with_the_second() -> None:
    assert told("h", ["bm25", "dense", "rrf", *FRAME]) == [
        ("leave one out", "without bm25", "h - bm25", "h", ["dense", *FRAME]),
        ("leave one out", "without dense", "h - dense", "h", ["bm25", *FRAME]),
        ("add one", "bm25", "h 1 bm25", "", ["bm25", *FRAME]),
        ("add one", "+ dense", "h", "h 1 bm25", ["bm25", "dense", "rrf", *FRAME]),
    ]


def test_with_three_channels_fusion_stays_and_its_weights_follow_the_channels() -> None:
    weights = {"bm25": 2.0, "dense": 0.5, "gold": 1.0}
    variant = load_variant("h", ["bm25", "dense", "gold", {"rrf": {"weights": weights}}, *FRAME])
    found = {s.step: s.variant for s in switches(variant)}
    assert found["without bm25"].stages[2].weights == {"dense": 0.5, "gold": 1.0}
    assert found["+ dense"].stages[2].weights == {"bm25": 2.0, "dense": 0.5}
    assert found["+ gold"] == variant
    assert [stage.name for stage in found["bm25"].stages] == ["bm25", *FRAME]


def test_what_is_left_must_stand_alone() -> None:
    """With all weight on one channel, the others alone would weigh nothing: such a step is left out."""
    stages = ["bm25", "dense", "gold", {"rrf": {"weights": {"bm25": 0, "dense": 0, "gold": 1}}}, *FRAME]
    steps = [step for _, step, *_ in told("h", stages)]
    assert "without gold" not in steps
    assert steps[-2:] == ["bm25", "+ dense + gold"]


def test_with_a_channel_goes_what_serves_it_alone() -> None:
    assert told("h", ["hyde", "bm25", "dense", "rrf", *FRAME]) == [
        ("leave one out", "without hyde", "h - hyde", "h", ["bm25", "dense", "rrf", *FRAME]),
        ("leave one out", "without bm25", "h - bm25", "h", ["hyde", "dense", *FRAME]),
        ("leave one out", "without dense and hyde", "h - dense", "h", ["bm25", *FRAME]),
        ("add one", "bm25", "h 1 bm25", "", ["bm25", *FRAME]),
        ("add one", "+ dense", "h 2 dense", "h 1 bm25", ["bm25", "dense", "rrf", *FRAME]),
        ("add one", "+ hyde", "h", "h 2 dense", ["hyde", "bm25", "dense", "rrf", *FRAME]),
    ]


@pytest.mark.parametrize("stages", [["bm25", *FRAME], ["generate"], ["bm25", "assemble"]])
def test_a_variant_without_a_stage_to_switch_is_refused(stages: list[str]) -> None:
    with pytest.raises(RagLabError, match=r"ablation\.variant: 'x' has no stage that can be switched"):
        switches(load_variant("x", stages))
