"""What a stage is: one step of a variant over a whole batch of questions.

A stage plans (asks the ledger what it may spend), computes (nothing but its inputs decide the output, so equal stages
of several variants run once and their output is kept on disk), and applies (books what was used, hands it on).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from rag_lab.budgets import Ledger, Prices
from rag_lab.contracts import (
    Abstention,
    BoolArray,
    CacheUse,
    Claim,
    Completion,
    Context,
    Encoder,
    Event,
    Failure,
    FloatArray,
    Generator,
    IntArray,
    Queries,
    RagLabError,
    Ranking,
    Request,
    StageTiming,
    Trace,
    Writer,
)
from rag_lab.corpus.policies import PolicyBook
from rag_lab.corpus.rights import Scopes
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.provenance import RESULT_CODE, code_digest
from rag_lab.retrieval.late.vectors import LateEncoder
from rag_lab.retrieval.sparse.vectors import SparseEncoder
from rag_lab.store import Store, digest
from rag_lab.variants.query_vectors import QuerySparseVectors, QueryTokenVectors, QueryVectors

Payload: TypeAlias = Ranking | Queries | tuple[Context, ...] | tuple[Completion, ...]
Plan: TypeAlias = Mapping[str, npt.NDArray[Any]]
LARGEST = 10**9  # the most of anything that a setting may ask for: it has to fit the indexes' 32-bit counts


def _no_late_encoder() -> LateEncoder:
    raise RagLabError("colbert: there is no late-interaction encoder; set 'colbert' in the snapshot's settings")


def _no_token_vectors(texts: Sequence[str]) -> QueryTokenVectors:  # noqa: ARG001 - one interface
    raise RagLabError("colbert: there is no late-interaction encoder; set 'colbert' in the snapshot's settings")


def _no_sparse_encoder(model: str) -> SparseEncoder:
    raise RagLabError(f"splade: there is no sparse encoder '{model}' in this batch")


def _no_sparse_vectors(model: str, texts: Sequence[str]) -> QuerySparseVectors:  # noqa: ARG001 - one interface
    raise RagLabError(f"splade: there is no sparse encoder '{model}' in this batch")


@dataclass(frozen=True, eq=False)
class Batch:
    """What all variants of a run share: the same questions, snapshot, rights, encoder and generator.

    gold: for each request the rows that hold its gold evidence. scopes: what `snapshot` and `book` let each one read.
    query_vectors, token_vectors: vectors of texts as queries, one each and one a token. sparse_vectors: their terms as
    the model of a name weighs them. writer: who writes queries and grades, None where nobody does.
    texts: the documents' texts by id, where they are at hand; only what is white space between chunks is read of them.
    """

    requests: Sequence[Request]
    gold: Sequence[IntArray]
    snapshot: Snapshot
    book: PolicyBook
    scopes: Scopes
    generator: Generator
    generates: bool
    prices: Prices
    store: Store
    encoder: Callable[[], Encoder]
    query_vectors: Callable[[Sequence[str]], QueryVectors]
    progress: Callable[[str, int, int], None]
    writer: Writer | None = None
    late_encoder: Callable[[], LateEncoder] = _no_late_encoder
    token_vectors: Callable[[Sequence[str]], QueryTokenVectors] = _no_token_vectors
    sparse_encoder: Callable[[str], SparseEncoder] = _no_sparse_encoder
    sparse_vectors: Callable[[str, Sequence[str]], QuerySparseVectors] = _no_sparse_vectors
    texts: Callable[[], Mapping[str, str]] | None = None

    @property
    def size(self) -> int:
        """Number of questions."""
        return len(self.requests)

    @cached_property
    def key(self) -> str:
        """A digest of what decides every output: snapshot, requests with tenant and rights, policies, denials, code."""
        asked = [
            [repr(sorted(value)) if isinstance(value, frozenset) else repr(value) for value in astuple(request)]
            for request in self.requests
        ]
        denied = sorted(self.scopes.denied)
        return digest(self.snapshot.id, asked, self.scopes.policies, denied, code_digest(RESULT_CODE))

    def holds(self) -> bool:
        """Whether the scopes leave out every document that is denied by now."""
        return self.snapshot.denied() <= self.scopes.denied

    def current(self) -> Batch:
        """The batch with scopes that hold: itself unless one of its documents was denied meanwhile."""
        return self if self.holds() else replace(self, scopes=self.snapshot.scopes(self.requests, self.book))

    @contextmanager
    def handing_out(self) -> Iterator[bool]:
        """Whether the scopes still hold; if they do, nothing in them is denied before the block ends."""
        with self.snapshot.reading() as denied:
            yield denied <= self.scopes.denied

    def kept(self, key: str, name: str) -> bytes | None:
        """A file of a stage's output, None where it is not in the store."""
        return self.store.read("stages", f"{self.snapshot.id}/{key}", name)

    def keep(self, key: str, name: str, data: bytes) -> None:
        """Keep a file of a stage's output, unless it may hold what was denied and perhaps purged meanwhile."""
        with self.handing_out() as holds:
            if holds:
                self.store.write("stages", f"{self.snapshot.id}/{key}", name, data)


@dataclass(frozen=True, eq=False)
class Output:
    """What a stage computed; ``ms [size]``: each question's share of the time; `facts`: further arrays.

    events: what the figures do not tell, in order, by question. failures: the causes why some questions could not be
    finished; an output with any is not kept, so they are asked again by the next run, and neither is a `transient` one:
    what it did without may be there another time.
    """

    payload: Payload
    ms: FloatArray
    facts: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    events: Mapping[int, tuple[Event, ...]] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    transient: bool = False


@dataclass(frozen=True, eq=False)
class Reranked:
    """What a reranker saw: the ranking before it, the entries that it read, and their scores, NaN elsewhere."""

    before: Ranking
    read: BoolArray
    score: FloatArray


@dataclass(frozen=True, slots=True)
class Ran:
    """One executed stage: its output's key, its times, and whether it was read back from the store.

    vectors_cached: whether all query vectors that it asked for were read back, None if it asked for none.
    """

    stage: str
    key: str
    ms: FloatArray
    cached: bool
    vectors_cached: bool | None = None


@dataclass(eq=False)
class State:
    """How far one variant has come with a batch under one budget. `answer_tokens`: room wanted for each answer.

    queries: what the channels search by; searched: what each one did search by.
    skipped: questions that nothing is to be retrieved for, ``[size]``.
    decided: questions that a stage before generation ended with an abstention.
    from_memory: questions that are to be answered without evidence, ``[size]``.
    sub_answers: what was found out on the way to an answer, by question, with its sources.
    exact_neighbours: what exact search ranks first where the variant uses an approximate index.
    reranked: what the reranker saw, where there is one.
    looked_at: how many entries of the ranking the assembly went through, ``[size]``; what ranks lower was cut.
    direct: questions whose context holds more than what was retrieved for them, if anything was, ``[size]``.
    cut_later: whether a stage after the assembly cuts contexts to the budget.
    """

    batch: Batch
    ledger: Ledger
    channels_left: int
    answer_tokens: int
    queries: Queries
    skipped: BoolArray
    channels: dict[str, Ranking] = field(default_factory=dict)
    searched: dict[str, Queries] = field(default_factory=dict)
    fused: Ranking | None = None
    contexts: tuple[Context, ...] | None = None
    looked_at: npt.NDArray[np.int64] | None = None
    exact_neighbours: Ranking | None = None
    reranked: Reranked | None = None
    completions: tuple[Completion, ...] | None = None
    keys: dict[str, str] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)
    failures: dict[int, Failure] = field(default_factory=dict)
    events: dict[int, tuple[Event, ...]] = field(default_factory=dict)
    decided: dict[int, Abstention] = field(default_factory=dict)
    from_memory: BoolArray | None = None
    sub_answers: dict[int, tuple[Claim, ...]] = field(default_factory=dict)
    direct: BoolArray | None = None
    cut_later: bool = False

    @property
    def answers(self) -> bool:
        """Whether the variant is to answer: retrieval alone has no answers to score, and none that failed."""
        return self.answer_tokens > 0

    @property
    def ranking(self) -> Ranking | None:
        """The ranking that is handed on: the fused one, else the only channel's."""
        if self.fused is not None:
            return self.fused
        return next(iter(self.channels.values()), None)


def trace(state: State, question: int) -> Trace:
    """How one question went through the variant: times, curtailments, what it used, and what it used too much of."""
    return Trace(
        state.batch.requests[question].request_id,
        tuple(StageTiming(ran.stage, float(ran.ms[question]), ran.cached) for ran in state.ran),
        tuple(state.ledger.curtailments[question]),
        tuple(resource for resource, flags in state.ledger.over().items() if flags[question]),
        state.ledger.usage(question),
        cache_use(state.ran),
        state.events.get(question, ()),
    )


def cache_use(executed: Iterable[Ran]) -> tuple[CacheUse, ...]:
    """What these stages found in the store: query vectors, outputs up to the context, answers."""
    found: dict[str, list[bool]] = {}
    for ran in executed:
        if ran.vectors_cached is not None:
            found.setdefault("query", []).append(ran.vectors_cached)
        found.setdefault("answer" if STAGES[ran.stage].step is Step.GENERATE else "retrieval", []).append(ran.cached)
    return tuple(CacheUse(name, sum(hits), len(hits) - sum(hits)) for name, hits in found.items())


class Step(IntEnum):
    """Where a stage belongs in a variant."""

    QUERY = 0
    RETRIEVE = 1
    RANK = 2
    ASSEMBLE = 3
    GENERATE = 4


class Stage(BaseModel, ABC):
    """A stage with its settings. A subclass sets `name` (the YAML key) and `step`, and is made known by `register`.

    reads_ranking: whether it is of no use unless a stage of the variant retrieves; fuses: whether it makes one
    ranking of several channels; cuts_context: whether it cuts contexts to the budget, so that the assembly before it
    need not. intervention: what an ablation changes that switches it: "stage", "query count" (how
    many queries a question is searched by), "reranker". serves: the one channel that makes use of it, if there is one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    name: ClassVar[str]
    step: ClassVar[Step]
    reads_ranking: ClassVar[bool] = False
    cuts_context: ClassVar[bool] = False
    fuses: ClassVar[bool] = False
    intervention: ClassVar[str] = "stage"
    serves: ClassVar[str] = ""

    @property
    def writes(self) -> bool:
        """Whether it asks the run's writer, so that a run without one is refused before it begins."""
        return False

    def needs(self) -> frozenset[str]:
        """What the snapshot has to have: "lucene", "faiss:FACTORY", "encoder", ..."""
        return frozenset()

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """Refuse settings that do not go with the stages before it; `place` names the variant."""

    def models(self) -> dict[str, str]:
        """Versions of the models that the settings name themselves. Raises `RagLabError` for one that is none."""
        return {}

    def settings(self) -> dict[str, Any]:
        """The settings as they stand in YAML."""
        return self.model_dump(mode="json")

    def identity(self, batch: Batch) -> list[Any]:  # noqa: ARG002 - one interface
        """All that decides the output apart from the inputs: settings and versions of models."""
        return [self.settings()]

    @abstractmethod
    def inputs(self, state: State) -> list[str]:
        """Keys of the outputs that this stage reads."""

    @abstractmethod
    def plan(self, state: State) -> Plan:
        """Ask the ledger; the result decides the output together with the inputs."""

    @abstractmethod
    def compute(self, state: State, plan: Plan, key: str) -> Output:
        """The work itself. `key` names the output, for stages that keep partial results."""

    @abstractmethod
    def apply(self, state: State, plan: Plan, output: Output, key: str) -> None:
        """Book the usage and put the output where later stages look for it."""


STAGES: dict[str, type[Stage]] = {}
AnyStage = TypeVar("AnyStage", bound=type[Stage])


def register(stage: AnyStage) -> AnyStage:
    """Make a stage known by its name."""
    if stage.name in STAGES:
        raise RagLabError(f"stage '{stage.name}' is registered twice")
    STAGES[stage.name] = stage
    return stage
