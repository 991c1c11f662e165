"""What modes do differently between two searches: the queries that they begin with, what they keep, what they ask next.

*steps*: parts of the question, then bridges from the best evidence. *self_rag*: the same over passages that were graded
(relevant? supported? useful?), after Asai et al., *Self-RAG*, 2024. *corrective*: the first channel alone, its passages
graded; the other channels where none is right, after Yan et al., *Corrective Retrieval Augmented Generation*, 2024; its
refinement to sentences is the stage `compress`. *interleaved*: the next query is the last sentence of the reasoning,
after Trivedi et al., *IRCoT*, 2023; without a model, the best sentence of the newest evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from rag_lab.contracts import Source
from rag_lab.generation.adaptive.chains import Chain, merged
from rag_lab.generation.adaptive.follow_ups import Bridge, best_sentence, bridges, missing_words
from rag_lab.generation.adaptive.names import names
from rag_lab.generation.adaptive.titles import plain_title
from rag_lab.generation.queries.decomposition import SubQuestion
from rag_lab.variants.adaptive.course import Course, Query
from rag_lab.variants.adaptive.judging import Judge
from rag_lab.variants.adaptive.reading import Reader
from rag_lab.variants.stage import LARGEST

BEST_OF_A_PART = {"part": 2, "name": 1}
"""Passages of each of several queries that are tried together."""
MOST_TOGETHER = 16
"""Combinations of them that are looked at."""


class Steps:
    """Decompose, retrieve, judge, refine."""

    follow_up_depth = 10
    """Candidates that a query beside the question's own wants from each channel: only the best of them are read."""
    decomposes = True

    def __init__(self, reader: Reader, judge: Judge, look_at: int, channels: int) -> None:
        self.reader, self.judge, self.look_at = reader, judge, look_at
        self.channels = tuple(range(channels))

    @property
    def first_channels(self) -> tuple[int, ...]:
        """The channels of the texts that a question came with."""
        return self.channels

    def takes_several(self, course: Course) -> bool:
        """Whether a question may have more than one round."""
        return course.level == "several"

    def opening(self, course: Course) -> list[Query]:
        """What is asked beside them in the first round: parts that stand alone, or else the names that are compared."""
        if not (self.decomposes and self.takes_several(course)):
            return []
        found = [
            Query(part.text, "part", 1, part.text, self.channels, part=number)
            for number, part in enumerate(course.parts, 1)
            if not part.needs
        ]
        if len(found) < 2 and course.compares:
            found += [Query(name, "name", 1, name, self.channels) for name in names(course.text) if len(name) > 1]
        return found

    def note(self, courses: Sequence[Course], number: int) -> None:
        """Make chains of what a round found."""
        for course in courses:
            queries = course.of_round(number)
            for query in queries:
                if query.kind != "name":
                    self._extend(course, query)
            for kind, most in BEST_OF_A_PART.items():
                self._combine(course, [query for query in queries if query.kind == kind], most)

    def _extend(self, course: Course, query: Query) -> None:
        for row in self.kept(course, query.rows)[: self.look_at]:
            mask = self._mask(course, row)
            chain = query.chain.extended(row, mask, course.asked) if query.chain.rows else Chain((row,), mask)
            if chain is not None:
                course.chains.setdefault(chain, query)

    def _combine(self, course: Course, queries: Sequence[Query], most: int) -> None:
        """Passages for what stands beside each other in a question count together."""
        best = [rows for query in queries if (rows := self.kept(course, query.rows)[:most])]
        if len(best) < 2:
            return
        for together in islice(product(*best), MOST_TOGETHER):
            mask = 0
            for row in together:
                mask |= self._mask(course, row)
            course.chains.setdefault(Chain(tuple(dict.fromkeys(together)), mask), queries[0])

    def _mask(self, course: Course, row: int) -> int:
        return course.asked.mask(self.reader.whole(course.question, row))

    def kept(self, course: Course, rows: Sequence[int]) -> list[int]:
        """The rows that were not graded away."""
        return [row for row in rows if course.relevant.get(row, True)]

    def settle(self, courses: Sequence[Course], number: int) -> None:
        """End the courses that have what they need, or that found nothing new."""
        self._settle(courses, self.judge.sufficient(courses, number), number)

    def _settle(self, courses: Sequence[Course], enough: Sequence[bool], number: int) -> None:
        for course, done in zip(courses, enough, strict=True):
            if done:
                course.end("sufficient")
            elif number > 1 and not any(query.round == number for query in course.chains.values()):
                course.end("no_new_evidence")

    def follow_ups(self, courses: Sequence[Course], number: int) -> list[list[Query]]:
        """What each course may ask in the next round, best first."""
        written = self.judge.next_queries(courses, number)
        return [
            [Query(one.text, "model", number + 1, one.said, self.channels, chain=one.chain, bridge=one.answer)]
            if one
            else self.by_rule(course, number)
            for course, one in zip(courses, written, strict=True)
        ]

    def by_rule(self, course: Course, number: int) -> list[Query]:
        """The bridges of the best evidence, each in the dependent part that waits for it, or with what is missing."""
        dependent = [(n, part) for n, part in enumerate(course.parts, 1) if part.needs]
        found = []
        for chain in self.sources(course, number):
            place = len(chain.rows) - 1
            found += self._from(course, chain, dependent[place] if place < len(dependent) else None, number)
        return found

    def sources(self, course: Course, number: int) -> list[Chain]:
        """The chains that lead on: after the first round the best single passages, then those that have just grown."""
        grown = [chain for chain in course.best() if course.chains[chain].round == number]
        if number > 1:
            return grown[: self.look_at]
        single = {chain.rows[0]: chain for chain in grown if len(chain.rows) == 1}
        parts = [query for query in course.of_round(1) if query.kind == "part"]
        rows = [*self.kept(course, course.first)[: self.look_at], *(row for query in parts for row in query.rows[:1])]
        return list(dict.fromkeys(single[row] for row in rows if row in single))

    def _from(self, course: Course, chain: Chain, part: tuple[int, SubQuestion] | None, number: int) -> list[Query]:
        """Queries that go on from the last passage of a chain."""
        question, row, reader = course.question, chain.rows[-1], self.reader
        seen = {plain_title(reader.title(question, earlier)) for earlier in chain.rows[:-1]}
        mentions = [mention for mention in reader.mentions(question, row) if mention.title not in seen]
        title, text = reader.title(question, row), reader.text(question, row)
        found = bridges(course.text, title, text, mentions, course.asked)
        return [self._over(course, chain, bridge, "link" if mentions else "word", part, number) for bridge in found]

    def _over(
        self,
        course: Course,
        chain: Chain,
        bridge: Bridge,
        kind: str,
        part: tuple[int, SubQuestion] | None,
        number: int,
    ) -> Query:
        question, row = course.question, chain.rows[-1]
        rest = missing_words(course.text, course.asked.missing(chain.mask))

        def with_name(name: str) -> str:
            return part[1].filled([name] * len(course.parts)) if part else f"{name} {rest}".strip()

        return Query(
            with_name(bridge.name),
            kind if bridge.span else "title",
            number + 1,
            with_name(f"[{self.reader.document(question, row)}]"),
            self.channels,
            chain=chain,
            part=part[0] if part else 0,
            bridge=self.reader.claim(question, row, bridge.name, bridge.span) if bridge.span else None,
        )

    def lacks(self, course: Course, least: float) -> bool:
        """Whether the evidence of a question that has ended is too little to answer from.

        What stands in all of the first passages weighs next to nothing in `coverage`, but it is evidence: so terms are
        counted here.
        """
        held = max((course.asked.share(chain.mask) for chain in course.chains), default=0.0)
        return max(held, *course.similar.values(), 0.0) < least

    def cited(self, course: Course) -> tuple[Source, ...]:
        """The best sentences of the best evidence, for a question that is not answered."""
        found: list[Source] = []
        for row in list(dict.fromkeys(row for chain in course.best() for row in chain.rows))[: self.look_at]:
            span = best_sentence(self.reader.text(course.question, row), course.asked)
            if span is not None:
                found += self.reader.claim(course.question, row, "", span).sources
        return tuple(found)

    def order(self, course: Course) -> list[int]:
        """All rows that were found, each once; those that were graded away come last."""
        found = [row for query in course.queries for row in query.rows]
        good = merged(self.kept(course, course.first), course.best(), self.kept(course, found))
        return list(dict.fromkeys([*good, *found]))


class Graded(Steps):
    """Passages are graded before anything is made of them."""

    def note(self, courses: Sequence[Course], number: int) -> None:
        """Grade what a round found, then make chains of what is relevant."""
        self.judge.grade(courses, number, self.look_at)
        super().note(courses, number)

    def lacks(self, course: Course, least: float) -> bool:
        """The same, or that nothing that was graded is good for anything."""
        return super().lacks(course, least) or max(course.grades.values(), default=0.0) == 0


class SelfRag(Graded):
    """Steps over graded passages."""

    def settle(self, courses: Sequence[Course], number: int) -> None:
        """End the courses whose evidence supports an answer, and a useful one; or that found nothing new."""
        useful, supported = self.judge.sufficient(courses, number), self.judge.supported(courses, number)
        self._settle(courses, [u and s for u, s in zip(useful, supported, strict=True)], number)


class Corrective(Graded):
    """Grade the first source; turn to the second where it is not good enough, however simple the question is."""

    follow_up_depth = LARGEST
    decomposes = False

    @property
    def first_channels(self) -> tuple[int, ...]:
        """The first channel alone."""
        return self.channels[:1]

    def takes_several(self, course: Course) -> bool:  # noqa: ARG002 - one interface
        """Any question may."""
        return True

    def settle(self, courses: Sequence[Course], number: int) -> None:
        """The first round ends where a passage is right; the second source is the last one."""
        for course, right in zip(courses, self.judge.right(courses, number), strict=True):
            if right:
                course.end("sufficient")
            elif number > 1:
                course.end("no_new_evidence")

    def follow_ups(self, courses: Sequence[Course], number: int) -> list[list[Query]]:
        """The question's key words, put to the other channels, or to the only one."""
        others = self.channels[1:] or self.channels
        return [[Query(text, "keywords", number + 1, text, others)] for text in self.judge.keywords(courses, number)]

    def order(self, course: Course) -> list[int]:
        """Both sources by turns, the second one first where the first had nothing relevant; what is irrelevant last."""
        lists = [course.first, *(query.rows for query in course.queries if not query.own)]
        first, second = (self.kept(course, rows) for rows in (lists[0], [row for rows in lists[1:] for row in rows]))
        graded_first = [course.relevant[row] for row in course.first if row in course.relevant]
        one, other = (first, second) if any(graded_first) else (second, first)
        good = merged(one, [Chain(tuple(other), 0)])
        return list(dict.fromkeys([*good, *(row for rows in lists for row in rows)]))


class Interleaved(Steps):
    """Every next query is a sentence of the reasoning."""

    decomposes = False

    def by_rule(self, course: Course, number: int) -> list[Query]:
        """The sentence of the newest evidence that covers most of the question."""
        for chain in self.sources(course, number):
            row = chain.rows[-1]
            text = self.reader.text(course.question, row)
            span = best_sentence(text, course.asked)
            if span is not None:
                sentence = text[slice(*span)]
                claim = self.reader.claim(course.question, row, sentence, span)
                said = f"[{self.reader.chunk(course.question, row)}:{span[0]}-{span[1]}]"
                return [Query(sentence, "sentence", number + 1, said, self.channels, chain=chain, bridge=claim)]
        return []


MODES: dict[str, type[Steps]] = {
    "steps": Steps,
    "self_rag": SelfRag,
    "corrective": Corrective,
    "interleaved": Interleaved,
}
