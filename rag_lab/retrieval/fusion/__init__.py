"""One ranking out of several over the same snapshot, a file per algorithm."""

from rag_lab.retrieval.fusion.learning import METRIC, Judgments, LearnedWeights, learn_weights
from rag_lab.retrieval.fusion.pool import Pool
from rag_lab.retrieval.fusion.reciprocal_rank import fuse_queries, reciprocal_rank_fusion
from rag_lab.retrieval.fusion.weighted_sum import Normalisation, normalised_scores, weighted_sum

__all__ = [
    "METRIC",
    "Judgments",
    "LearnedWeights",
    "Normalisation",
    "Pool",
    "fuse_queries",
    "learn_weights",
    "normalised_scores",
    "reciprocal_rank_fusion",
    "weighted_sum",
]
