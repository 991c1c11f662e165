"""The documents that each question may read, whole, and what they take of a prompt.

Questions of one scope, one time and one language read the same documents in the same words, so they are one
*readership*: its documents are joined and counted once. A document is counted by the generator, alone in a prompt; all
of them are counted together too, so whether they fit is not left to a sum. Counts are kept in the store with the time
they took, so whoever needs them is charged that time, not whoever came first.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.context import EMPTY_SCOPE, prompt_limits
from rag_lab.contracts import Context, IntArray, Passage, Ranking, Request
from rag_lab.generation.prompts import language
from rag_lab.passages import renumbered, whole_documents
from rag_lab.store import digest
from rag_lab.variants.assembling import counted_by
from rag_lab.variants.stage import Batch, Plan

Ints: TypeAlias = npt.NDArray[np.int64]
NAME = "counts.npz"


@dataclass(frozen=True, eq=False)
class Readership:
    """Questions that read the same documents in the same words. members: their positions, ascending, ``[k]``."""

    batch: Batch
    members: IntArray

    @property
    def first(self) -> Request:
        """One of the requests, which stands for all of them."""
        return self.batch.requests[int(self.members[0])]

    @property
    def requests(self) -> list[Request]:
        """The members' requests, ``[k]``."""
        return [self.batch.requests[i] for i in self.members.tolist()]

    def bare(self) -> Ints:
        """Tokens of each member's prompt without a document, ``[k]``."""
        return self.prompts([()] * len(self.members))

    def prompts(self, contexts: Sequence[Sequence[Passage]]) -> Ints:
        """Tokens of each member's prompt with these passages, ``[k]``."""
        return np.asarray(self.batch.generator.prompt_tokens(self.requests, contexts), dtype=np.int64)

    @cached_property
    def documents(self) -> list[tuple[Passage, ...]]:
        """What may be read of each document, in source order."""
        rows = np.flatnonzero(self.batch.scopes.rows(int(self.members[0]))).astype(np.int32)
        texts = self.batch.texts() if self.batch.texts else None
        return whole_documents(rows, self.batch.snapshot.chunks, self.first.time, texts)


@dataclass(frozen=True, eq=False)
class Counts:
    """Tokens of the documents of each readership.

    documents: what each adds to a prompt when it is alone in it; passages: of each passage's text; whole: what all of
    them add together, ``[readerships]``; ms: what counting took for each question.
    """

    documents: list[Ints]
    passages: list[Ints]
    whole: Ints
    ms: float


def readerships(batch: Batch) -> list[Readership]:
    """The readerships of a batch, in the order of their first questions."""
    members: dict[tuple[object, ...], list[int]] = {}
    for i, request in enumerate(batch.requests):
        members.setdefault((int(batch.scopes.of[i]), request.time, language(request)), []).append(i)
    return [Readership(batch, np.array(found, dtype=np.int32)) for found in members.values()]


def counts(batch: Batch, groups: Sequence[Readership]) -> Counts:
    """Count the documents of every readership, or read what was counted for the same batch and generator before."""
    key = digest(batch.key, "whole documents", counted_by(batch), batch.texts is None)
    kept = batch.kept(key, NAME)
    if kept is None:
        made = _count(batch, groups)
        batch.keep(key, NAME, _dump(made))
        return made
    return _load(kept)


def _count(batch: Batch, groups: Sequence[Readership]) -> Counts:
    started = time.perf_counter()
    counter = _Counter(batch)
    found = [counter.count(group) for group in groups]
    ms = (time.perf_counter() - started) * 1000 / max(1, batch.size)
    return Counts([one[0] for one in found], [one[1] for one in found], _ints(one[2] for one in found), ms)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


class _Counter:
    """Counts each document once for every language, also where several readerships read the same of it."""

    def __init__(self, batch: Batch) -> None:
        self.generator = batch.generator
        self._known: dict[tuple[object, ...], tuple[int, tuple[int, ...]]] = {}

    def count(self, group: Readership) -> tuple[Ints, Ints, int]:
        """Tokens of a readership's documents, of its passages, and of all together."""
        documents, code = group.documents, language(group.first)
        keys = [(code, *((p.row, p.span, p.valid_from, p.valid_until, p.coming) for p in d)) for d in documents]
        new = [i for i, key in enumerate(keys) if key not in self._known]
        everything = renumbered(passage for passages in documents for passage in passages)
        bare, whole = self._prompts(group.first, [(), everything])
        alone = self._prompts(group.first, [documents[i] for i in new]) - bare
        texts = iter(self.generator.count_tokens([p.text for i in new for p in documents[i]]).tolist())
        for i, tokens in zip(new, alone.tolist(), strict=True):
            self._known[keys[i]] = tokens, tuple(next(texts) for _ in documents[i])
        known = [self._known[key] for key in keys]
        of_passages = (tokens for _, several in known for tokens in several)
        return _ints(tokens for tokens, _ in known), _ints(of_passages), int(whole - bare)

    def _prompts(self, request: Request, contexts: Sequence[Sequence[Passage]]) -> Ints:
        return np.asarray(self.generator.prompt_tokens([request] * len(contexts), contexts), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class WholeContexts:
    """Contexts of whole documents, and what the budget did to them, ``[size]`` each.

    wanted, granted: prompt tokens with all documents and with those that it has; readable, held: how many those are.
    """

    contexts: list[Context]
    wanted: Ints
    granted: Ints
    readable: Ints
    held: Ints


def whole_contexts(
    batch: Batch, groups: Sequence[Readership], counted: Counts, plan: Plan, ranking: Ranking | None = None
) -> WholeContexts:
    """Contexts of whole documents for the members of the readerships, other questions having none.

    All documents in source order where that prompt fits. Otherwise documents are taken in order, by the place of the
    best chunk in `ranking` (those that it does not list come after, in source order) or else in source order: one that
    does not fit is left out, and a shorter one further down may still fit. The prompt that results is counted by the
    generator, and its last document is left out until it fits.
    """
    limit = prompt_limits(batch.size, plan["context_tokens"], plan["output_tokens"], batch.generator.window)
    empty = [Context(request.request_id) for request in batch.requests]
    made = WholeContexts(empty, *(np.zeros(batch.size, dtype=np.int64) for _ in range(4)))
    for number, group in enumerate(groups):
        if len(group.members):
            shelf = _Shelf(group, counted.documents[number], counted.passages[number])
            _fill(made, group, shelf, int(counted.whole[number]), limit[group.members], ranking)
    return made


def _fill(
    made: WholeContexts, group: Readership, shelf: _Shelf, whole: int, limit: Ints, ranking: Ranking | None
) -> None:
    """The contexts of one readership."""
    members, bare = group.members, group.bare()
    room = (limit - bare).tolist()
    ranked = [None if ranking is None else ranking.of(i) for i in members.tolist()]
    chosen = [shelf.all if whole <= left else shelf.choose(left, rows) for left, rows in zip(room, ranked, strict=True)]
    passages, granted = _fitted(group, shelf, chosen, limit)
    held = _ints(len(documents) for documents in chosen)
    made.readable[members] = len(shelf.all)
    made.held[members] = held
    made.granted[members] = granted
    made.wanted[members] = np.where(held == len(shelf.all), granted, bare + whole)
    nothing = () if shelf.all else (EMPTY_SCOPE,)
    for i, request, found, tokens in zip(members.tolist(), group.requests, passages, granted.tolist(), strict=True):
        made.contexts[i] = Context(request.request_id, found, nothing, tokens)


def _fitted(
    group: Readership, shelf: _Shelf, chosen: list[tuple[int, ...]], limit: Ints
) -> tuple[list[tuple[Passage, ...]], Ints]:
    """Passages and prompt tokens of each member, its last documents taken from `chosen` until the prompt fits."""
    passages = [shelf.passages(documents) for documents in chosen]
    tokens = group.prompts(passages)
    while over := [i for i in np.flatnonzero(tokens > limit).tolist() if chosen[i]]:
        for i in over:
            chosen[i] = chosen[i][:-1]
            passages[i] = shelf.passages(chosen[i])
        some = replace(group, members=group.members[over])
        tokens[over] = some.prompts([passages[i] for i in over])
    return passages, tokens


class _Shelf:
    """The documents of a readership by their positions, from which contexts are taken; equal ones are one object."""

    def __init__(self, group: Readership, tokens: Ints, of_passages: Ints) -> None:
        self.tokens = tokens
        edges = pairwise(accumulate(map(len, group.documents), initial=0))
        counted = [of_passages[a:b].tolist() for a, b in edges]
        self.documents = [
            tuple(replace(p, tokens=n) for p, n in zip(passages, several, strict=True))
            for passages, several in zip(group.documents, counted, strict=True)
        ]
        self.all = tuple(range(len(self.documents)))
        self._group = group
        self._in_source_order: dict[int, tuple[int, ...]] = {}
        self._passages: dict[tuple[int, ...], tuple[Passage, ...]] = {}

    def choose(self, room: int, rows: IntArray | None) -> tuple[int, ...]:
        """The documents that fit into so many tokens, best first where `rows` ranks them."""
        if rows is not None:
            return _those_that_fit(self.tokens, self._order(rows), room)
        if room not in self._in_source_order:
            self._in_source_order[room] = _those_that_fit(self.tokens, np.arange(len(self.tokens)), room)
        return self._in_source_order[room]

    @cached_property
    def _of_row(self) -> Ints:
        """The position of each row's document, ``[rows]``; -1 where it is not on the shelf."""
        table = self._group.batch.snapshot.chunks
        of_row = np.full(len(table), -1, dtype=np.int64)
        for position, passages in enumerate(self.documents):
            of_row[table.documents[passages[0].document_id]] = position
        return of_row

    def _order(self, rows: IntArray) -> Ints:
        listed = self._of_row[rows]
        first = np.sort(np.unique(listed, return_index=True)[1])
        rest = np.ones(len(self.tokens), dtype=bool)
        rest[listed] = False
        return np.concatenate([listed[first], np.flatnonzero(rest)])

    def passages(self, chosen: tuple[int, ...]) -> tuple[Passage, ...]:
        """The passages of some documents, numbered from 1."""
        if chosen not in self._passages:
            self._passages[chosen] = renumbered(passage for i in chosen for passage in self.documents[i])
        return self._passages[chosen]


def _those_that_fit(tokens: Ints, order: Ints, room: int) -> tuple[int, ...]:
    """The documents that are taken when, in order, each that still fits into the room is."""
    taken: list[Ints] = []
    while len(order):
        spent = np.cumsum(tokens[order])
        count = int(np.searchsorted(spent, room, side="right"))
        taken.append(order[:count])
        room -= int(spent[count - 1]) if count else 0
        order = order[count:]
        order = order[tokens[order] <= room]
    return tuple(np.concatenate([np.zeros(0, dtype=np.int64), *taken]).tolist())


def _dump(made: Counts) -> bytes:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {
        f"{name}{number}": values
        for name, several in (("documents", made.documents), ("passages", made.passages))
        for number, values in enumerate(several)
    }
    np.savez_compressed(buffer, whole=made.whole, ms=np.float64(made.ms), **arrays)
    return buffer.getvalue()


def _load(data: bytes) -> Counts:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        whole = arrays["whole"]
        documents, passages = (
            [arrays[f"{name}{number}"] for number in range(len(whole))] for name in ("documents", "passages")
        )
        return Counts(documents, passages, whole, float(arrays["ms"]))
