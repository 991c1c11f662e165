from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.retrieval.fusion import reciprocal_rank_fusion


def ranking(channel: str, rows: list[int], size: int = 1) -> Ranking:
    return Ranking.from_scores(channel, size, [0] * len(rows), rows, -np.arange(len(rows), dtype=float))


X, Y, Z, W = 0, 1, 2, 3


def test_s11_one_share_per_list_at_the_best_rank() -> None:
    fused = reciprocal_rank_fusion([ranking("A", [X, X, Y]), ranking("B", [Y, Z, W, X])])
    assert fused.chunk.tolist() == [Y, X, Z, W]
    assert fused.score.tolist() == pytest.approx([0.032522, 0.032018, 0.016129, 0.015873], abs=5e-7)
    assert fused.ranks["A"].tolist() == [2, 1, 0, 0]
    assert fused.ranks["B"].tolist() == [1, 4, 2, 3]


@pytest.mark.parametrize(
    ("weights", "scores"), [((0.7, 0.3), [(0, 0.016314), (1, 0.016208)]), ((0, 1), [(1, 0.016393), (0, 0.016129)])]
)
def test_s11_weights_are_used(weights: tuple[float, float], scores: list[tuple[int, float]]) -> None:
    fused = reciprocal_rank_fusion([ranking("A", [0, 1]), ranking("B", [1, 0])], weights=weights)
    assert list(zip(fused.chunk.tolist(), fused.score.tolist(), strict=True)) == [
        (row, pytest.approx(score, abs=5e-7)) for row, score in scores
    ]


def test_ties_go_by_row() -> None:
    fused = reciprocal_rank_fusion([ranking("A", [5, 2]), ranking("B", [2, 5])])
    assert fused.chunk.tolist() == [2, 5]


def test_unlike_rankings_are_refused() -> None:
    with pytest.raises(RagLabError, match="one batch and of different channels"):
        reciprocal_rank_fusion([ranking("A", [1]), ranking("A", [2])])
    with pytest.raises(RagLabError, match="one batch"):
        reciprocal_rank_fusion([ranking("A", [1]), ranking("B", [2], size=2)])
    with pytest.raises(RagLabError, match="2 rankings and 1 weights"):
        reciprocal_rank_fusion([ranking("A", [1]), ranking("B", [2])], weights=[1.0])
    with pytest.raises(RagLabError, match="0 rankings"):
        reciprocal_rank_fusion([])


@given(st.lists(st.lists(st.integers(0, 9), unique=True), min_size=1, max_size=4))
def test_scores_follow_the_formula(lists: list[list[int]]) -> None:
    fused = reciprocal_rank_fusion([ranking(f"c{i}", rows) for i, rows in enumerate(lists)])
    expected = {row: sum(1 / (61 + rows.index(row)) for rows in lists if row in rows) for rows in lists for row in rows}
    assert dict(zip(fused.chunk.tolist(), fused.score.tolist(), strict=True)) == pytest.approx(expected, abs=1e-11)
    order = sorted(expected, key=lambda row: (-round(expected[row], 12), row))
    assert fused.chunk.tolist() == order
