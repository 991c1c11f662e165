"""How the projections of the embedded late-interaction encoders were made: `python experiments/late_projections.py`.

Every word of the model's vocabulary is read as a text of its own; the projection keeps the `DIMENSIONS` directions in
which their token vectors are longest (the leading eigenvectors of the mean outer product, not centred, because MaxSim
compares inner products). No corpus and no question is looked at. The files go beside the encoders.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import rag_lab
from rag_lab.retrieval.encoders import load_embedded
from rag_lab.retrieval.late.embedded import EmbeddedLateEncoder

DIMENSIONS = 192
WORDS = 30_000
FOLDER = Path(rag_lab.__file__).parent / "retrieval" / "late"


def main() -> None:
    whole = np.eye(384, dtype=np.float32)
    minilm = EmbeddedLateEncoder(load_embedded("minilm"), whole)
    words = [piece for piece in minilm.vocabulary() if not piece.startswith("##")]
    store(minilm.name, minilm.encode_passages(words).vectors)
    e5 = EmbeddedLateEncoder(load_embedded("multilingual-e5"), whole)
    words = [piece.removeprefix("▁") for piece in e5.vocabulary()]
    chosen = np.random.default_rng(0).choice(len(words), WORDS, replace=False)
    store(e5.name, e5.encode_passages([words[i] for i in np.sort(chosen)]).vectors)


def store(name: str, vectors: npt.NDArray[np.floating]) -> None:
    """Fit and write a projection, and say how much of the squared length it keeps."""
    wide = vectors.astype(np.float64)
    values, directions = np.linalg.eigh(wide.T @ wide / len(wide))
    kept = np.ascontiguousarray(directions[:, ::-1][:, :DIMENSIONS])
    np.save(FOLDER / f"{name}_projection.npy", kept.astype(np.float16))
    share = values[::-1][:DIMENSIONS].sum() / values.sum()
    print(f"{name}: {len(wide)} token vectors, {DIMENSIONS} of {len(values)} dimensions keep {share:.1%}")


if __name__ == "__main__":
    main()
