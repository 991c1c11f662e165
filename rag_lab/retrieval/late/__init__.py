"""Late interaction (ColBERT): a vector a token, compared by MaxSim. Arrays in, arrays out."""

from __future__ import annotations

from rag_lab.retrieval.late.encoders import load_late_encoder
from rag_lab.retrieval.late.index import CHANNEL, Breadth, LateCard, LateHits, LateIndex
from rag_lab.retrieval.late.vectors import JointEncoder, LateEncoder, TokenVectors

__all__ = [
    "CHANNEL",
    "Breadth",
    "JointEncoder",
    "LateCard",
    "LateEncoder",
    "LateHits",
    "LateIndex",
    "TokenVectors",
    "load_late_encoder",
]
