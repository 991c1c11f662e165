"""A collection of any size made from real vectors: the real ones first, then vectors drawn around them.

A made vector belongs to a real one, its parent, and is drawn from a normal distribution whose covariance is that of the
parent's nearest neighbours around it (manifold Parzen windows; Vincent and Bengio, NIPS 2003):

    x = parent + WIDTH * sum_j g_j (neighbour_j - parent) / sqrt(NEIGHBOURS),   g_j standard normal

scaled to the parent's length. So it leaves its parent in the directions in which the real collection extends there, and
as far as the real neighbours are. Parents take turns: copy c of parent i is row ``real + c * real + i``, and what is
drawn for it depends on seed, c and i alone. A smaller collection is the beginning of a larger one.

`WIDTH` and `NEIGHBOURS` were chosen by one comparison (``experiments/benchmarks/made_vectors.py``: SciFact in windows
of 64 tokens, MiniLM), with no question's answer in view; `rag_lab.ann.likeness` repeats it in every study. Of 24,000
real vectors, as many made from a quarter of them, and as many on lines between neighbours (SMOTE): local dimension
around passages 11.7, 11.9, 5.8; recall@10 of HNSW32 at efSearch 32 0.968, 0.970, 0.950, of IVF128,Flat at nprobe 8
0.879, 0.860, 0.877. Made from a sixteenth by the recipe and on lines: 10.4, 3.1; 0.952, 0.892; 0.875, 0.897.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag_lab.ann.threads import threads
from rag_lab.contracts import RagLabError, batches
from rag_lab.retrieval import ann

VectorArray = npt.NDArray[np.float32]

RECIPE = "manifold-parzen-1"
NEIGHBOURS = 32
WIDTH = 0.8
PARENTS_A_BLOCK = 512
_STREAM = 3


def enlarge(real: VectorArray, size: int, seed: int) -> VectorArray:
    """`size` vectors: the first of `real` ``[n, dimension]``, and then made ones if there are not so many.

    Equal input gives equal bytes, whatever the number of threads.

    Raises:
        RagLabError: vectors are to be made from fewer than two.
    """
    if size <= len(real):
        return real[:size]
    if len(real) < 2:
        raise RagLabError(f"sizes: {size} vectors cannot be made from {len(real)}; name a dataset with more passages")
    made = np.empty((size, real.shape[1]), dtype=np.float32)
    made[: len(real)] = real
    copies = -(-size // len(real)) - 1
    with threads(1):
        near = _neighbours(real)
        for number, block in enumerate(batches(len(real), PARENTS_A_BLOCK)):
            directions = (real[near[block]] - real[block, None]) * np.float32(WIDTH / np.sqrt(near.shape[1]))
            for copy in range(copies):
                place = made[(copy + 1) * len(real) + block.start :][: block.stop - block.start]
                draw = np.random.default_rng([seed, _STREAM, copy, number])
                place[:] = _drawn_around(real[block], directions, draw)[: len(place)]
    return made


def _drawn_around(parents: VectorArray, directions: VectorArray, draw: np.random.Generator) -> VectorArray:
    """A vector for each parent ``[n, dimension]``, by ``directions [n, neighbours, dimension]``, as long as it is."""
    weights = draw.standard_normal((len(parents), 1, directions.shape[1]), dtype=np.float32)
    drawn: VectorArray = parents + (weights @ directions)[:, 0]
    lengths, found = (np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (parents, drawn))
    drawn *= np.divide(lengths, found, out=np.ones_like(found), where=found > 0)
    return drawn


def _neighbours(real: VectorArray) -> npt.NDArray[np.int64]:
    """Rows of the nearest neighbours of each vector, itself left out: ``[n, at most NEIGHBOURS]``."""
    width = min(NEIGHBOURS, len(real) - 1)
    found = ann.search(ann.build(real, "Flat", 0), real, width + 1, None, breadth=1)
    itself = found == np.arange(len(real))[:, None]
    # A vector that ties with many equal ones may not be among its own neighbours: then the last is left out.
    itself[~itself.any(axis=1), -1] = True
    others: npt.NDArray[np.int64] = found[~itself].reshape(len(real), width)
    return others
