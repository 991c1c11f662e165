"""A language model in the place of the rules, within what was granted for each question.

A reply that failed, timed out or cannot be read is put down, and the rule decides instead. So does a rule where a
decomposition is empty, refers to itself, loses a fact of the question or invents one. A question whose tokens or calls
are used up ends: it does not go on by other means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from rag_lab.contracts import Claim
from rag_lab.generation.adaptive import instructions
from rag_lab.generation.adaptive.complexity import Estimate, Level
from rag_lab.generation.adaptive.instructions import told, with_passages
from rag_lab.generation.queries.decomposition import SubQuestion
from rag_lab.generation.queries.guard import added, guard
from rag_lab.generation.sentences import split_sentences
from rag_lab.generation.support import term_share
from rag_lab.generation.verification import TERM_SHARE
from rag_lab.variants.adaptive.course import FAILED, Course
from rag_lab.variants.adaptive.judging import Judge, Next, to_grade
from rag_lab.variants.adaptive.reading import Reader
from rag_lab.variants.writing import Pen

LONGEST_PASSAGE = 800
"""Characters of a passage that a model reads."""
SHORT, LONG = 24, 96
"""Tokens of a reply that is one word, and of one that holds text."""
MOST_PARTS = 6
REFERENCE = re.compile(r"#\d+")
"""How a part names the answer of another one; the number in it is no fact."""
Ruled = TypeVar("Ruled")
LEVELS: tuple[Level, ...] = ("none", "one", "several")


class ModelJudge(Judge):
    """Judges by a model, and by the rules where that fails."""

    def __init__(self, reader: Reader, enough: float, pen: Pen, look_at: int, *, reasons: bool) -> None:
        super().__init__(reader, enough)
        self.pen, self.look_at, self.reasons = pen, look_at, reasons
        self._next: dict[int, Next | None] = {}
        self._by_rule: set[tuple[int, int]] = set()

    def levels(self, courses: Sequence[Course], estimates: Sequence[Estimate]) -> list[Level]:
        """The model's word; a question that has parts takes several steps all the same."""
        ruled = super().levels(courses, estimates)
        texts = [course.text for course in courses]
        said = self._ask(courses, instructions.LEVEL, texts, SHORT, lambda text: told(text, "steps", str))
        return [
            level if word is None else word if word in LEVELS else self._fall_back(course, "steps", level)
            for course, word, level in zip(courses, said, ruled, strict=True)
        ]

    def parts(self, courses: Sequence[Course]) -> list[list[SubQuestion]]:
        """The model's parts, where they are sound."""
        ruled = super().parts(courses)
        texts = [course.text for course in courses]
        said = self._ask(courses, instructions.PARTS, texts, LONG, lambda text: told(text, "parts", list))
        return [
            found if given is None else self._sound(course, given, found)
            for course, given, found in zip(courses, said, ruled, strict=True)
        ]

    def _sound(self, course: Course, given: Sequence[Any], ruled: list[SubQuestion]) -> list[SubQuestion]:
        texts = [" ".join(text.split()) for text in given if isinstance(text, str) and text.strip()]
        parts = [SubQuestion.of(text) for text in dict.fromkeys(texts)][:MOST_PARTS]
        if not parts:
            return self._fall_back(course, "parts: empty", ruled)
        if any(need >= number or need < 1 for number, part in enumerate(parts, 1) for need in part.needs):
            return self._fall_back(course, "parts: one needs itself or a later one", ruled)
        whole = REFERENCE.sub(" ", " ".join(texts))
        if lost := guard(course.text, whole):
            return self._fall_back(course, f"parts: lost {', '.join(lost)}", ruled)
        if new := added(whole, [course.text]):
            return self._fall_back(course, f"parts: invented {', '.join(new)}", ruled)
        return parts if len(parts) > 1 else []

    def sufficient(self, courses: Sequence[Course], number: int) -> list[bool]:
        """The model's word on the best evidence, with what it would search for next."""
        ruled = super().sufficient(courses, number)
        if self.reasons:
            return self._reasoned(courses, ruled)
        texts = [with_passages(course.text, self._shown(course), LONGEST_PASSAGE) for course in courses]
        said = self._ask(courses, instructions.NEXT, texts, LONG, instructions.reply, "tokens")
        enough = []
        for course, found, rule in zip(courses, said, ruled, strict=True):
            verdict = found.get("sufficient") if found else None
            self._next[course.question] = None
            if found is not None and not isinstance(verdict, bool):
                verdict = self._fall_back(course, "sufficient", rule)
            elif found is not None and not verdict:
                self._next[course.question] = self._as_next(course, found)
            enough.append(rule if verdict is None else bool(verdict))
        return enough

    def _reasoned(self, courses: Sequence[Course], ruled: Sequence[bool]) -> list[bool]:
        """The next sentence of the reasoning, which ends it when it names the answer."""
        texts = [with_passages(course.text, self._shown(course), LONGEST_PASSAGE) for course in courses]
        said = self._ask(courses, instructions.REASON, texts, LONG, lambda text: text.strip() or None, "tokens")
        enough = []
        for course, sentence, rule in zip(courses, said, ruled, strict=True):
            self._next[course.question] = self._as_next(course, {"query": sentence}) if sentence else None
            answered = sentence is not None and sentence.casefold().startswith(instructions.ANSWERED)
            enough.append(rule or answered)
        return enough

    def next_queries(self, courses: Sequence[Course], number: int) -> list[Next | None]:  # noqa: ARG002 - one interface
        """What the model would search for, as it said when it judged."""
        return [self._next.get(course.question) for course in courses]

    def _as_next(self, course: Course, found: dict[str, Any]) -> Next | None:
        text, answer = found.get("query"), found.get("answer")
        best = course.best()
        if not isinstance(text, str) or not text.strip() or not best:
            return self._fall_back(course, "query", None)
        known = [course.text, *self._shown(course)]
        if new := added(text, known):
            return self._fall_back(course, f"query: invented {len(new)} facts", None)
        documents = dict.fromkeys(self.reader.document(course.question, row) for row in best[0].rows)
        said = f"written from {', '.join(documents)}"
        claim = self._supported(course, answer) if isinstance(answer, str) else None
        return Next(" ".join(text.split()), said, best[0], claim)

    def _supported(self, course: Course, answer: str) -> Claim | None:
        """A sub-answer with the sentence that supports it, None where none of the passages read does."""
        for row in self._read(course):
            text = self.reader.text(course.question, row)
            for span in split_sentences(text):
                if term_share(answer, text[slice(*span)]) >= TERM_SHARE:
                    return self.reader.claim(course.question, row, answer, span)
        return None

    def grade(self, courses: Sequence[Course], number: int, look_at: int) -> None:
        """The model's word on each passage, once; by the rules where it has none."""
        found = [(course, query, row) for course in courses for query, row in to_grade(course, number, look_at)]
        asked = list(dict.fromkeys((course, row) for course, _, row in found if row not in course.grades))
        wholes = [self.reader.whole(course.question, row) for course, row in asked]
        texts = [with_passages(c.text, [whole], LONGEST_PASSAGE) for (c, _), whole in zip(asked, wholes, strict=True)]
        said = self._ask(
            [course for course, _ in asked],
            instructions.RELEVANT,
            texts,
            SHORT,
            lambda text: told(text, "relevant", bool),
        )
        for (course, row), relevant in zip(asked, said, strict=True):
            if relevant is None:
                self._by_rule.add((course.question, row))
            else:
                self._put_down(course, row, float(relevant), number)
        for course, query, row in found:
            if (course.question, row) in self._by_rule:
                self._put_down(course, row, self.relevance(course, query, row), number)

    def supported(self, courses: Sequence[Course], number: int) -> list[bool]:
        """The model's word on whether the evidence supports an answer."""
        ruled = super().supported(courses, number)
        texts = [with_passages(course.text, self._shown(course), LONGEST_PASSAGE) for course in courses]
        said = self._ask(courses, instructions.SUPPORTED, texts, SHORT, lambda text: told(text, "supported", bool))
        return [rule if word is None else word for rule, word in zip(ruled, said, strict=True)]

    def keywords(self, courses: Sequence[Course], number: int) -> list[str]:
        """The model's query, where it keeps the facts of the question."""
        ruled = super().keywords(courses, number)
        texts = [course.text for course in courses]
        said = self._ask(courses, instructions.KEYWORDS, texts, LONG, lambda text: told(text, "query", str))
        found = []
        for course, text, rule in zip(courses, said, ruled, strict=True):
            faults = [] if text is None else [*guard(course.text, text), *added(text, [course.text])]
            good = text is not None and text.strip() and not faults
            if text is not None and not good:
                self._fall_back(course, f"query: lost or invented {', '.join(faults) or 'everything'}", rule)
            found.append(text if text and good else rule)
        return found

    def _read(self, course: Course) -> list[int]:
        """The rows that a model is shown: the best chain, and of the next ones as many as are to be looked at."""
        chains = course.best()
        rows = list(dict.fromkeys(row for chain in chains for row in chain.rows))
        return rows[: max(self.look_at, len(chains[0].rows))] if chains else []

    def _shown(self, course: Course) -> list[str]:
        return [self.reader.whole(course.question, row) for row in self._read(course)]

    def _ask(
        self,
        courses: Sequence[Course],
        instruction: str,
        texts: Sequence[str],
        tokens: int,
        read: Callable[[str], Any],
        refused: str = "",
    ) -> list[Any]:
        """What the model says to each text, as `read` makes it out; None, with an event, where it says nothing usable.

        refused: how a course ends that cannot pay its call; "" for one that goes on by the rules.
        """
        written = self.pen.write(instruction, texts, np.array([course.question for course in courses]), tokens)
        found = []
        for course, one in zip(courses, written, strict=True):
            value = None if one is None or one.cause else read(one.text)
            if one is None:
                course.say("refused", "no call or no tokens left")
                if refused:
                    course.end("tokens")
            elif value is None:
                course.say(FAILED if one.cause else "fallback", one.cause or "the reply cannot be read")
            found.append(value)
        return found

    def _fall_back(self, course: Course, why: str, rule: Ruled) -> Ruled:
        course.say("fallback", why)
        return rule
