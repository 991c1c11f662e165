"""Late interaction (ColBERT: Khattab and Zaharia, SIGIR 2020) over the snapshot's token vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab.contracts import BoolArray, IntArray, Queries, RagLabError, Ranking
from rag_lab.retrieval.late import LateIndex, TokenVectors
from rag_lab.retrieval.late.index import Breadth
from rag_lab.variants.retrieve import Found, VectorChannel, search_by_scope
from rag_lab.variants.stage import LARGEST, Batch, Stage, register


@register
class ColBert(VectorChannel):
    """MaxSim of query and passage tokens. `index`: "exact" compares all permitted passages, "plaid" those that PLAID
    proposes, and "auto" is decided by the size of the snapshot (`snapshot.PLAID_CHUNKS`).

    `cells` and `compared` say how far PLAID looks: the centroids that each query token visits, and the passages that
    are then compared; without them the index decides by the depth and the permitted share.
    """

    name: ClassVar[str] = "colbert"
    checked: ClassVar[int] = 100
    index: Literal["auto", "exact", "plaid"] = "auto"
    cells: int | None = Field(None, ge=1, le=LARGEST)
    compared: int | None = Field(None, ge=1, le=LARGEST)

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """How far to look is said whole, and of an index that does not compare everything."""
        super().check(place, before)
        given = {"cells": self.cells, "compared": self.compared}
        stated = [name for name, value in given.items() if value is not None]
        if len(stated) == 1:
            (missing,) = given.keys() - stated
            raise RagLabError(f"{place}.{self.name}.{stated[0]}: goes with '{missing}'; set both, or neither")
        if stated and self.index == "exact":
            raise RagLabError(f"{place}.{self.name}.{stated[0]}: exact search compares everything; remove it")

    def needs(self) -> frozenset[str]:
        """Token vectors and the index."""
        return frozenset({f"late:{self.index}"})

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the encoder."""
        encoder = batch.late_encoder()
        return [self.settings(), encoder.name, encoder.version]

    def search(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Found:
        """Encode the queries once for all variants, then search within each caller's scope."""
        encoded = batch.token_vectors(queries.texts)
        index = batch.snapshot.late(self.index)
        breadth = Breadth(self.cells, self.compared) if self.cells and self.compared else None
        search = partial(_search, index, encoded.vectors, None if index.exact else breadth)
        ranking, ms = search_by_scope(self.name, batch.scopes.of_queries(queries.of), depth, search)
        return Found(ranking, encoded.ms + ms)

    def nearest(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Ranking | None:
        """What exact MaxSim finds beside PLAID."""
        index = batch.snapshot.late(self.index)
        if index.exact:
            return None
        search = partial(_search, index.exactly(), batch.token_vectors(queries.texts).vectors, None)
        return search_by_scope(self.name, batch.scopes.of_queries(queries.of), depth, search)[0]


def _search(
    index: LateIndex,
    queries: TokenVectors,
    breadth: Breadth | None,
    members: IntArray,
    depth: int,
    allowed: BoolArray | None,
) -> Ranking:
    return index.search(queries.take(members), depth, allowed, breadth).ranking
