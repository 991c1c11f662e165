"""The cross-encoder on tiny random models that are made here, against sentence-transformers' own predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_cross_encoder import WORDS, make

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.rerank import Pairs
from rag_lab.retrieval.rerank.cross_encoder import CrossEncoderReranker, load_cross_encoder

LENGTHS = [0, 1, 5, 20, 60, 200]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "cross", "BertForSequenceClassification")


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """Two questions with 24 passages each, of all lengths; one question between them has none."""
    random = np.random.default_rng(5)
    texts = {row: " ".join(random.choice(WORDS, size=LENGTHS[row % 6])) for row in range(24)}
    rows = np.concatenate([random.permutation(24), random.permutation(24)]).astype(np.int32)
    return Pairs(["pump valve", "", "lamp"], np.repeat([0, 2], 24).astype(np.int32), rows, texts)


def one_by_one(folder: Path, pairs: Pairs) -> list[float]:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(folder))
    couples = [
        (pairs.queries[query], pairs.texts[row])
        for query, row in zip(pairs.query.tolist(), pairs.rows.tolist(), strict=True)
    ]
    return [float(model.predict([couple])[0]) for couple in couples]


def test_scores_are_those_of_the_library_one_by_one(folder: Path, pairs: Pairs) -> None:
    scored = CrossEncoderReranker(str(folder)).score(pairs)
    assert scored.score == pytest.approx(one_by_one(folder, pairs), abs=2e-6)
    assert np.ptp(scored.score) > 0.1
    assert scored.read.all()
    assert scored.ms[1] == 0
    assert scored.ms[0] == pytest.approx(scored.ms[2])


def test_a_model_has_its_own_activation(tmp_path: Path, pairs: Pairs) -> None:
    folder = make(tmp_path / "raw", "BertForSequenceClassification", activation="torch.nn.modules.linear.Identity")
    scored = CrossEncoderReranker(str(folder)).score(pairs)
    assert scored.score == pytest.approx(one_by_one(folder, pairs), abs=1e-5)
    assert scored.score.min() < 0


def test_s09_a_score_depends_on_neither_neighbours_nor_order(folder: Path, pairs: Pairs) -> None:
    model = CrossEncoderReranker(str(folder))
    whole = model.score(pairs).score
    for chosen in (np.arange(48)[::-1], np.arange(0, 48, 5), np.array([17])):
        some = Pairs(pairs.queries, pairs.query[chosen], pairs.rows[chosen], pairs.texts)
        assert model.score(some).score.tolist() == whole[chosen].tolist()


@pytest.mark.parametrize("batch_tokens", [1, 300, 10_000])
def test_s09_nor_on_the_size_of_batches(folder: Path, pairs: Pairs, batch_tokens: int) -> None:
    usual, other = CrossEncoderReranker(str(folder)), CrossEncoderReranker(str(folder), batch_tokens=batch_tokens)
    assert other.score(pairs).score == pytest.approx(usual.score(pairs).score, abs=1e-6)
    assert other.version != usual.version


def test_many_pairs_are_computed_in_blocks(folder: Path, pairs: Pairs, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = CrossEncoderReranker(str(folder)).score(pairs).score
    monkeypatch.setattr("rag_lab.retrieval.rerank.cross_encoder.PAIRS_A_BLOCK", 7)
    monkeypatch.setattr("rag_lab.retrieval.rerank.cross_encoder.LENGTHS_A_BLOCK", 3)
    assert CrossEncoderReranker(str(folder)).score(pairs).score.tolist() == whole.tolist()


def test_s04_two_encodings_of_a_text_get_one_score(folder: Path) -> None:
    texts = {0: "caf\u00e9 pump", 1: "cafe\u0301 pump", 2: "pump\x00valve \ud800"}
    scored = CrossEncoderReranker(str(folder)).score(
        Pairs(["caf\u00e9"], np.zeros(3, dtype=np.int32), np.arange(3, dtype=np.int32), texts)
    )
    assert scored.score[0] == scored.score[1]
    assert np.isfinite(scored.score).all()


def test_no_pairs_have_no_scores(folder: Path) -> None:
    nothing = Pairs(["pump"], np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32), {})
    assert CrossEncoderReranker(str(folder)).score(nothing).score.tolist() == []


def test_weights_that_are_no_numbers_give_scores_that_are_none(tmp_path: Path, pairs: Pairs) -> None:
    from safetensors.torch import load_file, save_file

    folder = make(tmp_path / "broken", "BertForSequenceClassification")
    weights = load_file(folder / "model.safetensors")
    weights["classifier.weight"][0, 0] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert np.isnan(CrossEncoderReranker(str(folder)).score(pairs).score).all()


@pytest.mark.parametrize(
    ("kind", "labels", "message"),
    [
        ("BertModel", 1, "it is a BertModel, without a head that scores pairs"),
        ("BertForSequenceClassification", 3, "it gives 3 values for a pair"),
        ("BertForMaskedLM", 1, "it is a BertForMaskedLM, without a head"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused_in_one_line(
    tmp_path: Path, capfd: Any, kind: str, labels: int, message: str
) -> None:
    with pytest.raises(RagLabError, match=f"is no cross-encoder: {message}") as caught:
        CrossEncoderReranker(str(make(tmp_path / "other", kind, labels)))
    assert "\n" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_language_model_is_sent_to_listwise(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    folder = make(tmp_path / "llama", "LlamaForCausalLM")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["yes", "no"])
    tokenizer.save_pretrained(folder)
    with pytest.raises(
        RagLabError, match=r"it is a language model .LlamaForCausalLM.; make it the experiment's writer"
    ):
        CrossEncoderReranker(str(folder))


def test_a_sentence_encoder_is_refused(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    base = make(tmp_path / "base", "BertModel")
    SentenceTransformer(modules=[modules.Transformer(str(base)), modules.Pooling(16)]).save(str(tmp_path / "sentence"))
    with pytest.raises(RagLabError, match="without a head that scores pairs"):
        CrossEncoderReranker(str(tmp_path / "sentence"))


@pytest.mark.parametrize("name", ["an-organisation/no-such-model", "{empty}"])
def test_what_is_not_there_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(RagLabError, match=r"cannot be loaded .*; name late, listwise, the folder") as caught:
        load_cross_encoder(name.format(empty=tmp_path))
    assert "\n" not in str(caught.value)


def test_a_folder_whose_content_changed_is_another_model(tmp_path: Path) -> None:
    folder = make(tmp_path / "one", "BertForSequenceClassification")
    first = load_cross_encoder(str(folder))
    assert load_cross_encoder(str(folder)) is first
    other = make(tmp_path / "two", "BertForSequenceClassification", activation="torch.nn.modules.linear.Identity")
    for file in other.iterdir():
        file.replace(folder / file.name)
    assert load_cross_encoder(str(folder)).version != first.version
