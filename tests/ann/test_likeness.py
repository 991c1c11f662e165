"""Measures of how real and made vectors lie."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rag_lab.ann.likeness import inverse_dimension, shapes


def test_the_local_dimension_by_hand() -> None:
    """Neighbours at 1, 2 and 4: the mean of ln 4 and ln 2 is 1.5 ln 2."""
    assert inverse_dimension(np.array([[1.0, 2.0, 4.0]])) == pytest.approx(1.5 * math.log(2))
    assert inverse_dimension(np.array([[0.0, 1.0]])) == pytest.approx(math.log(1e6))
    assert inverse_dimension(np.zeros((1, 3))).tolist() == [0.0]


@pytest.mark.parametrize("dimension", [2, 5])
def test_points_of_a_ball_have_the_dimension_of_the_ball(dimension: int) -> None:
    draw = np.random.default_rng(0)
    points = draw.normal(size=(6000, dimension))
    points *= draw.random((6000, 1)) ** (1 / dimension) / np.linalg.norm(points, axis=1, keepdims=True)
    # As unit vectors near one pole of a sphere of one more dimension, so that inner products order by distance.
    flat = np.hstack([0.1 * points, np.ones((6000, 1))])
    vectors = (flat / np.linalg.norm(flat, axis=1, keepdims=True)).astype(np.float32)
    inside = np.flatnonzero(np.linalg.norm(points, axis=1) < 0.6)[:200]
    found = {one.measure: one for one in shapes(vectors, vectors[inside], inside, 0)}
    measured = found["local dimension, passages"]
    assert measured.value == pytest.approx(dimension, rel=0.15)
    assert measured.low < measured.value < measured.high
    assert measured.n == 200


def test_distances_by_hand_and_a_point_is_not_its_own_neighbour() -> None:
    vectors = np.array([[1, 0], [0, 1], [-1, 0]], dtype=np.float32)
    found = {one.measure: one for one in shapes(vectors, np.array([[1, 0]], dtype=np.float32), np.array([0, 2]), 0)}
    assert found["distance to neighbour 1, passages"].value == pytest.approx(math.sqrt(2))
    assert found["distance to neighbour 1, questions"].value == 0
    assert "distance to neighbour 10, questions" not in found


def test_a_passage_that_stands_twice_has_a_neighbour_at_no_distance() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32)
    found = {one.measure: one for one in shapes(vectors, vectors[:1], np.array([0, 1]), 0)}
    assert found["distance to neighbour 1, passages"].value == 0
