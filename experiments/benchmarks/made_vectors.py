"""How like real vectors are those that are made from them, by recipe?

    python experiments/benchmarks/made_vectors.py [--dataset scifact] [--rows 24000] [--queries 300] [--shares 4 16]

Real passage vectors (windows of 64 tokens, MiniLM) stand against as many that are made from a quarter, or a sixteenth,
of them. Each line has the local dimension around passages and around questions, the mean distance of a passage to its
first and tenth neighbour, and recall@10 of HNSW32 and of IVF128,Flat at three breadths. The recipes are

* the one of `rag_lab.ann.enlarging`, at other widths and with other numbers of neighbours,
* points on the line between a vector and one of its ten nearest (SMOTE; Chawla et al. 2002), and the same with noise of
  0.8 times the distance of the nearest in all directions.

The recipe was chosen by these lines, and by nothing that knows an answer to a question.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import numpy.typing as npt

from rag_lab.ann import enlarging
from rag_lab.ann.definition import AnnStudy
from rag_lab.ann.enlarging import enlarge
from rag_lab.ann.likeness import shapes
from rag_lab.ann.measuring import Task, measure
from rag_lab.ann.vectors import Vectors
from rag_lab.preparation import Preparation
from rag_lab.progress import Progress
from rag_lab.retrieval.dense import exact_search
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.store import Store

WIDTHS = (0.4, 0.6, 0.8, 1.0)
BREADTHS = {"HNSW32": [10, 32, 100], "IVF128,Flat": [2, 8, 16]}
VectorArray = npt.NDArray[np.float32]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="scifact")
    parser.add_argument("--rows", type=int, default=24_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--shares", type=int, nargs="+", default=[4, 16])
    given = parser.parse_args()
    snapshot = {"chunker": {"name": "window", "size": 64}, "encoder": "minilm"}
    study = AnnStudy.read(
        {"dataset": given.dataset, "queries": given.queries, "snapshot": snapshot, "sizes": [2], "indexes": ["Flat"]}
    )
    vectors = Vectors(Preparation(study.experiment(), Store.default(), Progress()), seed=1)
    real = vectors.real[: given.rows]
    print(f"{len(real)} vectors; dimension p/q, distance 1/10, recall@10 of {BREADTHS}")
    show("real", real, vectors.queries)
    for share in given.shares:
        parents = real[: len(real) // share]
        print(f"made from 1/{share}:")
        for neighbours, width in ((32, w) for w in WIDTHS):
            show(
                f"neighbours {neighbours}, width {width}", made(parents, len(real), neighbours, width), vectors.queries
            )
        show("neighbours 10, width 0.8", made(parents, len(real), 10, 0.8), vectors.queries)
        for noise in (0.0, 0.8):
            show(f"on lines, noise {noise}", on_lines(parents, len(real), noise), vectors.queries)


def made(parents: VectorArray, size: int, neighbours: int, width: float) -> VectorArray:
    """Vectors by the recipe of the study, with other constants."""
    with mock.patch.object(enlarging, "NEIGHBOURS", neighbours), mock.patch.object(enlarging, "WIDTH", width):
        return enlarge(parents, size, seed=0)


def on_lines(parents: VectorArray, size: int, noise: float) -> VectorArray:
    """The parents, then points on lines between a parent and one of its ten nearest, with noise around them."""
    draw = np.random.default_rng(0)
    found, scores = exact_search(parents, parents, 11)
    of = np.arange(size - len(parents)) % len(parents)
    other = parents[found[of, draw.integers(1, 11, len(of))]]
    points = parents[of] + draw.random((len(of), 1)) * (other - parents[of])
    nearest = np.sqrt(np.maximum(0, 2 - 2 * scores[of, 1]))[:, None]
    points += noise * nearest * draw.normal(size=points.shape) / np.sqrt(points.shape[1])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return np.vstack([parents, points]).astype(np.float32)


def show(label: str, vectors: VectorArray, queries: Embeddings) -> None:
    """Print the measures of one collection."""
    rows = np.random.default_rng(0).permutation(len(vectors))[:500]
    found = {one.measure: one.value for one in shapes(vectors, queries.vectors, rows, 0)}
    dimensions = "/".join(f"{found[f'local dimension, {kind}']:.1f}" for kind in ("passages", "questions"))
    distances = "/".join(f"{found[f'distance to neighbour {rank}, passages']:.3f}" for rank in (1, 10))
    print(f"{label:28} {dimensions:>10} {distances}  {recalls(vectors, queries)}", flush=True)


def recalls(vectors: VectorArray, queries: Embeddings) -> str:
    """Recall of each index at each breadth."""
    passages = Embeddings(vectors, queries.encoder, queries.version)
    with tempfile.TemporaryDirectory() as work:
        task = Task.of(passages, queries, [10], 1, 0, Path(work))
        cells = [measure(task, factory, breadths, unseen, timed=False) for factory, breadths in BREADTHS.items()]
    return "  ".join(" ".join(f"{np.mean(one.recall['10']):.3f}" for one in cell.searches) for cell in cells)


def unseen(what: str) -> None:
    """Progress that nobody looks at."""


if __name__ == "__main__":
    main()
