"""Late interaction as a reranker, against MaxSim worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.late import LateIndex, TokenVectors
from rag_lab.retrieval.rerank import Pairs
from rag_lab.retrieval.rerank.late import LateReranker


def vectors(texts: list[list[list[float]]], dtype: type = np.float32) -> TokenVectors:
    """Token vectors of two dimensions; each token is its own word."""
    flat = np.array([token for text in texts for token in text], dtype=dtype).reshape(-1, 2)
    return TokenVectors(
        flat, np.array([len(text) for text in texts], dtype=np.int32), np.arange(len(flat), dtype=np.int32)
    )


INDEX = LateIndex.build(vectors([[[1, 0]], [[0, 1], [0.6, 0.8]], [], [[0.8, 0.6]]], np.float16))
QUERIES = vectors([[[1, 0], [0, 1]], [], [[0, 1]]])


def test_scores_are_maxsim_and_belong_to_their_pairs() -> None:
    """Query 0 has tokens x and y; row 0 is x, row 1 is y and (.6, .8), row 2 is empty, row 3 is (.8, .6)."""
    pairs = Pairs(["xy", "", "y"], np.array([0, 0, 0, 0, 2, 2]), np.array([3, 1, 2, 0, 1, 3]), {})
    scored = LateReranker(INDEX, QUERIES, np.array([1.0, 1.0, 2.0])).score(pairs)
    assert scored.score == pytest.approx([1.4, 1.6, 0.0, 1.0, 1.0, 0.6], abs=1e-3)
    assert scored.read.all()
    assert scored.ms[1] == 0.0
    assert scored.ms[0] - 1.0 == pytest.approx(2 * (scored.ms[2] - 2.0))


def test_pairs_have_the_scores_of_a_search() -> None:
    found = INDEX.search(QUERIES, 4).ranking
    pairs = Pairs(["xy", "", "y"], found.query, found.chunk, {})
    assert LateReranker(INDEX, QUERIES, np.zeros(3)).score(pairs).score.tolist() == found.score.tolist()


def test_every_question_must_be_encoded() -> None:
    with pytest.raises(RagLabError, match="3 encoded questions for 1"):
        LateReranker(INDEX, QUERIES, np.zeros(3)).score(Pairs(["xy"], np.array([0]), np.array([0]), {}))
