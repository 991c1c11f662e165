"""Late-interaction encoders by name."""

from __future__ import annotations

from functools import cache

from rag_lab.retrieval.encoders import EMBEDDED, load_embedded
from rag_lab.retrieval.late.vectors import LateEncoder


def load_late_encoder(name: str) -> LateEncoder:
    """The encoder of that name: "minilm" (English), "multilingual-e5" (Chinese, English and more), or a ColBERT
    checkpoint by folder or hub name, such as ``colbert-ir/colbertv2.0``.

    The embedded ones are loaded once a process. colbert-ai runs code that a checkpoint brings: name those you trust.
    Raises `RagLabError` when nothing of that name can be loaded, or it is no ColBERT checkpoint.
    """
    if name in EMBEDDED:
        return _embedded(name)
    from rag_lab.retrieval.late.checkpoint import CheckpointEncoder

    return CheckpointEncoder(name)


@cache
def _embedded(name: str) -> LateEncoder:
    from rag_lab.retrieval.late.embedded import EmbeddedLateEncoder

    return EmbeddedLateEncoder(load_embedded(name))
