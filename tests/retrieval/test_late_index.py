"""The late-interaction index: PLAID and exact search agree, filters come first, updates equal fresh builds."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.dense import match_rows
from rag_lab.retrieval.late import LateIndex, TokenVectors, index
from rag_lab.retrieval.late.index import Breadth
from rag_lab.retrieval.late.plaid import partitions
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, QUERY_GRID, on_grid

EVERYTHING = Breadth(10**6, 10**6)
WORDS = 60
DIMENSION = 32


def text(words, grid, dtype, version="1+float32"):
    """Token vectors of texts of words, which are numbers: a word's own vector, moved a little by the word before."""
    own = np.random.default_rng(7).standard_normal((WORDS + 1, DIMENSION))
    rows = [np.array(row, dtype=np.int32) for row in words]
    flat = np.concatenate([np.zeros(0, dtype=np.int32), *rows])
    before = np.concatenate([np.zeros(0, dtype=np.int32), *(np.r_[WORDS, row[:-1]] for row in rows if len(row))])
    vectors = own[flat] + 0.4 * own[before.astype(np.int32)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths = np.array([len(row) for row in rows], dtype=np.int32)
    return TokenVectors(on_grid(vectors.astype(np.float32), grid).astype(dtype), lengths, flat, "words", version)


def passages(words):
    return text(words, PASSAGE_GRID, np.float16)


def queries(words):
    return text(words, QUERY_GRID, np.float32)


def drawn(seed, n, longest=12, shortest=0):
    """Texts of random words."""
    generator = np.random.default_rng(seed)
    return [generator.integers(0, WORDS, generator.integers(shortest, longest + 1)).tolist() for _ in range(n)]


def listed(hits):
    """Query, row and score of each hit."""
    ranking = hits.ranking
    return list(zip(ranking.query.tolist(), ranking.chunk.tolist(), ranking.score.tolist(), strict=True))


@pytest.fixture(scope="module")
def collection():
    return passages(drawn(1, 300))


@pytest.fixture(scope="module")
def asked():
    return queries(drawn(2, 9, 5))


@pytest.fixture(scope="module")
def plaid(collection):
    return LateIndex.build(collection, "plaid", seed=3)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 300])
def test_plaid_that_visits_everything_is_exact_search(tmp_path, asked, n):
    held = passages(drawn(1, n, shortest=1))
    built = LateIndex.build(held, "plaid")
    built.save(tmp_path)
    expected = LateIndex.build(held).search(asked, 10)
    for found in (built, LateIndex.load(tmp_path, held)):
        assert listed(found.search(asked, 10, breadth=EVERYTHING)) == listed(expected)
    assert len(expected.ranking.chunk) == min(n, 10) * np.count_nonzero(asked.lengths)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_collections_are_searched_by_default(asked, n):
    held = passages(drawn(1, n, shortest=1))
    assert listed(LateIndex.build(held, "plaid").search(asked, 3)) == listed(LateIndex.build(held).search(asked, 3))


def test_a_collection_without_a_token_finds_nothing(asked):
    for words in ([], [[], []]):
        empty = LateIndex.build(passages(words), "plaid")
        assert empty.exact
        assert empty.note == "plaid made as exact: there is no token"
        assert listed(empty.search(asked, 5)) == []


def test_dimensions_that_colbert_ai_cannot_pack_are_searched_exactly():
    held = TokenVectors(np.zeros((3, 4), np.float16), np.array([3], np.int32), np.zeros(3, np.int32))
    assert LateIndex.build(held, "plaid").note.startswith("plaid made as exact: residuals of 4 dimensions")


def test_partitions_are_clamped_to_the_tokens():
    assert [partitions(tokens) for tokens in (0, 1, 2, 5, 100, 1_000_000)] == [0, 1, 2, 5, 32, 2048]


def test_queries_without_a_token_find_nothing(plaid, collection):
    asked = queries([[], [3], []])
    for found in (plaid, LateIndex.build(collection)):
        for breadth in (None, EVERYTHING, Breadth(2, 5)):
            assert set(found.search(asked, 5, breadth=breadth).ranking.query.tolist()) == {1}
        assert listed(found.search(queries([[]]), 5)) == []
        assert listed(found.search(queries([]), 5)) == []
        assert listed(found.search(asked, 0)) == []


def test_passages_without_a_token_are_not_found(plaid, collection, asked):
    with_tokens = np.flatnonzero(collection.lengths)
    assert 0 < len(with_tokens) < 300
    for breadth in (None, EVERYTHING):
        found = plaid.search(asked, 1000, breadth=breadth).ranking
        assert set(found.chunk.tolist()) == set(with_tokens.tolist())


def test_narrow_plaid_gives_exact_scores_to_what_it_finds(plaid, collection, asked):
    exact = {(query, row): score for query, row, score in listed(LateIndex.build(collection).search(asked, 300))}
    hits = plaid.search(asked, 10, breadth=Breadth(4, 60))
    found = listed(hits)
    assert hits.method == "plaid, 0 queries exact"
    assert all(exact[query, row] == score for query, row, score in found)
    best = listed(LateIndex.build(collection).search(asked, 10))
    assert len({pair[:2] for pair in found} & {pair[:2] for pair in best}) > 0.8 * len(best)


def test_a_query_that_plaid_leaves_short_is_compared_with_all(plaid, collection, asked):
    hits = plaid.search(asked, 200, breadth=Breadth(1, 20))
    assert hits.method == f"plaid, {np.count_nonzero(asked.lengths)} queries exact"
    assert listed(hits) == listed(LateIndex.build(collection).search(asked, 200))


def test_large_collections_go_through_plaid_by_default(plaid, collection, asked, monkeypatch):
    assert plaid.search(asked, 5).method == "exact"
    monkeypatch.setattr(index, "TOGETHER", 0)
    hits = plaid.search(asked, 5)
    assert hits.method.startswith("plaid, ")
    assert listed(hits) == listed(LateIndex.build(collection).search(asked, 5))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("breadth", [None, EVERYTHING, Breadth(2, 5)])
def test_only_permitted_rows_are_found_as_if_there_were_no_others(plaid, collection, asked, share, breadth):
    allowed = np.random.default_rng(4).random(300) < share
    rows = np.flatnonzero(allowed)
    alone = LateIndex.build(collection.take(rows)).search(asked, 20).ranking
    found = plaid.search(asked, 20, allowed, breadth).ranking
    assert allowed[found.chunk].all()
    if breadth is not None and breadth.cells == 2:
        return
    assert found.chunk.tolist() == rows[alone.chunk].tolist()
    assert found.score.tolist() == alone.score.tolist()


def test_nothing_permitted_finds_nothing(plaid, asked):
    assert listed(plaid.search(asked, 5, np.zeros(300, dtype=bool))) == []
    with pytest.raises(RagLabError, match="a filter over 3 rows for an index of 300"):
        plaid.search(asked, 5, np.zeros(3, dtype=bool))


def test_what_is_forbidden_is_never_scored(plaid, collection, asked):
    """Vectors of forbidden rows may be anything at all."""
    allowed = np.random.default_rng(5).random(300) < 0.5
    broken = collection.vectors.copy()
    broken[np.repeat(~allowed, collection.lengths)] = np.nan
    poisoned = LateIndex(plaid.card, replace(collection, vectors=broken), plaid._plaid)
    for breadth in (None, EVERYTHING, Breadth(4, 30)):
        assert listed(poisoned.search(asked, 10, allowed, breadth)) == listed(plaid.search(asked, 10, allowed, breadth))


def test_pairs_get_the_scores_of_a_search(plaid, asked):
    hits = plaid.search(asked, 20).ranking
    order = np.random.default_rng(6).permutation(len(hits.query))
    assert plaid.score(asked, hits.query[order], hits.chunk[order]).tolist() == hits.score[order].tolist()


def test_an_index_from_before_an_update_serves_the_passages_of_now(tmp_path, plaid, collection, asked, monkeypatch):
    plaid.save(tmp_path)
    words, more = drawn(1, 300), drawn(8, 20, shortest=1)
    left = [row for i, row in enumerate(words) if i % 10]
    now = passages([*more, *left])
    keys = {tuple(row): number for number, row in enumerate(map(tuple, [*words, *more]))}
    before, after = (
        np.array([[keys[tuple(row)], 0] for row in rows], dtype=np.int64) for rows in (words, [*more, *left])
    )
    row_of = match_rows(before, after)
    assert np.count_nonzero(row_of < 0) == 30
    updated, fresh = LateIndex.load(tmp_path, now, row_of), LateIndex.build(now)
    monkeypatch.setattr(index, "TOGETHER", 0)
    for breadth in (None, EVERYTHING):
        assert listed(updated.search(asked, 15, breadth=breadth)) == listed(fresh.search(asked, 15))
    allowed = np.random.default_rng(9).random(len(now)) < 0.4
    assert listed(updated.search(asked, 15, allowed)) == listed(fresh.search(asked, 15, allowed))


def test_rows_that_the_index_does_not_know_are_found_when_it_knows_no_living_one(tmp_path, plaid, asked):
    plaid.save(tmp_path)
    now = passages(drawn(11, 6, shortest=1))
    updated = LateIndex.load(tmp_path, now, np.full(300, -1))
    expected = listed(LateIndex.build(now).search(asked, 4))
    assert listed(updated.search(asked, 4, breadth=Breadth(2, 3))) == expected


def test_an_index_is_the_same_from_every_number_of_threads(tmp_path):
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]; from pathlib import Path; import test_late_index as t;"
        "built = t.LateIndex.build(t.passages(t.drawn(1, 400, 40)), 'plaid', 5); built.save(Path(sys.argv[1]));"
        "print(t.listed(built.search(t.queries(t.drawn(2, 9, 5)), 9, breadth=t.Breadth(2, 15))))"
    )
    printed = []
    for threads in ("1", "3"):
        folder = tmp_path / threads
        command = [sys.executable, "-c", program, str(folder), str(index.Path(__file__).parent)]
        environment = {**index_environment(), "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        printed.append(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert printed[0] == printed[1]
    first, second = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in "13"
    )
    assert first == second


def index_environment():
    import os

    return dict(os.environ)


def test_another_seed_makes_another_index_with_the_same_answers(plaid, collection, asked):
    other = LateIndex.build(collection, "plaid", seed=4)
    assert not np.array_equal(other._plaid.centroids, plaid._plaid.centroids)
    assert listed(other.search(asked, 9, breadth=EVERYTHING)) == listed(plaid.search(asked, 9, breadth=EVERYTHING))


def test_vectors_that_are_not_finite_are_refused(collection):
    broken = collection.vectors.copy()
    first = int(np.flatnonzero(collection.lengths)[7])
    broken[collection.offsets[first], 3] = np.inf
    broken[-1, 0] = np.nan
    with pytest.raises(RagLabError, match=f"2 token vectors hold NaN or infinity, the first in passage {first}"):
        LateIndex.build(replace(collection, vectors=broken), "plaid")


def test_an_unknown_kind_is_refused(collection):
    with pytest.raises(RagLabError, match="there is no kind 'hnsw'; take exact or plaid"):
        LateIndex.build(collection, "hnsw")


def test_queries_of_another_model_are_refused(plaid, asked):
    for other in (replace(asked, encoder="another"), replace(asked, version="2+float32")):
        with pytest.raises(RagLabError, match=r"its passages were encoded by words \(version 1"):
            plaid.search(other, 3)
    assert listed(plaid.search(replace(asked, version="1+bfloat16"), 3)) == listed(plaid.search(asked, 3))
    with pytest.raises(RagLabError, match="16 dimensions"):
        plaid.score(replace(asked, vectors=asked.vectors[:, :16]), np.array([0]), np.array([0]))


def test_an_index_that_does_not_fit_or_is_damaged_is_one_line(tmp_path, plaid, collection):
    plaid.save(tmp_path)
    with pytest.raises(RagLabError, match=r"card.json tells of 300 passages of 32 dimensions, there are 2 of 32"):
        LateIndex.load(tmp_path, collection.take([0, 1]))
    with pytest.raises(RagLabError, match="copy its folder"):
        LateIndex.load(tmp_path, collection).save(tmp_path / "again")
    (tmp_path / "plaid" / "ivf.pid.pt").write_bytes(b"nonsense")
    with pytest.raises(RagLabError, match="not a readable PLAID index") as caught:
        LateIndex.load(tmp_path, collection)
    assert "\n" not in str(caught.value)
    card = json.loads((tmp_path / "card.json").read_text())
    del card["built"]
    (tmp_path / "card.json").write_text(json.dumps(card))
    with pytest.raises(RagLabError, match="not a readable late-interaction index"):
        LateIndex.load(tmp_path, collection)


def test_exact_search_of_an_index_has_its_vectors(plaid, asked):
    exactly = plaid.exactly()
    assert (exactly.exact, plaid.exact) == (True, False)
    assert exactly.search(asked, 5).method == "exact"
