"""How one question goes through its rounds: what was asked for it, what that found, and why it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rag_lab.contracts import Claim, Event
from rag_lab.generation.adaptive.chains import Chain, best_first
from rag_lab.generation.adaptive.complexity import Level
from rag_lab.generation.adaptive.evidence import Asked
from rag_lab.generation.queries.decomposition import SubQuestion

NAME = "adaptive"
FAILED = "failed"
"""Kind of an event that tells of a call that failed: the output is then asked for again by the next run."""

Stop: TypeAlias = Literal[
    "",
    "no_retrieval",
    "one_step",
    "sufficient",
    "insufficient",
    "rounds",
    "latency",
    "fan_out",
    "candidates",
    "tokens",
    "drift",
    "no_new_evidence",
    "nothing_to_ask",
]
"""Why a question got no further round; "" while it goes on."""

NOTHING = Chain((), 0)
NOT_ASKED = Asked.of("", ())


@dataclass(eq=False)
class Query:
    """One search for a question. `rows`: what it found, best first.

    kind: as the stages before named the texts that the question came with (`own`); "part" of a decomposition, "name" in
    the question; "link", "title" or "word" for a bridge (see `follow_ups`); "sentence" of the evidence; "keywords";
    "model" for what a language model wrote. said: its text for the trace, which names documents by id and quotes none.
    channels: positions of those that it is put to. chain: what it goes on from. part: the number of the part that it
    asks, 0 for none. bridge: the sub-answer that it is made with. drift: its distance from the user's question.
    """

    text: str
    kind: str
    round: int
    said: str
    channels: tuple[int, ...]
    own: bool = False
    averaged: str = ""
    chain: Chain = NOTHING
    part: int = 0
    bridge: Claim | None = None
    drift: float = 0.0
    rows: list[int] = field(default_factory=list)

    @property
    def asks(self) -> tuple[str, tuple[int, ...]]:
        """What is asked of which channels; asking it again would find the same."""
        return self.text.casefold(), self.channels

    @property
    def named(self) -> str:
        """Kind and text for the trace."""
        return f"{self.kind}: {self.said}"


@dataclass(eq=False)
class Course:
    """One question on its way. `candidates` and `rounds` are what it was granted.

    first: what the texts that it came with found. chains: each with the query that found its last passage. grades,
    relevant: of passages, where the mode grades them. similar: how alike the encoder finds passages and question.
    kept_back: candidates for other queries than its own. drawn, used: candidates and rounds that were spent. cut:
    whether a search drew less than it would have, for want of candidates.
    """

    question: int
    text: str
    language: str
    candidates: int
    rounds: int
    level: Level = "one"
    compares: bool = False
    parts: Sequence[SubQuestion] = ()
    asked: Asked = NOT_ASKED
    queries: list[Query] = field(default_factory=list)
    chains: dict[Chain, Query] = field(default_factory=dict)
    grades: dict[int, float] = field(default_factory=dict)
    relevant: dict[int, bool] = field(default_factory=dict)
    similar: dict[int, float] = field(default_factory=dict)
    first: list[int] = field(default_factory=list)
    kept_back: int = 0
    drawn: int = 0
    used: int = 0
    cut: bool = False
    stop: Stop = ""
    events: list[Event] = field(default_factory=list)

    @property
    def active(self) -> bool:
        """Whether it goes on."""
        return not self.stop

    def of_round(self, number: int) -> list[Query]:
        """The queries of one round."""
        return [query for query in self.queries if query.round == number]

    def best(self) -> list[Chain]:
        """The chains, best first."""
        return best_first(self.chains, self.asked)

    @property
    def coverage(self) -> float:
        """What the best chain covers of the question."""
        return max((self.asked.coverage(chain.mask) for chain in self.chains), default=0.0)

    def say(self, kind: str, text: str = "", value: float = 0.0, number: int = 0) -> None:
        """Put down an event."""
        self.events.append(Event(NAME, kind, text, round(value, 4), number))

    def end(self, reason: Stop) -> None:
        """End it, once."""
        self.stop = self.stop or reason
