"""Settings and fixtures that every test shares."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from rag_lab.contracts import IntArray, Span
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, QUERY_GRID, TokenVectors, on_grid
from rag_lab.retrieval.sparse.vectors import SparseVectors

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

REPOSITORY = Path(__file__).parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests come first, the longest before the others, so that no process is left with a long one at the end."""

    def seconds(item: pytest.Item) -> float:
        slow = item.get_closest_marker("slow")
        return float(slow.kwargs.get("seconds", 10)) if slow else 0.0

    items.sort(key=seconds, reverse=True)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The test collections that live beside the project."""
    folder = Path(os.environ.get("RAG_LAB_SHARED", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test collections at {folder}; set RAG_LAB_SHARED")
    return folder


@pytest.fixture(autouse=True)
def private_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that write snapshots and caches never touch the user's; processes of one run share what they made."""
    if "RAG_LAB_TEST_HOME" not in os.environ:
        base = tmp_path_factory.getbasetemp()
        home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "home"
        home.mkdir(exist_ok=True)
        os.environ["RAG_LAB_TEST_HOME"] = str(home)
    monkeypatch.setenv("RAG_LAB_HOME", os.environ["RAG_LAB_TEST_HOME"])


class HashEncoder:
    """Unit vectors from hashed words: deterministic and quick. Input for indexes, not a model under test."""

    name = "hash"
    version = "hash-1"
    dimension = 32
    max_tokens = 512
    languages = frozenset({"en", "zh"})

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._encode(texts)

    def encode_passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._encode(texts)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        return np.array([len(self.token_spans(text)) for text in texts], dtype=np.int32)

    def token_spans(self, text: str) -> list[Span]:
        return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]

    def _encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            for word in text.lower().split():
                key = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
                vectors[i, key % self.dimension] += 1 + key % 7
            vectors[i, 0] += 0.01
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture(scope="session")
def hash_encoder() -> HashEncoder:
    """An encoder for tests that need vectors but not their quality."""
    return HashEncoder()


class HashLateEncoder:
    """A vector for each word, drawn by a hash of it and of the word before: deterministic and quick, no model."""

    name = "hash-late"
    version = "hash-late-1"
    dimension = 16
    languages = frozenset({"en", "zh"})
    max_tokens = 512

    def encode_queries(self, texts: Sequence[str]) -> TokenVectors:
        return self._encode(texts, QUERY_GRID, np.float32)

    def encode_passages(self, texts: Sequence[str]) -> TokenVectors:
        return self._encode(texts, PASSAGE_GRID, np.float16)

    def _encode(self, texts: Sequence[str], grid: int, dtype: npt.DTypeLike) -> TokenVectors:
        words = [re.findall(r"\w+", text.lower()) for text in texts]
        tokens = np.array([self._hash(word) % 30_000 for row in words for word in row], dtype=np.int32)
        drawn = [self._draw(word) + 0.3 * self._draw(before) for row in words for before, word in pairwise(["", *row])]
        vectors = np.array(drawn, dtype=np.float32).reshape(-1, self.dimension)
        vectors = on_grid(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), grid).astype(dtype)
        lengths = np.array([len(row) for row in words], dtype=np.int32)
        return TokenVectors(vectors, lengths, tokens, self.name, self.version)

    def _draw(self, word: str) -> npt.NDArray[np.float64]:
        return np.random.default_rng(self._hash(word)).normal(size=self.dimension)

    def _hash(self, word: str) -> int:
        return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=6).digest(), "big")


@pytest.fixture(scope="session")
def hash_late_encoder() -> HashLateEncoder:
    """A late-interaction encoder for tests that need token vectors but not their quality."""
    return HashLateEncoder()


class HashSparseEncoder:
    """Terms and impacts by a hash of each word, and a weaker term that several words share: quick, no model."""

    name = "hash-sparse"
    version = "hash-sparse-1"
    vocabulary = 1500
    max_tokens = 512

    def encode_queries(self, texts: Sequence[str]) -> SparseVectors:
        return self._encode(texts)

    def encode_passages(self, texts: Sequence[str]) -> SparseVectors:
        return self._encode(texts)

    def _encode(self, texts: Sequence[str]) -> SparseVectors:
        weighed = []
        for text in texts:
            found: dict[int, int] = {}
            for word in re.findall(r"\w+", text.lower()):
                key = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=6).digest(), "big")
                found[key % 1000] = 50 + key % 97
                found[1000 + key % 7] = 5 + key % 3
            weighed.append(sorted(found.items()))
        pairs = np.array([pair for found in weighed for pair in found], dtype=np.int32).reshape(-1, 2)
        lengths = np.array([len(found) for found in weighed], dtype=np.int32)
        return SparseVectors(lengths, pairs[:, 0], pairs[:, 1], self.name, self.version)


@pytest.fixture(scope="session")
def hash_sparse_encoder() -> HashSparseEncoder:
    """A learned sparse encoder for tests that need weighted terms but not their quality."""
    return HashSparseEncoder()


TINY_VOCABULARY = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("pump", "valve", "sensor", "lamp", "wheel", "axle", "brake", "cable", "the", "of", "a", "红", "灯"),
)


@pytest.fixture(scope="session")
def make_tiny_bert() -> Callable[..., Path]:
    """Writes a model of a kind of transformers into a folder: random weights, one layer, a vocabulary of words."""

    def make(folder: Path, kind: str = "BertForMaskedLM", seed: int = 7) -> Path:
        import torch
        import transformers

        torch.manual_seed(seed)
        config = transformers.BertConfig(
            vocab_size=len(TINY_VOCABULARY),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=12,
            initializer_range=1.0,
        )
        getattr(transformers, kind)(config).save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(TINY_VOCABULARY), encoding="utf-8")
        transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
        return folder

    return make
