"""The records that cross a boundary of rag_lab.

Everything here is immutable and imports nothing of ours. Single things are records (a `Chunk`, a `Question`, an
`Answer`); what a stage handles for all queries at once is held in arrays (a `Ranking`).

Conventions used everywhere:

* ids are strings;
* a span is a half-open interval ``(start, end)`` in code points of the document's text;
* instants are time-zone aware `datetime`s in UTC, ``None`` means open; `valid_until` is the first instant that is *not*
  valid;
* a *row* is the position of a chunk in its snapshot; rows are ordered by (document id, position in the document), so
  "ties by id" and "ties by row" are the same rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int32]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Span: TypeAlias = tuple[int, int]


class RagLabError(Exception):
    """An error that its user can act on: one line that names the place, what is wrong, and the fix."""


class Unavailable(RagLabError):
    """What was named is not on this machine and cannot be fetched."""


# --- rights ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may read: everybody in the tenant (`public`), or the members of `groups`. ``Acl()`` admits nobody.

    With `policy` the readers are those that the policy of this id names when a request is made; `public` and `groups`
    then say nothing, and a policy that is not known admits nobody.
    """

    public: bool = False
    groups: tuple[str, ...] = ()
    policy: str = ""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. Group names are compared after NFC and case-sensitively."""

    tenant: str
    groups: tuple[str, ...] = ()
    user: str = ""


# --- documents and chunks -------------------------------------------------------------------------------------------


GLOBAL_TENANT = "global"
"""Documents of this tenant may be read from every tenant, as far as their ACL admits the caller."""


class BlockKind(StrEnum):
    """What a block of a document is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE = "table"
    CODE = "code"
    QUOTE = "quote"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document's text that belongs together. `level` is that of a heading (1 to 6), else 0.

    `section_path` holds the headings above the block (for a heading: with itself). `page` counts from 1, 0 where the
    source has no pages. `lead` is the span of a table's header row, which later parts of a cut table need.
    """

    kind: BlockKind
    span: Span
    section_path: tuple[str, ...] = ()
    level: int = 0
    page: int = 0
    lead: Span | None = None


@dataclass(frozen=True, slots=True)
class SectionRights:
    """Rights of a part of a document, on top of the document's own: a reader needs both."""

    span: Span
    acl: Acl
    valid_from: datetime | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A source document: its text, its structure, who may read it, and what decides its standing.

    Three dates are kept apart: `published_at` (the author's), the validity interval, and `ingested_at` (ours).
    `blocks` are ascending and disjoint; a document without any is read as Markdown by chunkers that need structure.
    `status` (active, retired), `authority` (policy, article) and `source_trust` (primary, copy) decide which of two
    conflicting sources prevails.
    """

    document_id: str
    text: str
    title: str = ""
    tenant: str = "default"
    acl: Acl = Acl()
    acl_version: str = "1"
    language: str = ""
    source_uri: str = ""
    source_version: str = "1"
    source_trust: str = "primary"
    published_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    ingested_at: datetime | None = None
    status: str = "active"
    authority: str = "policy"
    blocks: tuple[Block, ...] = ()
    sections: tuple[SectionRights, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit that is indexed, retrieved and cited. ``document.text[slice(*source_span)] == text``.

    `acls` must all admit a reader: the document's, and those of the sections that the chunk is made from.
    `embedded_text` is what the indexes see, `shown_span` the part of the document that a context shows for the chunk:
    the chunk itself, or its parent.
    """

    tenant: str
    document_id: str
    chunk_id: str
    text: str
    title: str
    section_path: tuple[str, ...]
    language: str
    source_uri: str
    source_version: str
    source_span: Span
    content_hash: str
    source_trust: str
    acls: tuple[Acl, ...]
    acl_version: str
    valid_from: datetime | None
    valid_until: datetime | None
    published_at: datetime | None
    status: str
    authority: str
    page: int
    embedded_text: str
    shown_span: Span
    parser_version: str
    chunker_version: str
    embedding_model: str
    index_version: str


# --- questions ------------------------------------------------------------------------------------------------------


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


# --- usage and budget -----------------------------------------------------------------------------------------------


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


# --- requests -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """One authorised call. `scope` narrows the corpus by document id; None leaves it to rights and time alone.

    `query` is in the user's own words; `history` holds the turns of the conversation before it, oldest first.
    `horizon`: what comes into force after `time` and not after this instant may be shown, marked as coming.
    """

    request_id: str
    query: str
    principal: Principal | None
    tenant: str
    time: datetime
    scope: frozenset[str] | None = None
    policy_version: str = "1"
    freshness_bound: datetime | None = None
    horizon: datetime | None = None
    language: str = ""
    budget: Mapping[str, float] = field(default_factory=dict)
    history: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Queries:
    """The texts by which a batch of `size` questions is searched, one or more for each, none for some.

    of: the question of each text, ascending, ``[m]``; texts, kinds: ``[m]``, the kind is "question" for the user's own
    words and else names what made the text; channels: the only channel that a text is meant for, "" for every channel
    that has none of its own for the question, ``[m]``.
    averaged: for each text another one, whose vector as a query is averaged with its own where vectors are searched,
    "" for none, ``[m]``; () where no text has one.
    """

    size: int
    of: IntArray
    texts: tuple[str, ...]
    kinds: tuple[str, ...]
    channels: tuple[str, ...]
    averaged: tuple[str, ...] = ()

    @classmethod
    def of_requests(cls, requests: Sequence[Request]) -> Queries:
        """The users' own words."""
        n = len(requests)
        texts = tuple(request.query for request in requests)
        return cls(n, np.arange(n, dtype=np.int32), texts, ("question",) * n, ("",) * n)

    @classmethod
    def build(cls, size: int, rows: Iterable[tuple[int, str, str, str] | tuple[int, str, str, str, str]]) -> Queries:
        """From (question, text, kind, channel[, averaged]) in any order; those of one question stay in theirs."""
        kept = sorted(rows, key=lambda row: row[0])
        of = np.array([row[0] for row in kept], dtype=np.int32)
        texts, kinds, channels = (tuple(str(row[i]) for row in kept) for i in (1, 2, 3))
        averaged = tuple(row[4] if len(row) == 5 else "" for row in kept)
        return cls(size, of, texts, kinds, channels, averaged if any(averaged) else ())

    def where(self, keep: Sequence[bool] | BoolArray) -> Queries:
        """Some of the texts, by a flag for each, ``[m]``."""
        chosen = np.flatnonzero(np.asarray(keep, dtype=bool)).tolist()
        texts, kinds, channels = (
            tuple(values[i] for i in chosen) for values in (self.texts, self.kinds, self.channels)
        )
        averaged = tuple(self.averaged[i] for i in chosen) if self.averaged else ()
        return Queries(self.size, self.of[chosen], texts, kinds, channels, averaged if any(averaged) else ())

    def meant_for(self, channel: str) -> BoolArray:
        """Which texts a channel is searched by, ``[m]``: its own for a question if there are any, else the others."""
        own = np.array([only == channel for only in self.channels], dtype=bool)
        general = np.array([only == "" for only in self.channels], dtype=bool)
        has_own = np.bincount(self.of[own], minlength=self.size) > 0
        return np.asarray(own | (general & ~has_own[self.of]), dtype=bool)

    def for_channel(self, channel: str) -> Queries:
        """The texts that a channel is searched by."""
        return self.where(self.meant_for(channel))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many texts each question has, ``[size]``."""
        return np.bincount(self.of, minlength=self.size).astype(np.int64)


# --- rankings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """One retrieved chunk with every score it got on the way. `query`: the text that the channel found it by."""

    chunk: Chunk
    channel: str
    raw_rank: int
    raw_score: float
    fused_score: float | None
    rerank_score: float | None
    snapshot: str
    query: str = ""


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ranked chunks for a batch of queries.

    Arrays share one length; entries are grouped by query (ascending) and, within a query, ordered best first.

    query: position of the query in the batch; chunk: row in the snapshot; score: higher is better;
    ranks: for each contributing channel the rank (from 1) it gave the entry, 0 where it did not return it.
    found_by: the position among the channel's queries of the one that ranked the entry best; None where each question
    had one query, or none.
    """

    channel: str
    size: int
    query: IntArray
    chunk: IntArray
    score: FloatArray
    ranks: Mapping[str, IntArray] = field(default_factory=dict)
    found_by: IntArray | None = None

    @classmethod
    def from_scores(
        cls,
        channel: str,
        size: int,
        query: npt.ArrayLike,
        chunk: npt.ArrayLike,
        score: npt.ArrayLike,
        ranks: Mapping[str, IntArray] | None = None,
    ) -> Ranking:
        """Order entries by the one tie rule: score, best first, then row. A chunk listed twice keeps its best score."""
        q = np.asarray(query, dtype=np.int32)
        c = np.asarray(chunk, dtype=np.int32)
        s = np.asarray(score, dtype=np.float64)
        if not np.isfinite(s).all():
            raise RagLabError(f"{channel}: {int((~np.isfinite(s)).sum())} scores are NaN or infinite")
        order = np.lexsort((c, -s, q))
        q, c, s = q[order], c[order], s[order]
        key = q.astype(np.int64) << 32 | c
        first = np.zeros(len(key), dtype=bool)
        first[np.unique(key, return_index=True)[1]] = True
        kept = order[first]
        given = {name: array[kept] for name, array in (ranks or {}).items()}
        return cls(channel, size, q[first], c[first], s[first], given)

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """``[size + 1]``: entries of query i lie in ``offsets[i]:offsets[i + 1]``."""
        return np.searchsorted(self.query, np.arange(self.size + 1))

    @property
    def rank(self) -> IntArray:
        """Rank of each entry within its query, from 1."""
        return (np.arange(len(self.query)) - self.offsets[self.query] + 1).astype(np.int32)

    def of(self, query: int) -> IntArray:
        """Rows of one query, best first."""
        start, end = np.searchsorted(self.query, [query, query + 1])
        return self.chunk[start:end]

    def top(self, depth: int | npt.NDArray[Any]) -> Ranking:
        """The first `depth` entries of each query; `depth` may differ by query (``[size]``)."""
        limit = np.broadcast_to(np.asarray(depth), (self.size,))
        keep = self.rank <= limit[self.query]
        return Ranking(
            self.channel,
            self.size,
            self.query[keep],
            self.chunk[keep],
            self.score[keep],
            {name: array[keep] for name, array in self.ranks.items()},
            None if self.found_by is None else self.found_by[keep],
        )


# --- context and generation -----------------------------------------------------------------------------------------


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


class Generator(Protocol):
    """Turns contexts into outcomes, a batch at a time.

    `version` changes whenever the output for the same input may; `window` is the most tokens that prompt and answer may
    have together (None: no limit); `calls` is how many language-model calls one answer takes.
    """

    name: str
    version: str
    window: int | None
    calls: int

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text in the generator's own tokenizer, ``[n]``."""
        ...

    def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Sequence[Passage]]) -> IntArray:
        """Tokens of each whole prompt (instructions, question, headers, passages), ``[n]``."""
        ...

    def generate(
        self, requests: Sequence[Request], contexts: Sequence[Context], output_tokens: IntArray
    ) -> list[Completion]:
        """One completion per request; `output_tokens` caps each answer, ``[n]``."""
        ...


@runtime_checkable
class Calibrated(Generator, Protocol):
    """A generator that abstains below a threshold of confidence, which is chosen on questions that are not scored."""

    def with_threshold(self, threshold: float | None) -> Generator:
        """The same generator with this threshold; None never abstains for want of confidence."""
        ...

    def with_background(self, texts: Sequence[str]) -> Calibrated:
        """The same generator with words weighed by how rare they are in `texts`."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """What a language model wrote for one text: tokens in and out, its share of the time; `cause`: why it failed."""

    text: str
    prompt_tokens: int
    output_tokens: int
    ms: float
    cause: str = ""


@runtime_checkable
class Writer(Protocol):
    """A language model that writes to order: queries, grades, orders of passages. One text is one call.

    `window` is the most tokens that a prompt and what is written may have together (None: no limit).
    """

    name: str
    version: str
    window: int | None

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        """Tokens of each whole prompt, ``[n]``."""
        ...

    def write(self, instructions: str, texts: Sequence[str], output_tokens: IntArray) -> list[Written]:
        """What it writes for each text, at most `output_tokens` ``[n]``; one that fails does not stop the others."""
        ...


class Encoder(Protocol):
    """Maps texts to unit vectors. `version` identifies weights and settings; vectors of two versions never meet."""

    name: str
    version: str
    dimension: int
    max_tokens: int
    languages: frozenset[str]

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors, ``[n, dimension]``."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors, ``[n, dimension]``."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text without special tokens, ``[n]``."""
        ...

    def token_spans(self, text: str) -> list[Span]:
        """Code-point span of each token of a text, in order."""
        ...


def batches(n: int, size: int) -> Iterator[slice]:
    """Slices that cover ``range(n)`` in pieces of `size`."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
