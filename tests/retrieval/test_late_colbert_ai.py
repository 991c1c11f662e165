"""Together with colbert-ai: its `Searcher` opens our index, and a lock that a killed compilation left does no harm."""

import json
import os
import shutil

import numpy as np
import pytest
from tiny_checkpoint import LETTERS, save_checkpoint

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.late import LateIndex, TokenVectors, colbert_ai, load_late_encoder
from rag_lab.retrieval.late.plaid import Plaid, inverted_lists
from rag_lab.retrieval.late.residuals import Buckets, bits_for

COMPILER = shutil.which(os.environ.get("CXX", "g++"))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of extensions."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    return tmp_path / "extensions"


def test_a_lock_that_nobody_holds_is_removed_and_what_is_compiled_stays(cache):
    stale, held = (cache / name / "lock" for name in ("filter_pids_cpp", "segmented_maxsim_cpp"))
    for lock in (stale, held):
        lock.parent.mkdir(parents=True)
        lock.touch()
    compiled = cache / "filter_pids_cpp" / "filter_pids_cpp.so"
    compiled.touch()
    with held.open():
        assert colbert_ai.remove_stale_locks() == [stale]
        assert (stale.exists(), held.exists(), compiled.exists()) == (False, True, True)
    assert colbert_ai.remove_stale_locks() == [held]
    assert colbert_ai.remove_stale_locks() == []


def test_where_processes_cannot_be_seen_a_lock_is_stale_when_it_is_old(cache, monkeypatch):
    monkeypatch.setattr(colbert_ai, "PROCESSES", cache)
    lock = cache / "filter_pids_cpp" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    assert colbert_ai.remove_stale_locks() == []
    old = lock.stat().st_mtime - colbert_ai.STALE_SECONDS - 1
    os.utime(lock, (old, old))
    assert colbert_ai.remove_stale_locks() == [lock]


def test_without_a_compiler_the_error_names_it(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(RagLabError, match="no-such-compiler is missing; install it, or search with rag_lab's index"):
        colbert_ai.open_searcher(tmp_path, "any", print)


def test_residuals_are_packed_first_dimension_and_lowest_bit_first():
    weights = np.arange(4, dtype=np.float32)
    buckets = Buckets(np.array([-0.25, 0, 0.25], dtype=np.float32), weights, 0.0)
    vectors = np.array([[-0.5, -0.25, -0.125, 0.125, 0.25, 0.5, 0, 0.0625]], dtype=np.float16)
    # Buckets 0 0 1 2 2 3 1 2; each in two bits, the lower one first: 00 00 10 01 | 01 11 10 01.
    packed = buckets.pack(vectors, np.zeros(1, dtype=np.int32), np.zeros((1, 8), dtype=np.float32))
    assert packed.tolist() == [[0b00001001, 0b01111001]]


def test_residuals_are_packed_as_by_colbert_ai():
    import torch
    from colbert.indexing.codecs.residual import ResidualCodec
    from colbert.infra.config import ColBERTConfig

    generator = np.random.default_rng(0)
    for bits in (1, 2, 4):
        vectors = (generator.integers(-600, 601, (50, 64)) / 2048).astype(np.float16)
        centroids = (generator.integers(-600, 601, (7, 64)) / 2048).astype(np.float32)
        codes = generator.integers(0, 7, 50).astype(np.int32)
        residuals = vectors.astype(np.float32) - centroids[codes]
        buckets = Buckets.of(residuals, bits)
        codec = ResidualCodec(
            ColBERTConfig(dim=64, nbits=bits),
            torch.from_numpy(centroids),
            bucket_cutoffs=torch.from_numpy(buckets.cutoffs),
            bucket_weights=torch.from_numpy(buckets.weights),
        )
        expected = codec.binarize(torch.from_numpy(residuals)).numpy()
        assert buckets.pack(vectors, codes, centroids).tolist() == expected.tolist()


def test_the_most_bits_that_fill_bytes_are_taken():
    assert [bits_for(dimension) for dimension in (128, 192, 96, 48, 24, 20)] == [4, 4, 4, 2, 1, 0]


def test_lists_name_each_passage_once_a_centroid():
    codes, lengths = np.array([2, 0, 2, 2, 0, 3], dtype=np.int32), np.array([3, 0, 2, 1], dtype=np.int32)
    lists, list_lengths = inverted_lists(codes, lengths, 5)
    assert list_lengths.tolist() == [2, 0, 2, 1, 0]
    assert lists.tolist() == [0, 2, 0, 2, 3]


def test_passages_on_no_visited_list_count_with_the_last_cell():
    """Three centroids on the axes; query tokens visit two cells each, and the third stands for the rest."""
    centroids = np.eye(3, dtype=np.float32)
    plaid = Plaid(centroids, np.array([0, 3, 1, 2, 3], dtype=np.int32), np.array([2, 1, 2]), 4)
    query = np.array([[0.75, 0.5, 0.25], [0.5, 0.75, 0.25]], dtype=np.float32)
    queries = TokenVectors(query, np.array([2], dtype=np.int32), np.zeros(2, dtype=np.int32))
    # All cells: 0: .75 + .5; 1: .5 + .75; 2: .25 + .25; 3: .75 + .5. Two cells: passage 2 is met nowhere.
    assert [row.tolist() for row in plaid.propose(queries, 2, 9)] == [[0, 1, 3]]
    assert [row.tolist() for row in plaid.propose(queries, 3, 3)] == [[0, 1, 3]]
    # One cell each: 0 and 3 get .75 + .75 (what the second token's only cell gives), 1 the same, so the lowest ids win.
    assert [row.tolist() for row in plaid.propose(queries, 1, 2)] == [[0, 1]]
    permitted = np.array([False, True, True, False])
    assert [row.tolist() for row in plaid.propose(queries, 3, 1, permitted)] == [[1]]


def test_the_folder_tells_what_colbert_ai_reads(tmp_path):
    lengths = np.array([2, 0, 3], dtype=np.int32)
    vectors = (np.random.default_rng(0).integers(-600, 601, (5, 32)) / 2048).astype(np.float16)
    LateIndex.build(TokenVectors(vectors, lengths, np.zeros(5, dtype=np.int32)), "plaid").save(tmp_path)
    folder = tmp_path / "plaid"
    described = json.loads((folder / "metadata.json").read_text())
    assert {name: described[name] for name in ("num_chunks", "num_partitions", "num_embeddings")} == {
        "num_chunks": 1, "num_partitions": 5, "num_embeddings": 5
    }  # fmt: skip
    assert (described["config"]["dim"], described["config"]["nbits"]) == (32, 4)
    assert json.loads((folder / "doclens.0.json").read_text()) == [2, 0, 3]
    assert {path.name for path in folder.iterdir()} == {
        "metadata.json", "plan.json", "centroids.pt", "buckets.pt", "avg_residual.pt", "ivf.pid.pt",
        "doclens.0.json", "0.codes.pt", "0.residuals.pt", "0.metadata.json",
    }  # fmt: skip


@pytest.mark.slow(seconds=110)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(COMPILER is None, reason="colbert-ai compiles its search with g++, which is not installed")
@pytest.mark.parametrize("n", [5, 200])
def test_colbert_ais_searcher_opens_the_index(tmp_path, n):
    import torch

    checkpoint = save_checkpoint(tmp_path / "checkpoint")
    encoder = load_late_encoder(checkpoint)
    generator = np.random.default_rng(0)
    texts = [" ".join(generator.choice(LETTERS, generator.integers(1, 15))) for _ in range(n)]
    passages = encoder.encode_passages(texts)
    index = LateIndex.build(passages, "plaid")
    index.save(tmp_path / "index")
    searcher = colbert_ai.open_searcher(tmp_path / "index" / "plaid", checkpoint, print)
    # What it makes of centroids and residuals is near the stored vectors, and everything is visited.
    codec, held, total = searcher.ranker.codec, searcher.ranker.embeddings, len(passages.tokens)
    read = codec.decompress(codec.Embeddings(held.codes[:total], held.residuals[:total])).numpy()
    near = (read * passages.vectors.astype(np.float32)).sum(axis=1)
    assert near.min() > 0.9
    assert near.mean() > 0.99
    searcher.configure(ncells=index._plaid.cells, centroid_score_threshold=-1.0, ndocs=4 * n)
    for query in ("a b c", "x y z q"):
        asked = encoder.encode_queries([query])
        vectors = torch.from_numpy(asked.vectors)[None]
        rows, _, scores = searcher.dense_search(vectors, k=n)
        # colbert-ai counts a negative product as 0.
        products = np.maximum(asked.vectors @ read.T, 0)
        expected = np.maximum.reduceat(products, passages.offsets[:-1], axis=1).sum(axis=0)
        assert sorted(rows) == list(range(n))
        assert np.allclose(scores, expected[rows], atol=1e-3)
        assert scores == sorted(scores, reverse=True)
        even, _, _ = searcher.dense_search(vectors, k=5, filter_fn=lambda rows: rows[rows % 2 == 0])
        assert even == [row for row in rows if row % 2 == 0][:5]
