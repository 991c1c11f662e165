"""Passages: what rows of one document look like in a prompt.

Rows of one document that overlap or touch become one passage, so that no character is sent twice and a sentence that
straddles two chunks is whole again; rows that only touch stay apart where their validity differs, so that what is not
yet in force is not mixed with what is. Such a passage keeps the row and chunk id of its first chunk in source order,
and the narrowest validity of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from operator import attrgetter
from typing import Protocol

import numpy as np

from rag_lab.contracts import IntArray, Passage, Span
from rag_lab.corpus.precedence import precedence


class Chunks(Protocol):
    """Columns of a snapshot's chunks, by row."""

    @property
    def shown(self) -> Sequence[str]: ...
    @property
    def lead(self) -> Sequence[str]: ...
    @property
    def title(self) -> Sequence[str]: ...
    @property
    def document_id(self) -> Sequence[str]: ...
    @property
    def chunk_id(self) -> Sequence[str]: ...
    @property
    def shown_start(self) -> Sequence[int] | IntArray: ...
    @property
    def shown_end(self) -> Sequence[int] | IntArray: ...
    @property
    def content_hash(self) -> Sequence[str]: ...
    @property
    def language(self) -> Sequence[str]: ...
    @property
    def source_uri(self) -> Sequence[str]: ...
    @property
    def source_version(self) -> Sequence[str]: ...
    @property
    def valid_from(self) -> Sequence[datetime | None]: ...
    @property
    def valid_until(self) -> Sequence[datetime | None]: ...
    @property
    def published_at(self) -> Sequence[datetime | None]: ...
    @property
    def status(self) -> Sequence[str]: ...
    @property
    def authority(self) -> Sequence[str]: ...
    @property
    def tenant(self) -> Sequence[str]: ...
    @property
    def source_trust(self) -> Sequence[str]: ...


without_number = attrgetter(*[one.name for one in fields(Passage)][1:])
"""All of a passage but its number, which comes first: ``Passage(number, *without_number(passage))``."""


def renumbered(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """The passages, numbered from 1 in this order."""
    return tuple(
        passage if passage.number == number else Passage(number, *without_number(passage))
        for number, passage in enumerate(passages, 1)
    )


def whole_documents(
    rows: IntArray, chunks: Chunks, time: datetime, texts: Mapping[str, str] | None = None
) -> list[tuple[Passage, ...]]:
    """The documents that some rows belong to, by id, each as the passages that these rows make of it, in source order.

    Rows go together as in `assemble`, and with the documents' `texts` also over white space, which chunkers drop: what
    lies between two rows and is more than that is another row's, so a part that is not among `rows` is left out and
    never bridged. A document that nothing parts is one passage. Passages are numbered from 1 in each document.
    """
    documents: dict[str, list[list[int]]] = {}
    for group in runs(rows.tolist(), chunks, texts):
        documents.setdefault(chunks.document_id[group[0]], []).append(group)
    standing = precedences(np.array([g[0] for groups in documents.values() for g in groups], dtype=np.int32), chunks)
    return [
        tuple(passage_of(number, group, chunks, standing, time, texts) for number, group in enumerate(groups, 1))
        for groups in documents.values()
    ]


def span_of(row: int, chunks: Chunks) -> Span:
    """What a row shows of its document."""
    return int(chunks.shown_start[row]), int(chunks.shown_end[row])


def document_of(row: int, chunks: Chunks) -> tuple[str, str]:
    """Offsets of two chunks can be compared when they are of one version of one document."""
    return chunks.document_id[row], chunks.source_version[row]


def runs(rows: Iterable[int], chunks: Chunks, texts: Mapping[str, str] | None = None) -> list[list[int]]:
    """The rows of each passage, by document and in source order."""
    groups: list[list[int]] = []
    reached = 0
    for row in sorted(rows, key=lambda row: (document_of(row, chunks), span_of(row, chunks))):
        end = span_of(row, chunks)[1]
        if groups and _goes_on(groups[-1], reached, row, chunks, texts):
            groups[-1].append(row)
            reached = max(reached, end)
        else:
            groups.append([row])
            reached = end
    return groups


def _goes_on(
    group: Sequence[int], reached: int, row: int, chunks: Chunks, texts: Mapping[str, str] | None = None
) -> bool:
    """Whether a row goes on with a passage that has `reached` so far: it overlaps it, or touches and is as valid."""
    start = span_of(row, chunks)[0]
    if document_of(group[0], chunks) != document_of(row, chunks):
        return False
    if start > reached and not _gap(row, reached, chunks, texts).isspace():
        return False
    return start < reached or _validity(group, chunks) == _validity([row], chunks)


def _gap(row: int, reached: int, chunks: Chunks, texts: Mapping[str, str] | None) -> str:
    """What stands between a passage that has `reached` so far and a row; empty where the text is not known."""
    return (texts or {}).get(chunks.document_id[row], "")[reached : span_of(row, chunks)[0]]


def _validity(rows: Sequence[int], chunks: Chunks) -> tuple[datetime | None, datetime | None]:
    """When all of the rows are valid."""
    begins = [begin for row in rows if (begin := chunks.valid_from[row]) is not None]
    ends = [end for row in rows if (end := chunks.valid_until[row]) is not None]
    return max(begins, default=None), min(ends, default=None)


def passage_of(
    number: int,
    group: Sequence[int],
    chunks: Chunks,
    precedence: Mapping[int, int],
    time: datetime,
    texts: Mapping[str, str] | None = None,
) -> Passage:
    """One passage from rows, in source order, each of which overlaps or touches what is before it.

    With `texts` white space may lie between them. The lead is that of the first row; it is left out where the passage
    shows it already.
    """
    first = group[0]
    pieces: list[str] = []
    begin = reached = span_of(first, chunks)[0]
    for row in group:
        start, end = span_of(row, chunks)
        if start > reached:
            pieces.append(_gap(row, reached, chunks, texts))
        if end > reached or not pieces:
            pieces.append(chunks.shown[row][max(reached - start, 0) :])
            reached = end
    text = "".join(pieces)
    valid_from, valid_until = _validity(group, chunks)
    return Passage(
        number=number,
        row=first,
        chunk_id=chunks.chunk_id[first],
        document_id=chunks.document_id[first],
        source_version=chunks.source_version[first],
        source_uri=chunks.source_uri[first],
        title=chunks.title[first],
        text=text,
        span=(begin, reached),
        language=chunks.language[first],
        valid_from=valid_from,
        valid_until=valid_until,
        lead="" if chunks.lead[first] in text else chunks.lead[first],
        published_at=chunks.published_at[first],
        precedence=precedence[first],
        coming=valid_from is not None and valid_from > time,
    )


def precedences(rows: IntArray, chunks: Chunks) -> dict[int, int]:
    """The precedence of each row's document, each row once."""
    distinct = np.unique(rows).tolist()
    columns = (chunks.status, chunks.authority, chunks.tenant, chunks.source_trust)
    found = precedence(*([column[row] for row in distinct] for column in columns))
    return dict(zip(distinct, found.tolist(), strict=True))
