"""The policy book of a corpus: who the readers of each policy are, in every version, and from when to when.

Documents and sections name a policy (`Acl.policy`); who that is, is looked up when a request is made, so a policy can
change without publishing anything. A book is a YAML or JSON file::

    zone: Europe/Berlin          # of dates without a time; UTC if left out
    policies:
      - {id: hr-7, version: 1, groups: [hr], valid_until: 2026-03-31}
      - {id: hr-7, version: 2, groups: [hr, managers], valid_from: 2026-04-01}
      - {id: open, public: true}

A policy that is not in the book, or of which no version is in force, admits nobody. The version in force is the one
whose interval holds the request's time; a horizon does not extend it.

The version of a book is a digest of what it says, and a request carries the version that it was authorised under. A
request with another one is *denied*, everything and not only what names a policy: a stale authorisation must not read,
and among the requests of a batch it must not stop the others either.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from rag_lab.contracts import Acl, RagLabError
from rag_lab.corpus.rights import Policies
from rag_lab.datasets.times import parse_instant, time_zone
from rag_lab.store import digest

BOOK = "policies.yaml"
FIELDS = ("id", "version", "public", "groups", "valid_from", "valid_until")
NO_POLICIES = "1"
"""The version of a book without policies, and the one that `Request` assumes."""
UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Policy:
    """One version of a policy: its readers, from `valid_from` until before `valid_until`."""

    policy_id: str
    version: str
    acl: Acl
    valid_from: datetime | None = None
    valid_until: datetime | None = None

    def holds(self, time: datetime) -> bool:
        """Whether this version is in force."""
        begun = self.valid_from is None or self.valid_from <= time
        return begun and (self.valid_until is None or time < self.valid_until)


@dataclass(frozen=True)
class PolicyBook:
    """All versions of all policies. `fault` says why the book could not be read; then no policy admits anybody."""

    policies: tuple[Policy, ...] = ()
    fault: str = ""

    @cached_property
    def version(self) -> str:
        """A digest of the book; `NO_POLICIES` for an empty one."""
        if self.fault:
            return UNREADABLE
        if not self.policies:
            return NO_POLICIES
        lines = [
            (p.policy_id, p.version, p.acl.public, sorted(p.acl.groups), p.valid_from, p.valid_until)
            for p in self.policies
        ]
        return digest(sorted(lines, key=repr))[:16]

    def at(self, time: datetime) -> Policies:
        """The readers of each policy that is in force."""
        return {} if self.fault else {p.policy_id: p.acl for p in self.policies if p.holds(time)}

    @classmethod
    def load(cls, path: Path, zone: str = "UTC") -> PolicyBook:
        """Read a file. Anything wrong with it is an error that names file, field and fix."""
        import yaml

        try:
            text = path.read_text(encoding="utf-8-sig")
            refuse_repeated_keys(yaml.compose(text, Loader=yaml.SafeLoader), path)
            data = yaml.safe_load(text)
        except (OSError, UnicodeDecodeError) as error:
            raise RagLabError(f"{path}: cannot be read ({error}); give a YAML file in UTF-8") from error
        except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a day that no month has
            mark = getattr(error, "problem_mark", None)
            line = f" line {mark.line + 1}" if mark else ""
            raise RagLabError(f"{path}{line}: not YAML ({getattr(error, 'problem', error)})") from error
        return cls.read(data, str(path), zone)

    @classmethod
    def load_or_deny(cls, path: Path, zone: str = "UTC") -> PolicyBook:
        """Read a file; a missing one is an empty book, one that is wrong a book that admits nobody and says why."""
        if not path.exists():
            return cls()
        try:
            return cls.load(path, zone)
        except RagLabError as error:
            return cls(fault=str(error))

    @classmethod
    def read(cls, data: Any, place: str, zone: str = "UTC") -> PolicyBook:
        """Check what a file holds; `place` names it in errors, `zone` is that of dates unless the book states one."""
        if not isinstance(data, Mapping) or not isinstance(data.get("policies"), list):
            raise RagLabError(
                f"{place}, field policies: must be a list of policies like '- {{id: hr-7, groups: [hr]}}'"
            )
        if unknown := [key for key in data if key not in ("policies", "zone")]:
            raise RagLabError(f"{place}, field {unknown[0]}: unknown; remove it (known are policies and zone)")
        zone = str(data.get("zone") or zone)
        try:
            time_zone(zone)
        except RagLabError as error:
            raise RagLabError(f"{place}, field {error}") from error
        policies = tuple(
            _policy(entry, f"{place}, field policies[{number}]", zone)
            for number, entry in enumerate(data["policies"], 1)
        )
        _refuse_overlaps(policies, place)
        return cls(policies)


NO_BOOK = PolicyBook()


def _policy(entry: Any, place: str, zone: str) -> Policy:
    if not isinstance(entry, Mapping):
        raise RagLabError(f"{place}: {entry!r} is not a policy; write it like '{{id: hr-7, groups: [hr]}}'")
    if unknown := [key for key in entry if key not in FIELDS]:
        raise RagLabError(f"{place}.{unknown[0]}: unknown; remove it (known are {', '.join(FIELDS)})")
    policy_id, version, public = entry.get("id"), entry.get("version", "1"), entry.get("public", False)
    if not isinstance(policy_id, str) or not policy_id:
        raise RagLabError(f"{place}.id: {policy_id!r} is no name; give the id that documents name")
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        raise RagLabError(f"{place}.version: {version!r} is no version; give a number or a text")
    if not isinstance(public, bool):
        raise RagLabError(f"{place}.public: {public!r} is neither true nor false")
    begin = parse_instant(entry.get("valid_from"), zone, f"{place}.valid_from")
    end = parse_instant(entry.get("valid_until"), zone, f"{place}.valid_until", "until")
    if begin is not None and end is not None and begin >= end:
        raise RagLabError(f"{place}.valid_until: is not after valid_from, so the policy is never in force")
    return Policy(policy_id, str(version), Acl(public, _groups(entry.get("groups"), place)), begin, end)


def _groups(value: Any, place: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(g, str) and g for g in value):
        raise RagLabError(f"{place}.groups: {value!r} is not a list of names")
    return tuple(sorted({unicodedata.normalize("NFC", group) for group in value}))


def _refuse_overlaps(policies: Iterable[Policy], place: str) -> None:
    """Two versions of one policy that are in force together leave its readers to chance."""
    earliest, latest = datetime.min, datetime.max
    by_id: dict[str, list[Policy]] = {}
    for policy in policies:
        by_id.setdefault(policy.policy_id, []).append(policy)
    for policy_id, versions in by_id.items():
        names = [policy.version for policy in versions]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise RagLabError(f"{place}, policy {policy_id}: version {repeated[0]} is there twice; remove one")
        spans = sorted((_naive(p.valid_from, earliest), _naive(p.valid_until, latest), p.version) for p in versions)
        for (_, end, one), (begin, _, other) in pairwise(spans):
            if begin < end:
                raise RagLabError(
                    f"{place}, policy {policy_id}: versions {one} and {other} are in force at the same time; set the "
                    "valid_until of the first to where the second begins"
                )


def _naive(moment: datetime | None, otherwise: datetime) -> datetime:
    return otherwise if moment is None else moment.replace(tzinfo=None)


def refuse_repeated_keys(node: Any, path: Path) -> None:
    """YAML lets a later key silently replace an earlier one; in a book of rights that is a mistake to be seen."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        for number, (key, value) in enumerate(node.value):
            if key.value in keys[:number]:
                line = key.start_mark.line + 1
                raise RagLabError(f"{path} line {line}, field {key.value}: is there twice; remove one")
            refuse_repeated_keys(value, path)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            refuse_repeated_keys(value, path)
