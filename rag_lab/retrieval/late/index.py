"""Late-interaction retrieval: an index of token vectors, searched under a filter.

Scores are exact MaxSim over the stored token vectors, whatever the index (`maxsim`): PLAID decides only which rows are
looked at. As in `dense`, the index may be older than the vectors: rows that it does not know are compared exactly
beside it, and ids that are no row any more are filtered inside the search.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, FloatArray, IntArray, RagLabError, Ranking
from rag_lab.retrieval.encoders.recipe import same_model
from rag_lab.retrieval.late import maxsim
from rag_lab.retrieval.late.vectors import RowArray, TokenVectors
from rag_lab.retrieval.late.weights import document_frequencies, inverse_document_frequency

CHANNEL = "colbert"

Kind = Literal["exact", "plaid"]


@dataclass(frozen=True, slots=True)
class LateCard:
    """What an index holds. `note` says why another kind was built than asked for."""

    encoder: str
    version: str
    dimension: int
    count: int
    tokens: int
    kind: Kind
    built: Kind
    seed: int
    note: str = ""


@dataclass(frozen=True, eq=False)
class LateHits:
    """What a search found, and how: `method` is "exact", or "plaid" with what it looked at."""

    ranking: Ranking
    method: str


class LateIndex:
    """Token vectors of passages in the snapshot's order of rows, and a PLAID index unless the search is exact.

    row_of: for each id of the PLAID index the row that it is, -1 if none, ``[ids]``; None: ids are rows.
    """

    def __init__(self, card: LateCard, passages: TokenVectors, row_of: RowArray | None = None) -> None:
        self.card = card
        self.passages = passages
        self._row_of = row_of

    @property
    def note(self) -> str:
        """Why another index was built than asked for, empty where it was not."""
        return self.card.note

    @property
    def exact(self) -> bool:
        """Whether a search compares every permitted row."""
        return self.card.built == "exact"

    def exactly(self) -> LateIndex:
        """The same vectors without the PLAID index: what its results are measured against."""
        return LateIndex(self.card, self.passages)

    @classmethod
    def build(cls, passages: TokenVectors, kind: Kind = "exact", seed: int = 0) -> LateIndex:
        """Index `passages`. "plaid" is made as "exact" for a collection without any token, which `note` tells.

        Raises `RagLabError` for another kind, and for vectors that hold NaN or infinity.
        """
        if kind not in ("exact", "plaid"):
            raise RagLabError(f"late index: there is no kind {kind!r}; take exact or plaid")
        _check_finite(passages)
        card = LateCard(
            passages.encoder,
            passages.version,
            passages.dimension,
            len(passages),
            len(passages.vectors),
            kind,
            "exact",
            seed,
        )
        return cls(card, passages)

    def save(self, folder: Path) -> None:
        """Write ``card.json`` and, unless the search is exact, the PLAID index. The vectors are kept elsewhere."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "card.json").write_text(json.dumps(asdict(self.card), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, passages: TokenVectors, row_of: RowArray | None = None) -> LateIndex:
        """Read what `save` wrote, for these passages. Raises `RagLabError` when parts are missing or disagree."""
        try:
            given = json.loads((folder / "card.json").read_text(encoding="utf-8"))
            card = LateCard(**{field.name: given[field.name] for field in fields(LateCard)})
        except (OSError, ValueError, KeyError) as error:
            why = str(error).strip().splitlines()[-1]
            raise RagLabError(f"{folder}: not a readable late-interaction index ({why}); build it again") from None
        known = len(passages) if row_of is None else len(row_of)
        if known != card.count or passages.dimension != card.dimension:
            raise RagLabError(
                f"{folder}: card.json tells of {card.count} passages of {card.dimension} dimensions, there are {known} "
                f"of {passages.dimension}; build the index again"
            )
        return cls(card, passages, row_of)

    def search(self, queries: TokenVectors, depth: int, allowed: BoolArray | None = None) -> LateHits:
        """The `depth` best rows for each query, out of those that `allowed` (``[n]``, None means all) admits.

        The filter is applied before anything is scored. A query or passage without a token finds nothing and is not
        found. Raises `RagLabError` when the queries come from another model than the passages.
        """
        self._check_model(queries)
        count = len(self.passages)
        if allowed is not None and allowed.shape != (count,):
            raise RagLabError(f"late index: a filter over {len(allowed)} rows for an index of {count}")
        rows = None if allowed is None else np.flatnonzero(allowed)
        found, scores = maxsim.search(queries, self._weights(queries), self.passages, max(depth, 0), rows)
        return _hits(queries, found, scores, "exact")

    def score(self, queries: TokenVectors, query_index: IntArray, rows: IntArray) -> FloatArray:
        """The score of each pair of a query and a row, as `search` gives it, 0 where one has no token: ``[pairs]``."""
        self._check_model(queries)
        return maxsim.pair_scores(
            queries, self._weights(queries), self.passages, np.asarray(query_index), np.asarray(rows)
        )

    @cached_property
    def _frequencies(self) -> npt.NDArray[np.int64]:
        return document_frequencies(self.passages)

    def _weights(self, queries: TokenVectors) -> npt.NDArray[np.float64]:
        """How much each query token counts, ``[tokens]``."""
        if not queries.weighted:
            return np.ones(len(queries.tokens))
        return inverse_document_frequency(queries.tokens, self._frequencies, len(self.passages))

    def _check_model(self, queries: TokenVectors) -> None:
        card = self.card
        unsaid = not (card.encoder and queries.encoder)
        if queries.dimension == card.dimension and (
            unsaid or (queries.encoder == card.encoder and same_model(queries.version, card.version))
        ):
            return
        raise RagLabError(
            f"late index: its passages were encoded by {card.encoder} (version {card.version}, {card.dimension} "
            f"dimensions), the queries by {queries.encoder} (version {queries.version}, {queries.dimension} "
            f"dimensions); encode the queries with {card.encoder}, or build the index with {queries.encoder}"
        )


def _check_finite(passages: TokenVectors) -> None:
    broken = np.flatnonzero(~np.isfinite(passages.vectors).all(axis=1))
    if len(broken):
        row = int(np.searchsorted(passages.offsets, broken[0], side="right")) - 1
        raise RagLabError(
            f"late index: {len(broken)} token vectors hold NaN or infinity, the first in passage {row}; encode it again"
        )


def _hits(queries: TokenVectors, rows: RowArray, scores: FloatArray, method: str) -> LateHits:
    """`rows` and `scores`: ``[queries, k]``, in order."""
    size, width = rows.shape
    kept = np.repeat(queries.lengths > 0, width)
    query = np.repeat(np.arange(size, dtype=np.int32), width)[kept]
    ranking = Ranking(CHANNEL, size, query, rows.ravel()[kept].astype(np.int32), scores.ravel()[kept])
    return LateHits(ranking, method)
