from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.retrieval.fusion import weighted_sum

Lists = dict[int, float]
NORMALISATIONS = ("minmax", "zscore")


def ranking(channel: str, *queries: Lists) -> Ranking:
    """A ranking of one list of scores by row for each query."""
    query = [i for i, scores in enumerate(queries) for _ in scores]
    rows = [row for scores in queries for row in scores]
    return Ranking.from_scores(channel, len(queries), query, rows, [s for scores in queries for s in scores.values()])


def scores_of(fused: Ranking, query: int = 0) -> Lists:
    return {
        int(row): float(score)
        for q, row, score in zip(fused.query, fused.chunk, fused.score, strict=True)
        if q == query
    }


A = {0: 10.0, 1: 6.0, 2: 2.0}
B = {1: 0.9, 3: 0.5, 0: 0.4}


def test_min_max_by_hand() -> None:
    # A: 1, .5, 0; B: row 1 gets 1, row 3 (.5 - .4) / .5 = .2, row 0 gets 0; what is missing gets 0
    fused = weighted_sum([ranking("a", A), ranking("b", B)])
    assert scores_of(fused) == pytest.approx({1: 1.5, 0: 1.0, 3: 0.2, 2: 0.0})
    assert fused.chunk.tolist() == [1, 0, 3, 2]
    assert fused.ranks["a"].tolist() == [2, 1, 0, 3]
    assert fused.ranks["b"].tolist() == [1, 3, 2, 0]


def test_weights_by_hand() -> None:
    fused = weighted_sum([ranking("a", A), ranking("b", B)], weights=[0.3, 0.7])
    assert scores_of(fused) == pytest.approx({1: 0.85, 0: 0.3, 3: 0.14, 2: 0.0})


def test_z_scores_by_hand_and_what_is_missing_gets_the_lowest() -> None:
    # A: mean 6, sd sqrt(32/3); B: mean .6, sd sqrt((.09 + .01 + .04) / 3)
    a, b = math.sqrt(32 / 3), math.sqrt(0.14 / 3)
    expected = {0: 4 / a - 0.2 / b, 1: 0 + 0.3 / b, 2: -4 / a - 0.2 / b, 3: -4 / a - 0.1 / b}
    assert scores_of(weighted_sum([ranking("a", A), ranking("b", B)], "zscore")) == pytest.approx(expected)


@pytest.mark.parametrize(("normalise", "one"), [("minmax", 1.0), ("zscore", 0.0)])
def test_equal_scores_a_single_result_and_an_empty_channel_have_values(normalise: Any, one: float) -> None:
    equal, single, empty = {4: 0.1, 5: 0.1, 6: 0.1}, {7: 3.0}, {}
    fused = weighted_sum([ranking("a", equal, single, {}), ranking("b", empty, empty, {})], normalise)
    assert scores_of(fused, 0) == {4: one, 5: one, 6: one}
    assert scores_of(fused, 1) == {7: one}
    assert scores_of(fused, 2) == {}
    assert fused.chunk.tolist() == [4, 5, 6, 7]


def test_a_single_hit_beats_the_last_of_another_channel_with_min_max() -> None:
    assert weighted_sum([ranking("a", {0: 5.0, 1: 1.0}), ranking("b", {2: 0.01})]).chunk.tolist() == [0, 2, 1]


def test_s11_weights_are_used_and_a_chunk_has_one_share_a_list() -> None:
    lists = [ranking("a", {0: 2.0, 1: 1.0}), ranking("b", {1: 2.0, 0: 1.0})]
    assert scores_of(weighted_sum(lists, weights=[0, 1])) == {1: 1.0, 0: 0.0}
    assert scores_of(weighted_sum(lists, weights=[0.7, 0.3])) == pytest.approx({0: 0.7, 1: 0.3})
    twice = Ranking.from_scores("a", 1, [0, 0, 0], [0, 0, 1], [2.0, 1.5, 1.0])
    assert scores_of(weighted_sum([twice, lists[1]])) == pytest.approx({0: 1.0, 1: 1.0})


def test_ties_go_by_row() -> None:
    assert weighted_sum([ranking("a", {5: 1.0, 2: 0.0}), ranking("b", {2: 1.0, 5: 0.0})]).chunk.tolist() == [2, 5]


def test_unlike_rankings_are_refused() -> None:
    with pytest.raises(RagLabError, match="weighted_sum: the rankings must be of one batch and of different channels"):
        weighted_sum([ranking("a", A), ranking("a", B)])
    with pytest.raises(RagLabError, match="2 rankings and 1 weights; give one weight a ranking"):
        weighted_sum([ranking("a", A), ranking("b", B)], weights=[1.0])


values = st.floats(-1e6, 1e6).map(lambda value: round(value, 2))
lists = st.dictionaries(st.integers(0, 12), values, max_size=8)
batches = st.lists(st.tuples(lists, lists, lists), min_size=1, max_size=3)


def channels(batch: list[tuple[Lists, ...]]) -> list[Ranking]:
    return [ranking(f"c{i}", *(queries[i] for queries in batch)) for i in range(3)]


def plain(batch: list[tuple[Lists, ...]], normalise: str, weights: list[float]) -> list[Lists]:
    """The formula, read from its text with one loop a word."""

    def normalised(scores: Lists) -> tuple[Lists, float]:
        if not scores:
            return {}, 0.0
        if min(scores.values()) == max(scores.values()):
            one = 1.0 if normalise == "minmax" else 0.0
            return dict.fromkeys(scores, one), 0.0
        given = list(scores.values())
        if normalise == "minmax":
            made = {row: (s - min(given)) / (max(given) - min(given)) for row, s in scores.items()}
        else:
            made = {row: (s - np.mean(given)) / np.std(given) for row, s in scores.items()}
        return made, min(made.values())

    found = []
    for query in batch:
        parts = [normalised(scores) for scores in query]
        rows = {row for scores in query for row in scores}
        found.append(
            {row: sum(w * p.get(row, low) for w, (p, low) in zip(weights, parts, strict=True)) for row in rows}
        )
    return found


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(batches, st.lists(st.floats(0, 5), min_size=3, max_size=3))
def test_scores_follow_the_formula(normalise: Any, batch: list[tuple[Lists, ...]], weights: list[float]) -> None:
    fused = weighted_sum(channels(batch), normalise, weights)
    for query, expected in enumerate(plain(batch, normalise, weights)):
        assert scores_of(fused, query) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(batches, st.permutations(range(3)))
def test_the_order_of_channels_and_entries_does_not_matter(normalise: Any, batch: Any, order: list[int]) -> None:
    lists = channels(batch)
    fused = weighted_sum(lists, normalise)
    again = weighted_sum([lists[i] for i in order], normalise)
    assert scores_of(again) == pytest.approx(scores_of(fused), abs=1e-9)
    backwards = [tuple(dict(reversed(scores.items())) for scores in query) for query in batch]
    other = weighted_sum(channels(backwards), normalise)
    assert other.chunk.tolist() == fused.chunk.tolist()
    assert other.score.tolist() == fused.score.tolist()


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(batches, st.sampled_from([2.0**-10, 0.5, 2.0, 2.0**20]))
def test_a_channel_on_another_scale_changes_nothing(normalise: Any, batch: Any, factor: float) -> None:
    scaled = [({row: factor * s for row, s in first.items()}, *rest) for first, *rest in batch]
    fused, other = (weighted_sum(channels(one), normalise) for one in (batch, scaled))
    assert scores_of(other) == pytest.approx(scores_of(fused), abs=1e-9)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(batches)
def test_an_empty_channel_changes_nothing(normalise: Any, batch: Any) -> None:
    fused = weighted_sum(channels(batch), normalise)
    more = weighted_sum([*channels(batch), ranking("empty", *({} for _ in batch))], normalise)
    assert more.chunk.tolist() == fused.chunk.tolist()
    assert more.score.tolist() == fused.score.tolist()
    assert not more.ranks["empty"].any()


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(batches)
def test_a_query_does_not_depend_on_the_others(normalise: Any, batch: Any) -> None:
    fused = weighted_sum(channels(batch), normalise)
    for query, alone in enumerate(batch):
        assert scores_of(weighted_sum(channels([alone]), normalise)) == scores_of(fused, query)


@pytest.mark.parametrize("normalise", NORMALISATIONS)
@given(
    st.lists(
        st.tuples(
            *[st.dictionaries(st.integers(0, 5), st.sampled_from([0.0, 5e-324, 0.1, 0.1 + 1e-17, -1e100, 1e100]))] * 3
        ),
        min_size=1,
        max_size=2,
    )
)
def test_no_score_is_ever_nan(normalise: Any, batch: Any) -> None:
    assert np.isfinite(weighted_sum(channels(batch), normalise).score).all()
