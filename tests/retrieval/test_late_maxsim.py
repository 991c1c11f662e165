"""MaxSim: values worked by hand, a second opinion, and the same numbers however the work is cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.retrieval.late import TokenVectors, maxsim


def texts(*rows, dtype=np.float16):
    """Token vectors of texts, each given as a list of vectors in two dimensions."""
    flat = [vector for row in rows for vector in row]
    values = np.array(flat, dtype=dtype).reshape(-1, 2)
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    return TokenVectors(values, lengths, np.zeros(len(flat), dtype=np.int32))


def drawn(seed, n, longest, dimension=8):
    """Texts of 0 to `longest` tokens on the grid, some of them equal."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, longest + 1, n).astype(np.int32)
    values = generator.integers(-512, 513, (int(lengths.sum()), dimension)) / 2048
    whole = TokenVectors(values.astype(np.float16), lengths, np.zeros(len(values), dtype=np.int32))
    return whole.take(generator.integers(0, n, n)) if n else whole


def by_hand(queries, passages):
    """Scores of all pairs by the definition, one after another, -1 where one has no token."""
    q, p = queries.offsets, passages.offsets
    scores = np.full((len(queries), len(passages)), -1.0)
    for i in range(len(queries)):
        for j in range(len(passages)):
            mine = queries.vectors[q[i] : q[i + 1]].astype(np.float64)
            theirs = passages.vectors[p[j] : p[j + 1]].astype(np.float64)
            if len(mine) and len(theirs):
                scores[i, j] = round(sum(max(float(a @ b) for b in theirs) for a in mine), 6)
    return scores


PASSAGES = texts([(1, 0)], [(0.5, 0.5), (0, -1)], [], [(-1, 0)])
QUERIES = texts([(1, 0), (0.5, 0.25)], [], [(0, 1)], dtype=np.float32)
# Query 0: passage 0: 1 + .5; passage 1: max(.5, 0) + max(.375, -.25); passage 3: -1 - .5. Query 2: 0; .5; 0.


def test_scores_worked_by_hand():
    rows, scores = maxsim.search(QUERIES, PASSAGES, 4)
    assert rows[0].tolist() == [0, 1, 3]
    assert scores[0].tolist() == [1.5, 0.875, -1.5]
    assert (rows[2].tolist(), scores[2].tolist()) == ([1, 0, 3], [0.5, 0, 0])


def test_pairs_worked_by_hand():
    query, rows = np.array([2, 0, 0, 0, 1, 2]), np.array([1, 3, 0, 2, 0, 3])
    assert maxsim.pair_scores(QUERIES, PASSAGES, query, rows).tolist() == [0.5, -1.5, 1.5, 0, 0, 0]


def test_the_best_of_some_rows_in_order_of_rows_where_they_tie():
    rows, scores = maxsim.search(QUERIES, PASSAGES, 2, np.array([1, 2, 3]))
    assert (rows[0].tolist(), scores[0].tolist()) == ([1, 3], [0.875, -1.5])
    same = texts(*[[(1, 0)]] * 5)
    assert maxsim.search(QUERIES, same, 3)[0][0].tolist() == [0, 1, 2]


def test_nothing_to_search_or_to_search_by():
    nothing = texts()
    assert maxsim.search(QUERIES, nothing, 3)[0].shape == (3, 0)
    assert maxsim.search(texts(dtype=np.float32), PASSAGES, 3)[0].shape == (0, 3)
    assert maxsim.pair_scores(QUERIES, PASSAGES, np.array([], int), np.array([], int)).tolist() == []


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(1, 30), st.integers(1, 40), st.sampled_from([1, 7, 1000])
)
def test_it_is_the_definition_however_the_work_is_cut(seed, asked, n, depth, block):
    queries, passages = drawn(seed, asked, 5), drawn(seed + 1, n, 6)
    expected = by_hand(queries, passages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maxsim, "PASSAGE_TOKENS_A_BLOCK", block)
        patch.setattr(maxsim, "QUERY_TOKENS_A_BLOCK", block)
        patch.setattr(maxsim, "SCORES_A_BLOCK", block)
        rows, scores = maxsim.search(queries, passages, depth)
        query, row = (values.ravel() for values in np.meshgrid(np.arange(asked), np.arange(n), indexing="ij"))
        pairs = maxsim.pair_scores(queries, passages, query, row)
    with_tokens = np.flatnonzero(passages.lengths)
    for i in np.flatnonzero(queries.lengths):
        order = with_tokens[np.argsort(-expected[i, with_tokens], kind="stable")][:depth]
        assert rows[i].tolist() == order.tolist()
        assert scores[i].tolist() == expected[i, order].tolist()
    usable = (queries.lengths[query] > 0) & (passages.lengths[row] > 0)
    assert pairs[usable].tolist() == expected[query, row][usable].tolist()
    assert not pairs[~usable].any()
