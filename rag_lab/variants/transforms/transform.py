"""What all transforms of queries have in common: who is asked, what it costs, and what may be searched by.

The user's own words stay the request's query, so they are what is answered. A transform works by rules, or by asking
the run's language model (``by: llm``). Then it takes one call and one round for each question that it asks for, and
leaves the answer its calls, its tokens and half of the room for prompts (see `writing.spare`); rules take none of
these. A question that the budget does not cover, or whose call fails, keeps the queries that it had.

What a model, or a rule, makes of a question is checked (`generation.queries.guard`): a rewrite that takes its place
must have every date, number, identifier and quoted phrase of it, and no query may state one that neither the question
nor its history has. What does not pass is an event and is not searched by.
"""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from rag_lab.contracts import Event, Queries
from rag_lab.generation.queries import asking
from rag_lab.generation.queries.facts import plain
from rag_lab.generation.queries.guard import added, guard
from rag_lab.generation.terms import question_language
from rag_lab.variants import writing
from rag_lab.variants.stage import Batch, Output, Plan, Stage, State, Step

Row: TypeAlias = tuple[int, str, str, str, str]
By: TypeAlias = Literal["rules", "llm"]

OWN = ("question", "rewrite")
"""Kinds of the queries that stand for the question itself."""
MOST = 16
"""The most queries that a setting may ask for beside the question."""
REFERENCE = re.compile(r"#\d+")
"""How a part of a question names the answer of another part."""


@dataclass(eq=False)
class Asked:
    """A question on its way through a transform.

    rows: what it is searched by so far, as for `Queries.build`; text: the one of them that stands for the question;
    spoken: languages of what may be found, where that matters, that of most chunks first; proposed: what rules or a
    model made of it; events: what was done.
    """

    number: int
    rows: list[Row]
    text: str
    history: tuple[str, ...]
    language: str
    spoken: tuple[str, ...] = ()
    proposed: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def known(self) -> tuple[str, ...]:
        """All that the user said and was told."""
        return (self.text, *self.history)


def asked_of(state: State) -> list[Asked]:
    """The questions that are searched for and not decided, with what they are searched by."""
    rows: dict[int, list[Row]] = {}
    for row in _rows(state.queries):
        rows.setdefault(row[0], []).append(row)
    found = []
    for number, mine in rows.items():
        request = state.batch.requests[number]
        text = next((row[1] for kind in reversed(OWN) for row in mine if row[2] == kind), request.query)
        if number not in state.decided and not state.skipped[number]:
            found.append(Asked(number, mine, text, request.history, question_language(text, request.language)))
    return found


def _rows(queries: Queries) -> list[Row]:
    averaged = queries.averaged or ("",) * len(queries.texts)
    return list(zip(queries.of.tolist(), queries.texts, queries.kinds, queries.channels, averaged, strict=True))


def compared(text: str) -> str:
    """The form in which two queries are the same."""
    return plain(text).casefold().strip(" ?？.。!！,，")


def for_channel(rows: Sequence[Row], channel: str) -> tuple[list[Row], list[Row]]:
    """What a channel is searched by, as rows for it alone, and the rows that remain for the others."""
    mine = [(*row[:3], channel, row[4]) for row in rows if row[3] in ("", channel)]
    return mine, [row for row in rows if row[3] != channel]


class Transform(Stage):
    """A stage that changes the queries of some questions and leaves the others theirs.

    task: what a model is asked; room: tokens that it may write for one question; replaces: whether what it makes takes
    the question's place, so that nothing of it may be lost.
    """

    step: ClassVar[Step] = Step.QUERY
    reads_ranking: ClassVar[bool] = True
    by: By = "rules"
    task: ClassVar[asking.Task]
    room: ClassVar[int]
    replaces: ClassVar[bool] = False

    @property
    def writes(self) -> bool:
        """Whether a language model is asked."""
        return self.by == "llm"

    def identity(self, batch: Batch) -> list[Any]:
        """Settings and the model that writes."""
        if not self.writes:
            return [self.settings()]
        writer = writing.writer_of(batch, self.name)
        return [self.settings(), writer.name, writer.version]

    def inputs(self, state: State) -> list[str]:
        """The queries, where they are not just the questions, and who has none."""
        return [state.keys[name] for name in ("queries", "skipped", "decided") if name in state.keys]

    def plan(self, state: State) -> Plan:
        """One call and one round for each question that is to be asked for, if a model is asked."""
        if not self.writes:
            return {}
        wanted = self._wanted(state)
        rounds = state.ledger.grant("rounds", wanted)
        return {**writing.spare(state, rounds), "rounds": rounds}

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Propose queries, check them, and put them beside or in the place of the question's."""
        started = time.perf_counter()
        batch, asked = state.batch, self.asked(state)
        mine = [one for one in asked if self.applies(one)]
        pen = writing.Pen(batch, self.name, plan) if self.writes else None
        if pen is not None:
            self._write([one for one in mine if plan["rounds"][one.number]], pen)
        else:
            for one, proposed in zip(mine, self.by_rules(mine), strict=True):
                one.proposed = proposed
        for one in mine:
            if found := self.checked(one):
                one.events += [Event(self.name, "query", text) for text in found]
                one.rows = self.placed(one, found)
        changed = {one.number: one.rows for one in asked}
        unchanged = state.queries.where([of not in changed for of in state.queries.of.tolist()])
        queries = Queries.build(batch.size, [*_rows(unchanged), *(row for rows in changed.values() for row in rows)])
        writing_ms = np.zeros(batch.size) if pen is None else pen.ms
        working = (time.perf_counter() - started) * 1000 - float(writing_ms.sum())
        events = {one.number: tuple(one.events) for one in asked if one.events}
        return Output(
            queries,
            writing_ms + max(0.0, working) / max(1, batch.size),
            {} if pen is None else pen.facts,
            events,
            transient=any(event.kind == "failed" for said in events.values() for event in said),
        )

    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book the calls and rounds; the queries are what is searched by from now on."""
        assert isinstance(output.payload, Queries)
        if self.writes:
            writing.book(state, self.name, output)
            state.ledger.spend("rounds", np.minimum(output.facts["spent_llm_calls"], 1))
            state.ledger.curtail(self.name, "rounds", self._wanted(state), plan["rounds"])
        state.queries = output.payload
        state.keys["queries"] = key

    def _wanted(self, state: State) -> npt.NDArray[np.int64]:
        wanted = np.zeros(state.batch.size, dtype=np.int64)
        wanted[[one.number for one in self.asked(state) if self.applies(one)]] = 1
        return wanted

    def _write(self, asked: Sequence[Asked], pen: writing.Pen) -> None:
        """Let the model propose something for each question; where it does not, an event or the ledger says why."""
        for language in ("en", "zh"):
            mine = [one for one in asked if one.language == language]
            texts = [asking.put_question(one.text, language, self.turns(one)) for one in mine]
            of = np.array([one.number for one in mine], dtype=np.int64)
            told = asking.instructions(self.task, language, self.most)
            for one, written in zip(mine, pen.write(told, texts, of, self.room), strict=True):
                if written is None:
                    continue
                proposed = [] if written.cause else self.read(written.text)
                if written.cause:
                    self.say(one, "failed", written.cause)
                elif proposed is None:
                    self.say(one, "unreadable", written.text)
                elif not proposed:
                    self.say(one, "empty")
                one.proposed = proposed or []

    def asked(self, state: State) -> list[Asked]:
        """The questions, with what the stage has to know of them."""
        return asked_of(state)

    @property
    def most(self) -> int:
        """The most queries that it makes of a question."""
        return 1

    def turns(self, one: Asked) -> tuple[str, ...]:  # noqa: ARG002 - one interface
        """The turns before a question that the model is shown."""
        return ()

    def read(self, written: str) -> list[str] | None:
        """What a model proposed; None where it cannot be read."""
        found = asking.read_text(written)
        return None if found is None else [found] * bool(found)

    def applies(self, one: Asked) -> bool:  # noqa: ARG002 - one interface
        """Whether a question is transformed at all."""
        return True

    @abstractmethod
    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """What rules propose for each question."""

    def checked(self, one: Asked) -> list[str]:
        """The proposals that may be searched by: none that states something new, none twice, not too many."""
        return self.few(one, self.new(one, [text for text in one.proposed if self.passes(one, text)]))

    def passes(self, one: Asked, text: str) -> bool:
        """Whether a query loses nothing where it may not, and states nothing that nobody said; if not, an event."""
        if (self.replaces and guard(one.text, text)) or added(REFERENCE.sub(" ", text), one.known):
            self.say(one, "rejected", text)
            return False
        return True

    def new(self, one: Asked, texts: Sequence[str]) -> list[str]:
        """Those that are not searched by already. Where none is left of some, that is an event."""
        known = {compared(text) for _, text, *_ in one.rows} | {compared(one.text)}
        fresh: dict[str, str] = {}
        for text in texts:
            if compared(text) not in known:
                fresh.setdefault(compared(text), text)
        if self.writes and texts and len(fresh) < len(texts):
            self.say(one, "repeated", value=len(texts) - len(fresh))
        return list(fresh.values())

    def few(self, one: Asked, texts: Sequence[str]) -> list[str]:
        """As many as the stage makes at most; what goes beyond is an event."""
        if len(texts) > self.most:
            self.say(one, "capped", value=len(texts) - self.most)
        return list(texts[: self.most])

    def say(self, one: Asked, kind: str, text: str = "", value: float = 0.0) -> None:
        """Put down an event of a question."""
        one.events.append(Event(self.name, kind, text, value))

    @abstractmethod
    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """What the question is searched by from now on."""


class Beside(Transform):
    """A transform that adds queries to the question's own."""

    intervention: ClassVar[str] = "query count"

    keep_question: bool = Field(True, description="search by the question as well")

    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """The queries that were there, then the new ones."""
        kept = [row for row in one.rows if self.keep_question or row[2] not in OWN]
        return [*kept, *((one.number, text, self.name, "", "") for text in found)]
