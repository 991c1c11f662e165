"""Questions of a dataset as authorised requests, and the rows that hold what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from rag_lab.contracts import IntArray, Principal, Question, RagLabError, Request
from rag_lab.corpus.chunk_table import ChunkTable
from rag_lab.datasets import Dataset
from rag_lab.datasets.times import parse_instant
from rag_lab.definition import Experiment

ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
OPEN_PRINCIPAL = Principal("default", (), "reader")


def requests_of(
    questions: Sequence[Question], dataset: Dataset, definition: Experiment, policy_version: str
) -> list[Request]:
    """A request for each question. Where the dataset states no rights, everybody reads everything at any time.

    Raises `RagLabError` for a question without a time in a dataset with rights, unless the experiment states one.
    """
    return [_request(question, dataset, definition, policy_version) for question in questions]


def _request(question: Question, dataset: Dataset, definition: Experiment, policy_version: str) -> Request:
    is_open = dataset.rights == "open"
    principal = question.principal or (OPEN_PRINCIPAL if is_open else None)
    moment = question.time or _default_time(question.query_id, dataset, definition)
    return Request(
        request_id=question.query_id,
        query=question.text,
        principal=principal,
        tenant=principal.tenant if principal else "",
        time=moment,
        horizon=moment + timedelta(days=definition.coming_days) if definition.coming_days else None,
        policy_version=policy_version,
        language=question.language,
        history=question.history,
    )


def _default_time(query_id: str, dataset: Dataset, definition: Experiment) -> datetime:
    if definition.time is not None:
        moment = parse_instant(definition.time, dataset.zone, "time")
        if moment is not None:
            return moment
    if dataset.rights != "open":
        raise RagLabError(f"question {query_id}: has no time; set 'time' in the experiment file")
    return ANY_TIME


def gold_rows(table: ChunkTable, question: Question) -> IntArray:
    """Rows that overlap the question's gold evidence, ascending."""
    rows: set[int] = set()
    for piece in question.gold:
        within = table.documents.get(piece.document_id, slice(0, 0))
        for row in range(within.start, within.stop):
            if piece.span is None or (table.start[row] < piece.span[1] and piece.span[0] < table.end[row]):
                rows.add(row)
    return np.array(sorted(rows), dtype=np.int32)
