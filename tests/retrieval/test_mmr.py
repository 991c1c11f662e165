from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Ranking
from rag_lab.retrieval import mmr
from rag_lab.retrieval.mmr import marginal_relevance


def at(*degrees: float) -> np.ndarray:
    """Unit vectors in the plane, one a row."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def chosen(ranking: Ranking, vectors: np.ndarray, diversity: float) -> list[int]:
    value = marginal_relevance(ranking, vectors, diversity)
    return Ranking.from_scores("mmr", ranking.size, ranking.query, ranking.chunk, value).chunk.tolist()


# Rows in another order than the ranking: 3 is best, 0 nearly says the same, 2 is another thing, 1 the opposite.
VECTORS = at(10, 180, 90, 0)
RANKING = Ranking.from_scores("a", 1, [0] * 4, [3, 0, 2, 1], [9.0, 8.0, 6.0, 5.0])  # relevance 1, .75, .25, 0


def test_values_by_hand() -> None:
    # l = .5: 3 has .5 * 1. Then 0: .375 - .5 cos 10 = -.117; 2: .125 - 0; 1: 0 - 0 (its cosine -1 counts as 0). Then 1,
    # at 0, and 0 last, at .375 - .5 cos 10.
    value = marginal_relevance(RANKING, VECTORS, 0.5)
    assert value.tolist() == pytest.approx([0.5, 0.375 - 0.5 * np.cos(np.radians(10)), 0.125, 0.0], abs=1e-6)
    assert chosen(RANKING, VECTORS, 0.5) == [3, 2, 1, 0]


def test_no_diversity_is_the_ranking_and_much_of_it_moves_the_double_down() -> None:
    assert chosen(RANKING, VECTORS, 0) == [3, 0, 2, 1]
    # l = .8: 0 has .6 - .2 * .985 = .403 against .2 of row 2.
    assert chosen(RANKING, VECTORS, 0.2) == [3, 0, 2, 1]
    # l = .6: 0 has .45 - .394 = .056 against .15 of row 2, and against 0 of row 1.
    assert chosen(RANKING, VECTORS, 0.4) == [3, 2, 0, 1]


def test_with_hardly_any_weight_on_it_relevance_still_says_what_is_first() -> None:
    # Then 2 and 1, which 3 is not like: .0025 and 0.
    assert chosen(RANKING, VECTORS, 0.99) == [3, 2, 1, 0]


def test_equal_scores_are_told_apart_by_novelty_alone() -> None:
    same = Ranking.from_scores("a", 1, [0] * 3, [0, 2, 3], [4.0, 4.0, 4.0])
    assert chosen(same, VECTORS, 0.3) == [0, 2, 3]
    assert marginal_relevance(same, VECTORS, 0.3)[0] == pytest.approx(0.7)


def test_nothing_and_one_entry() -> None:
    assert marginal_relevance(Ranking.from_scores("a", 2, [], [], []), VECTORS, 0.3).tolist() == []
    assert marginal_relevance(Ranking.from_scores("a", 2, [1], [2], [7.0]), VECTORS, 0.3).tolist() == [0.7]


def greedy(rows: list[int], relevance: dict[int, float], vectors: np.ndarray, diversity: float) -> list[int]:
    """The formula with loops."""
    wide = vectors.astype(float)
    found: list[int] = []
    while len(found) < len(rows):
        left = [row for row in sorted(rows) if row not in found]
        value = {
            row: (1 - diversity) * relevance[row]
            - diversity * max([0.0, *(round(float(wide[row] @ wide[s]), 6) for s in found)])
            for row in left
        }
        found.append(max(left, key=lambda row: (value[row], -row)))
    return found


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.dictionaries(st.integers(0, 19), st.integers(0, 4), max_size=8), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.25, 0.5, 0.75]),
)
def test_the_order_is_the_greedy_one(seed: int, lists: list[dict[int, int]], diversity: float) -> None:
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((20, 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = [i for i, scores in enumerate(lists) for _ in scores]
    rows = [row for scores in lists for row in scores]
    ranking = Ranking.from_scores("a", len(lists), query, rows, [float(s) for scores in lists for s in scores.values()])
    value = marginal_relevance(ranking, vectors, diversity)
    fused = Ranking.from_scores("mmr", len(lists), ranking.query, ranking.chunk, value)
    for number, scores in enumerate(lists):
        spread = max(scores.values(), default=0) - min(scores.values(), default=0)
        low = min(scores.values(), default=0)
        relevance = {row: round((s - low) / spread, 12) if spread else 1.0 for row, s in scores.items()}
        assert fused.of(number).tolist() == greedy(list(scores), relevance, vectors, diversity)


@pytest.mark.parametrize("values", [1, 40, 200])
def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, values: int) -> None:
    random = np.random.default_rng(3)
    vectors = random.standard_normal((30, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    query = np.repeat([0, 2, 3, 4], 9)
    rows = np.concatenate([random.permutation(30)[:9] for _ in range(4)])
    ranking = Ranking.from_scores("a", 6, query, rows, random.random(36))
    whole = marginal_relevance(ranking, vectors, 0.6)
    monkeypatch.setattr(mmr, "VALUES_A_BLOCK", values)
    assert marginal_relevance(ranking, vectors, 0.6).tolist() == whole.tolist()
