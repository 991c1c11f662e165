"""SPLADE (Formal et al., arXiv 2109.10086): the weight of a word of the vocabulary for a text is

    max over the text's tokens of log(1 + relu(logit))

with the logits of a masked language model. Any model of transformers that has such a head, by hub name or folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import IntArray, RagLabError
from rag_lab.retrieval.encoders.recipe import Recipe, bytes_digest, state_bytes
from rag_lab.retrieval.encoders.sentence import quiet_loading
from rag_lab.retrieval.encoders.texts import distinct
from rag_lab.retrieval.encoders.workers import each_on_one_thread
from rag_lab.retrieval.late.vectors import ranges
from rag_lab.retrieval.sparse.vectors import QUANTA, SparseVectors

MAX_TOKENS = 512


class SpladeEncoder:
    """Queries and passages in float32, each text alone and on one thread: its terms do not depend on the others."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._model, self._tokenizer = _load(name)
        positions = getattr(self._model.config, "max_position_embeddings", MAX_TOKENS)
        # RoBERTa numbers its positions from the id of the padding on.
        offset = self._model.config.pad_token_id + 1 if self._model.config.model_type == "roberta" else 0
        self.max_tokens = int(min(positions - offset, self._tokenizer.model_max_length, MAX_TOKENS))
        self.vocabulary = int(self._model.config.vocab_size)
        weights = [*state_bytes(self._model.state_dict()), self._tokenizer.backend_tokenizer.to_str().encode()]
        self.version = Recipe(bytes_digest(weights), f"splade x{QUANTA}", False, self.max_tokens).version

    def encode_queries(self, texts: Sequence[str]) -> SparseVectors:
        """Terms and impacts; a blank text has none."""
        return self._encode(texts)

    def encode_passages(self, texts: Sequence[str]) -> SparseVectors:
        """Terms and impacts; a blank text has none."""
        return self._encode(texts)

    def _encode(self, texts: Sequence[str]) -> SparseVectors:
        different, rows = distinct(texts)
        said = [i for i, text in enumerate(different) if text.strip()]
        found = dict(zip(said, each_on_one_thread(self._weigh, [different[i] for i in said]), strict=True))
        nothing = np.empty(0, dtype=np.int32)
        terms = [found[i][0] if i in found else nothing for i in range(len(different))]
        impacts = [found[i][1] if i in found else nothing for i in range(len(different))]
        lengths = np.array([len(some) for some in terms], dtype=np.int32)
        taken = ranges((np.cumsum(lengths) - lengths)[rows], lengths[rows])
        whole_terms, whole_impacts = np.concatenate([nothing, *terms]), np.concatenate([nothing, *impacts])
        return SparseVectors(lengths[rows], whole_terms[taken], whole_impacts[taken], self.name, self.version)

    def _weigh(self, text: str) -> tuple[IntArray, IntArray]:
        """The terms of one text, ascending, and their impacts."""
        import torch

        given = self._tokenizer(text, truncation=True, max_length=self.max_tokens, return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(**given).logits[0]
            weights: npt.NDArray[np.float32] = torch.log1p(torch.relu(logits.max(dim=0).values)).numpy()
        if not np.isfinite(weights).all():
            raise RagLabError(f"sparse encoder {self.name}: weights are NaN or infinity; its parameters are damaged")
        impacts = np.rint(weights * QUANTA).astype(np.int32)
        terms = np.flatnonzero(impacts).astype(np.int32)
        return terms, impacts[terms]


def _load(name: str) -> tuple[Any, Any]:
    """The model and its tokenizer. Raises `RagLabError` for what has no masked-language-model head, or no tokenizer."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    try:
        with quiet_loading():
            model, about = AutoModelForMaskedLM.from_pretrained(name, output_loading_info=True, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RagLabError(
            f"sparse encoder {name!r} cannot be loaded ({why}); name the folder of a SPLADE model, or one on the hub "
            "that can be reached"
        ) from None
    if about["missing_keys"] or about["mismatched_keys"]:
        missing = min([*about["missing_keys"], *(key for key, *_ in about["mismatched_keys"])])
        raise RagLabError(
            f"sparse encoder {name!r} is no masked language model: it has no {missing}; name a SPLADE model such as "
            "naver/splade-cocondenser-ensembledistil"
        )
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise RagLabError(f"sparse encoder {name!r}: it has no fast tokenizer (tokenizer.json)")
    if len(tokenizer) > model.config.vocab_size:
        raise RagLabError(
            f"sparse encoder {name!r}: its tokenizer has {len(tokenizer)} words, the model {model.config.vocab_size}; "
            "they are of two models"
        )
    return model.eval(), tokenizer
