"""The adaptive stage: its settings, what it plans, and what it books and hands on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab import records
from rag_lab.contracts import (
    BoolArray,
    FloatArray,
    Queries,
    RagLabError,
    Ranking,
)
from rag_lab.generation.adaptive import complexity, instructions
from rag_lab.generation.adaptive.classifier import fit, probability
from rag_lab.generation.queries.decomposition import decompose
from rag_lab.variants.adaptive.channels import Channels
from rag_lab.variants.adaptive.course import NAME, Course
from rag_lab.variants.adaptive.judging import Judge
from rag_lab.variants.adaptive.lessons import incomplete
from rag_lab.variants.adaptive.model_judge import ModelJudge
from rag_lab.variants.adaptive.modes import MODES
from rag_lab.variants.adaptive.reading import Reader
from rag_lab.variants.adaptive.results import abstentions, output_of
from rag_lab.variants.adaptive.rounds import Limits, Rounds
from rag_lab.variants.adaptive.searching import search
from rag_lab.variants.learning import TRAINING, Learned, Learner, Lesson
from rag_lab.variants.stage import LARGEST, Batch, Output, Plan, Stage, State, Step, register
from rag_lab.variants.transforms import asked_of
from rag_lab.variants.writing import Pen, book, spare, writer_of

TRAINED = "trained"


@register
class Adaptive(Stage, Learner):
    """Search in no, one or several rounds, by a mode (see `modes`).

    How many rounds a question may take goes by a rule, or, with ``classifier: trained``, by what the questions of the
    split `learned_on` ("train" where it says nothing) teach before the variant runs; see `rag_lab.training`.

    Everything is planned first: candidates, rounds and calls are granted before the first search, and nothing is spent
    above. Time cannot be stopped without making the output depend on the machine; so a cap on the latency limits the
    rounds by what one round is *declared* to take, `round_ms`, and never by what it took.
    """

    name: ClassVar[str] = NAME
    step: ClassVar[Step] = Step.RETRIEVE
    channels: Channels = Field(default=("bm25", "dense"), validate_default=True)
    mode: Literal["steps", "self_rag", "corrective", "interleaved"] = "steps"
    classifier: Literal["rules", "trained"] | tuple[float, ...] = Field(
        "rules", description="who estimates complexity; once trained, its bias and weights"
    )
    learned_on: str | None = Field(None, min_length=1)
    by: Literal["rules", "llm"] = Field("rules", description="who judges: rules, or the run's writer")
    depth: int = Field(2000, ge=1, le=LARGEST, description="candidates a question, in all rounds and channels together")
    rounds: int = Field(3, ge=1, le=100)
    fan_out: int = Field(10, ge=1, le=100, description="queries a question in all rounds, its own words among them")
    look_at: int = Field(3, ge=1, le=100, description="passages of each query that are read")
    sufficient: float = Field(0.9, ge=0, le=1, description="share of the question's terms that is enough to stop")
    insufficient: float = Field(0.15, ge=0, le=1, description="share, or similarity, below which it abstains")
    drift: float | None = Field(0.95, ge=0, le=1, description="distance from the question above which nothing is asked")
    round_ms: float = Field(100, gt=0, description="what a round is taken to last where latency is capped")
    k: int = Field(60, ge=0, description="constant of the reciprocal rank fusion of the channels")

    @property
    def writes(self) -> bool:
        """Whether a language model judges."""
        return self.by == "llm"

    def check(self, place: str, before: Sequence[Stage]) -> None:  # noqa: ARG002 - one interface
        """Channels differ, and what is asked of the classifier goes together."""
        names = [channel.name for channel in self.channels]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise RagLabError(f"{place}.{self.name}.channels: '{repeated[0]}' appears twice")
        if self.learned_on is not None and self.classifier != TRAINED:
            raise RagLabError(
                f"{place}.{self.name}.learned_on: nothing is learned; write 'classifier: {TRAINED}', or remove it"
            )
        if self.classifier == TRAINED and self.by == "llm":
            raise RagLabError(
                f"{place}.{self.name}.classifier: with 'by: llm' the model estimates; remove one of the two"
            )
        if isinstance(self.classifier, tuple) and len(self.classifier) != 1 + len(complexity.FEATURES):
            raise RagLabError(
                f"{place}.{self.name}.classifier: must be a bias and {len(complexity.FEATURES)} weights, for "
                f"{', '.join(complexity.FEATURES)}"
            )

    def needs(self) -> frozenset[str]:
        """What the channels need, and an encoder where drift is measured."""
        measured = frozenset() if self.drift is None else frozenset({"encoder"})
        return measured.union(*(channel.needs() for channel in self.channels))

    def identity(self, batch: Batch) -> list[Any]:
        """Settings, channels, the encoder that measures drift, the writer, and whether the generator has a memory."""
        encoder = [] if self.drift is None else [batch.encoder().version]
        writer = [writer_of(batch, self.name).name, writer_of(batch, self.name).version] if self.writes else []
        return [
            self.settings(),
            [channel.identity(batch) for channel in self.channels],
            encoder,
            [*writer, instructions.VERSION] if writer else [],
            _has_memory(batch),
        ]

    def inputs(self, state: State) -> list[str]:
        """The queries, where they are not just the questions."""
        return [state.keys[name] for name in ("queries", "skipped") if name in state.keys]

    def plan(self, state: State) -> Plan:
        """Candidates, rounds and calls granted, and the rounds for which there is time."""
        ledger, share = state.ledger, 1 / max(1, state.channels_left)
        plan = {
            "candidates": ledger.grant("candidates", np.where(state.skipped, 0, self.depth), share),
            "rounds": ledger.grant("rounds", np.where(state.skipped, 0, self.rounds)),
            "timely": np.clip(np.floor(ledger.room("latency_ms") / self.round_ms), 1, self.rounds).astype(np.int64),
        }
        return plan | dict(spare(state, self._most_calls)) if self.writes else plan

    @property
    def _most_calls(self) -> int:
        """Calls that a question may want: its level and parts, grades of passages, and two verdicts a round."""
        graded = self.fan_out * self.look_at if self.mode in ("self_rag", "corrective") else 0
        return 2 + graded + 2 * self.rounds

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """All rounds of all questions."""
        if self.classifier == TRAINED:
            raise RagLabError(f"{self.name}.classifier: is still to be trained; run the variant in an experiment")
        batch, reader = state.batch, Reader(state.batch)
        pen = Pen(batch, self.name, plan) if self.writes else None
        mode = MODES[self.mode](reader, self._judge(reader, pen), self.look_at, len(self.channels))
        courses = self._courses(state, plan)
        limits = Limits(self.fan_out, self.drift, self.k, plan["timely"], _has_memory(batch))
        rounds = Rounds(batch, courses, mode, self.channels, limits)
        rounds.run(state.queries, self._estimates(courses))
        for course in courses:
            if course.used and course.stop != "sufficient" and mode.lacks(course, self.insufficient):
                course.say("limit", course.stop, course.coverage, course.used)
                course.stop = "insufficient"
            course.say("stop", course.stop, course.coverage, course.used)
        output = output_of(batch.size, courses, mode, rounds.ms)
        return output if pen is None else replace(output, ms=output.ms + pen.ms, facts={**output.facts, **pen.facts})

    def _judge(self, reader: Reader, pen: Pen | None) -> Judge:
        if pen is None:
            return Judge(reader, self.sufficient)
        return ModelJudge(reader, self.sufficient, pen, self.look_at, reasons=self.mode == "interleaved")

    def _courses(self, state: State, plan: Plan) -> list[Course]:
        """One course for each question that is searched for, judged by the user's own words or their rewrite."""
        return [
            Course(
                one.number, one.text, one.language, int(plan["candidates"][one.number]), int(plan["rounds"][one.number])
            )
            for one in asked_of(state)
        ]

    def _estimates(self, courses: Sequence[Course]) -> list[complexity.Estimate]:
        texts, features = [course.text for course in courses], _features(courses)
        if isinstance(self.classifier, tuple):
            return complexity.classified(texts, features, probability(features, self.classifier))
        return complexity.estimate(texts, features)

    @property
    def training_split(self) -> str | None:
        """The split whose questions the classifier is to learn from, None for a rule and for what has learned."""
        return (self.learned_on or TRAINING) if self.classifier == TRAINED else None

    def learn(self, lesson: Lesson) -> Learned:
        """Learn for which questions one search did not find all the evidence (see `lessons`)."""
        state = lesson.state
        plan = self.plan(state)
        candidates = plan["candidates"][state.queries.of]
        used = np.ones((len(candidates), len(self.channels)), dtype=bool)
        found = search(state.batch, self.channels, state.queries, used, candidates, self.k).ranking
        judged, several = incomplete(lesson, self._courses(state, plan), found)
        features = _features(judged)
        weights = fit(features, several)
        agrees = (probability(features, weights) >= 0.5) == several
        facts = {
            "questions": len(judged),
            "several": int(several.sum()),
            "agrees": round(float(agrees.mean()), 4),
            "weights": dict(zip(("bias", *complexity.FEATURES), weights, strict=True)),
        }
        return Learned(self.model_copy(update={"classifier": weights, "learned_on": None}), facts)

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book candidates, rounds and calls, and hand on the ranking and what was decided."""
        ranking, facts, size = output.payload, output.facts, state.batch.size
        assert isinstance(ranking, Ranking)
        state.channels_left -= 1
        state.ledger.spend("candidates", facts["drawn"])
        state.ledger.spend("rounds", facts["rounds_used"])
        if self.writes:
            book(state, self.name, output)
        ends = np.array([output.events[i][-1].text if i in output.events else "" for i in range(size)], dtype=object)
        self._curtail(state, plan, facts["cut"], ends)
        queries, claims, cited = records.loads(facts["told"].tobytes())
        state.channels[self.name] = replace(ranking, found_by=facts["found_by"])
        state.searched[self.name] = Queries.build(size, queries)
        state.sub_answers |= {i: found for i, found in claims if found}
        state.from_memory = ends == "no_retrieval"
        state.decided |= abstentions(state.batch, ends, facts["rounds_used"], dict(cited))
        state.keys[self.name] = state.keys["ranking"] = state.keys["decided"] = key

    def _curtail(self, state: State, plan: Plan, cut: BoolArray, ends: npt.NDArray[np.object_]) -> None:
        """Put down which questions did less for want of candidates, rounds or time."""
        ledger = state.ledger
        ledger.curtail(self.name, "candidates", np.where(cut, self.depth, 0), plan["candidates"])
        ledger.curtail(self.name, "rounds", np.where(ends == "rounds", self.rounds, 0), plan["rounds"])
        wanted = np.where(ends == "latency", plan["rounds"], 0) * self.round_ms
        ledger.curtail(self.name, "latency_ms", wanted, plan["timely"] * self.round_ms)


def _features(courses: Sequence[Course]) -> FloatArray:
    texts, languages = [course.text for course in courses], [course.language for course in courses]
    return complexity.measure(texts, languages, [len(parts) for parts in decompose(texts, languages)])


def _has_memory(batch: Batch) -> bool:
    """Whether the generator has a memory to answer from: a language model has, the extractive reader has not."""
    return batch.generates and batch.generator.calls > 0
