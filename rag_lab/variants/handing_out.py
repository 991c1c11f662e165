"""The gates before and after what the stages do: what enters a stage is in scope, what is handed out is not denied.

`check_output` looks at every output of every stage, computed or read back, before anything else sees it. `hand_out`
looks at a finished state once more, while nobody can deny anything (see `rag_lab.corpus.deny`), because its scopes are
as old as the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from rag_lab.contracts import (
    Abstention,
    Answer,
    BoolArray,
    Candidate,
    Completion,
    Context,
    Failure,
    FloatArray,
    IntArray,
    Outcome,
    Queries,
    RagLabError,
    Ranking,
    Source,
)
from rag_lab.variants.stage import Batch, Output, Reranked, State

STAGE = "hand-out"
CAUSE = "evidence was denied to everybody while the question was being answered; ask it again"


def check_output(stage: str, batch: Batch, output: Output) -> Output:
    """The output, if all that it is made from lies in the scope of its request. Anything else is an error."""
    payload: Ranking | Queries | tuple[Context | Completion, ...] = output.payload
    if isinstance(payload, Ranking):
        batch.scopes.check(payload)
    elif not isinstance(payload, Queries) and not all(_within(batch, i, item) for i, item in enumerate(payload)):
        raise RagLabError(f"{stage}: its output holds text outside the caller's scope; nothing was kept")
    if "exact_query" in output.facts:
        query, chunk, score = (output.facts[f"exact_{name}"] for name in ("query", "chunk", "score"))
        batch.scopes.check(Ranking.from_scores(stage, batch.size, query, chunk, score))
    return output


def _within(batch: Batch, request: int, item: Context | Completion) -> bool:
    rows, chunks = batch.scopes.rows(request), batch.snapshot.chunks
    if isinstance(item, Context):
        used = [passage.row for passage in item.passages] + [row for row, _ in item.dropped if row >= 0]
        return all(0 <= row < len(rows) and rows[row] for row in used)
    for source in _sources(item.outcome):
        within = chunks.documents.get(source.document_id, slice(0, 0))
        if not any(rows[row] and chunks.chunk_id[row] == source.chunk_id for row in range(within.start, within.stop)):
            return False
    return True


def _sources(outcome: Outcome) -> Sequence[Source]:
    if isinstance(outcome, Answer):
        return [source for claim in outcome.claims for source in claim.sources]
    return outcome.sources if isinstance(outcome, Abstention) else ()


@contextmanager
def hand_out(state: State) -> Iterator[State]:
    """The state without what is denied by now. Until the block ends nothing more is denied, so keep it short.

    A hand-out inside another one of the same corpus, also by `candidates`, is an error.
    """
    with state.batch.snapshot.reading() as denied:
        yield withhold(state, denied)


def withhold(state: State, denied: frozenset[str]) -> State:
    """The state in which questions that any of these documents has touched have nothing but a failure."""
    fresh = denied - state.batch.scopes.denied
    if not fresh:
        return state
    chunks = state.batch.snapshot.chunks
    rows = np.zeros(len(chunks), dtype=bool)
    for document_id in fresh:
        rows[chunks.documents.get(document_id, slice(0, 0))] = True
    touched = _touched(state, rows, fresh)
    failures = dict(state.failures)
    for i in np.flatnonzero(touched).tolist():
        failures[i] = Failure(state.batch.requests[i].request_id, STAGE, CAUSE)

    def without(ranking: Ranking) -> Ranking:
        return ranking.top(np.where(touched, 0, len(ranking.query)))

    ids = [request.request_id for request in state.batch.requests]
    return replace(
        state,
        channels={name: without(ranking) for name, ranking in state.channels.items()},
        fused=None if state.fused is None else without(state.fused),
        exact_neighbours=None if state.exact_neighbours is None else without(state.exact_neighbours),
        reranked=None if state.reranked is None else _reranked_without(state.reranked, touched),
        looked_at=None if state.looked_at is None else np.where(touched, 0, state.looked_at),
        contexts=None
        if state.contexts is None
        else tuple(Context(ids[i]) if touched[i] else context for i, context in enumerate(state.contexts)),
        completions=None
        if state.completions is None
        else tuple(
            Completion(failures[i], 0, 0, 0, 0.0) if touched[i] else completion
            for i, completion in enumerate(state.completions)
        ),
        failures=failures,
        events={i: events for i, events in state.events.items() if not touched[i]},
        decided={i: outcome for i, outcome in state.decided.items() if not touched[i]},
        sub_answers={i: claims for i, claims in state.sub_answers.items() if not touched[i]},
        searched={name: _texts_without(queries, touched) for name, queries in state.searched.items()},
    )


def _texts_without(queries: Queries, touched: BoolArray) -> Queries:
    """The queries with empty texts for these questions: a text may have been made from what they found."""
    blank = touched[queries.of]
    texts = tuple("" if gone else text for text, gone in zip(queries.texts, blank, strict=True))
    averaged = tuple("" if gone else text for text, gone in zip(queries.averaged, blank, strict=bool(queries.averaged)))
    return replace(queries, texts=texts, averaged=averaged)


def _reranked_without(reranked: Reranked, touched: BoolArray) -> Reranked:
    kept = ~touched[reranked.before.query]
    before = reranked.before.top(np.where(touched, 0, len(kept)))
    return Reranked(before, reranked.read[kept], reranked.score[kept])


def _touched(state: State, rows: BoolArray, documents: frozenset[str]) -> BoolArray:
    """The questions to which one of these rows or documents has come, ``[size]``."""
    touched = np.zeros(state.batch.size, dtype=bool)
    before = state.reranked.before if state.reranked else None
    for ranking in (*state.channels.values(), before, state.fused, state.exact_neighbours):
        if ranking is not None:
            touched[ranking.query[rows[ranking.chunk]]] = True
    for i, context in enumerate(state.contexts or ()):
        used: IntArray = np.array([passage.row for passage in context.passages] + [row for row, _ in context.dropped])
        touched[i] |= bool(len(used)) and bool(rows[used[used >= 0].astype(int)].any())
    for i, completion in enumerate(state.completions or ()):
        touched[i] |= any(source.document_id in documents for source in _sources(completion.outcome))
    return touched


def candidates(state: State, question: int, depth: int = 10) -> tuple[Candidate, ...]:
    """The best candidates of one question as records, with the rank and score that each channel gave them.

    A fused ranking gives one record for each channel that contributed; its own score is `fused_score`. A candidate that
    a reranker read has its score as well.
    """
    with hand_out(state) as checked:
        return tuple(_candidates(checked, question, depth))


def _found_by(state: State, channel: str, entry: int) -> str:
    """The text by which a channel found an entry of its ranking, "" where the channel is not searched by texts."""
    ranking, queries = state.channels[channel], state.searched.get(channel)
    if queries is None:
        return ""
    if ranking.found_by is not None:
        return queries.texts[int(ranking.found_by[entry])]
    return queries.texts[int(np.searchsorted(queries.of, ranking.query[entry]))]


def _candidates(state: State, question: int, depth: int) -> Iterator[Candidate]:
    ranking = state.ranking
    if ranking is None:
        return
    fused, reranked = _scores_by_row(state, question)
    for row in ranking.of(question)[:depth].tolist():
        for channel, own in state.channels.items():
            mine = np.flatnonzero((own.query == question) & (own.chunk == row))
            if len(mine):
                yield Candidate(
                    chunk=state.batch.snapshot.chunk(row),
                    channel=channel,
                    raw_rank=int(own.rank[mine[0]]),
                    raw_score=float(own.score[mine[0]]),
                    fused_score=fused.get(row),
                    rerank_score=reranked.get(row),
                    snapshot=state.batch.snapshot.id,
                    query=_found_by(state, channel, int(mine[0])),
                )


def _scores_by_row(state: State, question: int) -> tuple[dict[int, float], dict[int, float]]:
    """The scores that a fusion and a reranker gave one question's candidates."""

    def of(ranking: Ranking, score: FloatArray) -> dict[int, float]:
        mine = (ranking.query == question) & np.isfinite(score)
        return dict(zip(ranking.chunk[mine].tolist(), score[mine].tolist(), strict=True))

    seen = state.reranked
    fused = seen.before if seen else state.fused
    return (
        {} if fused is None or fused.channel in state.channels else of(fused, fused.score),
        {} if seen is None else of(seen.before, seen.score),
    )
