"""What is judged between two searches, by rules and the encoder's similarities: no model is asked.

`ModelJudge` (in `model_judge`) asks a language model in the same places, and falls back on these rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_lab.contracts import Claim
from rag_lab.generation.adaptive.chains import Chain
from rag_lab.generation.adaptive.complexity import Estimate, Level
from rag_lab.generation.adaptive.evidence import Asked
from rag_lab.generation.adaptive.follow_ups import content_words
from rag_lab.generation.answer_types import answer_type, fit
from rag_lab.generation.queries.decomposition import SubQuestion, decompose
from rag_lab.generation.sentences import split_sentences
from rag_lab.variants.adaptive.course import Course, Query
from rag_lab.variants.adaptive.reading import Reader

RELEVANT, RIGHT = 0.25, 0.7
"""Grades from which a passage is relevant, and from which it is right and nothing else has to be searched."""
SUPPORTED = 0.5
"""What a sentence, with its title, has to cover of a question to support an answer, if it names what is asked for."""


@dataclass(frozen=True, slots=True)
class Next:
    """A text to search by next, how the trace calls it, what it goes on from, and the sub-answer that led to it."""

    text: str
    said: str
    chain: Chain
    answer: Claim | None = None


class Judge:
    """Judges by rules. Batches of courses in, one verdict for each out; what was judged is put down as events."""

    def __init__(self, reader: Reader, enough: float) -> None:
        self.reader, self.enough = reader, enough

    def levels(self, courses: Sequence[Course], estimates: Sequence[Estimate]) -> list[Level]:  # noqa: ARG002 - one interface
        """How many steps each question takes."""
        return [estimate.level for estimate in estimates]

    def parts(self, courses: Sequence[Course]) -> list[list[SubQuestion]]:
        """What each question is taken apart into; [] for one that is not."""
        return decompose([course.text for course in courses], [course.language for course in courses])

    def sufficient(self, courses: Sequence[Course], number: int) -> list[bool]:
        """Whether the best chain covers enough of each question."""
        for course in courses:
            course.say("sufficiency", "", course.coverage, number)
        return [course.coverage >= self.enough for course in courses]

    def next_queries(self, courses: Sequence[Course], number: int) -> list[Next | None]:  # noqa: ARG002 - one interface
        """What to search by next; None where a rule is to say."""
        return [None] * len(courses)

    def grade(self, courses: Sequence[Course], number: int, look_at: int) -> None:
        """Decide which of the passages that a round ranked first are relevant to what was asked for."""
        for course in courses:
            for query, row in to_grade(course, number, look_at):
                self._put_down(course, row, self.relevance(course, query, row), number)

    def _put_down(self, course: Course, row: int, value: float, number: int) -> None:
        if value > course.grades.get(row, -1.0):
            course.grades[row], course.relevant[row] = value, value >= RELEVANT
            name = self.reader.chunk(course.question, row)
            course.say("relevant", f"{name}: {'yes' if course.relevant[row] else 'no'}", value, number)

    def relevance(self, course: Course, query: Query, row: int) -> float:
        """The greater of what a passage covers of the query, and of how alike the encoder finds it and the question."""
        asked = course.asked if query.own else Asked.of(query.text, ())
        covered = asked.coverage(asked.mask(self.reader.whole(course.question, row)))
        return max(covered, course.similar.get(row, 0.0))

    def supported(self, courses: Sequence[Course], number: int) -> list[bool]:
        """Whether a sentence of the relevant passages supports an answer to each question."""
        values = [self._support(course) for course in courses]
        for course, value in zip(courses, values, strict=True):
            course.say("supported", "yes" if value >= SUPPORTED else "no", value, number)
        return [value >= SUPPORTED for value in values]

    def right(self, courses: Sequence[Course], number: int) -> list[bool]:
        """Whether a passage that was found is right for each question."""
        values = [max(course.grades.values(), default=0.0) for course in courses]
        for course, value in zip(courses, values, strict=True):
            verdict = "right" if value >= RIGHT else "wrong" if value < RELEVANT else "ambiguous"
            course.say("grade", verdict, value, number)
        return [value >= RIGHT for value in values]

    def keywords(self, courses: Sequence[Course], number: int) -> list[str]:  # noqa: ARG002 - one interface
        """What the second source is searched by: the content words of each question."""
        return [content_words(course.text) or course.text for course in courses]

    def _support(self, course: Course) -> float:
        rows = [row for row, relevant in course.relevant.items() if relevant]
        return max((self._of_sentences(course, row) for row in rows), default=0.0)

    def _of_sentences(self, course: Course, row: int) -> float:
        kind, text = answer_type(course.text), self.reader.text(course.question, row)
        title = course.asked.mask(self.reader.title(course.question, row))
        sentences = [text[start:end] for start, end in split_sentences(text)]
        fitting = [course.asked.mask(one) | title for one in sentences if fit(kind, course.text, one) > 0]
        return max(map(course.asked.coverage, fitting), default=0.0)


def to_grade(course: Course, number: int, look_at: int) -> list[tuple[Query, int]]:
    """The passages that a round ranked first, each with the query that found it."""
    return [(query, row) for query in course.of_round(number) for row in query.rows[:look_at]]
