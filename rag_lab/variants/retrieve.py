"""Stages that draw candidates from the snapshot: Lucene, FAISS, and the gold evidence as an upper bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab.contracts import Ranking
from rag_lab.corpus.chunk_table import ChunkTable
from rag_lab.corpus.rights import Scope
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.variants.stage import LARGEST, Batch, Output, Plan, Stage, State, Step, register

NEIGHBOURS = 10


class Channel(Stage):
    """A stage that draws up to `depth` candidates a question into a channel of its own name."""

    step: ClassVar[Step] = Step.RETRIEVE
    depth: int = Field(1000, ge=1, le=LARGEST, description="candidates a question")

    def inputs(self, state: State) -> list[str]:  # noqa: ARG002 - one interface
        """Nothing but the batch."""
        return []

    def plan(self, state: State) -> Plan:
        """Candidates granted; channels of one variant share the room equally."""
        share = 1 / max(1, state.channels_left)
        return {"depth": state.ledger.grant("candidates", self.depth, share)}

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book the candidates drawn. A channel that ran dry before its cap was not cut by it."""
        ranking = output.payload
        assert isinstance(ranking, Ranking)
        state.channels_left -= 1
        drawn = np.bincount(ranking.query, minlength=ranking.size)
        state.ledger.spend("candidates", drawn)
        capped = drawn >= plan["depth"]
        state.ledger.curtail(self.name, "candidates", np.where(capped, self.depth, plan["depth"]), plan["depth"])
        state.channels[self.name] = ranking
        state.keys[self.name] = state.keys["ranking"] = key


@register
class Bm25(Channel):
    """BM25 on Lucene (Robertson and Zaragoza 2009, with Lucene's variant of the IDF)."""

    name: ClassVar[str] = "bm25"
    k1: float = Field(0.9, ge=0)
    b: float = Field(0.4, ge=0, le=1)

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Search within each caller's scope."""
        batch, scopes = state.batch, state.batch.scopes
        table = batch.snapshot.chunks
        keys = [rights.key for rights in table.classes]
        allowed = [[keys[i] for i in np.flatnonzero(scope.classes).tolist()] for scope in scopes.scopes]
        lists = _documents(scopes.scopes, table)
        found = batch.snapshot.bm25.search(
            [request.query for request in batch.requests],
            plan["depth"],
            None if all(scope.classes.all() for scope in scopes.scopes) else [allowed[of] for of in scopes.of],
            k1=self.k1,
            b=self.b,
            only=[lists[of][0] for of in scopes.of],
            without=[lists[of][1] for of in scopes.of],
        )
        return Output(batch.scopes.check(found.ranking(self.name)), found.ms)


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
class Dense(Channel):
    """Inner product of unit vectors on FAISS. `index` is a FAISS factory string; Flat is exact."""

    name: ClassVar[str] = "dense"
    index: str = "Flat"

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the encoder."""
        return [self.settings(), batch.encoder().version]

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Encode the questions once for all variants, then search within each caller's scope."""
        batch = state.batch
        encoding_ms = batch.query_vectors()[1]
        index = batch.snapshot.dense(self.index)
        ranking, ms = self._search(batch, index, plan["depth"])
        facts: dict[str, npt.NDArray[Any]] = {}
        if not index.exact:
            near = self._search(batch, index.exactly(), np.full(batch.size, NEIGHBOURS))[0]
            facts = {"exact_query": near.query, "exact_chunk": near.chunk, "exact_score": near.score}
        return Output(ranking, encoding_ms + ms, facts)

    def _search(
        self, batch: Batch, index: DenseIndex, depth: npt.NDArray[np.int64]
    ) -> tuple[Ranking, npt.NDArray[np.float64]]:
        """The best rows of each question, and its share of the time in ms."""
        queries = batch.query_vectors()[0]
        ms = np.zeros(batch.size)
        nothing = Ranking.from_scores(self.name, batch.size, [], [], [])
        parts = [(nothing.query, nothing.chunk, nothing.score)]
        for number, scope in enumerate(batch.scopes.scopes):
            members = batch.scopes.members(number)
            started = time.perf_counter()
            mine = Embeddings(queries.vectors[members], queries.encoder, queries.version)
            allowed = None if scope.whole else scope.rows
            found = index.search(mine, int(depth[members].max(initial=0)), allowed).ranking
            ms[members] = (time.perf_counter() - started) * 1000 / max(1, len(members))
            parts.append((members[found.query], found.chunk, found.score))
        query, row, score = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        ranking = Ranking.from_scores(self.name, batch.size, query, row, score)
        return batch.scopes.check(ranking.top(depth)), ms

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book the candidates, and keep the exact neighbours where the index is approximate."""
        super().apply(state, plan, output, key)
        if "exact_query" in output.facts:
            query, chunk, score = (output.facts[f"exact_{name}"] for name in ("query", "chunk", "score"))
            state.exact_neighbours = Ranking.from_scores(self.name, state.batch.size, query, chunk, score)


@register
class Gold(Channel):
    """The gold evidence that the caller may read, in corpus order: what a perfect retriever would hand on."""

    name: ClassVar[str] = "gold"

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the judged rows: equal questions on one snapshot may have been judged anew."""
        return [self.settings(), [rows.tolist() for rows in batch.gold]]

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """No search: the rows are known from the judgments."""
        batch = state.batch
        rows = [gold[batch.scopes.rows(i)[gold]][: plan["depth"][i]] for i, gold in enumerate(batch.gold)]
        query = np.repeat(np.arange(batch.size), [len(r) for r in rows])
        row = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
        ranking = Ranking.from_scores(self.name, batch.size, query, row, np.ones(len(row)))
        return Output(batch.scopes.check(ranking), np.zeros(batch.size))
