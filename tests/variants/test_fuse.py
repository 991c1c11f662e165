from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rag_lab.budgets import Budget
from rag_lab.contracts import Question, RagLabError, Ranking
from rag_lab.retrieval.fusion import weighted_sum
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.fuse import WeightedSum
from rag_lab.variants.learning import Lesson

CHANNELS = ["bm25", "dense"]


def fused(**settings: Any) -> Any:
    return load_variant("v", [*CHANNELS, {"weighted_sum": settings}, "assemble", "generate"])


@pytest.mark.parametrize("normalise", ["minmax", "zscore"])
def test_the_weighted_sum_of_the_channels_is_handed_on(house: Any, ask: Any, store: Any, normalise: Any) -> None:
    batch = house.batch([ask("pump valve", 1), ask("brake unit4", 2)], store)
    state = run_variant(fused(normalise=normalise, weights={"bm25": 0.3, "dense": 0.7}), batch, Budget(), Memory())
    assert not state.failures
    expected = weighted_sum(list(state.channels.values()), normalise, [0.3, 0.7])
    assert state.ranking.chunk.tolist() == expected.chunk.tolist()
    assert state.ranking.score.tolist() == expected.score.tolist()
    best = [int(state.ranking.of(i)[0]) for i in range(2)]
    names = house.snapshot.chunks.document_id
    assert [context.passages[0].document_id for context in state.contexts] == [names[row] for row in best]


def test_weights_that_are_not_named_are_1_and_0_leaves_a_channel_out(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask("pump valve")], store)
    memory = Memory()
    equal, named = (
        run_variant(fused(weights=weights), batch, Budget(), memory).ranking
        for weights in ({}, {"bm25": 1, "dense": 1})
    )
    assert equal.score.tolist() == named.score.tolist()
    alone = run_variant(fused(weights={"bm25": 0}), batch, Budget(), memory)
    first = alone.channels["dense"].of(0)
    assert alone.ranking.of(0)[: len(first)].tolist() == first.tolist()


def test_channels_that_a_cap_leaves_without_candidates_fuse_to_what_there_is(house: Any, ask: Any, store: Any) -> None:
    batch = house.batch([ask("pump valve")], store)
    state = run_variant(fused(), batch, Budget(candidates=1), Memory())
    assert [len(state.channels[name].chunk) for name in CHANNELS] == [0, 1]
    assert state.ranking.score.tolist() == [1.0]
    assert state.ledger.spent["candidates"].tolist() == [1]
    nothing = run_variant(fused(), batch, Budget(candidates=0), Memory())
    assert len(nothing.ranking.chunk) == 0
    assert not nothing.failures


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([*CHANNELS, {"weighted_sum": {"weights": {"bm52": 1}}}], r"v\.weighted_sum\.weights: no channel named 'bm52'"),
        ([*CHANNELS, {"weighted_sum": {"weights": {"bm25": 0, "dense": 0}}}], "every channel weighs 0"),
        (
            [*CHANNELS, {"weighted_sum": {"weights": {"bm25": -1}}}],
            r"variants\.v\[3\]\.weighted_sum\.weights\.bm25: Input should be greater than or equal to 0",
        ),
        ([*CHANNELS, {"weighted_sum": {"weights": {"bm25": "x"}}}], r"weighted_sum\.weights\.bm25: .*valid number"),
        (
            [*CHANNELS, {"weighted_sum": {"weights": "learnt"}}],
            "weights: .*must be 'learned', or a mapping of channels",
        ),
        ([*CHANNELS, {"weighted_sum": {"weights": 3}}], "weights: .*must be 'learned', or a mapping of channels"),
        ([*CHANNELS, {"weighted_sum": {"normalise": "max"}}], "normalise: Input should be 'minmax' or 'zscore'"),
        (
            [*CHANNELS, {"weighted_sum": {"weights": {"bm25": 2}, "learned_on": "dev"}}],
            r"weighted_sum\.learned_on: the weights are given, so nothing is learned",
        ),
        ([*CHANNELS, {"weighted_sum": {"weights": "learned", "learned_on": ""}}], "learned_on: .*at least 1 character"),
        ([*CHANNELS, "rrf", "weighted_sum"], "'weighted_sum' fuses the channels and would drop what 'rrf' did; put it"),
        ([*CHANNELS, "mmr"], "2 retrieving stages need a fusing stage"),
        ([*CHANNELS, "mmr", "rrf"], "'rrf' fuses the channels and would drop what 'mmr' did; put it first"),
        (["weighted_sum", "assemble"], "every channel weighs 0|nothing retrieves"),
    ],
)
def test_what_cannot_be_is_named(stages: list[Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("v", stages)


def test_weights_that_nothing_has_learned_fail_the_questions(house: Any, ask: Any, store: Any) -> None:
    state = run_variant(fused(weights="learned"), house.batch([ask("pump")], store), Budget(), Memory())
    assert state.failures[0].stage == "weighted_sum"
    assert state.failures[0].cause == "weighted_sum.weights: are still to be learned; run the variant in an experiment"


@pytest.mark.parametrize(("removed", "reached"), [(False, 1 / np.log2(3)), (True, 1.0)])
def test_a_question_that_is_a_document_does_not_learn_from_itself(removed: bool, reached: float) -> None:
    rows = Ranking.from_scores("bm25", 1, [0, 0], [0, 1], [2.0, 1.0])  # d0 is the question, d1 is relevant
    table = SimpleNamespace(documents={"d0": slice(0, 1), "d1": slice(1, 2)})
    state = SimpleNamespace(
        channels={"bm25": rows}, batch=SimpleNamespace(snapshot=SimpleNamespace(chunks=table)), failures={}
    )
    dataset = SimpleNamespace(
        questions=[Question("d0", "?")], qrels={"d0": {"d1": 1, "gone": 0}}, remove_identical_ids=removed
    )
    stage = WeightedSum(weights="learned")
    learned = stage.learn(Lesson(dataset, state))  # type: ignore[arg-type]
    assert learned.facts["score"] == pytest.approx(reached)
    assert learned.stage.weights == {"bm25": 1.0}
    assert (stage.training_split, learned.stage.training_split) == ("train", None)


def test_equal_stages_with_other_weights_are_other_outputs(house: Any, ask: Any, store: Any) -> None:
    batch, memory = house.batch([ask("pump valve")], store), Memory()
    keys = [
        run_variant(fused(weights={"bm25": weight}), batch, Budget(), memory).keys["ranking"]
        for weight in (0.3, 0.7, 0.3)
    ]
    assert keys[0] == keys[2] != keys[1]
    assert np.unique(keys).size == 2
