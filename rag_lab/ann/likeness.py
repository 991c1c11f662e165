"""Whether vectors that were made look like real ones to an index: distances, and how many directions there are.

The local intrinsic dimension says how fast neighbours get more with distance, which decides how hard a search is. It is
estimated by maximum likelihood from the distances r_1 <= ... <= r_k of a point's neighbours (Levina and Bickel, NIPS
2004), with the points' inverses averaged (MacKay and Ghahramani, 2005):

    1 / LID = mean over points of  1 / (k - 1) sum_j ln(r_k / r_j)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray
from rag_lab.metrics.stats import Interval, bootstrap_mean, bootstrap_ratio
from rag_lab.retrieval.dense import exact_search

VectorArray = npt.NDArray[np.float32]

NEIGHBOURS = 100
POINTS = 500
RANKS = (1, 10, 100)
SMALLEST = 1e-6


@dataclass(frozen=True, slots=True)
class Shape:
    """One measure with its bootstrap interval over `n` points."""

    measure: str
    value: float
    low: float
    high: float
    n: int


def shapes(vectors: VectorArray, queries: VectorArray, rows: npt.NDArray[np.intp], seed: int) -> list[Shape]:
    """Local intrinsic dimension and distances to neighbours, around `rows` of `vectors` and around `queries`."""
    found = {
        "passages": _neighbour_distances(vectors, vectors[rows], rows),
        "questions": _neighbour_distances(vectors, queries),
    }
    return [shape for kind, distances in found.items() for shape in _measured(kind, distances, seed)]


def _measured(kind: str, distances: FloatArray, seed: int) -> list[Shape]:
    """Measures of distances ``[n, k]``, of points that are of one `kind`."""
    points = [f"{number:06d}" for number in range(len(distances))]
    inverse = inverse_dimension(distances)
    dimension = bootstrap_ratio(np.ones(len(inverse)), inverse, points, seed=seed)
    ranks = [rank for rank in RANKS if rank <= distances.shape[1]]
    mean = bootstrap_mean(distances[:, [rank - 1 for rank in ranks]], points, seed=seed)
    names = [f"local dimension, {kind}", *(f"distance to neighbour {rank}, {kind}" for rank in ranks)]
    return [
        Shape(name, *figures, len(points))
        for name, figures in zip(names, [*_figures(dimension), *_figures(mean)], strict=True)
    ]


def _figures(interval: Interval) -> Iterator[tuple[float, float, float]]:
    """Value, low and high of each column."""
    return zip(interval.value.tolist(), interval.low.tolist(), interval.high.tolist(), strict=True)


def inverse_dimension(distances: FloatArray) -> FloatArray:
    """The inverse of each point's local intrinsic dimension ``[n]``, from its neighbours' distances ``[n, k]``.

    Distances ascend. Neighbours at no distance count as if they were at `SMALLEST`.
    """
    ratios = np.log(np.maximum(distances[:, -1:], SMALLEST) / np.maximum(distances[:, :-1], SMALLEST))
    inverse: FloatArray = ratios.mean(axis=1)
    return inverse


def _neighbour_distances(
    vectors: VectorArray, points: VectorArray, rows: npt.NDArray[np.intp] | None = None
) -> FloatArray:
    """Euclidean distances of each point's nearest vectors, ``[points, k]``; `rows`: which of them the points are.

    The vectors' own lengths are taken, so those of equal length are ordered by distance as by inner product.
    """
    found, scores = exact_search(points, vectors, min(NEIGHBOURS + (rows is not None), len(vectors)))
    lengths = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    own = np.einsum("ij,ij->i", points, points, dtype=np.float64)[:, None]
    distances: FloatArray = np.sqrt(np.maximum(0.0, own + lengths[found] - 2 * scores))
    if rows is None:
        return np.sort(distances, axis=1)
    distances[found == rows[:, None]] = -1.0
    return np.sort(distances, axis=1)[:, 1:]
