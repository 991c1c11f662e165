"""Context: the evidence that goes into each prompt, under a token budget.

Selection, per question and in order of rank:

1. What counts of a row is the text that it shows: itself, or the parent that it was cut from. A row whose shown text
   (content hash) or whole span is already selected is left out (``"duplicate"``, ``"contained"``).
2. The first `passages` rows that remain are wanted. Rows further down are not looked at. Rows that another one brought
   along do not count: they are wanted with the row that they follow, and left out with it, here and below.
3. If the whole prompt (instructions, question, headers, texts) is over its cap, rows are admitted greedily: a row
   that does not fit is left out (``"budget"``), and a smaller one further down may still fit. The prompt that results
   is counted by the generator, and its lowest ranked row is left out until it fits. Instructions and question are
   never cut, so a context may be empty and, with a very small cap, the bare prompt may still be over it.

What is chosen is shown as passages (`rag_lab.passages`); `Assembly.rows` names all rows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import (
    BoolArray,
    Context,
    Curtailment,
    Generator,
    IntArray,
    Passage,
    RagLabError,
    Ranking,
    Request,
    Span,
)
from rag_lab.passages import Chunks, document_of, passage_of, precedences, runs, span_of

Order: TypeAlias = Literal["rank", "source"]
Dropped: TypeAlias = tuple[int, str]

EMPTY_SCOPE: Dropped = (-1, "scope")
"""Entry of `Context.dropped` that says: the request may read nothing, so there was nothing to rank."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Contexts of a batch, and what the budget did to them.

    rows: the rows whose text is in each context, best first; wanted, granted: prompt tokens of the context without
    and with the cap, ``[n]``.
    """

    contexts: list[Context]
    rows: list[tuple[int, ...]]
    wanted: IntArray
    granted: IntArray

    @property
    def curtailed(self) -> BoolArray:
        """Whether the cap left out a row that was wanted, ``[n]``."""
        return self.granted < self.wanted

    def curtailments(self) -> list[Curtailment | None]:
        """One record for each question whose context was cut, None for the others."""
        facts = zip(self.curtailed, self.wanted, self.granted, strict=True)
        return [
            Curtailment("assembly", "context_tokens", float(wanted), float(granted)) if cut else None
            for cut, wanted, granted in facts
        ]


@dataclass(slots=True)
class _Selection:
    """One question while its rows are being chosen: seen in the ranking, chosen (best first), and left out.

    brought: the rows that another one brought along; texts: see `assemble`.
    """

    time: datetime
    brought: frozenset[int] = frozenset()
    texts: Mapping[str, str] | None = None
    seen: list[int] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    precedence: Mapping[int, int] = field(default_factory=dict)
    passages: tuple[Passage, ...] = ()


def assemble(
    requests: Sequence[Request],
    ranking: Ranking,
    chunks: Chunks,
    generator: Generator,
    caps: npt.ArrayLike,
    output_tokens: npt.ArrayLike,
    passages: int = 10,
    order: Order = "rank",
    empty_scope: npt.ArrayLike | None = None,
    brought: BoolArray | None = None,
    texts: Mapping[str, str] | None = None,
) -> Assembly:
    """Choose, join and order the evidence of every request so that its whole prompt fits.

    Args:
        ranking: candidates, best first; query i belongs to ``requests[i]``.
        caps: tokens of the whole prompt, ``[n]`` or one for all. The generator's window less the answer's room
            (`output_tokens`, ``[n]`` or one for all) caps it too.
        passages: most rows of one context, without those that others brought along.
        order: "rank" puts each passage at the place of its best row; "source" also puts the passages of one
            document together, in source order, at the place of its best row.
        empty_scope: whether a request may read nothing, ``[n]``; recorded as `EMPTY_SCOPE`.
        brought: for each entry of the ranking whether the nearest one above it that is not brought along brings it.
        texts: the documents' texts by id, with which rows are also joined over white space, which chunkers drop.
    """
    if ranking.size != len(requests):
        raise RagLabError(f"assembly: the ranking holds {ranking.size} queries, the batch {len(requests)} requests")
    if passages < 0:
        raise RagLabError(f"assembly: passages must not be negative, got {passages}")
    limit = prompt_limits(len(requests), caps, output_tokens, generator.window)
    along = np.zeros(len(ranking.chunk), dtype=bool) if brought is None else brought
    bounds = ranking.offsets
    selections = [
        _select(request, ranking.chunk[a:b], along[a:b], chunks, passages, texts)
        for request, a, b in zip(requests, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    standing = precedences(np.array([row for s in selections for row in s.seen], dtype=np.int32), chunks)
    for selection in selections:
        selection.precedence = standing
    _join_all(selections, chunks, order)
    wanted = _prompt_tokens(generator, requests, selections)
    granted = wanted.copy()
    over = np.flatnonzero(wanted > limit).tolist()
    if over:
        cut = [selections[i] for i in over]
        granted[over] = _admit(generator, [requests[i] for i in over], cut, limit[over], passages, chunks, order)
    _count_passages(generator, selections)
    nothing = np.broadcast_to(np.asarray(False if empty_scope is None else empty_scope), (len(requests),))
    contexts = [
        Context(request.request_id, s.passages, tuple(s.dropped) + ((EMPTY_SCOPE,) if none else ()), int(tokens))
        for request, s, none, tokens in zip(requests, selections, nothing, granted, strict=True)
    ]
    return Assembly(contexts, [tuple(s.rows) for s in selections], wanted, granted)


def has_empty_scope(context: Context) -> bool:
    """Whether the request of `context` may read nothing at all."""
    return EMPTY_SCOPE in context.dropped


def prompt_limits(
    n: int, caps: npt.ArrayLike, output_tokens: npt.ArrayLike, window: int | None
) -> npt.NDArray[np.int64]:
    """Most tokens of each whole prompt ``[n]``: its cap, and what the answer leaves of the generator's window."""
    limit = np.broadcast_to(np.asarray(caps, dtype=np.int64), (n,))
    if window is None:
        return limit
    return np.minimum(limit, window - np.broadcast_to(np.asarray(output_tokens, dtype=np.int64), (n,)))


def _select(
    request: Request,
    rows: IntArray,
    brought: BoolArray,
    chunks: Chunks,
    passages: int,
    texts: Mapping[str, str] | None,
) -> _Selection:
    """The first `passages` rows that add text, what these brought along, and those left out on the way."""
    chosen = _Chosen(chunks)
    selection = _Selection(request.time, frozenset(rows[brought].tolist()), texts)
    own, left_out = 0, ""
    for row, along in zip(rows.tolist(), brought.tolist(), strict=True):
        if own == passages and not along:
            break
        selection.seen.append(row)
        reason = (left_out if along else "") or chosen.repeats(row)
        left_out = left_out if along else reason
        if reason:
            selection.dropped.append((row, reason))
        else:
            chosen.add(row)
            own += not along
    selection.rows = chosen.rows
    return selection


class _Chosen:
    """Rows chosen so far, with the hashes and spans that they bring."""

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks
        self.rows: list[int] = []
        self._hashes: set[str] = set()
        self._spans: dict[tuple[str, str], list[Span]] = {}

    def repeats(self, row: int) -> str:
        """Why `row` adds no text: ``"duplicate"``, ``"contained"``, or ``""`` when it does."""
        if self.chunks.content_hash[row] in self._hashes:
            return "duplicate"
        spans = self._spans.get(document_of(row, self.chunks), [])
        start, end = span_of(row, self.chunks)
        return "contained" if any(s <= start and end <= e for s, e in spans) else ""

    def share(self, row: int) -> float:
        """Share of the row's characters that are not chosen yet."""
        before = self._spans.get(document_of(row, self.chunks), [])
        start, end = span_of(row, self.chunks)
        new = _length(_union([*before, (start, end)])) - _length(before)
        return new / max(end - start, 1)

    def add(self, row: int) -> None:
        key = document_of(row, self.chunks)
        span = span_of(row, self.chunks)
        self.rows.append(row)
        if self.chunks.content_hash[row]:
            self._hashes.add(self.chunks.content_hash[row])
        self._spans[key] = _union([*self._spans.get(key, []), span])


def _union(spans: Iterable[Span]) -> list[Span]:
    """Disjoint spans, in order, that cover the same characters; spans that touch are one."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _length(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)


def _join_all(selections: Iterable[_Selection], chunks: Chunks, order: Order) -> None:
    for selection in selections:
        selection.passages = _join(selection, chunks, order)


def _join(selection: _Selection, chunks: Chunks, order: Order) -> tuple[Passage, ...]:
    """Passages of the chosen rows (best first), in prompt order and numbered from 1."""
    rows = selection.rows
    rank = {row: position for position, row in enumerate(rows)}
    groups = runs(rows, chunks, selection.texts)
    best = {id(group): min(rank[row] for row in group) for group in groups}
    if order == "rank":
        groups.sort(key=lambda group: best[id(group)])
    else:
        place: dict[tuple[str, str], int] = {}
        for group in groups:
            document = document_of(group[0], chunks)
            place[document] = min(place.get(document, len(rows)), best[id(group)])
        groups.sort(key=lambda group: (place[document_of(group[0], chunks)], span_of(group[0], chunks)))
    return tuple(
        passage_of(number, group, chunks, selection.precedence, selection.time, selection.texts)
        for number, group in enumerate(groups, 1)
    )


def _prompt_tokens(generator: Generator, requests: Sequence[Request], selections: Sequence[_Selection]) -> IntArray:
    if not requests:
        return np.zeros(0, dtype=np.int32)
    return np.asarray(generator.prompt_tokens(requests, [s.passages for s in selections]), dtype=np.int32)


def _admit(
    generator: Generator,
    requests: Sequence[Request],
    selections: Sequence[_Selection],
    limit: npt.NDArray[np.int64],
    passages: int,
    chunks: Chunks,
    order: Order,
) -> IntArray:
    """Cut the selections that are over their limit; their prompt tokens, ``[n]``."""
    bare = np.asarray(generator.prompt_tokens(requests, [()] * len(requests)), dtype=np.int64)
    cost = _row_costs(generator, requests, selections, bare, chunks)
    text_cost = _text_costs(generator, selections, chunks)
    for selection, cap, spent in zip(selections, limit, bare, strict=True):
        _admit_greedily(selection, int(cap - spent), passages, cost, text_cost, chunks)
    _join_all(selections, chunks, order)
    tokens = _prompt_tokens(generator, requests, selections)
    while True:
        over = [i for i in np.flatnonzero(tokens > limit).tolist() if selections[i].rows]
        if not over:
            return tokens
        for i in over:
            selections[i].dropped.append((selections[i].rows.pop(), "budget"))
        _join_all((selections[i] for i in over), chunks, order)
        tokens[over] = _prompt_tokens(generator, [requests[i] for i in over], [selections[i] for i in over])


def _row_costs(
    generator: Generator,
    requests: Sequence[Request],
    selections: Sequence[_Selection],
    bare: npt.NDArray[np.int64],
    chunks: Chunks,
) -> dict[int, int]:
    """What each distinct row adds to a prompt when it is the only passage; every row is counted once."""
    owner: dict[int, int] = {}
    for i, selection in enumerate(selections):
        for row in selection.seen:
            owner.setdefault(row, i)
    if not owner:
        return {}
    alone = [(passage_of(1, (row,), chunks, selections[i].precedence, selections[i].time),) for row, i in owner.items()]
    counted = np.asarray(generator.prompt_tokens([requests[i] for i in owner.values()], alone), dtype=np.int64)
    added = counted - bare[list(owner.values())]
    return dict(zip(owner, added.tolist(), strict=True))


def _text_costs(generator: Generator, selections: Sequence[_Selection], chunks: Chunks) -> dict[int, int]:
    """What each distinct row that was brought along adds to a prompt when it goes on with another: its text alone."""
    rows = list(dict.fromkeys(row for s in selections for row in s.seen if row in s.brought))
    if not rows:
        return {}
    return dict(zip(rows, map(int, generator.count_tokens([chunks.shown[row] for row in rows])), strict=True))


def _admit_greedily(
    selection: _Selection,
    room: int,
    passages: int,
    cost: Mapping[int, int],
    text_cost: Mapping[int, int],
    chunks: Chunks,
) -> None:
    """Keep the rows that fit into `room` tokens, best first; a row that overlaps a kept one pays for its new part.

    A row that only repeats one that did not fit is looked at again.
    """
    chosen = _Chosen(chunks)
    selection.dropped = []
    own, left_out = 0, ""
    for row in selection.seen:
        along = row in selection.brought
        reason = (left_out if along else "") or chosen.repeats(row)
        price = int((text_cost if along else cost)[row] * chosen.share(row))
        if not reason and (price > room or (own == passages and not along)):
            reason = "budget"
        left_out = left_out if along else reason
        if reason:
            selection.dropped.append((row, reason))
        else:
            chosen.add(row)
            room -= price
            own += not along
    selection.rows = chosen.rows


def _count_passages(generator: Generator, selections: Sequence[_Selection]) -> None:
    """Set `Passage.tokens`; every distinct text is counted once."""
    texts = list(dict.fromkeys(p.text for s in selections for p in s.passages))
    if not texts:
        return
    tokens = dict(zip(texts, map(int, generator.count_tokens(texts)), strict=True))
    for selection in selections:
        selection.passages = tuple(replace(p, tokens=tokens[p.text]) for p in selection.passages)
