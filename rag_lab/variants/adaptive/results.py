"""What courses that have ended come to: one ranking, the queries behind it, sub-answers, and abstentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab import records
from rag_lab.contracts import Abstention, Claim, Ranking, Reason, Source
from rag_lab.variants.adaptive.course import FAILED, NAME, Course
from rag_lab.variants.adaptive.modes import Steps
from rag_lab.variants.stage import Batch, Output


def output_of(size: int, courses: Sequence[Course], mode: Steps, ms: npt.NDArray[np.float64]) -> Output:
    """The evidence of all rounds, once, and all that is to be handed on beside it."""
    rows = [mode.order(course) for course in courses]
    query = np.repeat([course.question for course in courses], [len(found) for found in rows])
    places = np.concatenate([np.arange(1, len(found) + 1) for found in [*rows, []]])
    ranking = Ranking.from_scores(NAME, size, query, [row for found in rows for row in found], 1 / places)
    starts = np.cumsum([0, *(len(course.queries) for course in courses)]).tolist()
    found_by = [
        start + number
        for course, found, start in zip(courses, rows, starts, strict=False)
        for number in _finders(course, found)
    ]
    told = [
        [[c.question, query.text, query.kind, "", query.averaged] for c in courses for query in c.queries],
        [[course.question, sub_answers(course)] for course in courses],
        [
            [course.question, [course.coverage, mode.cited(course)]]
            for course in courses
            if course.stop == "insufficient"
        ],
    ]
    facts: dict[str, npt.NDArray[Any]] = {
        "drawn": np.zeros(size, dtype=np.int64),
        "cut": np.zeros(size, dtype=bool),
        "rounds_used": np.zeros(size, dtype=np.int64),
        "found_by": np.array(found_by, dtype=np.int32),
        "told": np.frombuffer(records.dumps(told), dtype=np.uint8),
    }
    for course in courses:
        spent = (course.drawn, course.used, course.cut)
        for name, value in zip(("drawn", "rounds_used", "cut"), spent, strict=True):
            facts[name][course.question] = value
    events = {course.question: tuple(course.events) for course in courses}
    failed = any(event.kind == FAILED for course in courses for event in course.events)
    return Output(ranking, ms, facts, events, transient=failed)


def _finders(course: Course, rows: Sequence[int]) -> list[int]:
    """For each row the number of the query that ranked it best, the earlier one of two."""
    best: dict[int, tuple[int, int]] = {}
    for number, query in enumerate(course.queries):
        for rank, row in enumerate(query.rows):
            best[row] = min(best.get(row, (rank, number)), (rank, number))
    return [best[row][1] for row in rows]


def sub_answers(course: Course) -> tuple[Claim, ...]:
    """What the best chain found on its way, step by step, each with the place where it stands."""
    found: list[Claim] = []
    query = next((course.chains[chain] for chain in course.best()), None)
    while query is not None:
        if query.bridge is not None:
            found.insert(0, query.bridge)
        query = course.chains.get(query.chain)
    return tuple(found)


def abstentions(
    batch: Batch,
    ends: npt.NDArray[np.object_],
    used: npt.NDArray[np.int64],
    cited: Mapping[int, tuple[float, tuple[Source, ...]]],
) -> dict[int, Abstention]:
    """Questions that are not to be answered: too little evidence, or no search could be paid.

    A caller who may read nothing is told so by the generator.
    """
    found = {}
    for i, request in enumerate(batch.requests):
        if not batch.scopes.rows(i).any():
            continue
        if ends[i] == "insufficient":
            covered, sources = cited[i]
            found[i] = Abstention(request.request_id, Reason.INSUFFICIENT, sources=sources, confidence=covered)
        elif ends[i] in ("rounds", "candidates") and used[i] == 0:
            found[i] = Abstention(request.request_id, Reason.OVER_BUDGET)
    return found
