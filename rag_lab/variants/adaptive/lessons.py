"""What training questions teach: whether one search put all evidence into a context of the usual size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_lab.contracts import BoolArray, GoldSpan, Question, RagLabError, Ranking, Span
from rag_lab.corpus.chunk_table import ChunkTable
from rag_lab.variants.adaptive.course import Course
from rag_lab.variants.learning import Lesson

CONTEXT = 5
"""Passages of such a context."""


def incomplete(lesson: Lesson, courses: Sequence[Course], found: Ranking) -> tuple[list[Course], BoolArray]:
    """The courses whose questions name their evidence, and of which of them one search did not find all, ``[judged]``.

    found: one ranking a text that the questions came with; a question's first one counts.
    """
    questions, table = lesson.dataset.questions, lesson.state.batch.snapshot.chunks
    judged = [course for course in courses if questions[course.question].gold]
    if not judged:
        raise RagLabError("no question names its evidence")
    first = np.searchsorted(lesson.state.queries.of, [course.question for course in judged]).tolist()
    lacking = [
        not _holds(questions[course.question], found.of(place)[:CONTEXT].tolist(), table)
        for course, place in zip(judged, first, strict=True)
    ]
    return judged, np.array(lacking, dtype=bool)


def _holds(question: Question, rows: Sequence[int], table: ChunkTable) -> bool:
    """Whether these rows touch every piece of the evidence, or one where one is enough."""

    def touched(piece: GoldSpan) -> bool:
        within = [row for row in rows if table.document_id[row] == piece.document_id]
        return any(piece.span is None or _overlap(piece.span, table, row) for row in within)

    found = [touched(piece) for piece in question.gold]
    return all(found) if question.evidence == "all" else any(found)


def _overlap(span: Span, table: ChunkTable, row: int) -> bool:
    return bool(table.shown_start[row] < span[1] and span[0] < table.shown_end[row])
