"""Any sentence-transformers model, by hub name or folder."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from rag_lab.contracts import IntArray, RagLabError, Span
from rag_lab.retrieval.encoders.recipe import Recipe, bytes_digest, state_bytes
from rag_lab.retrieval.encoders.texts import VectorArray, encode_distinct
from rag_lab.retrieval.encoders.tokens import TokenMap

TEXTS_A_BATCH = 32


class SentenceEncoder:
    """A model with its own pooling, prompts and length limit, in float32.

    Prompts are those that the model defines: "query" for queries; "document", "passage" or "corpus" for passages.
    Vectors are scaled to length 1, unless the model declares the dot product as its similarity: then their length
    means something and is kept. `languages` is what the model card says, empty when it says nothing.
    """

    def __init__(self, name: str, batch_size: int = TEXTS_A_BATCH) -> None:
        self.name = name
        self.batch_size = batch_size
        self._model = _load(name)
        self.dimension = int(self._model.get_embedding_dimension())
        limit = self._model.max_seq_length or self._model.tokenizer.model_max_length
        self.max_tokens = int(limit)
        self.languages = _languages(self._model)
        self._normalised = self._model.similarity_fn_name != "dot"
        self.recipe = Recipe(
            bytes_digest(model_bytes(self._model)),
            pooling=json.dumps([str(module) for module in list(self._model)[1:]]),
            normalised=self._normalised,
            max_tokens=self.max_tokens,
            query_prefix=prompt_of(self._model, "query"),
            passage_prefix=prompt_of(self._model, "document", "passage", "corpus"),
        )
        self.version = self.recipe.version

    @cached_property
    def _token_map(self) -> TokenMap:
        backend = getattr(self._model.tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise RagLabError(f"encoder {self.name}: it has no fast tokenizer (tokenizer.json) to locate tokens with")
        return TokenMap(backend)

    def encode_queries(self, texts: Sequence[str]) -> VectorArray:
        """Vectors, ``[n, dimension]``. Each query is encoded alone: its vector does not depend on the others."""

        def encode(distinct: list[str]) -> VectorArray:
            return self._encode(self._model.encode_query, distinct, 1)

        return encode_distinct(texts, encode, self.name, self.dimension)

    def encode_passages(self, texts: Sequence[str]) -> VectorArray:
        """Vectors, ``[n, dimension]``."""

        def encode(distinct: list[str]) -> VectorArray:
            return self._encode(self._model.encode_document, distinct, self.batch_size)

        return encode_distinct(texts, encode, self.name, self.dimension)

    def _encode(self, encode: Callable[..., VectorArray], texts: list[str], batch_size: int) -> VectorArray:
        return encode(texts, batch_size=batch_size, normalize_embeddings=self._normalised, show_progress_bar=False)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text without special tokens, ``[n]``."""
        return self._token_map.count(texts)

    def token_spans(self, text: str) -> list[Span]:
        """Code-point span of each token of a text, in order."""
        return self._token_map.spans(text)


def _load(name: str) -> Any:
    from sentence_transformers import SentenceTransformer

    try:
        with quiet_loading():
            return SentenceTransformer(name)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RagLabError(
            f"encoder {name!r} cannot be loaded ({why}); name minilm, multilingual-e5, the folder of a "
            "sentence-transformers model, or one on the hub that can be reached"
        ) from None


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Nothing of the libraries' warnings (attempts to reach the hub, missing weights): the error says it once."""
    loggers = [logging.getLogger(name) for name in ("huggingface_hub", "transformers")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def prompt_of(model: Any, *keys: str) -> str:
    """The prompt that sentence-transformers takes: the first of `keys` that the model defines, else its default."""
    prompts: dict[str, str] = model.prompts
    return next((prompts[key] for key in keys if key in prompts), prompts.get(model.default_prompt_name or "", ""))


def model_bytes(model: Any) -> Iterator[bytes]:
    """The bytes of all parameters as loaded, then of the tokenizer."""
    yield from state_bytes(model.state_dict())
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    yield (backend.to_str() if backend else json.dumps(model.tokenizer.get_vocab(), sort_keys=True)).encode()


def _languages(model: Any) -> frozenset[str]:
    stated = model.model_card_data.language or []
    return frozenset([stated] if isinstance(stated, str) else stated)
