"""Which of two conflicting sources prevails: a rule written down once, so that similarity never decides it.

An active document prevails over a retired one; of equal status, a policy over an article; of equal authority, the
tenant's own over a global one; of equal tenant, the primary source over a copy. The four answers are the binary digits
of one number, the most important first, 0 where the document prevails: of two documents the lower number prevails, and
equal numbers leave the conflict open. Dates have no part in it: what is out of force is not read at all, and of two
documents in force the one that was published later has not replaced the other unless validity or status says so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rag_lab.contracts import GLOBAL_TENANT, BoolArray, IntArray, RagLabError
from rag_lab.datasets.standing import AUTHORITIES, STATUSES, TRUSTS

MARKS = ("retired", "article", "global", "copy")
"""What lowers a document's standing, the most important first: the digits of a precedence."""

RULE = "active over retired, then policy over article, then the tenant's own over global, then primary over copy"

_LOWEST = (1 << len(MARKS)) - 1


def precedence(
    status: Sequence[str], authority: Sequence[str], tenant: Sequence[str], trust: Sequence[str]
) -> IntArray:
    """The precedence of each document or chunk, 0 (prevails over all others) to 15, ``[n]``; columns of ``[n]``.

    Raises RagLabError for a status, authority or trust that the rule does not know.
    """
    digits = (
        _lowered(status, "status", STATUSES),
        _lowered(authority, "authority", AUTHORITIES),
        np.asarray(tenant, dtype=str) == GLOBAL_TENANT,
        _lowered(trust, "source_trust", TRUSTS),
    )
    value = np.zeros(len(status), dtype=np.int32)
    for digit in digits:
        value = 2 * value + digit
    return value.astype(np.int32)


def marks(precedence: int) -> tuple[str, ...]:
    """What lowers the standing of a source of this precedence, the most important first; empty for 0."""
    if not 0 <= precedence <= _LOWEST:
        raise RagLabError(f"precedence: {precedence} is none; it is a whole number from 0 to {_LOWEST}")
    return tuple(mark for i, mark in enumerate(reversed(MARKS)) if precedence >> i & 1)[::-1]


def explain(precedence: int) -> str:
    """One sentence on where a source of this precedence stands."""
    lowered = marks(precedence)
    status = STATUSES["retired" in lowered]
    authority = AUTHORITIES["article" in lowered]
    owner = "for all tenants" if "global" in lowered else "of the tenant's own"
    source = "from a copy" if "copy" in lowered else "from its primary source"
    article = "An" if status == "active" else "A"
    return f"{article} {status} {authority} {owner}, {source}: precedence {precedence} ({RULE}; the lower prevails)."


def _lowered(values: Sequence[str], field: str, allowed: tuple[str, ...]) -> BoolArray:
    column = np.asarray(values, dtype=str)
    unknown = np.flatnonzero(~np.isin(column, allowed))
    if len(unknown):
        where = int(unknown[0])
        raise RagLabError(
            f"row {where}, field {field}: {str(column[where])!r} is not known; give {' or '.join(allowed)}"
        )
    lowered: BoolArray = column == allowed[1]
    return lowered
