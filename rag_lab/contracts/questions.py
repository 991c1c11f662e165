"""Questions and where their evidence is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from rag_lab.contracts.arrays import Span
from rag_lab.contracts.rights import Principal


@dataclass(frozen=True, slots=True)
class GoldSpan:
    """A piece of evidence: a span of a document, or the whole document when `span` is None."""

    document_id: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what is known about its right answer.

    `history`: the turns of the conversation before it, oldest first. `evidence` says whether every piece of `gold` is
    needed ("all") or one is enough ("any").
    `answerable` is None when the dataset does not say; `answers` holds accepted wordings, empty when unknown.
    """

    query_id: str
    text: str
    group: str = "all"
    language: str = ""
    principal: Principal | None = None
    time: datetime | None = None
    answers: tuple[str, ...] = ()
    answerable: bool | None = None
    gold: tuple[GoldSpan, ...] = ()
    evidence: Literal["any", "all"] = "any"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    history: tuple[str, ...] = ()
