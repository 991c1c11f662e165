"""Pairs and the new order, against values worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Ranking
from rag_lab.retrieval.rerank import Pairs, distinct_texts, reranked

NAN = np.nan


def ranking(rows: list[int], query: list[int] | None = None, size: int = 1) -> Ranking:
    """Entries as they stand, best first."""
    of = np.array(query or [0] * len(rows), dtype=np.int32)
    return Ranking("bm25", size, of, np.array(rows, dtype=np.int32), np.arange(len(rows), 0, -1.0))


def test_scored_candidates_come_first_and_the_others_keep_their_order_beneath() -> None:
    anew = reranked(ranking([7, 3, 9, 1, 5]), np.array([0.1, 0.9, 0.5, NAN, NAN]))
    assert anew.chunk.tolist() == [3, 9, 7, 1, 5]
    assert anew.score.tolist() == pytest.approx([0.9, 0.5, 0.1, -0.9, -1.9])
    assert anew.channel == "rerank"


def test_equal_scores_are_ordered_by_row() -> None:
    assert reranked(ranking([7, 3, 9, 1]), np.array([0.5, 0.5, NAN, NAN])).chunk.tolist() == [3, 7, 9, 1]


def test_a_query_without_a_score_keeps_its_order_and_others_are_not_touched() -> None:
    before = ranking([7, 3, 9, 1, 4], [0, 0, 1, 1, 1], size=3)
    anew = reranked(before, np.array([NAN, NAN, -2.0, NAN, 4.0]))
    assert [anew.of(i).tolist() for i in range(3)] == [[7, 3], [4, 9, 1], []]
    assert anew.score.tolist() == [-1.0, -2.0, 4.0, -2.0, -3.0]


@pytest.mark.parametrize("huge", [1e17, -1e17, 1e300])
def test_the_order_beneath_survives_scores_in_which_one_would_vanish(huge: float) -> None:
    assert reranked(ranking([7, 9, 3, 1]), np.array([huge, NAN, NAN, NAN])).chunk.tolist() == [7, 9, 3, 1]


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_is_that_of_a_plain_sort(scores: list[float | None], draw) -> None:
    rows = list(range(len(scores)))
    draw.shuffle(rows)
    anew = reranked(ranking(rows), np.array([NAN if score is None else score for score in scores]))
    scored = sorted((-score, row) for score, row in zip(scores, rows, strict=True) if score is not None)
    beneath = [row for score, row in zip(scores, rows, strict=True) if score is None]
    assert anew.chunk.tolist() == [row for _, row in scored] + beneath


def test_the_ranks_of_channels_go_with_their_entries() -> None:
    before = Ranking.from_scores("rrf", 1, [0, 0], [4, 6], [0.9, 0.8], {"bm25": np.array([1, 2], dtype=np.int32)})
    assert reranked(before, np.array([0.0, 1.0])).ranks["bm25"].tolist() == [2, 1]


def test_texts_are_numbered_within_their_query_by_the_best_rank() -> None:
    given = ranking([1, 2, 3, 4, 1, 2, 3], [0, 0, 0, 0, 2, 2, 2], size=3)
    assert distinct_texts(given, np.array([8, 5, 8, 6, 5, 5, 8])).tolist() == [0, 1, 0, 2, 0, 0, 1]
    assert distinct_texts(ranking([]), np.zeros(0, dtype=np.intp)).tolist() == []


def test_time_is_shared_by_the_number_of_pairs() -> None:
    pairs = Pairs(["a", "b", "c"], np.array([0, 0, 0, 2]), np.array([1, 2, 3, 1]), {})
    assert pairs.counts.tolist() == [3, 0, 1]
    assert pairs.shares(8.0).tolist() == [6.0, 0.0, 2.0]
    assert Pairs(["a"], np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), {}).shares(8.0).tolist() == [0.0]
