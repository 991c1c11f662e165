"""SPLADE on a tiny random masked language model: weights by the formula, whole numbers, wrong checkpoints."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.sparse import SparseVectors, load_sparse_encoder

WORDS = 18
Make = Callable[..., Path]
TEXTS = ["pump valve", "", "the sensor of a lamp", "pump valve", "红灯 brake", "unheard of", "  \n"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, make_tiny_bert: Make) -> Path:
    return make_tiny_bert(tmp_path_factory.mktemp("splade"))


@pytest.fixture(scope="module")
def encoder(model: Path) -> Any:
    return load_sparse_encoder(str(model))


def as_dicts(vectors: SparseVectors) -> list[dict[int, int]]:
    edges = vectors.offsets.tolist()
    return [
        dict(zip(vectors.terms[a:b].tolist(), vectors.impacts[a:b].tolist(), strict=True)) for a, b in pairwise(edges)
    ]


def test_weights_are_those_of_the_formula(model: Path, encoder: Any) -> None:
    import torch
    from transformers import BertForMaskedLM, BertTokenizerFast

    bert, tokenizer = BertForMaskedLM.from_pretrained(model).eval(), BertTokenizerFast.from_pretrained(model)
    made = as_dicts(encoder.encode_passages(TEXTS))
    for text, found in zip(TEXTS, made, strict=True):
        expected = {}
        if text.strip():
            with torch.no_grad():
                logits = bert(**tokenizer(text, return_tensors="pt")).logits[0].double().numpy()
            weights = np.log(1 + np.maximum(logits, 0)).max(axis=0)
            expected = {term: round(100 * weight) for term, weight in enumerate(weights.tolist()) if weight >= 0.005}
        assert found == expected
    assert made[0] == made[3] != made[2]
    assert made[1] == made[6] == {}
    assert max(made[0].values()) > 50
    assert as_dicts(encoder.encode_queries(TEXTS)) == made
    assert (encoder.vocabulary, encoder.max_tokens) == (WORDS, 12)


def test_the_terms_of_a_text_do_not_depend_on_the_others(encoder: Any) -> None:
    together = as_dicts(encoder.encode_passages(TEXTS))
    assert [as_dicts(encoder.encode_passages([text]))[0] for text in TEXTS] == together
    assert as_dicts(encoder.encode_passages(TEXTS[::-1])) == together[::-1]
    nothing = encoder.encode_passages([])
    assert (len(nothing), nothing.terms.dtype, nothing.impacts.dtype) == (0, np.int32, np.int32)


def test_one_word_in_two_spellings_is_one_text(encoder: Any) -> None:
    wide, narrow = as_dicts(encoder.encode_passages(["ｐｕｍｐ", "pump"]))
    assert wide == narrow


def test_what_is_longer_than_the_model_reads_is_cut(encoder: Any) -> None:
    long, cut = as_dicts(encoder.encode_passages(["pump " * 30, "pump " * 10]))
    assert long == cut


def test_the_version_is_that_of_weights_and_tokenizer(
    model: Path, encoder: Any, tmp_path: Path, make_tiny_bert: Make
) -> None:
    copy = Path(shutil.copytree(model, tmp_path / "copy"))
    assert load_sparse_encoder(str(copy)).version == encoder.version
    assert load_sparse_encoder(str(make_tiny_bert(tmp_path / "other", seed=8))).version != encoder.version
    tokenizer = copy / "tokenizer.json"
    content = json.loads(tokenizer.read_text(encoding="utf-8"))
    content["model"]["vocab"]["kabel"] = content["model"]["vocab"].pop("cable")
    tokenizer.write_text(json.dumps(content), encoding="utf-8")
    assert load_sparse_encoder(str(copy)).version != encoder.version


@pytest.mark.parametrize("kind", ["BertModel", "BertForSequenceClassification"])
def test_a_checkpoint_without_the_head_is_refused(tmp_path: Path, kind: str, make_tiny_bert: Make) -> None:
    folder = make_tiny_bert(tmp_path, kind)
    with pytest.raises(RagLabError, match=r"is no masked language model: it has no cls\.predictions\.") as error:
        load_sparse_encoder(str(folder))
    assert "\n" not in str(error.value)


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path, model: Path, make_tiny_bert: Make) -> None:
    def refused(folder: Path | str) -> str:
        with pytest.raises(RagLabError) as error:
            load_sparse_encoder(str(folder))
        assert "\n" not in str(error.value)
        return str(error.value)

    (tmp_path / "empty").mkdir()
    for name in ("no/such-model", tmp_path / "empty", tmp_path / "nowhere"):
        assert refused(name).startswith(f"sparse encoder '{name}' cannot be loaded (")
    broken = Path(shutil.copytree(model, tmp_path / "broken"))
    (broken / "model.safetensors").write_bytes(b"no tensors")
    assert "cannot be loaded" in refused(broken)
    small = make_tiny_bert(tmp_path / "small")
    tokenizer = json.loads((small / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer["model"]["vocab"]["wombat"] = WORDS
    (small / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    assert f"its tokenizer has {WORDS + 1} words, the model {WORDS}; they are of two models" in refused(small)


def test_weights_that_are_no_numbers_are_refused(model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(model, tmp_path / "copy"))
    tensors = load_file(folder / "model.safetensors")
    tensors["cls.predictions.bias"][3] = float("nan")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(RagLabError, match="weights are NaN or infinity; its parameters are damaged"):
        load_sparse_encoder(str(folder)).encode_passages(["pump"])


def test_parts_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(RagLabError, match="the lengths add up to 3, there are 2 terms and 3 impacts"):
        SparseVectors(np.array([1, 2]), np.array([4, 5]), np.array([1, 1, 1]), "x", "1")
