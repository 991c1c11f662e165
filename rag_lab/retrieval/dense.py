"""Dense retrieval: an index of passage vectors, searched under a filter.

Scores are inner products of the vectors as they were encoded, computed in float64 and rounded to 6 decimals, whatever
the index: an approximate one decides only which rows are looked at. In float64 the order of summation, and with it
batch size and number of threads, moves a score by about 1e-15; so rounding gives the same value every time, and what
ties is ordered by row.

A FAISS index may be older than the vectors: `match_rows` says which row each of its ids is now. Rows that it does not
know are compared exactly beside it, ids that are no row any more are filtered inside the search, and `outdated` says
when that is too much and the index should be built again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, FloatArray, RagLabError, Ranking, batches
from rag_lab.retrieval import ann
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.retrieval.encoders.recipe import same_model

CHANNEL = "dense"
DECIMALS = 6
# With at most this many rows allowed, all of them are compared. Measured with 50,000 vectors of 384 dimensions: 20,000
# rows take about 40 ms a batch; HNSW under a filter that admits 1,000 to 20,000 finds 82 to 96 % of the true 100 best.
EXACT_ROWS = 20_000
# The share of a FAISS index's ids that may be dead, and of the rows that may be unknown to it. Building it again costs
# in proportion to the rows, so each changed row pays for at most six; what is not in the index is searched exactly.
OUTDATED_SHARE = 0.2
ROWS_A_BLOCK = 1 << 16
SCORES_A_BLOCK = 1 << 24
# A single query is compared with as many rows at a time as stay in the processor's cache when they are made float64.
# Measured with 224,000 rows of 384 dimensions, on one thread and on two: 4 to 8 times as fast as 65,536 rows at a time.
# Several queries gain less, or lose where threads wait for one another.
ROWS_IN_CACHE = 1024

VectorArray = npt.NDArray[np.float32]
RowArray = npt.NDArray[np.intp]
TextKeys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IndexCard:
    """What an index holds. `factory` was asked for, `built` was made; `note` says why they differ."""

    encoder: str
    version: str
    dimension: int
    count: int
    factory: str
    built: str
    seed: int
    faiss: str
    note: str = ""


@dataclass(frozen=True, eq=False)
class DenseHits:
    """What a search found, and how: `method` is "exact", or names the index and the queries that were left to exact
    search, which are `exact_queries` many."""

    ranking: Ranking
    method: str
    exact_queries: int


class DenseIndex:
    """Passage vectors ``[n, dimension]``, in the snapshot's order of rows, and a FAISS index unless it is flat.

    row_of: for each id of the FAISS index the row that it is, -1 if none, ``[ids]``; None: ids are rows.
    """

    def __init__(
        self, card: IndexCard, vectors: VectorArray, index: Any = None, row_of: RowArray | None = None
    ) -> None:
        self.card = card
        self.vectors = vectors
        self._index = index
        self._row_of = None
        self._unknown = np.empty(0, dtype=np.intp)
        if index is not None and row_of is not None and not np.array_equal(row_of, np.arange(len(vectors))):
            self._row_of = row_of
            self._unknown = np.setdiff1d(np.arange(len(vectors)), row_of)

    @property
    def note(self) -> str:
        """Why another index was built than asked for, empty where it was not."""
        return self.card.note

    @property
    def exact(self) -> bool:
        """Whether a search compares every permitted row."""
        return self._index is None

    def exactly(self) -> DenseIndex:
        """The same vectors without the approximate index: what its neighbours are measured against."""
        return DenseIndex(self.card, self.vectors)

    @classmethod
    def build(cls, passages: Embeddings, factory: str = "Flat", seed: int = 0) -> DenseIndex:
        """Index `passages` by a FAISS factory string: "Flat" (exact), "HNSW32", "IVF64,PQ48", ...

        A collection that is too small to train the factory gets a smaller one, which `note` tells (`ann.fit_factory`).
        """
        import faiss

        vectors = np.ascontiguousarray(passages.vectors, dtype=np.float32)
        built, note = ann.fit_factory(factory, len(vectors))
        card = IndexCard(
            passages.encoder,
            passages.version,
            passages.dimension,
            len(vectors),
            factory,
            built,
            seed,
            faiss.__version__,
            note,
        )
        return cls(card, vectors, None if built == "Flat" else ann.build(vectors, built, seed))

    def save(self, folder: Path) -> None:
        """Write ``card.json`` and, unless the search is exact, ``index.faiss``; the vectors are kept elsewhere."""
        folder.mkdir(parents=True, exist_ok=True)
        if self._index is not None:
            import faiss

            faiss.write_index(self._index, str(folder / "index.faiss"))
        (folder / "card.json").write_text(json.dumps(asdict(self.card), indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, vectors: VectorArray, row_of: RowArray | None = None) -> DenseIndex:
        """Read what `save` wrote, for these vectors. Raises `RagLabError` when parts are missing or disagree."""
        try:
            given = json.loads((folder / "card.json").read_text(encoding="utf-8"))
            card = IndexCard(**{field.name: given[field.name] for field in fields(IndexCard)})
            index = None
            if card.built != "Flat":
                import faiss

                index = faiss.read_index(str(folder / "index.faiss"))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            why = str(error).strip().splitlines()[-1]
            raise RagLabError(f"{folder}: not a readable dense index ({why}); build it again") from None
        known = len(vectors) if row_of is None else len(row_of)
        if known != card.count or vectors.shape[1:] != (card.dimension,) or (index and index.ntotal != known):
            raise RagLabError(
                f"{folder}: card.json tells of {card.count} vectors of {card.dimension} dimensions, there are {known} "
                f"of {vectors.shape[-1]}; build the index again"
            )
        return cls(card, vectors, index, row_of)

    def search(
        self, queries: Embeddings, depth: int, allowed: BoolArray | None = None, breadth: int | None = None
    ) -> DenseHits:
        """The `depth` best rows for each query, out of those that `allowed` (``[n]``, None means all) admits.

        The filter is applied inside the search. When few rows are allowed (`exact_rows`), or the index is flat, all of
        them are compared; otherwise FAISS proposes rows, and a query that it leaves short, or that lies among forbidden
        rows (`ann.shut_off`), is compared with all.
        `breadth` is efSearch or nprobe, None lets `ann.default_breadth` decide. Raises `RagLabError` when the queries
        come from another model than the passages.
        """
        self._check_model(queries)
        count = len(self.vectors)
        if allowed is not None and allowed.shape != (count,):
            raise RagLabError(f"dense index: a filter over {len(allowed)} rows for an index of {count}")
        permitted = count if allowed is None else int(np.count_nonzero(allowed))
        wanted = min(depth, permitted)
        if wanted <= 0 or not len(queries):
            return _hits(np.empty((len(queries), 0), dtype=np.intp), np.empty((len(queries), 0)), "exact")
        rows = None if allowed is None or permitted == count else np.flatnonzero(allowed)
        breadth = breadth or self._breadth(wanted, permitted / count)
        if self._index is None or (rows is not None and permitted <= exact_rows(self._index, breadth)):
            return _hits(*exact_search(queries.vectors, self.vectors, wanted, rows), "exact")
        found, scores, short = self._proposed(queries.vectors, wanted, None if rows is None else allowed, breadth)
        found[short], scores[short] = exact_search(queries.vectors[short], self.vectors, wanted, rows)
        left = int(np.count_nonzero(short))
        return _hits(found, scores, f"{self.card.built}, {left} queries exact", left)

    def usual_breadth(self, depth: int) -> int:
        """The breadth of a search for `depth` rows without a filter, 0 where every row is compared."""
        return self._breadth(min(depth, len(self.vectors)), 1.0)

    def _breadth(self, depth: int, share: float) -> int:
        """How widely the FAISS index is searched by default when a share of the rows is permitted; 0 without one."""
        if self._index is None:
            return 0
        alive = 1.0 if self._row_of is None else float(np.mean(self._row_of >= 0))
        return ann.default_breadth(self._index, depth, share * alive, filtered=share < 1)

    def _proposed(
        self, queries: VectorArray, wanted: int, allowed: BoolArray | None, breadth: int
    ) -> tuple[RowArray, FloatArray, npt.NDArray[np.bool_]]:
        """The best rows among those that FAISS proposes and those it does not know, their scores, and which queries it
        left short."""
        unknown = self._unknown if allowed is None else self._unknown[allowed[self._unknown]]
        permitted = allowed
        if self._row_of is not None:
            permitted = self._row_of >= 0
            if allowed is not None:
                permitted &= allowed[self._row_of]
        room = self.card.count if permitted is None else int(np.count_nonzero(permitted))
        proposed = np.empty((len(queries), 0), dtype=np.int64)
        if room:
            proposed = ann.search(self._index, queries, min(wanted, room), permitted, breadth)
        short: npt.NDArray[np.bool_] = np.any(proposed < 0, axis=1)
        if allowed is not None and permitted is not None:
            short |= ann.shut_off(self._index, queries, wanted, permitted)
        proposed[short] = 0
        found = proposed if self._row_of is None else self._row_of[proposed]
        found.sort(axis=1)
        scores = exact_scores(queries, self.vectors, found)
        if len(unknown):
            more, their_scores = exact_search(queries, self.vectors, wanted, unknown)
            found, scores = np.hstack([found, more]), np.hstack([scores, their_scores])
            order = np.argsort(found, axis=1)
            found, scores = np.take_along_axis(found, order, axis=1), np.take_along_axis(scores, order, axis=1)
        return *ordered(found, scores, wanted), short

    def _check_model(self, queries: Embeddings) -> None:
        card = self.card
        if (
            queries.encoder == card.encoder
            and same_model(queries.version, card.version)
            and queries.dimension == card.dimension
        ):
            return
        raise RagLabError(
            f"dense index: its passages were encoded by {card.encoder} (version {card.version}, {card.dimension} "
            f"dimensions), the queries by {queries.encoder} (version {queries.version}, {queries.dimension} "
            f"dimensions); encode the queries with {card.encoder}, or build the index with {queries.encoder}"
        )


def exact_rows(index: Any, breadth: int) -> int:
    """With at most so many permitted rows a filtered search compares all: that takes no longer, and misses none.

    So with HNSW32 at depth 100 all are compared up to 62 % of 50,000 rows, and up to 14 % of a million.
    """
    return max(EXACT_ROWS, ann.compared(index, breadth))


def match_rows(ids: TextKeys, rows: TextKeys) -> RowArray:
    """For each id of an index the row that it is now, -1 if none: ``[ids]``. Both are given by text keys ``[n, 2]``.

    Equal texts have equal vectors, so any id of a text may stand for any row of it, but each for one only.
    """
    text = text_numbers(np.concatenate([ids, rows]))
    # A text's first id goes with its first row, its second with its second, and so on.
    mine, theirs = (part * (len(text) + 1) + _occurrence(part) for part in (text[: len(ids)], text[len(ids) :]))
    _, of_id, of_row = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    found = np.full(len(ids), -1, dtype=np.intp)
    found[of_id] = of_row
    return found


def text_numbers(keys: TextKeys) -> RowArray:
    """A number for each text key, equal for equal ones: ``[n]``."""
    order = np.lexsort(keys.T)
    ordered_keys = keys[order]
    numbers = np.empty(len(keys), dtype=np.intp)
    numbers[order] = np.cumsum(np.r_[False, (ordered_keys[1:] != ordered_keys[:-1]).any(axis=1)][: len(keys)])
    return numbers


def outdated(row_of: RowArray, rows: int) -> bool:
    """Whether an index with these rows of its ids should be built again for so many rows."""
    living = int(np.count_nonzero(row_of >= 0))
    return len(row_of) - living > OUTDATED_SHARE * len(row_of) or rows - living > OUTDATED_SHARE * rows


def _occurrence(values: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """How many equal values stand before each."""
    order = np.argsort(values, kind="stable")
    ordered_values = values[order]
    first = np.searchsorted(ordered_values, ordered_values)
    made = np.empty(len(values), dtype=np.intp)
    made[order] = np.arange(len(values)) - first
    return made


def exact_search(
    queries: VectorArray, vectors: VectorArray, depth: int, rows: RowArray | None = None
) -> tuple[RowArray, FloatArray]:
    """The `depth` rows with the highest inner product for each query, best first, and their scores.

    Both are ``[queries, depth]``, narrower if there are not so many rows. `rows`, ascending, are searched; None: all.
    """
    count = len(vectors) if rows is None else len(rows)
    width = min(depth, count)
    best_rows, best_scores = np.empty((len(queries), width), dtype=np.intp), np.empty((len(queries), width))
    for block in batches(len(queries), max(1, SCORES_A_BLOCK // max(1, min(ROWS_A_BLOCK, count)))):
        wide = queries[block].astype(np.float64)
        kept_rows, kept_scores = np.empty((len(wide), 0), dtype=np.intp), np.empty((len(wide), 0))
        for part in batches(count, ROWS_A_BLOCK):
            here = np.arange(part.start, part.stop) if rows is None else rows[part]
            some = vectors[part] if rows is None else vectors[here]
            scores = _inner_products(wide, some).round(DECIMALS)
            position = top_positions(scores, depth)
            kept_rows = np.hstack([kept_rows, here[position]])
            kept_scores = np.hstack([kept_scores, np.take_along_axis(scores, position, axis=1)])
            kept_rows, kept_scores = ordered(kept_rows, kept_scores, depth)
        best_rows[block], best_scores[block] = kept_rows, kept_scores
    return best_rows, best_scores


def _inner_products(wide: FloatArray, vectors: VectorArray) -> FloatArray:
    """Of queries in float64 ``[q, dimension]`` with some vectors, computed in float64: ``[q, n]``."""
    if len(wide) > 1:
        return wide @ vectors.astype(np.float64).T
    scores = np.empty((1, len(vectors)))
    for part in batches(len(vectors), ROWS_IN_CACHE):
        scores[:, part] = wide @ vectors[part].astype(np.float64).T
    return scores


def exact_scores(queries: VectorArray, vectors: VectorArray, rows: RowArray) -> FloatArray:
    """Rounded inner product of each query with each of its `rows`: ``[queries, k]``."""
    scores = np.empty(rows.shape)
    for block in batches(len(queries), max(1, SCORES_A_BLOCK // (4 * max(1, rows.shape[1]) * queries.shape[1]))):
        wide = queries[block].astype(np.float64)
        scores[block] = (vectors[rows[block]].astype(np.float64) @ wide[:, :, None])[:, :, 0].round(DECIMALS)
    return scores


def top_positions(scores: npt.NDArray[np.floating], depth: int) -> RowArray:
    """Columns, ascending, of the `depth` highest values in each row; of equal ones at the edge, the leftmost."""
    size, count = scores.shape
    if depth >= count:
        return np.broadcast_to(np.arange(count), scores.shape)
    edge = np.partition(scores, count - depth, axis=1)[:, count - depth, None]
    above = scores > edge
    level = scores == edge
    room = depth - np.count_nonzero(above, axis=1)
    kept = above | (level & (np.cumsum(level, axis=1) <= room[:, None]))
    return np.nonzero(kept)[1].reshape(size, depth)


def ordered(rows: RowArray, scores: FloatArray, depth: int) -> tuple[RowArray, FloatArray]:
    """The `depth` best entries of each query, ``[queries, k]``, best first; equal ones stay in their order."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _hits(rows: RowArray, scores: FloatArray, method: str, exact_queries: int | None = None) -> DenseHits:
    """`rows` and `scores`: ``[queries, k]``, in order. exact_queries: None where all of them are."""
    size, width = rows.shape
    query = np.repeat(np.arange(size, dtype=np.int32), width)
    ranking = Ranking(CHANNEL, size, query, rows.ravel().astype(np.int32), scores.ravel())
    return DenseHits(ranking, method, size if exact_queries is None else exact_queries)
