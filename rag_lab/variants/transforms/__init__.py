"""Stages that change what is searched by: chat-aware rewriting, RAG-Fusion, HyDE, step-back, parts, translation."""

from rag_lab.variants.transforms.decompose import Decompose
from rag_lab.variants.transforms.hyde import Hyde
from rag_lab.variants.transforms.multi_query import MultiQuery
from rag_lab.variants.transforms.rewrite import Rewrite
from rag_lab.variants.transforms.step_back import StepBack
from rag_lab.variants.transforms.transform import OWN, asked_of
from rag_lab.variants.transforms.translate import Translate

__all__ = ["OWN", "Decompose", "Hyde", "MultiQuery", "Rewrite", "StepBack", "Translate", "asked_of"]
