"""The stage that brings along what stands around a found chunk: small chunks are searched, larger parts are shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab.contracts import BoolArray, RagLabError, Ranking
from rag_lab.corpus.chunk_table import ChunkTable
from rag_lab.corpus.rights import Scopes
from rag_lab.variants.fuse import hand_on, shares
from rag_lab.variants.stage import LARGEST, Output, Plan, Stage, State, Step, register

Unit: TypeAlias = Literal["section", "document", "neighbours"]
Rows: TypeAlias = npt.NDArray[np.int64]

BROUGHT = "brought"
"""Name, among the ranks of a ranking, of the rank of the found row that brought an entry along, 0 for found ones."""


@register
class Expand(Stage):
    """Behind each of the first `depth` found chunks put the other chunks of its section, its document or around it.

    A section is a run of chunks of one document under the same heading path; a document without headings is one
    section. `neighbours` are the chunks up to `distance` places before and behind. Only chunks that the caller may read
    are brought along, the nearest first, and each is listed once, at its first place; the assembly then joins what
    touches. What is brought along does not count among the assembly's `passages`: the budget alone limits it.
    """

    name: ClassVar[str] = "expand"
    step: ClassVar[Step] = Step.RANK
    reads_ranking: ClassVar[bool] = True
    to: Unit = "section"
    distance: int | None = Field(None, ge=1, le=LARGEST, description="1 where it says nothing")
    depth: int = Field(10, ge=1, le=LARGEST, description="found chunks a question")

    def check(self, place: str, before: Sequence[Stage]) -> None:  # noqa: ARG002 - one interface
        """A distance is one between neighbours."""
        if self.distance is not None and self.to != "neighbours":
            raise RagLabError(
                f"{place}.{self.name}.distance: belongs to 'to: neighbours'; set that, or remove the distance"
            )

    def inputs(self, state: State) -> list[str]:
        """The ranking."""
        return [state.keys["ranking"]]

    def plan(self, state: State) -> Plan:  # noqa: ARG002 - one interface
        """Nothing that is capped is spent: what is shown of it is the assembly's to count."""
        return {}

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """All questions of the batch together, within each caller's scope."""
        ranking, batch = state.ranking, state.batch
        assert ranking is not None
        started = time.perf_counter()
        first, last = units(batch.snapshot.chunks, self.to, self.distance or 1)
        return Output(expanded(ranking, first, last, batch.scopes, self.depth), shares(started, ranking.size))

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:  # noqa: ARG002 - one interface
        """The longer ranking replaces the one before."""
        hand_on(state, output, key)


def units(chunks: ChunkTable, to: Unit, distance: int) -> tuple[Rows, Rows]:
    """For each row the first row of its unit, and one after the last, ``[rows]``."""
    row = np.arange(len(chunks))
    begins = np.ones(len(chunks), dtype=bool)
    ids = np.asarray(chunks.document_id, dtype=object)
    begins[1:] = ids[1:] != ids[:-1]
    if to == "section":
        paths = [tuple(path) for path in chunks.section_path]
        begins[1:] |= np.fromiter(
            (a != b for a, b in zip(paths[1:], paths, strict=False)), bool, max(len(paths) - 1, 0)
        )
    edges = np.flatnonzero(np.append(begins, True))
    unit = np.cumsum(begins) - 1
    first, last = edges[unit], edges[unit + 1]
    if to == "neighbours":
        first, last = np.maximum(first, row - distance), np.minimum(last, row + distance + 1)
    return first, last


def expanded(ranking: Ranking, first: Rows, last: Rows, scopes: Scopes, depth: int) -> Ranking:
    """The ranking with the rows ``first[r]`` to ``last[r] - 1`` behind each row r of the first `depth` of each query.

    A row that is brought along has the score of the one that brings it, and that one's rank as its rank `BROUGHT`; one
    that several bring, or that was found as well, stands at the first of these places.
    """
    head = np.flatnonzero(ranking.rank <= depth)
    row = ranking.chunk[head].astype(np.int64)
    count = last[row] - first[row]
    bringer = np.repeat(head, count)
    near = np.repeat(first[row], count) + np.arange(len(bringer)) - np.repeat(np.cumsum(count) - count, count)
    kept = _permitted(ranking.query[bringer], near, scopes) & (near != ranking.chunk[bringer])
    bringer, near = bringer[kept], near[kept]

    source = np.concatenate([np.arange(len(ranking.chunk)), bringer])
    chunk = np.concatenate([ranking.chunk.astype(np.int64), near])
    away = chunk - ranking.chunk[source]
    order = np.lexsort((away < 0, np.abs(away), source))
    source, chunk = source[order], chunk[order]
    key = ranking.query[source].astype(np.int64) << 32 | chunk
    once = np.sort(np.unique(key, return_index=True)[1])
    source, chunk, key = source[once], chunk[once], key[once]

    found = ranking.query.astype(np.int64) << 32 | ranking.chunk
    by_key = np.argsort(found)
    place = np.searchsorted(found[by_key], key)
    listed = np.append(found[by_key], -1)[place] == key
    own = np.append(by_key, -1)[place]
    ranks = {name: np.where(listed, np.append(given, 0)[own], 0) for name, given in ranking.ranks.items()}
    brought = np.where(chunk == ranking.chunk[source], 0, ranking.rank[source])
    return Ranking(
        Expand.name,
        ranking.size,
        ranking.query[source],
        chunk.astype(np.int32),
        ranking.score[source],
        {name: given.astype(np.int32) for name, given in {**ranks, BROUGHT: brought}.items()},
    )


def _permitted(query: npt.NDArray[np.int32], rows: Rows, scopes: Scopes) -> BoolArray:
    """Whether each query's caller may read the row, ``[n]``."""
    of, permitted = scopes.of[query], np.zeros(len(rows), dtype=bool)
    for number, scope in enumerate(scopes.scopes):
        mine = of == number
        permitted[mine] = scope.rows[rows[mine]]
    return permitted
