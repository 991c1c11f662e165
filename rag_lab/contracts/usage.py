"""What was spent, where less was done for want of it, and what a question's trace tells."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Usage:
    """What one question cost: counts, US dollars and milliseconds."""

    candidates: float = 0
    rerank_pairs: float = 0
    context_tokens: float = 0
    output_tokens: float = 0
    llm_calls: float = 0
    rounds: float = 0
    usd: float = 0.0
    latency_ms: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in RESOURCES))


RESOURCES = tuple(resource.name for resource in fields(Usage))
MEANS = ("llm_calls", "context_tokens", "output_tokens")
"""The resources that writing with a language model takes."""


@dataclass(frozen=True, slots=True)
class Curtailment:
    """A stage wanted more of a resource than the budget had left, and did less."""

    stage: str
    resource: str
    wanted: float
    granted: float


@dataclass(frozen=True, slots=True)
class StageTiming:
    """`ms` is the question's share of the stage's time when it was computed; `cached`: read back this time."""

    stage: str
    ms: float
    cached: bool = False


@dataclass(frozen=True, slots=True)
class CacheUse:
    """How often a cache (parse, embedding, token vectors, query, retrieval, answer, ...) had what was asked for."""

    cache: str
    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class Event:
    """What a stage did for a question and no figure tells: a query it asked, a rewrite it refused, why it stopped.

    `kind` names it in one word of the stage's own, `value` is its amount where it has one, `round` counts from 1.
    """

    stage: str
    kind: str
    text: str = ""
    value: float = 0.0
    round: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """How one question went through a variant."""

    request_id: str
    timings: tuple[StageTiming, ...] = ()
    curtailed: tuple[Curtailment, ...] = ()
    over_budget: tuple[str, ...] = ()
    usage: Usage = Usage()
    caches: tuple[CacheUse, ...] = ()
    events: tuple[Event, ...] = ()
