"""Adaptive retrieval: no, one or several rounds of search, as the question and what was found for it ask for."""

from rag_lab.variants.adaptive.stage import Adaptive

__all__ = ["Adaptive"]
