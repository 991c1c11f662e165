"""Centroids of token vectors, and the nearest of each.

Spherical k-means: a vector belongs to the centroid with the highest inner product, and a centroid is the mean of its
vectors, scaled to length 1. Centroids lie on the grid of passages, and each block of vectors is computed on one thread,
so the result does not depend on how many threads there are.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import IntArray, batches
from rag_lab.retrieval.encoders.precision import fast_precision
from rag_lab.retrieval.encoders.workers import each_on_one_thread
from rag_lab.retrieval.late.vectors import PASSAGE_GRID, on_grid

ITERATIONS = 4
VECTORS_A_BLOCK = 512

Vectors = npt.NDArray[np.floating]
Centroids = npt.NDArray[np.float32]


def cluster(sample: Vectors, partitions: int, seed: int) -> Centroids:
    """At most `partitions` centroids of `sample`, ``[k, dimension]``: fewer where it has fewer different vectors."""
    generator = np.random.default_rng(seed)
    start = sample[np.sort(generator.choice(len(sample), size=min(partitions, len(sample)), replace=False))]
    centroids = np.unique(start, axis=0).astype(np.float32)
    for _ in range(ITERATIONS):
        codes = nearest(sample, centroids)
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(centroids))
        used = np.flatnonzero(counts)
        first = (np.cumsum(counts) - counts)[used]
        sums = np.add.reduceat(sample[order].astype(np.float32), first, axis=0, dtype=np.float64)
        centroids[used] = _unit(sums)
    return centroids


def nearest(vectors: Vectors, centroids: Centroids) -> IntArray:
    """The centroid with the highest inner product with each vector, ``[n]``."""
    import torch

    dtype = getattr(torch, fast_precision()[0])
    heads = torch.from_numpy(centroids).to(dtype).T

    def work(block: slice) -> IntArray:
        with torch.inference_mode():
            some = torch.from_numpy(np.array(vectors[block])).to(dtype)
            # numpy's argmax is ten times as fast as torch's.
            best: IntArray = (some @ heads).float().numpy().argmax(axis=1).astype(np.int32)
            return best

    codes = np.empty(len(vectors), dtype=np.int32)
    blocks = list(batches(len(vectors), VECTORS_A_BLOCK))
    for block, found in zip(blocks, each_on_one_thread(work, blocks), strict=True):
        codes[block] = found
    return codes


def _unit(sums: npt.NDArray[np.float64]) -> Centroids:
    """Vectors scaled to length 1 and put on the grid; a sum of nothing but zeros stays."""
    length = np.linalg.norm(sums, axis=1, keepdims=True)
    return on_grid((sums / np.where(length > 0, length, 1)).astype(np.float32), PASSAGE_GRID)
