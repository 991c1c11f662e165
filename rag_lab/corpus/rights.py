"""Who may read which chunk at which time, decided by this code alone and before anything is ranked.

Chunks that share tenant, ACLs and validity interval form a *rights class*. A request is checked against classes; every
index then restricts its own search to the permitted ones (Lucene by a term filter, FAISS by rows). Whatever is missing
denies: no principal, another tenant, no public flag and no shared group, an unknown policy, a validity interval that
does not hold.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from rag_lab.contracts import GLOBAL_TENANT, Acl, BoolArray, Document, IntArray, Request, Span
from rag_lab.store import digest

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
        """The class of what is made from these spans of a document: the strictest right of all its sources."""
        touched = [
            section
            for section in document.sections
            if any(section.span[0] < end and start < section.span[1] for start, end in spans)
        ]
        acls = tuple(sorted({document.acl, *(section.acl for section in touched)}, key=repr))
        begins = [d for d in (document.valid_from, *(section.valid_from for section in touched)) if d is not None]
        ends = [d for d in (document.valid_until, *(section.valid_until for section in touched)) if d is not None]
        return cls(document.tenant, acls, max(begins, default=None), min(ends, default=None))


@dataclass(frozen=True, eq=False)
class Scope:
    """What one or more requests may read: ``classes [n_classes]`` and ``rows [n_chunks]`` are True where permitted.

    `narrowed` says that a request's own list of documents leaves out rows which its classes permit.
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
    """The scopes of a batch: request i has ``scopes[of[i]]``; requests with equal rights share one."""

    of: IntArray
    scopes: tuple[Scope, ...]

    def rows(self, request: int) -> BoolArray:
        """Permitted rows of one request, ``[n_chunks]``."""
        return self.scopes[int(self.of[request])].rows

    def members(self, scope: int) -> IntArray:
        """Positions of the requests that have this scope, ascending."""
        return np.flatnonzero(self.of == scope).astype(np.int32)


def group_names(names: Sequence[str] | None) -> frozenset[str]:
    """Group names that can grant something: NFC, case kept; an empty name and ``*`` grant nothing."""
    return frozenset(unicodedata.normalize("NFC", name) for name in names or () if name and name != "*")


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
    return acl.public or not group_names(acl.groups).isdisjoint(groups)


def permits(rights: RightsClass, request: Request, policies: Policies) -> bool:
    """True only when tenant, every ACL and the validity interval admit the request."""
    principal, tenant = request.principal, request.tenant
    if principal is None or not tenant or principal.tenant != tenant or rights.tenant not in (tenant, GLOBAL_TENANT):
        return False
    groups = group_names(principal.groups)
    if not rights.acls or not all(admits(acl, groups, policies) for acl in rights.acls):
        return False
    begins_by = request.time if request.horizon is None else max(request.time, request.horizon)
    if rights.valid_from is not None and begins_by < rights.valid_from:
        return False
    return rights.valid_until is None or request.time < rights.valid_until


def scopes_of(
    requests: Sequence[Request],
    classes: Sequence[RightsClass],
    codes: IntArray,
    document_ids: Sequence[str],
    policies: Policies,
) -> Scopes:
    """Compute each request's scope once. A request's own `scope` (document ids) can only narrow it."""
    known: dict[bytes, int] = {}
    decided: dict[tuple[object, ...], int] = {}
    scopes: list[Scope] = []
    of = np.empty(len(requests), dtype=np.int32)
    ids = np.asarray(document_ids, dtype=object)
    for i, request in enumerate(requests):
        caller = (request.principal, request.tenant, request.time, request.horizon, request.scope)
        if caller not in decided:
            allowed = np.fromiter(
                (permits(rights, request, policies) for rights in classes),
                dtype=bool,
                count=len(classes),
            )
            rows = allowed[codes] if len(codes) else np.zeros(0, dtype=bool)
            permitted = rows
            if request.scope is not None:
                rows = rows & np.fromiter((d in request.scope for d in ids), dtype=bool, count=len(ids))
            key = rows.tobytes() + allowed.tobytes()
            if key not in known:
                known[key] = len(scopes)
                scopes.append(Scope(allowed, rows, bool((rows != permitted).any())))
            decided[caller] = known[key]
        of[i] = decided[caller]
    return Scopes(of, tuple(scopes))
