"""Impact search against a dot product in numpy; rights, ties, updates, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.retrieval import row_index
from rag_lab.retrieval.row_index import Entries, Hits
from rag_lab.retrieval.sparse import ImpactIndex, SparseVectors
from rag_lab.retrieval.sparse.index import ANALYSIS, as_text, index_version

Weights = dict[int, int]
VERSION = "abc+float32"


def sparse(texts: Sequence[Weights], version: str = VERSION) -> SparseVectors:
    pairs = [pair for text in texts for pair in sorted(text.items())]
    terms, impacts = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    return SparseVectors(np.array([len(text) for text in texts], dtype=np.int32), terms, impacts, "tiny", version)


def entries(texts: Sequence[Weights], codes: Sequence[int] | None = None, first: int = 0) -> Entries:
    """One row a document, whose id sorts as its row."""
    names = [f"{row:04}" for row in range(first, first + len(texts))]
    prints = np.array([hash((name, *sorted(text.items()))) for name, text in zip(names, texts, strict=True)])
    return Entries(as_text(sparse(texts)), codes or [0] * len(texts), names, [0] * len(texts), prints)


def make(folder: Path, texts: Sequence[Weights], codes: Sequence[int] | None = None) -> ImpactIndex:
    row_index.build(folder, entries(texts, codes), ANALYSIS)
    return ImpactIndex(folder, "tiny", VERSION)


def dense(texts: Sequence[Weights], size: int = 40_000) -> npt.NDArray[np.int64]:
    made = np.zeros((len(texts), size), dtype=np.int64)
    for row, text in enumerate(texts):
        made[row, list(text)] = list(text.values())
    return made


def found(hits: Hits, query: int = 0) -> list[tuple[int, float]]:
    mine = hits.query == query
    return list(zip(hits.row[mine].tolist(), hits.score[mine].tolist(), strict=True))


def expected(scores: npt.NDArray[np.int64], rows: Sequence[int], depth: int = 1000) -> list[tuple[int, float]]:
    order = sorted((row for row in rows if scores[row] > 0), key=lambda row: (-scores[row], row))
    return [(row, float(scores[row])) for row in order[:depth]]


TEXTS: list[Weights] = [{3: 120, 9: 40}, {3: 120}, {}, {9: 300, 30_000: 1}, {3: 60, 9: 60}, {30_000: 75}]
QUERIES: list[Weights] = [{3: 100, 9: 200}, {30_000: 2}, {}, {12: 50}, {3: 1}]

weights = st.dictionaries(st.integers(0, 60), st.integers(1, 600), max_size=12)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ImpactIndex:
    return make(tmp_path_factory.mktemp("impact") / "index", TEXTS, [0, 1, 0, 1, 2, 2])


def test_scores_are_the_dot_product_of_whole_numbers(index: ImpactIndex) -> None:
    hits = index.search(sparse(QUERIES), 10, None)
    assert found(hits, 0) == [(3, 60_000.0), (0, 20_000.0), (4, 18_000.0), (1, 12_000.0)]
    assert found(hits, 1) == [(5, 150.0), (3, 2.0)]
    assert found(hits, 2) == found(hits, 3) == []
    assert found(hits, 4) == [(0, 120.0), (1, 120.0), (4, 60.0)]  # a tie, by row
    assert (hits.ms > 0).all()


def test_rights_are_applied_before_ranking(index: ImpactIndex) -> None:
    scopes = [[1], [2, 7], [0, 1, 2], [], [0, 2]]
    hits = index.search(sparse([QUERIES[0]] * 5), 2, scopes)
    assert [[row for row, _ in found(hits, query)] for query in range(5)] == [[3, 1], [4], [3, 0], [], [0, 4]]
    only = index.search(
        sparse([QUERIES[0]] * 2), 9, None, only=[{"0001", "0004", "9999"}, None], without=[None, {"0003"}]
    )
    assert [[row for row, _ in found(only, query)] for query in range(2)] == [[4, 1], [0, 4, 1]]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(weights, min_size=1, max_size=25), st.lists(weights, min_size=1, max_size=5), st.integers(1, 30), st.data()
)
def test_whatever_the_weights_the_ranking_is_that_of_numpy(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[Weights],
    queries: list[Weights],
    depth: int,
    data: st.DataObject,
) -> None:
    codes = data.draw(st.lists(st.integers(0, 2), min_size=len(texts), max_size=len(texts)))
    allowed = data.draw(st.lists(st.integers(0, 2), max_size=3))
    with make(tmp_path_factory.mktemp("index") / "index", texts, codes) as made:
        everything = made.search(sparse(queries), depth, None)
        within = made.search(sparse(queries), depth, [allowed] * len(queries))
    scores = dense(queries, 61) @ dense(texts, 61).T
    for query in range(len(queries)):
        assert found(everything, query) == expected(scores[query], range(len(texts)), depth)
        rows = [row for row in range(len(texts)) if codes[row] in allowed]
        assert found(within, query) == expected(scores[query], rows, depth)


def test_an_update_is_a_fresh_build(tmp_path: Path) -> None:
    make(tmp_path / "base", TEXTS[:4]).close()
    fresh = [TEXTS[0], TEXTS[2], TEXTS[3], TEXTS[4], {3: 7}]
    names = ["0000", "0002", "0003", "0004", "0005"]
    new = entries([TEXTS[4], {3: 7}], first=4)
    whole = entries(fresh)
    whole = Entries(whole.texts, whole.scopes, names, whole.positions, whole.fingerprints)
    prints = np.array(
        [hash((name, *sorted(text.items()))) for name, text in zip(names, fresh, strict=True)], dtype=np.int64
    )
    row_index.update(tmp_path / "made", tmp_path / "base", ["0001"], new, prints, ANALYSIS)
    row_index.build(tmp_path / "fresh", whole, ANALYSIS)
    made, anew = (ImpactIndex(tmp_path / name, "tiny", VERSION) for name in ("made", "fresh"))
    assert made.documents() == tuple(names)
    for query in range(len(QUERIES)):
        assert found(made.search(sparse(QUERIES), 10, None), query) == found(
            anew.search(sparse(QUERIES), 10, None), query
        )


def test_a_query_of_more_terms_than_lucene_allows_by_default(tmp_path: Path) -> None:
    many = {term: 1 + term % 7 for term in range(30_000)}
    with make(tmp_path / "index", [many, {5: 1000}]) as index:
        assert found(index.search(sparse([many]), 10, None)) == [
            (0, float(sum(weight * weight for weight in many.values()))),
            (1, 6000.0),
        ]


def test_what_does_not_fit_is_refused(index: ImpactIndex, tmp_path: Path) -> None:
    message = (
        r"encoded by tiny \(version abc\+float32\), the queries by tiny \(version xyz\); encode both with one model"
    )
    with pytest.raises(RagLabError, match=message):
        index.search(sparse(QUERIES, "xyz"), 10, None)
    with pytest.raises(RagLabError, match="no such folder, and so no Lucene index; build it first"):
        ImpactIndex(tmp_path / "nowhere", "tiny", VERSION)
    from rag_lab.retrieval import bm25

    bm25.build(tmp_path / "texts", Entries(["one"], [0], ["a"], [0], np.array([1])), "en")
    with pytest.raises(RagLabError, match="the index was written by another version; build it again"):
        ImpactIndex(tmp_path / "texts", "tiny", VERSION)
    with pytest.raises(RagLabError, match="the index was written by another version; build it again"):
        bm25.Bm25Index(index.folder)
    assert index_version() != bm25.index_version("en")
