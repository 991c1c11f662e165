"""Stages that change what is searched by: chat-aware rewriting, RAG-Fusion, HyDE, step-back, parts, translation.

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

from rag_lab.contracts import Event, Queries, RagLabError
from rag_lab.generation.queries import asking
from rag_lab.generation.queries.decomposition import decompose
from rag_lab.generation.queries.facts import plain
from rag_lab.generation.queries.glossary import translate
from rag_lab.generation.queries.guard import added, guard
from rag_lab.generation.queries.rewriting import rewrite
from rag_lab.generation.queries.variations import step_back, variations
from rag_lab.generation.terms import question_language
from rag_lab.variants import writing
from rag_lab.variants.query_encoding import HYPOTHETICAL
from rag_lab.variants.stage import Batch, Output, Plan, Stage, State, Step, register

Row: TypeAlias = tuple[int, str, str, str, str]
By: TypeAlias = Literal["rules", "llm"]

OWN = ("question", "rewrite")
"""Kinds of the queries that stand for the question itself."""
MOST = 16
"""The most queries that a setting may ask for beside the question."""
_REFERENCE = re.compile(r"#\d+")


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


def _compared(text: str) -> str:
    """The form in which two queries are the same."""
    return plain(text).casefold().strip(" ?？.。!！,，")


class Transform(Stage):
    """A stage that changes the queries of some questions and leaves the others theirs.

    task: what a model is asked; room: tokens that it may write for one question.
    """

    step: ClassVar[Step] = Step.QUERY
    reads_ranking: ClassVar[bool] = True
    by: By = "rules"
    task: ClassVar[asking.Task]
    room: ClassVar[int]

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
        """Whether a query states nothing that nobody said; one that does is refused with an event."""
        if added(_REFERENCE.sub(" ", text), one.known):
            self.say(one, "rejected", text)
            return False
        return True

    def new(self, one: Asked, texts: Sequence[str]) -> list[str]:
        """Those that are not searched by already. Where none is left of some, that is an event."""
        known = {_compared(text) for _, text, *_ in one.rows} | {_compared(one.text)}
        fresh: dict[str, str] = {}
        for text in texts:
            if _compared(text) not in known:
                fresh.setdefault(_compared(text), text)
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


@register
class Rewrite(Transform):
    """Make a question of a conversation stand alone; the rewritten text searches, the user's own is answered.

    By rules: pronouns and what is left out are filled in from the turns before (`generation.queries.rewriting`).
    """

    name: ClassVar[str] = "rewrite"
    task: ClassVar[asking.Task] = "rewrite"
    room: ClassVar[int] = 64
    keep_question: bool = Field(False, description="search by the user's own words as well")

    def applies(self, one: Asked) -> bool:
        """Only what has a history."""
        return bool(one.history)

    def turns(self, one: Asked) -> tuple[str, ...]:
        """All turns."""
        return one.history

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """The question with what it refers to."""
        texts = [one.text for one in asked]
        found = rewrite(texts, [one.history for one in asked], [one.language for one in asked])
        return [[new] * (new != old) for new, old in zip(found, texts, strict=True)]

    def passes(self, one: Asked, text: str) -> bool:
        """Besides, it must have lost nothing."""
        if guard(one.text, text):
            self.say(one, "rejected", text)
            return False
        return super().passes(one, text)

    def new(self, one: Asked, texts: Sequence[str]) -> list[str]:
        """A question that stands alone already comes back as it is, and that is as it should be."""
        return [text for text in texts if _compared(text) != _compared(one.text)]

    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """The rewritten text in the place of the user's own, or before it."""
        rest = [row for row in one.rows if self.keep_question or row[2] not in OWN]
        return [(one.number, found[0], self.name, "", ""), *rest]


@register
class MultiQuery(Beside):
    """Search by several wordings, fused by reciprocal rank (RAG-Fusion: Rackauckas 2024).

    By rules: key words, what the question states, its names (`generation.queries.variations`), three at most.
    """

    name: ClassVar[str] = "multi_query"
    task: ClassVar[asking.Task] = "multi_query"
    room: ClassVar[int] = 160
    n: int = Field(3, ge=1, le=MOST, description="queries beside the question, at most")

    @property
    def most(self) -> int:
        """So many wordings."""
        return self.n

    def read(self, written: str) -> list[str] | None:
        """One a line."""
        return asking.read_lines(written)

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """Other wordings."""
        return variations([one.text for one in asked], [one.language for one in asked], self.n)


@register
class StepBack(Beside):
    """Search by a more general question as well (Zheng et al. 2023).

    By rules: the first name with the head of what is asked (`generation.queries.variations.step_back`).
    """

    name: ClassVar[str] = "step_back"
    task: ClassVar[asking.Task] = "step_back"
    room: ClassVar[int] = 64

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """The more general query, where there is one."""
        found = step_back([one.text for one in asked], [one.language for one in asked])
        return [[text] * bool(text) for text in found]


@register
class Decompose(Beside):
    """Search by the parts of a complex question as well.

    Parts that need the answer of another one (``#1``) cannot be searched by before that is answered, so they are put
    down as events and left out; the stage `adaptive` follows them.
    """

    name: ClassVar[str] = "decompose"
    task: ClassVar[asking.Task] = "decompose"
    room: ClassVar[int] = 160
    parts: int = Field(4, ge=1, le=MOST, description="parts that are searched by, at most")

    @property
    def most(self) -> int:
        """So many parts."""
        return self.parts

    def read(self, written: str) -> list[str] | None:
        """One a line."""
        return asking.read_lines(written)

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """The parts by the rules of both languages."""
        found = decompose([one.text for one in asked], [one.language for one in asked])
        return [[part.text for part in parts] for parts in found]

    def checked(self, one: Asked) -> list[str]:
        """The parts that stand for themselves."""
        for text in one.proposed:
            if _REFERENCE.search(text):
                self.say(one, "dependent", text)
        one.proposed = [text for text in one.proposed if not _REFERENCE.search(text)]
        return super().checked(one)


@register
class Hyde(Transform):
    """Search vectors by a passage that a language model makes up as an answer (HyDE: Gao et al. 2022).

    It is encoded as a passage. What it states is made up, so it is only compared and never shown, and channels that
    search by words keep the question's.
    """

    name: ClassVar[str] = "hyde"
    task: ClassVar[asking.Task] = "hyde"
    serves: ClassVar[str] = "dense"
    room: ClassVar[int] = 128
    by: Literal["llm"] = "llm"
    question: Literal["averaged", "beside", "none"] = Field(
        "averaged", description="whether the question's vector is averaged with the passage's, searches too, or neither"
    )

    def read(self, written: str) -> list[str] | None:
        """The whole passage."""
        found = asking.read_passage(written)
        return [found] * bool(found)

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """Nothing: no rule makes up an answer."""
        return [[]] * len(asked)

    def passes(self, one: Asked, text: str) -> bool:  # noqa: ARG002 - one interface
        """A made-up passage states what nobody said."""
        return True

    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """The passage for the dense channel, with its other queries; the rest as it was."""
        averaged = one.text if self.question == "averaged" else ""
        kept = [row for row in one.rows if row[3] in ("", self.serves)]
        others = [row for row in kept if self.question == "beside" or row[2] not in OWN]
        mine = [(number, text, kind, self.serves, beside) for number, text, kind, _, beside in others]
        rest = [row for row in one.rows if row[3] != self.serves]
        return [*rest, *mine, (one.number, found[0], HYPOTHETICAL, self.serves, averaged)]


@register
class Translate(Transform):
    """Search words in the language of the corpus: what BM25 needs and a multilingual encoder does not.

    The corpus's language is that of most chunks that the caller may read; a question in another one is translated, and
    BM25 searches by the translation, and by the user's words as well where some chunks are in their language. By rules
    it takes a `glossary` of terms, for a dictionary is nothing that rules can make up.
    """

    name: ClassVar[str] = "translate"
    task: ClassVar[asking.Task] = "translate"
    serves: ClassVar[str] = "bm25"
    room: ClassVar[int] = 96
    glossary: dict[str, str] = Field(default_factory=dict, description="terms and their translations, for rules")

    def check(self, place: str, before: Sequence[Stage]) -> None:  # noqa: ARG002 - one interface
        """Rules need a glossary, and a model takes none."""
        if self.writes == bool(self.glossary):
            raise RagLabError(
                f"{place}.{self.name}: give a glossary such as {{年假: annual leave}}, or set 'by: llm'; one of them"
            )

    def asked(self, state: State) -> list[Asked]:
        """With the languages of the chunks that the caller of each may read."""
        batch, spoken = state.batch, spoken_languages(state.batch)
        found = asked_of(state)
        for one in found:
            one.spoken = spoken[int(batch.scopes.of[one.number])]
        return found

    def applies(self, one: Asked) -> bool:
        """Only a question in another language than the corpus's, if that is one of the two that are translated."""
        return one.spoken[:1] in (("en",), ("zh",)) and one.spoken[0] != one.language

    def by_rules(self, asked: Sequence[Asked]) -> list[list[str]]:
        """What the glossary has of each question."""
        found = translate([one.text for one in asked], self.glossary)
        for one, text in zip(asked, found, strict=True):
            if not text:
                self.say(one, "empty")
        return [[text] * bool(text) for text in found]

    def passes(self, one: Asked, text: str) -> bool:
        """It takes the question's place, so it must have lost nothing."""
        if guard(one.text, text):
            self.say(one, "rejected", text)
            return False
        return super().passes(one, text)

    def placed(self, one: Asked, found: Sequence[str]) -> list[Row]:
        """The translation for BM25, with what it searched by where that may find something too."""
        kept = [row for row in one.rows if row[3] in ("", self.serves)] if one.language in one.spoken else []
        rest = [row for row in one.rows if row[3] != self.serves]
        mine = [(number, text, kind, self.serves, beside) for number, text, kind, _, beside in kept]
        return [*rest, (one.number, found[0], self.name, self.serves, ""), *mine]


def spoken_languages(batch: Batch) -> list[tuple[str, ...]]:
    """For each scope the languages of its chunks, that of most of them first."""
    names, language = np.unique(
        [code.lower().replace("_", "-").split("-")[0] for code in batch.snapshot.chunks.language], return_inverse=True
    )
    found = []
    for scope in batch.scopes.scopes:
        counts = np.bincount(language[scope.rows], minlength=len(names))
        order = np.argsort(-counts, kind="stable")
        found.append(tuple(str(names[i]) for i in order if counts[i] and names[i]))
    return found
