"""Who may read which chunk at which time, decided by this code alone and before anything is ranked.

Chunks that share tenant, ACLs and validity interval form a *rights class*. A request is checked against classes; every
index then restricts its own search to the permitted ones (Lucene by a term filter, FAISS by rows). Whatever is missing
denies: no principal, another tenant, no public flag and no shared group, an unknown policy, an authorisation under
another version of the policies, no time with a zone, a validity interval that does not hold. Documents on the deny list
leave every scope.

Two times must not be mixed up. `Request.time` is the time that is asked about: validity and the version of a policy are
those of then, so that an evaluation can ask as of a day in the past and see what its reader could have read on that
day. Whoever serves readers sets it to the present by code, never from a question, since an old time brings back old
readers. What must hold at once and for every time is denied: the deny list, and the policy book as a whole, are always
those of now.

Sections are nested. A right of a section holds for the whole section of every heading in it, subsections included, and
for all that is made from it: a chunk shows the headings above it, so it needs the rights of those headings, and where
the title of a document is a heading in it, every chunk needs that heading's.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from rag_lab.contracts import (
    GLOBAL_TENANT,
    Acl,
    Block,
    BlockKind,
    BoolArray,
    Document,
    IntArray,
    RagLabError,
    Ranking,
    Request,
    Span,
)
from rag_lab.corpus.markdown import heading_words, markdown_blocks
from rag_lab.store import digest

if TYPE_CHECKING:
    from rag_lab.corpus.policies import PolicyBook

Policies = Mapping[str, Acl]
"""Readers by policy id, as they are now."""


@dataclass(frozen=True)
class RightsClass:
    """What decides access to a chunk: all of `acls` must admit the reader.

    `valid_until` is the first instant at which it is no longer valid.
    """

    tenant: str
    acls: tuple[Acl, ...]
    valid_from: datetime | None = None
    valid_until: datetime | None = None

    @cached_property
    def key(self) -> str:
        """A digest that is the same in every process and snapshot; the term that indexes filter by."""
        acls = sorted((acl.public, sorted(acl.groups), acl.policy) for acl in set(self.acls))
        return digest(self.tenant, acls, self.valid_from, self.valid_until)[:16]

    @classmethod
    def of(cls, document: Document, spans: Iterable[Span] = ()) -> RightsClass:
        """The class of what is made from these spans of a document: the strictest right of all its sources.

        The headings above a span, and the title, count among its sources.
        """
        sources = [source for span in spans for source in (span, *_above(document, span))] if document.sections else []
        sources += _title(document) if sources else []
        touched = [
            section
            for section in document.sections
            if any(section.span[0] < end and start < section.span[1] for start, end in sources)
        ]
        acls = tuple(sorted({document.acl, *(section.acl for section in touched)}, key=repr))
        begins = [d for d in (document.valid_from, *(section.valid_from for section in touched)) if d is not None]
        ends = [d for d in (document.valid_until, *(section.valid_until for section in touched)) if d is not None]
        return cls(document.tenant, acls, max(begins, default=None), min(ends, default=None))


def _above(document: Document, span: Span) -> Iterator[Span]:
    """Spans of the headings whose sections hold the beginning of a span, the nearest first; one that it begins with is
    the first."""
    headings = _headings(document)
    text = document.text[slice(*span)]
    begin = span[0] + len(text) - len(text.lstrip())
    level = 7
    for number in range(bisect_right(headings, begin, key=lambda heading: heading.span[0]) - 1, -1, -1):
        if headings[number].level < level:
            level = headings[number].level
            yield headings[number].span


def _title(document: Document) -> list[Span]:
    """Spans of the headings that say what the title says, with or without Markdown's markup."""
    titles = {" ".join(title.split()) for title in (document.title, heading_words(document.title))} - {""}
    headings = _headings(document) if titles else ()
    return [heading.span for heading in headings if " ".join("".join(heading.section_path[-1:]).split()) in titles]


def _headings(document: Document) -> Sequence[Block]:
    """The headings in order; a document without blocks is read as Markdown, as the chunkers do."""
    blocks = document.blocks or markdown_blocks(document.text)
    return [block for block in blocks if block.kind is BlockKind.HEADING]


@dataclass(frozen=True, eq=False)
class Scope:
    """What one or more requests may read: ``classes [n_classes]`` and ``rows [n_chunks]`` are True where permitted.

    `narrowed` says that the deny list, or a request's own list of documents, leaves out rows which its classes permit.
    """

    classes: BoolArray
    rows: BoolArray
    narrowed: bool = False

    @property
    def whole(self) -> bool:
        """True when nothing is withheld."""
        return bool(self.rows.all())

    @property
    def empty(self) -> bool:
        """True when nothing may be read."""
        return not self.rows.any()


@dataclass(frozen=True, eq=False)
class Scopes:
    """The scopes of a batch: request i has ``scopes[of[i]]``; requests with equal rights share one.

    policies: version of the policy book; denied: the documents that were left out for everybody. Scopes of the same
    requests on the same snapshot are equal when these two are.
    """

    of: IntArray
    scopes: tuple[Scope, ...]
    policies: str
    denied: frozenset[str] = frozenset()

    def rows(self, request: int) -> BoolArray:
        """Permitted rows of one request, ``[n_chunks]``."""
        return self.scopes[int(self.of[request])].rows

    def check(self, ranking: Ranking) -> Ranking:
        """The ranking, if every request has only rows of its scope: a row outside is an error, never a result."""
        of = self.of[ranking.query]
        order = np.argsort(of, kind="stable")
        edges = np.searchsorted(of[order], np.arange(len(self.scopes) + 1))
        for scope, (start, end) in zip(self.scopes, pairwise(edges.tolist()), strict=True):
            if not scope.rows[ranking.chunk[order[start:end]]].all():
                raise RagLabError(
                    f"{ranking.channel}: the index returned chunks outside the caller's scope; nothing was kept"
                )
        return ranking

    def of_queries(self, of: IntArray) -> Scopes:
        """The same scopes for queries, each of which has its request's; `of` gives the request of each, ``[m]``."""
        return replace(self, of=self.of[of])

    def members(self, scope: int) -> IntArray:
        """Positions of the requests that have this scope, ascending."""
        return np.flatnonzero(self.of == scope).astype(np.int32)


def group_names(names: Sequence[str] | None) -> frozenset[str]:
    """Group names that can grant something: NFC, case kept; an empty name and ``*`` grant nothing.

    Neither does what is no name, nor one text in place of a list of them, whose letters are no groups.
    """
    listed = () if isinstance(names, str) else names or ()
    return frozenset(
        unicodedata.normalize("NFC", name) for name in listed if isinstance(name, str) and name not in ("", "*")
    )


def classify(classes: Sequence[RightsClass]) -> tuple[list[RightsClass], IntArray]:
    """The distinct classes in the order of their keys, and for each given class its position among them."""
    distinct = sorted(set(classes), key=lambda rights: rights.key)
    position = {rights: i for i, rights in enumerate(distinct)}
    return distinct, np.fromiter((position[rights] for rights in classes), dtype=np.int32, count=len(classes))


def admits(acl: Acl, groups: frozenset[str], policies: Policies) -> bool:
    """Whether an ACL admits a member of `groups` (as `group_names` gives them)."""
    if acl.policy:
        named = policies.get(acl.policy)
        return named is not None and not named.policy and admits(named, groups, policies)
    return acl.public is True or not group_names(acl.groups).isdisjoint(groups)


def permits(rights: RightsClass, request: Request, policies: Policies) -> bool:
    """True only when tenant, every ACL and the validity interval admit the request."""
    principal, tenant = request.principal, request.tenant
    if principal is None or not tenant or principal.tenant != tenant or rights.tenant not in (tenant, GLOBAL_TENANT):
        return False
    if not _is_instant(request.time) or not (request.horizon is None or _is_instant(request.horizon)):
        return False
    groups = group_names(principal.groups)
    if not rights.acls or not all(admits(acl, groups, policies) for acl in rights.acls):
        return False
    begins_by = request.time if request.horizon is None else max(request.time, request.horizon)
    if rights.valid_from is not None and begins_by < rights.valid_from:
        return False
    if rights.valid_from is not None and rights.valid_until is not None and rights.valid_from >= rights.valid_until:
        return False  # a section that begins when its document has ended is never in force, also not as coming
    return rights.valid_until is None or request.time < rights.valid_until


def _is_instant(moment: object) -> bool:
    """Whether it is a time with a zone."""
    return isinstance(moment, datetime) and moment.tzinfo is not None


def scopes_of(
    requests: Sequence[Request],
    classes: Sequence[RightsClass],
    codes: IntArray,
    document_ids: Sequence[str],
    book: PolicyBook,
    denied: frozenset[str] = frozenset(),
) -> Scopes:
    """Compute each request's scope once: what its rights admit, without `denied` and within its own `scope`.

    Args:
        classes, codes: the rights classes, and which of them each row has, ``[n_chunks]``.
        document_ids: the document of each row, ``[n_chunks]``; rows of one document are neighbours.
        book: who the readers of each policy are. A request that was authorised under another version reads nothing.
        denied: documents that nobody may read.
    """
    documents = _Documents(document_ids)
    readable = documents.rows(lambda document_id: document_id not in denied) if denied else None
    scopes: list[Scope] = []
    known: dict[bytes, int] = {}
    decided: dict[tuple[object, ...], int] = {}
    policies: dict[datetime, Policies] = {}
    of = np.empty(len(requests), dtype=np.int32)
    for i, request in enumerate(requests):
        caller = (
            request.principal,
            request.tenant,
            request.time,
            request.horizon,
            request.scope,
            request.policy_version,
        )
        if caller not in decided:
            if request.time not in policies:
                policies[request.time] = book.at(request.time) if _is_instant(request.time) else {}
            current = request.policy_version == book.version
            allowed = np.fromiter(
                (current and permits(rights, request, policies[request.time]) for rights in classes),
                dtype=bool,
                count=len(classes),
            )
            permitted = allowed[codes] if len(codes) else np.zeros(0, dtype=bool)
            rows = permitted if readable is None else permitted & readable
            if request.scope is not None:
                rows = rows & documents.rows(request.scope.__contains__)
            key = rows.tobytes() + allowed.tobytes()
            if key not in known:
                known[key] = len(scopes)
                scopes.append(Scope(allowed, rows, bool((rows != permitted).any())))
            decided[caller] = known[key]
        of[i] = decided[caller]
    return Scopes(of, tuple(scopes), book.version, denied)


class _Documents:
    """Which rows belong to which document; rows of one document are neighbours."""

    def __init__(self, document_ids: Sequence[str]) -> None:
        ids = np.asarray(document_ids, dtype=object)
        first = np.r_[True, ids[1:] != ids[:-1]] if len(ids) else np.zeros(0, dtype=bool)
        self.ids: list[str] = ids[first].tolist()
        self._of = np.cumsum(first) - 1

    def rows(self, admitted: Callable[[str], bool]) -> BoolArray:
        """True for the rows of the documents that are admitted, ``[n_chunks]``."""
        flags: BoolArray = np.fromiter(map(admitted, self.ids), dtype=bool, count=len(self.ids))[self._of]
        return flags
