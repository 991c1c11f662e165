"""Late-interaction retrieval: an index of token vectors, searched under a filter.

Scores are exact MaxSim over the stored token vectors, whatever the index (`maxsim`): PLAID decides only which rows are
looked at. As in `dense`, the index may be older than the vectors: rows that it does not know are compared exactly
beside it, and ids that are no row any more are filtered inside the search.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, FloatArray, IntArray, RagLabError, Ranking, batches
from rag_lab.retrieval.encoders.recipe import same_model
from rag_lab.retrieval.late import colbert_format, maxsim
from rag_lab.retrieval.late.plaid import Plaid
from rag_lab.retrieval.late.residuals import bits_for
from rag_lab.retrieval.late.vectors import RowArray, TokenVectors

CHANNEL = "colbert"
FOLDER = "plaid"
# How many cells a query token visits, and how many passages are compared exactly: some, and some for each wanted.
# Measured on SciFact (5,183 passages, 1.1 million tokens, 4,096 cells): of the 10 best 99.6 % are among the passages
# that are compared, of the 100 best 97.5 %.
CELLS = 16
PASSAGES = 256
PASSAGES_A_RESULT = 3
# Comparing so many times as many passages takes no longer when it is done for all queries together.
TOGETHER = 2
VECTORS_A_BLOCK = 1 << 16

Kind = Literal["exact", "plaid"]


@dataclass(frozen=True, slots=True)
class LateCard:
    """What an index holds. `note` says why another kind was built than asked for."""

    encoder: str
    version: str
    dimension: int
    count: int
    kind: Kind
    built: Kind
    seed: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Breadth:
    """How far PLAID looks: the cells that each query token visits, and the passages that are then compared exactly."""

    cells: int
    passages: int


@dataclass(frozen=True, eq=False)
class LateHits:
    """What a search found, and how: `method` is "exact", or names PLAID and the queries that were searched exactly."""

    ranking: Ranking
    method: str


class LateIndex:
    """Token vectors of passages in the snapshot's order of rows, and a PLAID index unless the search is exact.

    row_of: for each id of the PLAID index the row that it is, -1 if none, ``[ids]``; None: ids are rows.
    """

    def __init__(
        self,
        card: LateCard,
        passages: TokenVectors,
        plaid: Plaid | None = None,
        codes: IntArray | None = None,
        row_of: RowArray | None = None,
    ) -> None:
        self.card = card
        self.passages = passages
        self._plaid = plaid
        self._codes = codes
        self._row_of: RowArray = np.arange(card.count) if row_of is None else row_of

    @property
    def note(self) -> str:
        """Why another index was built than asked for, empty where it was not."""
        return self.card.note

    @property
    def exact(self) -> bool:
        """Whether a search compares every permitted row."""
        return self._plaid is None

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
        note = _why_exact(passages) if kind == "plaid" else ""
        built: Kind = "exact" if note else kind
        card = LateCard(passages.encoder, passages.version, passages.dimension, len(passages), kind, built, seed, note)
        return cls(card, passages, *(Plaid.build(passages, seed) if built == "plaid" else ()))

    def save(self, folder: Path) -> None:
        """Write ``card.json`` and, unless the search is exact, the PLAID index. The vectors are kept elsewhere.

        Only what `build` made can be saved.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if self._plaid is not None:
            if self._codes is None:
                raise RagLabError(f"{folder}: an index that was read is not written again; copy its folder")
            colbert_format.save(self._plaid, self._codes, self.passages, folder / FOLDER)
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
        plaid = colbert_format.load(folder / FOLDER) if card.built == "plaid" else None
        known = len(passages) if row_of is None else len(row_of)
        held = known if plaid is None else plaid.passages
        if known != card.count or held != known or passages.dimension != card.dimension:
            raise RagLabError(
                f"{folder}: card.json tells of {card.count} passages of {card.dimension} dimensions, there are {known} "
                f"of {passages.dimension}; build the index again"
            )
        return cls(card, passages, plaid, row_of=row_of)

    def search(
        self, queries: TokenVectors, depth: int, allowed: BoolArray | None = None, breadth: Breadth | None = None
    ) -> LateHits:
        """The `depth` best rows for each query, out of those that `allowed` (``[n]``, None means all) admits.

        The filter is applied before anything is scored. When few rows are allowed, or there is no PLAID index, all of
        them are compared; otherwise PLAID proposes rows, and a query that it leaves short is compared with all.
        `breadth` says how far it looks, None leaves that to the index. A query or passage without a token finds nothing
        and is not found. Raises `RagLabError` when the queries come from another model than the passages.
        """
        self._check_model(queries)
        count = len(self.passages)
        if allowed is not None and allowed.shape != (count,):
            raise RagLabError(f"late index: a filter over {len(allowed)} rows for an index of {count}")
        permitted = self.passages.lengths > 0 if allowed is None else allowed & (self.passages.lengths > 0)
        rows = np.flatnonzero(permitted)
        wanted = min(depth, len(rows))
        if wanted <= 0 or not len(queries.tokens):
            return LateHits(_ranking(len(queries), [], [], []), "exact")
        fewer = breadth or self._breadth(wanted, len(rows) / count)
        if self._plaid is None or (breadth is None and len(rows) <= TOGETHER * fewer.passages):
            found, scores = maxsim.search(queries, self.passages, wanted, rows)
            asked = np.repeat(np.arange(len(queries)), wanted)
            kept = queries.lengths[asked] > 0
            return LateHits(_ranking(len(queries), asked[kept], found.ravel()[kept], scores.ravel()[kept]), "exact")
        return self._proposed(self._plaid, queries, wanted, permitted, fewer)

    def _proposed(
        self, plaid: Plaid, queries: TokenVectors, wanted: int, permitted: BoolArray, breadth: Breadth
    ) -> LateHits:
        """The best rows among those that PLAID proposes and those that it does not know."""
        known = self._row_of >= 0
        ids = known & permitted[self._row_of]
        unknown = permitted.copy()
        unknown[self._row_of[known]] = False
        strangers = np.flatnonzero(unknown)
        proposals = [self._row_of[some] for some in plaid.propose(queries, breadth.cells, breadth.passages, ids)]
        short = 0
        for query in np.flatnonzero(queries.lengths):
            if len(proposals[query]) + len(strangers) < wanted:
                proposals[query] = self._row_of[ids]
                short += 1
        asked = np.repeat(np.arange(len(queries)), [len(some) for some in proposals])
        found = np.concatenate(proposals)
        scores = maxsim.pair_scores(queries, self.passages, asked, found)
        beside, their_scores = maxsim.search(queries, self.passages, wanted, strangers)
        asked = np.concatenate([asked, np.repeat(np.arange(len(queries)), beside.shape[1])])
        found, scores = np.concatenate([found, beside.ravel()]), np.concatenate([scores, their_scores.ravel()])
        kept = queries.lengths[asked] > 0
        ranking = _ranking(len(queries), asked[kept], found[kept], scores[kept]).top(wanted)
        return LateHits(ranking, f"plaid, {short} queries exact")

    def _breadth(self, wanted: int, share: float) -> Breadth:
        """How far PLAID looks by default when a `share` of the rows is permitted: a filter may leave only far ones."""
        return Breadth(math.ceil(CELLS / share), PASSAGES + PASSAGES_A_RESULT * wanted)

    def score(self, queries: TokenVectors, query_index: IntArray, rows: IntArray) -> FloatArray:
        """The score of each pair of a query and a row, as `search` gives it, 0 where one has no token: ``[pairs]``."""
        self._check_model(queries)
        return maxsim.pair_scores(queries, self.passages, np.asarray(query_index), np.asarray(rows))

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
    broken: list[RowArray] = []
    for block in batches(len(passages.vectors), VECTORS_A_BLOCK):
        finite = np.isfinite(passages.vectors[block])
        if finite.all():
            continue
        broken.append(block.start + np.flatnonzero(~finite.all(axis=1)))
    if broken:
        row = int(np.searchsorted(passages.offsets, broken[0][0], side="right")) - 1
        count = sum(map(len, broken))
        raise RagLabError(
            f"late index: {count} token vectors hold NaN or infinity, the first in passage {row}; encode it again"
        )


def _why_exact(passages: TokenVectors) -> str:
    """Why PLAID cannot be built for these passages, empty where it can."""
    if not len(passages.vectors):
        return "plaid made as exact: there is no token"
    if not bits_for(passages.dimension):
        return (
            f"plaid made as exact: residuals of {passages.dimension} dimensions do not fill whole bytes, those of 8 do"
        )
    return ""


def _ranking(size: int, query: npt.ArrayLike, rows: npt.ArrayLike, scores: npt.ArrayLike) -> Ranking:
    return Ranking.from_scores(CHANNEL, size, query, rows, scores)
