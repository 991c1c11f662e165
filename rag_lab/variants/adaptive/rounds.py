"""The rounds of a whole batch: one search a channel and round, for all questions that are still on their way."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, Queries
from rag_lab.generation.adaptive.complexity import Estimate
from rag_lab.generation.adaptive.evidence import Asked
from rag_lab.generation.support import Similarity
from rag_lab.variants.adaptive.course import Course, Query
from rag_lab.variants.adaptive.modes import Steps
from rag_lab.variants.adaptive.searching import Findings, search
from rag_lab.variants.query_vectors import QueryVectors
from rag_lab.variants.retrieve import Channel, Dense
from rag_lab.variants.stage import Batch

POOL = 50
"""Passages over which the terms of a question are weighed."""


@dataclass(frozen=True, eq=False)
class Limits:
    """What bounds the rounds.

    fan_out: queries of a question in all its rounds, its own among them. drift: how far a query may be from the user's
    question, 0 for the same, 1 for one as far from it as unrelated texts are; None for any. k: the constant of the
    fusion of channels. timely: rounds for which there is time, ``[size]``. memory: whether the generator can answer
    without evidence.
    """

    fan_out: int
    drift: float | None
    k: int
    timely: npt.NDArray[np.int64]
    memory: bool


class Rounds:
    """Takes courses through their rounds; ``ms [size]``: each question's share of the time."""

    def __init__(
        self, batch: Batch, courses: Sequence[Course], mode: Steps, channels: Sequence[Channel], limits: Limits
    ) -> None:
        self.courses, self.mode, self.channels, self.limits = courses, mode, channels, limits
        self.ms: FloatArray = np.zeros(batch.size)
        self.batch = replace(batch, query_vectors=self._vectors)
        self._encode = batch.query_vectors
        self._known: dict[str, npt.NDArray[np.float32]] = {}
        self._zero: float | None = None

    def run(self, own: Queries, estimates: Sequence[Estimate]) -> None:
        """All rounds; `own` are the texts that the questions came with, `estimates` how complex each course is."""
        started = time.perf_counter()
        searching = 0.0
        self._open(own, estimates)
        number = 1
        while asking := [course for course in self._active() if course.of_round(number)]:
            begun = time.perf_counter()
            self._search(asking, number)
            searching += time.perf_counter() - begun
            going = [course for course in asking if course.active]
            self.mode.note(going, number)
            self.mode.settle(going, number)
            self._refine([course for course in going if course.active], number)
            number += 1
        share = (time.perf_counter() - started - searching) * 1000 / max(1, len(self.courses))
        for course in self.courses:
            self.ms[course.question] += share

    def _active(self) -> list[Course]:
        return [course for course in self.courses if course.active]

    def _open(self, own: Queries, estimates: Sequence[Estimate]) -> None:
        """Decide how many steps each question takes, take it apart, and ask the first queries."""
        judge = self.mode.judge
        for course, one, level in zip(self.courses, estimates, judge.levels(self.courses, estimates), strict=True):
            course.level, course.compares = level, one.compares
            course.say("complexity", level, one.score)
            if level == "none" and not self.limits.memory:
                course.level = "one"
                course.say("complexity", "one: the generator has no memory to answer from")
            if course.level == "none":
                course.end("no_retrieval")
            elif course.rounds < 1:
                course.end("rounds")
        several = [c for c in self._active() if c.level == "several"] if self.mode.decomposes else []
        for course, parts in zip(several, judge.parts(several), strict=True):
            course.parts = parts
        for course in self._active():
            course.queries = self._own(course, own)
            course.queries += self._new(course, self.mode.opening(course), 1)

    def _own(self, course: Course, own: Queries) -> list[Query]:
        meant = [own.meant_for(self.channels[number].name) for number in self.mode.first_channels]
        found = []
        for i in np.flatnonzero(own.of == course.question).tolist():
            channels = tuple(n for n, mine in zip(self.mode.first_channels, meant, strict=True) if mine[i])
            averaged = own.averaged[i] if own.averaged else ""
            if channels:
                found.append(Query(own.texts[i], own.kinds[i], 1, own.texts[i], channels, own=True, averaged=averaged))
        return found

    def _new(self, course: Course, wanted: Sequence[Query], number: int) -> list[Query]:
        """Those of the wanted queries that were not asked before, as many as the fan-out allows."""
        known = {query.asks for query in course.queries}
        fresh: list[Query] = []
        for query in wanted:
            if query.text.strip() and query.asks not in known:
                known.add(query.asks)
                fresh.append(query)
        room = max(0, self.limits.fan_out - len(course.queries))
        if len(fresh) > room:
            course.say("fan_out", "queries that were not asked", len(fresh) - room, number)
        return fresh[:room]

    def _refine(self, courses: Sequence[Course], number: int) -> None:
        """Give each course its queries of the next round, or end it."""
        going = []
        for course in courses:
            if not self.mode.takes_several(course):
                course.end("one_step")
            elif number >= course.rounds:
                course.end("rounds")
            elif number >= self.limits.timely[course.question]:
                course.end("latency")
            else:
                going.append(course)
        proposed: list[tuple[Course, list[Query]]] = []
        for course, wanted in zip(going, self.mode.follow_ups(going, number), strict=True):
            fresh = self._new(course, wanted, number + 1)
            if fresh:
                proposed.append((course, fresh))
            else:
                course.end("fan_out" if wanted and len(course.queries) >= self.limits.fan_out else "nothing_to_ask")
        self._measure([(course, query) for course, queries in proposed for query in queries])
        for course, queries in proposed:
            near = [query for query in queries if self.limits.drift is None or query.drift <= self.limits.drift]
            for query in queries:
                if query not in near:
                    course.say("drift", query.named, query.drift, number + 1)
            course.queries += near
            if not near:
                course.end("drift")

    def _measure(self, asked: Sequence[tuple[Course, Query]]) -> None:
        """Set the drift of queries: 1 - cosine to the user's question, scaled by what unrelated texts have."""
        if self.limits.drift is None or not asked:
            return
        texts = list(dict.fromkeys(text for course, query in asked for text in (course.text, query.text)))
        vectors = dict(zip(texts, self._vectors(texts).vectors.vectors.astype(np.float64), strict=True))
        for course, query in asked:
            # Batches of other sizes change the last digits of a vector; they must not decide.
            query.drift = round(1 - self._scaled(float(vectors[course.text] @ vectors[query.text])), 4)

    def _vectors(self, texts: Sequence[str]) -> QueryVectors:
        """Vectors of texts, each encoded once in all rounds; a text costs its time where it is first asked for."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        took = dict.fromkeys(texts, 0.0)
        cached = True
        if new:
            made = self._encode(new)
            self._like, cached = made.vectors, made.cached
            self._known.update(zip(new, made.vectors.vectors, strict=True))
            took.update(zip(new, made.ms.tolist(), strict=True))
        vectors = replace(self._like, vectors=np.stack([self._known[text] for text in texts]))
        return QueryVectors(vectors, np.array([took[text] for text in texts]), cached)

    def _scaled(self, cosine: float) -> float:
        """A similarity so that unrelated texts have 0 and equal ones 1."""
        if self._zero is None:
            self._zero = Similarity(self.batch.encoder()).zero
        return float(np.clip((cosine - self._zero) / (1 - self._zero), 0, 1))

    def _search(self, courses: Sequence[Course], number: int) -> None:
        """One round for all of them; a course that can pay no query ends."""
        asked, depths = [], []
        for course in courses:
            wanted = course.of_round(number)
            granted = self._depths(course, wanted, number)
            course.queries = [query for query in course.queries if query.round != number] + wanted[: len(granted)]
            course.cut |= len(granted) < len(wanted)
            if not granted:
                course.end("candidates")
            for query, depth in zip(wanted, granted, strict=False):
                course.say("query", query.named, query.drift, number)
                asked.append((course, query))
                depths.append(depth)
        if not asked:
            return
        texts, kinds, averaged = zip(*((query.text, query.kind, query.averaged) for _, query in asked), strict=True)
        queries = Queries(
            self.batch.size,
            np.array([course.question for course, _ in asked], dtype=np.int32),
            texts,
            kinds,
            ("",) * len(asked),
            averaged if any(averaged) else (),
        )
        used = np.array([[n in query.channels for n in range(len(self.channels))] for _, query in asked])
        found = search(self.batch, self.channels, queries, used, np.array(depths, dtype=np.int64), self.limits.k)
        self._take(asked, found, number)
        for (course, query), drawn, depth in zip(asked, found.drawn.tolist(), depths, strict=True):
            course.cut |= drawn >= depth and (query.own or depth < self._wish)

    @property
    def _wish(self) -> int:
        """Candidates that a query beside a question's own would draw."""
        return len(self.channels) * self.mode.follow_up_depth

    def _depths(self, course: Course, queries: Sequence[Query], number: int) -> list[int]:
        """Candidates of each query, for as many of them as can be paid.

        A question's own texts get all of its candidates where it takes one step, else what is left when the other
        queries may draw what they want, but no less than half. Those draw from the rest, an equal part of it in each
        round that may come.
        """
        own = sum(query.own for query in queries)
        if number == 1:
            most = (self.limits.fan_out - own) * self._wish
            course.kept_back = min(course.candidates // 2, most) if self.mode.takes_several(course) else 0
        each = (course.candidates - course.kept_back) // own if own else 0
        granted = [each] * own if each else []
        others = len(queries) - own
        if others and len(granted) == own:
            left = max(1, min(course.rounds, int(self.limits.timely[course.question])) - number + 1)
            share = course.kept_back // left
            payable = min(others, share)
            depth = min(share // payable, self._wish) if payable else 0
            course.kept_back -= depth * payable
            granted += [depth] * payable
        return granted

    def _take(self, asked: Sequence[tuple[Course, Query]], found: Findings, number: int) -> None:
        """Hand the findings to the courses."""
        for place, (course, query) in enumerate(asked):
            query.rows = found.ranking.of(place).tolist()
            course.drawn += int(found.drawn[place])
            self.ms[course.question] += found.ms[place]
            if query.own:
                self._note_similar(course, place, found)
        for course in dict.fromkeys(course for course, _ in asked):
            course.used += 1
            if number == 1:
                course.first = _fused([query.rows for query in course.queries if query.own], self.limits.k)
                texts = [self.mode.reader.whole(course.question, row) for row in course.first[:POOL]]
                course.asked = Asked.of(course.text, texts)

    def _note_similar(self, course: Course, place: int, found: Findings) -> None:
        """Keep how alike a channel of vectors finds the question and the passages that it ranked first."""
        for channel, ranking in zip(self.channels, found.by_channel, strict=True):
            if isinstance(channel, Dense):
                start, end = np.searchsorted(ranking.query, [place, place + 1])
                best = slice(start, min(end, start + POOL))
                for row, score in zip(ranking.chunk[best].tolist(), ranking.score[best].tolist(), strict=True):
                    course.similar[row] = max(course.similar.get(row, 0.0), round(self._scaled(score), 4))


def _fused(lists: Sequence[Sequence[int]], k: int) -> list[int]:
    """One list from those of several wordings, by reciprocal rank."""
    if len(lists) == 1:
        return list(lists[0])
    score: dict[int, float] = {}
    for rows in lists:
        for rank, row in enumerate(rows, 1):
            score[row] = score.get(row, 0.0) + 1 / (k + rank)
    return sorted(score, key=lambda row: (-round(score[row], 12), row))
