"""Token vectors: they fit together, can be taken and put together, and lie on a grid on which products are exact."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.late import TokenVectors
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, QUERY_GRID, on_grid, ranges


def vectors_of(lengths, encoder="a", version="1", dimension=2):
    """Vectors that count up: text i, token j has its running number in every dimension."""
    total = sum(lengths)
    values = np.repeat(np.arange(total, dtype=np.float16)[:, None], dimension, axis=1)
    return TokenVectors(
        values, np.array(lengths, dtype=np.int32), np.arange(total, dtype=np.int32) + 100, encoder, version
    )


def test_offsets_are_the_edges_of_texts():
    assert vectors_of([2, 0, 3]).offsets.tolist() == [0, 2, 2, 5]
    assert vectors_of([]).offsets.tolist() == [0]


def test_texts_are_taken_in_any_order_and_more_than_once():
    taken = vectors_of([2, 0, 3]).take([2, 0, 1, 2])
    assert taken.lengths.tolist() == [3, 2, 0, 3]
    assert taken.vectors[:, 0].tolist() == [2, 3, 4, 0, 1, 2, 3, 4]
    assert taken.tokens.tolist() == [102, 103, 104, 100, 101, 102, 103, 104]
    assert (taken.encoder, taken.version, len(taken)) == ("a", "1", 4)


def test_taking_none_leaves_the_dimension():
    assert vectors_of([2]).take([]).vectors.shape == (0, 2)


def test_parts_are_put_together():
    whole = TokenVectors.concatenate([vectors_of([1]), vectors_of([]), vectors_of([0, 2])])
    assert whole.lengths.tolist() == [1, 0, 2]
    assert whole.tokens.tolist() == [100, 100, 101]


@pytest.mark.parametrize("other", [vectors_of([1], version="2"), vectors_of([1], "b"), vectors_of([1], dimension=3)])
def test_parts_of_two_models_are_refused(other):
    with pytest.raises(RagLabError, match="parts of two kinds"):
        TokenVectors.concatenate([vectors_of([1]), other])
    with pytest.raises(RagLabError, match="nothing to put together"):
        TokenVectors.concatenate([])


@pytest.mark.parametrize("lengths, tokens", [([1, 1], 3), ([3, 1], 3), ([1, 2], 2)])
def test_lengths_that_do_not_fit_are_refused(lengths, tokens):
    with pytest.raises(RagLabError, match="the lengths add up to"):
        TokenVectors(np.zeros((3, 2), np.float16), np.array(lengths, np.int32), np.zeros(tokens, np.int32))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=20))
def test_ranges_are_those_of_python(intervals):
    starts, lengths = (np.array([pair[i] for pair in intervals], dtype=np.int64) for i in (0, 1))
    expected = [position for start, length in intervals for position in range(start, start + length)]
    assert ranges(starts, lengths).tolist() == expected


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([8, 128, 384]))
def test_products_of_the_grid_are_exact_in_any_order(seed, dimension):
    generator = np.random.default_rng(seed)
    drawn = generator.standard_normal((40, dimension)).astype(np.float32)
    drawn[0] = np.eye(dimension)[0]
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    queries, passages = on_grid(drawn, QUERY_GRID), on_grid(drawn, PASSAGE_GRID)
    assert np.array_equal(passages.astype(np.float16).astype(np.float32), passages)
    exact = queries.astype(np.float64) @ passages.astype(np.float64).T
    order = generator.permutation(dimension)
    assert np.array_equal((queries @ passages.T).astype(np.float64), exact)
    assert np.array_equal((queries[:, order] @ passages[:, order].T).astype(np.float64), exact)
    assert np.abs(passages - drawn).max() <= 0.5 / PASSAGE_GRID
