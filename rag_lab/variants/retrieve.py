"""Stages that draw candidates from the snapshot: Lucene, FAISS, and the gold evidence as an upper bound."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab.contracts import BoolArray, Event, FloatArray, IntArray, Queries, Ranking
from rag_lab.corpus.chunk_table import ChunkTable
from rag_lab.corpus.rights import Scope, Scopes
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.retrieval.fusion import fuse_queries
from rag_lab.variants.query_encoding import encoded
from rag_lab.variants.stage import LARGEST, Batch, Output, Plan, Stage, State, Step, register

NEIGHBOURS = 10

Search = Callable[[IntArray, int, BoolArray | None], Ranking]
"""The best rows for some queries, by their positions, to a depth, out of those permitted ``[n]`` (None: all)."""


@dataclass(frozen=True, eq=False)
class Found:
    """What a channel found: one ranking a query, and each query's share of the time, ``ms [m]``."""

    ranking: Ranking
    ms: FloatArray


class Channel(Stage):
    """A stage that draws up to `depth` candidates a question into a channel of its own name.

    A question with several queries has its candidates shared equally among them, and their rankings fused by reciprocal
    rank; `found_by` then tells for each candidate the query that ranked it best.
    """

    step: ClassVar[Step] = Step.RETRIEVE
    depth: int = Field(1000, ge=1, le=LARGEST, description="candidates a question")

    @abstractmethod
    def search(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Found:
        """The `depth` ``[m]`` best permitted rows for each query."""

    def inputs(self, state: State) -> list[str]:
        """The queries, where they are not just the questions."""
        return [state.keys[name] for name in ("queries", "skipped") if name in state.keys]

    def plan(self, state: State) -> Plan:
        """Candidates granted; channels of one variant share the room equally."""
        share = 1 / max(1, state.channels_left)
        return {"depth": state.ledger.grant("candidates", np.where(state.skipped, 0, self.depth), share)}

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Search by every query within its caller's scope, then make one ranking a question."""
        queries = state.queries.for_channel(self.name)
        if not queries.texts:
            nothing = Found(Ranking.from_scores(self.name, 0, [], [], []), np.zeros(0))
            return Output(*by_question(nothing, queries, np.zeros(0, dtype=np.int64)))
        depth = shared_depth(plan["depth"], queries)
        ranking, ms, facts = by_question(self.search(state.batch, queries, depth), queries, depth)
        return Output(ranking, ms, facts, credits(self.name, queries, facts))

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book the candidates drawn. A channel whose queries all ran dry before their share was not cut by a cap."""
        ranking = output.payload
        assert isinstance(ranking, Ranking)
        state.channels_left -= 1
        state.ledger.spend("candidates", output.facts["drawn"])
        wanted = np.where(output.facts["full"] & ~state.skipped, self.depth, plan["depth"])
        state.ledger.curtail(self.name, "candidates", wanted, plan["depth"])
        state.channels[self.name] = replace(ranking, found_by=output.facts.get("found_by"))
        state.searched[self.name] = state.queries.for_channel(self.name)
        state.keys[self.name] = state.keys["ranking"] = key


class VectorChannel(Channel):
    """A channel of which the index may be approximate: beside it goes what exact search ranks first.

    checked: for so many questions at most, evenly spread over the batch.
    """

    checked: ClassVar[int] = LARGEST

    @abstractmethod
    def nearest(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Ranking | None:
        """What exact search finds for each query, None where the index itself is exact."""

    def compute(self, state: State, plan: Plan, key: str) -> Output:
        """The search, and beside an approximate index what exact search ranks first for the user's own words.

        A question that is not searched for has no neighbours to find.
        """
        output = super().compute(state, plan, key)
        searched = np.flatnonzero(state.queries.for_channel(self.name).counts)
        some = np.linspace(0, len(searched) - 1, min(len(searched), self.checked)).astype(np.intp)
        own = Queries.of_requests(state.batch.requests)
        own = own.where(np.isin(own.of, searched[some]))
        near = self.nearest(state.batch, own, np.full(len(own.of), NEIGHBOURS)) if len(own.of) else None
        if near is None:
            return output
        facts: dict[str, npt.NDArray[Any]] = {
            "exact_query": own.of[near.query],
            "exact_chunk": near.chunk,
            "exact_score": near.score,
        }
        return replace(output, facts={**output.facts, **facts})

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book the candidates, and keep the exact neighbours where the index is approximate."""
        super().apply(state, plan, output, key)
        if "exact_query" in output.facts:
            query, chunk, score = (output.facts[f"exact_{name}"] for name in ("query", "chunk", "score"))
            state.exact_neighbours = Ranking.from_scores(self.name, state.batch.size, query, chunk, score)


def search_by_scope(
    channel: str, scopes: Scopes, depth: npt.NDArray[np.int64], search: Search
) -> tuple[Ranking, FloatArray]:
    """The `depth` ``[m]`` best permitted rows for each query, and its share of the time in ms, ``[m]``."""
    size = len(depth)
    ms = np.zeros(size)
    nothing = Ranking.from_scores(channel, size, [], [], [])
    parts = [(nothing.query, nothing.chunk, nothing.score)]
    for number, scope in enumerate(scopes.scopes):
        members = scopes.members(number)
        started = time.perf_counter()
        found = search(members, int(depth[members].max(initial=0)), None if scope.whole else scope.rows)
        ms[members] = (time.perf_counter() - started) * 1000 / max(1, len(members))
        parts.append((members[found.query], found.chunk, found.score))
    query, row, score = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return scopes.check(Ranking.from_scores(channel, size, query, row, score).top(depth)), ms


@register
class Bm25(Channel):
    """BM25 on Lucene (Robertson and Zaragoza 2009, with Lucene's variant of the IDF)."""

    name: ClassVar[str] = "bm25"
    k1: float = Field(0.9, ge=0)
    b: float = Field(0.4, ge=0, le=1)

    def needs(self) -> frozenset[str]:
        """The Lucene index."""
        return frozenset({"lucene"})

    def search(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Found:
        """Search within each caller's scope."""
        scopes = batch.scopes.of_queries(queries.of)
        allowed, only, without = lucene_limits(scopes, batch.snapshot.chunks)
        found = batch.snapshot.bm25.search(
            queries.texts, depth, allowed, k1=self.k1, b=self.b, only=only, without=without
        )
        return Found(scopes.check(found.ranking(self.name)), found.ms)


@register
class Splade(Channel):
    """Learned sparse retrieval (SPLADE): the terms that a masked language model weighs, added up by Lucene.

    `model` is a hub name or a folder; the snapshot needs the terms of that model.
    """

    name: ClassVar[str] = "splade"
    model: str = Field(min_length=1)

    def needs(self) -> frozenset[str]:
        """The Lucene index of the model's terms."""
        return frozenset({f"impact:{self.model}"})

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the encoder."""
        return [self.settings(), batch.sparse_encoder(self.model).version]

    def search(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Found:
        """Encode the queries once for all variants, then search within each caller's scope."""
        encoded = batch.sparse_vectors(self.model, queries.texts)
        scopes = batch.scopes.of_queries(queries.of)
        allowed, only, without = lucene_limits(scopes, batch.snapshot.chunks)
        index = batch.snapshot.impact(self.model)
        found = index.search(encoded.vectors, depth, allowed, only=only, without=without)
        return Found(scopes.check(found.ranking(self.name)), encoded.ms + found.ms)


Documents = list[list[str] | None]


def lucene_limits(scopes: Scopes, table: ChunkTable) -> tuple[list[list[str]] | None, Documents, Documents]:
    """What Lucene is told of the scope of each query: its rights classes, None where all see all; the documents that it
    is limited to; and those that it must not see."""
    keys = [rights.key for rights in table.classes]
    allowed = [[keys[i] for i in np.flatnonzero(scope.classes).tolist()] for scope in scopes.scopes]
    lists = _documents(scopes.scopes, table)
    return (
        None if all(scope.classes.all() for scope in scopes.scopes) else [allowed[of] for of in scopes.of],
        [lists[of][0] for of in scopes.of],
        [lists[of][1] for of in scopes.of],
    )


def _documents(scopes: Sequence[Scope], table: ChunkTable) -> list[tuple[list[str] | None, list[str] | None]]:
    """For each scope the documents that it is limited to, or those that it withholds although their rights classes
    permit them, whichever are fewer; None where that says nothing."""
    names = np.array(list(table.documents), dtype=object)
    starts = np.array([rows.start for rows in table.documents.values()], dtype=np.intp)
    lists: list[tuple[list[str] | None, list[str] | None]] = []
    for scope in scopes:
        only = without = None
        if scope.narrowed:
            permitted = scope.classes[table.rights]
            shown, withheld = (
                names[np.logical_or.reduceat(permitted & rows, starts)] for rows in (scope.rows, ~scope.rows)
            )
            only, without = (shown.tolist(), None) if len(shown) < len(withheld) else (None, withheld.tolist())
        lists.append((only, without))
    return lists


@register
class Dense(VectorChannel):
    """Inner product of unit vectors on FAISS. `index` is a FAISS factory string; Flat is exact."""

    name: ClassVar[str] = "dense"
    index: str = "Flat"

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the encoder."""
        return [self.settings(), batch.encoder().version]

    def needs(self) -> frozenset[str]:
        """The FAISS index."""
        return frozenset({f"faiss:{self.index}"})

    def search(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Found:
        """Encode the queries once for all variants, then search within each caller's scope."""
        encoding_ms = encoded(batch, queries).ms
        ranking, ms = self._search(batch, batch.snapshot.dense(self.index), queries, depth)
        return Found(ranking, encoding_ms + ms)

    def nearest(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Ranking | None:
        """What the Flat index finds."""
        index = batch.snapshot.dense(self.index)
        return None if index.exact else self._search(batch, index.exactly(), queries, depth)[0]

    def _search(
        self, batch: Batch, index: DenseIndex, queries: Queries, depth: npt.NDArray[np.int64]
    ) -> tuple[Ranking, npt.NDArray[np.float64]]:
        """The best rows for each query, and its share of the time in ms."""
        vectors = encoded(batch, queries).vectors

        def search(members: IntArray, most: int, allowed: BoolArray | None) -> Ranking:
            mine = Embeddings(vectors.vectors[members], vectors.encoder, vectors.version)
            return index.search(mine, most, allowed).ranking

        return search_by_scope(self.name, batch.scopes.of_queries(queries.of), depth, search)


@register
class Gold(Channel):
    """The gold evidence that the caller may read, in corpus order: what a perfect retriever would hand on."""

    name: ClassVar[str] = "gold"

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the judged rows: equal questions on one snapshot may have been judged anew."""
        return [self.settings(), [rows.tolist() for rows in batch.gold]]

    def search(self, batch: Batch, queries: Queries, depth: npt.NDArray[np.int64]) -> Found:
        """No search: the rows are known from the judgments."""
        rows = [
            batch.gold[of][batch.scopes.rows(of)[batch.gold[of]]][:most]
            for of, most in zip(queries.of.tolist(), depth.tolist(), strict=True)
        ]
        query = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        row = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        ranking = Ranking.from_scores(self.name, len(rows), query, row, np.ones(len(row)))
        return Found(batch.scopes.of_queries(queries.of).check(ranking), np.zeros(len(rows)))


def shared_depth(depth: npt.NDArray[np.int64], queries: Queries) -> npt.NDArray[np.int64]:
    """A question's candidates shared among its queries, the first of them getting what is left over, ``[m]``."""
    counts = queries.counts
    first = np.cumsum(counts) - counts
    place = np.arange(len(queries.of)) - first[queries.of]
    each, over = np.divmod(depth[queries.of], counts[queries.of])
    return np.asarray(each + (place < over), dtype=np.int64)


def credits(channel: str, queries: Queries, facts: Mapping[str, npt.NDArray[Any]]) -> dict[int, tuple[Event, ...]]:
    """For each query of a question that has several: how many of the candidates it ranked best."""
    if "found_by" not in facts:
        return {}
    best = np.bincount(facts["found_by"], minlength=len(queries.of)).tolist()
    said: dict[int, list[Event]] = {}
    for i in np.flatnonzero(queries.counts[queries.of] > 1).tolist():
        said.setdefault(int(queries.of[i]), []).append(Event(channel, "found", queries.texts[i], float(best[i])))
    return {question: tuple(events) for question, events in said.items()}


def by_question(
    found: Found, queries: Queries, depth: npt.NDArray[np.int64]
) -> tuple[Ranking, npt.NDArray[np.float64], dict[str, npt.NDArray[Any]]]:
    """One ranking a question from one a query that was searched to a `depth` ``[m]``, the times added up, and facts.

    These are `drawn` ``[size]``, `full` ``[size]``, whether some query found as much as it was allowed to, and, where a
    question has several queries, `found_by`: for each candidate the position of the query that ranked it best.
    """
    ranking, size = found.ranking, queries.size
    ms = np.bincount(queries.of, found.ms, minlength=size).astype(np.float64)
    drawn = np.bincount(ranking.query, minlength=len(queries.of))
    facts: dict[str, npt.NDArray[Any]] = {
        "drawn": np.bincount(queries.of, drawn, minlength=size).astype(np.int64),
        "full": np.bincount(queries.of, drawn >= depth, minlength=size) > 0,
    }
    if (queries.counts <= 1).all():
        moved = replace(ranking, size=size, query=queries.of[ranking.query].astype(np.int32))
        return moved, ms, facts
    fused, facts["found_by"] = fuse_queries(ranking, queries)
    return fused, ms, facts
