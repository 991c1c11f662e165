"""A document's standing from its metadata: is it active, is it a policy, is this the primary source.

``status``: ``active`` (also when missing) or ``retired``. ``authority``: ``policy`` (also when missing) or ``article``.
``trust``: ``primary`` (also when missing), ``copy``, or ``article``, which is short for the authority *article* at its
primary source. Other keys, such as a ``kind``, say what a document is and not how it stands. Any other value is an
error, since a document with a guessed standing would prevail, or yield, unseen; but where nobody declared rights, a
public collection may mean something else by these keys, and a value that is not known says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_lab.contracts import RagLabError

STATUSES = ("active", "retired")
AUTHORITIES = ("policy", "article")
TRUSTS = ("primary", "copy")
"""Each in order of standing, the one that prevails first; the first is also what a missing value means."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides, with the tenant, which of two conflicting documents prevails."""

    status: str = STATUSES[0]
    authority: str = AUTHORITIES[0]
    source_trust: str = TRUSTS[0]


def standing_of(metadata: Mapping[str, Any], place: str, declared: bool = True) -> Standing:
    """The standing that `metadata` states. `place` names the document in the error for an unknown value.

    `declared`: whether the collection declares rights, and so means these keys as they are meant here.
    """
    if not declared:
        known = {"status": STATUSES, "authority": AUTHORITIES, "trust": (*TRUSTS, "article")}
        metadata = {name: metadata[name] for name, values in known.items() if metadata.get(name) in values}
    status = _one_of(STATUSES, metadata, "status", place)
    stated = _one_of(AUTHORITIES, metadata, "authority", place)
    trust = _one_of((*TRUSTS, "article"), metadata, "trust", place)
    if trust != "article":
        return Standing(status or STATUSES[0], stated or AUTHORITIES[0], trust or TRUSTS[0])
    if stated == "policy":
        raise RagLabError(f"{place}, field trust: 'article' contradicts the authority 'policy'; give one of the two")
    return Standing(status or STATUSES[0], "article")


def _one_of(allowed: tuple[str, ...], metadata: Mapping[str, Any], field: str, place: str) -> str:
    value = metadata.get(field)
    if value is None:
        return ""
    if value not in allowed:
        raise RagLabError(f"{place}, field {field}: {value!r} is not known; give {' or '.join(allowed)}")
    return str(value)
