"""Rerankers: a closer look at candidates, with one interface. Arrays in, arrays out."""

from __future__ import annotations

from rag_lab.retrieval.rerank.reranker import Pairs, Reranker, Scored, distinct_texts, reranked

__all__ = ["Pairs", "Reranker", "Scored", "distinct_texts", "reranked"]
