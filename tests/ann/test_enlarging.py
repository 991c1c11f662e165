"""Vectors made from real ones."""

from __future__ import annotations

import numpy as np
import pytest

from rag_lab.ann import enlarging
from rag_lab.ann.enlarging import NEIGHBOURS, WIDTH, enlarge
from rag_lab.ann.threads import threads
from rag_lab.contracts import RagLabError


def unit(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_the_real_vectors_come_first_and_no_more_are_made_than_asked_for() -> None:
    real = unit(50, 8)
    assert enlarge(real, 20, 0).tobytes() == real[:20].tobytes()
    made = enlarge(real, 130, 0)
    assert made.shape == (130, 8)
    assert made.dtype == np.float32
    assert made[:50].tobytes() == real.tobytes()
    assert np.linalg.norm(made, axis=1) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("block", [7, 50, 512])
def test_a_smaller_collection_is_the_beginning_of_a_larger_one(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enlarging, "PARENTS_A_BLOCK", block)
    real = unit(50, 8)
    largest = enlarge(real, 333, 5)
    for size in (51, 100, 101, 149, 332):
        assert enlarge(real, size, 5).tobytes() == largest[:size].tobytes()


def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads_and_another_seed_does_not() -> None:
    real = unit(600, 16)
    one = enlarge(real, 2000, 1)
    with threads(2):
        assert enlarge(real, 2000, 1).tobytes() == one.tobytes()
    other = enlarge(real, 2000, 2)
    assert not (other[600:] == one[600:]).any(axis=1).any()


def test_a_made_vector_lies_in_the_directions_of_its_parents_neighbours() -> None:
    """Two groups in planes of their own: what is made of one has nothing of the other's plane."""
    draw = np.random.default_rng(0)
    real = np.zeros((80, 6), dtype=np.float32)
    real[:40, :2] = [3, 0] + 0.1 * draw.normal(size=(40, 2))
    real[40:, 3:5] = [3, 0] + 0.1 * draw.normal(size=(40, 2))
    made = enlarge(real, 240, 0)[80:]
    assert np.abs(made[:40, 2:]).max() == 0
    assert np.abs(made[40:80, [0, 1, 2, 5]]).max() == 0
    assert np.abs(made[80:120, 2:]).max() == 0


def test_made_vectors_spread_as_the_formula_says_and_keep_their_parents_length() -> None:
    """A parent with two neighbours at right angles: in each direction WIDTH / sqrt(2) of the neighbour's distance."""
    real = np.array([[100, 0, 0], [100, 1, 0], [100, 0, 1]], dtype=np.float32)
    made = enlarge(real, 3 + 3 * 4000, 0)[3::3].astype(np.float64)
    assert np.linalg.norm(made, axis=1) == pytest.approx(100, abs=1e-4)
    assert made[:, 1:].std(axis=0) == pytest.approx(WIDTH / np.sqrt(2), rel=0.05)
    assert made[:, 1:].mean(axis=0) == pytest.approx(0, abs=0.03)
    assert abs(np.corrcoef(made[:, 1], made[:, 2])[0, 1]) < 0.05


def test_equal_vectors_and_one_of_length_zero_are_no_obstacle() -> None:
    same = np.tile(unit(1, 5), (NEIGHBOURS + 10, 1))
    assert (enlarge(same, 100, 0) == same[0]).all()
    nothing = np.zeros((3, 5), dtype=np.float32)
    assert not enlarge(nothing, 9, 0).any()


def test_nothing_can_be_made_of_one_vector() -> None:
    with pytest.raises(RagLabError, match=r"^sizes: 2 vectors cannot be made from 1; name a dataset with more"):
        enlarge(unit(1, 4), 2, 0)
