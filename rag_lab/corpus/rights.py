"""Who may read which chunk at which time, decided by this code alone and before anything is ranked.

Chunks that share tenant, ACL and validity interval form a *rights class*. A request is checked against classes; every
index then restricts its own search to the permitted ones (Lucene by a term filter, FAISS by rows). Whatever is missing
denies: no principal, another tenant, no public flag and no shared group, a validity interval that does not hold.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from rag_lab.contracts import Acl, BoolArray, IntArray, Principal, Request


@dataclass(frozen=True, slots=True)
class RightsClass:
    """What decides access to a chunk. `valid_until` is the first instant at which it is no longer valid."""

    tenant: str
    acl: Acl
    valid_from: datetime | None
    valid_until: datetime | None


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
    """The distinct classes in a fixed order, and for each given class its position among them."""
    distinct = sorted(set(classes), key=repr)
    position = {rights: i for i, rights in enumerate(distinct)}
    return distinct, np.fromiter((position[rights] for rights in classes), dtype=np.int32, count=len(classes))


def permits(rights: RightsClass, principal: Principal | None, tenant: str, time: datetime) -> bool:
    """True only when tenant, ACL and validity interval all admit the caller at `time`."""
    if principal is None or not tenant or principal.tenant != tenant or rights.tenant != tenant:
        return False
    if not (rights.acl.public or group_names(rights.acl.groups) & group_names(principal.groups)):
        return False
    if rights.valid_from is not None and time < rights.valid_from:
        return False
    return rights.valid_until is None or time < rights.valid_until


def scopes_of(
    requests: Sequence[Request], classes: Sequence[RightsClass], codes: IntArray, document_ids: Sequence[str]
) -> Scopes:
    """Compute each request's scope once. A request's own `scope` (document ids) can only narrow it."""
    known: dict[bytes, int] = {}
    decided: dict[tuple[object, ...], int] = {}
    scopes: list[Scope] = []
    of = np.empty(len(requests), dtype=np.int32)
    ids = np.asarray(document_ids, dtype=object)
    for i, request in enumerate(requests):
        caller = (request.principal, request.tenant, request.time, request.scope)
        if caller not in decided:
            allowed = np.fromiter(
                (permits(rights, request.principal, request.tenant, request.time) for rights in classes),
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
