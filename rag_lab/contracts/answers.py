"""Contexts, and what became of a question: an answer, an abstention or a failure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, TypeAlias

from rag_lab.contracts.arrays import Span


@dataclass(frozen=True, slots=True)
class Passage:
    """What was put into the context for a chunk. `number` is what a citation marker names, from 1.

    `lead` is shown above the text and is not part of it: the header row of a table that was cut. `precedence` orders
    conflicting sources, the lower one prevails. `coming`: not yet in force at the request's time.
    """

    number: int
    row: int
    chunk_id: str
    document_id: str
    source_version: str
    source_uri: str
    title: str
    text: str
    span: Span
    language: str
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    tokens: int = 0
    lead: str = ""
    published_at: datetime | None = None
    precedence: int = 0
    coming: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """The evidence for one question, in prompt order, and the rows that were left out, with why."""

    request_id: str
    passages: tuple[Passage, ...] = ()
    dropped: tuple[tuple[int, str], ...] = ()
    prompt_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """Where a claim comes from: `quote` equals ``document.text[slice(*span)]``."""

    document_id: str
    source_version: str
    chunk_id: str
    span: Span
    quote: str
    uri: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of an answer. An *upcoming* claim names a change that is not in force at the request's time."""

    text: str
    sources: tuple[Source, ...] = ()
    kind: Literal["answer", "upcoming"] = "answer"


class Reason(StrEnum):
    """Why no answer is given."""

    NO_AUTHORISED_EVIDENCE = "no_authorised_evidence"
    INSUFFICIENT = "insufficient"
    CONFLICTING = "conflicting"
    OVER_BUDGET = "over_budget"
    UNSUPPORTED_CLAIM = "unsupported_claim"


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is what the reader sees; `invalid_citations` counts markers that name no passage in the context."""

    request_id: str
    text: str
    claims: tuple[Claim, ...]
    invalid_citations: int = 0
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Abstention:
    """An explicit refusal. It may still cite what was looked at."""

    request_id: str
    reason: Reason
    text: str = ""
    sources: tuple[Source, ...] = ()
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A question that a stage could not finish: counted as zero, never dropped."""

    request_id: str
    stage: str
    cause: str


Outcome: TypeAlias = Answer | Abstention | Failure


@dataclass(frozen=True, slots=True)
class Completion:
    """What a generator returns for one question. `ms` is the question's share of its batch."""

    outcome: Outcome
    prompt_tokens: int
    output_tokens: int
    llm_calls: int
    ms: float
