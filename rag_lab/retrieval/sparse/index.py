"""Impact search on Lucene (Mallia et al., SIGIR 2021): the score of a row is the sum, over the query's terms that it
has, of the query's impact times its own.

The ids of terms are Lucene's terms and impacts are their frequencies, so a score is a whole number. Lucene gives it as
a float32, which is exact below 2^24: with 50 terms in common that is reached when they weigh 5.8 each on both sides.
Rows, rights and ties are those of `row_index`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy.typing as npt

from rag_lab.contracts import RagLabError
from rag_lab.retrieval import lucene
from rag_lab.retrieval.encoders.recipe import same_model
from rag_lab.retrieval.jvm import java_class, lucene_version, serialised
from rag_lab.retrieval.row_index import Analysis, Code, Hits, RowIndex
from rag_lab.retrieval.sparse.vectors import SparseVectors

CHANNEL = "splade"
VERSION = "1"
"""Changes whenever `as_text` or the fields do: an index written under another value is refused."""
ANALYSIS = Analysis(lucene.IMPACT, f"impact-{VERSION}", str)


def index_version() -> str:
    """Identifies how impacts are indexed; two indexes of one version give the same scores."""
    return f"lucene-{lucene_version()}/impact/{VERSION}"


def as_text(vectors: SparseVectors) -> list[str]:
    """Terms and impacts as Lucene's analyser reads them, ``12|345 67|8``."""
    pairs = [
        f"{term}{lucene.DELIMITER}{impact}"
        for term, impact in zip(vectors.terms.tolist(), vectors.impacts.tolist(), strict=True)
    ]
    edges = vectors.offsets.tolist()
    return [" ".join(pairs[start:stop]) for start, stop in pairwise(edges)]


class ImpactIndex(RowIndex):
    """An index of passages' impacts, opened for reading; see `RowIndex`. version: the model that made them."""

    def __init__(self, folder: Path, encoder: str, encoder_version: str) -> None:
        """Open an index.

        Raises:
            RagLabError: there is none, it is damaged, or another version of the analysis wrote it.
        """
        super().__init__(folder)
        self.check(ANALYSIS.version, (ANALYSIS.analyser,))
        self._encoder, self._encoder_version = encoder, encoder_version

    @serialised
    def search(
        self,
        queries: SparseVectors,
        depth: int | npt.NDArray[Any],
        allowed_scopes: Sequence[Sequence[Code]] | None,
        *,
        only: Sequence[Collection[str] | None] | None = None,
        without: Sequence[Collection[str] | None] | None = None,
    ) -> Hits:
        """The best rows of each query, of those in its scope; the other arguments are those of `RowIndex.found`.

        A query without a term, or with an empty scope, finds nothing; a row without a term of the query is not
        returned. Raises `RagLabError` when lengths differ, or the queries come from another model than the passages.
        """
        if not same_model(queries.version, self._encoder_version):
            raise RagLabError(
                f"impact index: its passages were encoded by {self._encoder} (version {self._encoder_version}), the "
                f"queries by {queries.encoder} (version {queries.version}); encode both with one model"
            )
        edges = queries.offsets
        made = [
            partial(lucene.weighted_terms, queries.terms[start:stop], queries.impacts[start:stop])
            for start, stop in pairwise(edges.tolist())
        ]
        similarity = java_class("io.anserini.search.similarity.ImpactSimilarity")()
        return self.found(made, similarity, depth, allowed_scopes, only, without)
