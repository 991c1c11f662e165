"""Authorised requests, and the texts that they are searched by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from rag_lab.contracts.arrays import BoolArray, IntArray
from rag_lab.contracts.rights import Principal


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
