"""Vectors of the test encoder: sentences with `a` lie along (1, 0), with `b` along (0, 1), others along (0.6, 0.8)."""

from __future__ import annotations

import numpy as np
from cutting import WORDS, check, pieces, texts
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Document
from rag_lab.corpus.chunking import Semantic
from rag_lab.corpus.chunking.semantic import neighbour_similarity


def test_similarity_compares_the_means_of_neighbouring_windows() -> None:
    vectors = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    assert neighbour_similarity(vectors, 1).tolist() == [1.0, 0.0, 0.8]
    # before the second gap (2, 0), after it (0.6, 1.8): 1.2 / (2 * 1.8974)
    assert neighbour_similarity(vectors, 2).tolist() == [0.7071, 0.3162, 0.9899]
    assert neighbour_similarity(np.zeros((2, 2)), 1).tolist() == [0.0]
    assert neighbour_similarity(np.zeros((1, 2)), 1).tolist() == []


def test_the_text_is_cut_where_the_similarity_is_low() -> None:
    text = "A one. A two. A three. B four. B five. B six."
    assert texts(Semantic(100, 1, window=1), text) == ["A one. A two. A three.", "B four. B five. B six."]
    assert texts(Semantic(100, 1, window=1, threshold=-1), text) == [text]
    assert texts(Semantic(100, 1, window=1, threshold=1), text) == ["A one. A two. A three.", "B four. B five. B six."]


def test_the_percentile_is_the_documents_own() -> None:
    text = "A one. B two. A three. C four. B five."
    # similarities 0, 0, 0.6, 0.8: the 60th percentile is 0.48, so both turns at 0 are cut
    assert texts(Semantic(100, 1, window=1, percentile=60), text) == ["A one.", "B two.", "A three. C four. B five."]
    other = Document("e", "A x. A y. C z.")
    alone = Semantic(100, 1, window=1).cut([other], WORDS)
    assert Semantic(100, 1, window=1).cut([Document("d", text), other], WORDS)[1:] == alone


def test_a_long_part_is_cut_at_its_lowest_similarity() -> None:
    text = "A one. A two. C three. C four. C five."
    assert texts(Semantic(9, 2, window=1, threshold=-1), text) == ["A one. A two.", "C three. C four. C five."]
    # a part of 6 and one of 9 tokens do; with at least 7 there is no such cut, so the fewest tokens give way
    assert texts(Semantic(14, 7, window=1, threshold=-1), text) == ["A one. A two.", "C three. C four. C five."]


def test_a_short_part_joins_the_more_similar_neighbour_with_which_it_fits() -> None:
    text = "A one two three. C four. B five six seven eight."
    # between the sentences 0.6 and 0.8
    assert texts(Semantic(20, 4, window=1, threshold=0.9), text) == [
        "A one two three.",
        "C four. B five six seven eight.",
    ]
    assert texts(Semantic(8, 4, window=1, threshold=0.9), text) == [
        "A one two three. C four.",
        "B five six seven eight.",
    ]


def test_a_sentence_that_is_too_long_is_cut() -> None:
    text = "a " + "w " * 30 + "."
    found = pieces(Semantic(10, 1), text)
    check(text, found)
    assert max(len(WORDS.token_spans(text[slice(*piece.span)])) for piece in found) <= 10


@given(st.lists(st.sampled_from(["A x.", "B y z.", "C.", "学校。", "\n\n", "a " * 9]), max_size=25), st.integers(8, 20))
def test_lengths_and_coverage(parts: list[str], size: int) -> None:
    text = " ".join(parts)
    found = pieces(Semantic(size), text)
    check(text, found)
    counts = WORDS.count_tokens([text[slice(*piece.span)] for piece in found]).tolist()
    assert all(count <= size for count in counts)
    fewest = size // 5
    for i, count in enumerate(counts):
        neighbours = counts[max(i - 1, 0) : i] + counts[i + 1 : i + 2]
        assert count >= fewest or all(count + other > size for other in neighbours)
