"""The projections of the embedded encoders: fewer dimensions, nearly the same inner products.

They are fitted once, on the words of the model's own vocabulary (``experiments/late_projections.py``), and never on a
corpus that is indexed: the token vectors of a text depend on that text alone, so they may be kept, shared between
corpora, and added to an index later.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from rag_lab.retrieval.late.encoding import Projection


def stored_projection(name: str) -> Projection:
    """The projection of an embedded encoder: ``[hidden, dimension]``, with orthonormal columns."""
    with (files("rag_lab.retrieval.late") / f"{name}_projection.npy").open("rb") as file:
        return np.load(file).astype(np.float32)  # type: ignore[no-any-return]
