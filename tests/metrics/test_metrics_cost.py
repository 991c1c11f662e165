"""Time, tokens, money, and the recall of approximate neighbours."""

from __future__ import annotations

import numpy as np
import pytest

from rag_lab.contracts import RagLabError, Ranking, Usage
from rag_lab.metrics.ann import neighbour_recall
from rag_lab.metrics.cost import Latency, latency, spending, usage_table


def test_percentiles_are_times_that_were_measured() -> None:
    """Of 1..100 ms, 50, 95 and 99 are the smallest that at least 50, 95 and 99 % did not exceed."""
    assert latency(np.arange(100, 0, -1)) == Latency(50.5, 50, 95, 99, 5.05)
    assert latency([10, 20]) == Latency(15, 10, 20, 20, 0.03)


def test_cached_times_are_no_measurement() -> None:
    assert latency([10, 0, 30], measured=[True, False, True]) == Latency(20, 10, 30, 30, 0.04)
    assert latency([1, 2], measured=[False, False]) == Latency(0, 0, 0, 0, 0)


@pytest.mark.parametrize("bad", [np.nan, -1, np.inf])
def test_impossible_times(bad: float) -> None:
    with pytest.raises(RagLabError, match="latency"):
        latency([1, bad])


def test_spending_by_resource() -> None:
    usages = [Usage(context_tokens=100, usd=0.003), Usage(context_tokens=300, usd=0.001, llm_calls=2)]
    found = spending(usages)
    assert (found["context_tokens"].mean, found["context_tokens"].max, found["context_tokens"].total) == (200, 300, 400)
    assert found["usd"].total == pytest.approx(0.004)
    assert found["llm_calls"].mean == 1
    assert usage_table(usages).shape == (2, 8)
    assert spending([])["usd"].total == 0


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
