"""Time, and the recall of approximate neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.metrics.ann import neighbour_recall
from rag_lab.metrics.cost import Latency, latency


def test_percentiles_are_times_that_were_measured() -> None:
    """Of 1..100 ms, 50, 95 and 99 are the smallest that at least 50, 95 and 99 % did not exceed."""
    assert latency(np.arange(100, 0, -1)) == Latency(50.5, 50, 95, 99, 5.05)
    assert latency([10, 20]) == Latency(15, 10, 20, 20, 0.03)


def test_no_question_took_no_time() -> None:
    assert latency([]) == Latency(0, 0, 0, 0, 0)


@pytest.mark.parametrize("bad", [np.nan, -1, np.inf])
def test_impossible_times(bad: float) -> None:
    with pytest.raises(RagLabError, match="latency"):
        latency([1, bad])


def test_neighbour_recall_by_hand() -> None:
    """Query 0: rows 1 2 3 against 1 9 2; 1 has one true neighbour, found; 2 has none; 3 misses its own."""
    exact = Ranking.from_scores("exact", 4, [0, 0, 0, 1, 3], [1, 2, 3, 7, 7], [3, 2, 1, 1, 1])
    found = Ranking.from_scores("hnsw", 4, [0, 0, 0, 1, 2], [1, 9, 2, 7, 5], [3, 2, 1, 1, 1])
    scores = neighbour_recall(found, exact, 3)
    assert scores.metric == "NeighbourRecall@3"
    assert scores.values.tolist() == pytest.approx([2 / 3, 1, 0, 0])
    assert scores.eligible.tolist() == [True, True, False, True]
    assert neighbour_recall(found, exact, 2).values.tolist() == [0.5, 1, 0, 0]


def test_neighbour_recall_needs_the_same_queries() -> None:
    one = Ranking.from_scores("x", 1, [], [], [])
    with pytest.raises(RagLabError, match="1 approximate and 2 exact"):
        neighbour_recall(one, Ranking.from_scores("y", 2, [], [], []), 5)
