"""What is stated about a document's rights, dates and standing: in its front matter, in ``rights.yaml``, by the caller.

Who writes a document does not decide who reads it: the corpus's keeper does, in ``rights.yaml`` and in the options. The
``rights.yaml`` of a document's folder comes first, then those of the folders above, up to the outermost that was
added, then the options; the first that
states a field decides it. `public`, `groups` and `policy` are one field: who states one of them has named the readers.
The document's own front matter then only narrows. Its readers need both rights, its validity lies within the other, its
standing is the lower of the two, and another tenant is an error. What the keeper leaves open it may state by itself,
but for the tenant of everybody (`GLOBAL_TENANT`), which no document can claim. Its `version` and `published` come
first. Rights of sections only narrow, so those of all places count. Nothing stated admits nobody.

A ``rights.yaml`` maps patterns to fields; of the patterns that match a file, the last one that states a field decides
it. A pattern is compared with the path below the folder, both in NFC; ``*`` stands for any characters, ``/`` among
them. Whoever can write a ``rights.yaml`` decides for its folder, so a folder that is not trusted should not hold one::

    zone: Europe/Berlin
    rules:
      "*": {tenant: acme, public: true}
      "hr/*": {groups: [hr], valid_until: 2026-12-31}
      "hr/pay.md": {sections: {Salary bands: {groups: [payroll]}}}
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from rag_lab.contracts import GLOBAL_TENANT, Acl, Block, Document, RagLabError, SectionRights, Span
from rag_lab.corpus.parsing.parsed import Parsed
from rag_lab.corpus.policies import refuse_repeated_keys
from rag_lab.datasets.standing import AUTHORITIES, STATUSES, TRUSTS, Standing, standing_of
from rag_lab.datasets.times import parse_instant, time_zone

SIDECAR = "rights.yaml"
READERS = ("public", "groups", "policy")
PLAIN = ("tenant", "valid_from", "valid_until", "published", "status", "authority", "trust", "version")
KNOWN = (*READERS, *PLAIN, "sections")
MISTAKEN = {
    "group": "groups",
    "acl": "groups",
    "policies": "policy",
    "tenants": "tenant",
    "valid_to": "valid_until",
    "valid_till": "valid_until",
}
LIMITING = (*READERS, "tenant", "valid_from", "valid_until", "sections")
"""Fields that decide who reads a document and when: what looks like one of them must not go unread."""
_LIMIT = re.compile(rf"(?im)^[ \t]*[\"']?({'|'.join((*LIMITING, *MISTAKEN))})[\"']?[ \t]*[:=]".replace("_", "[_ -]"))
_HEAD = re.compile(r"(?ms)\s*^(---|\+\+\+)[ \t]*\n(?:(.*?)^\1[ \t]*$|(.*?)(?:^[ \t]*$|\Z))")
_LONGEST_HEAD = 65536


@dataclass(frozen=True, slots=True)
class Statement:
    """The fields that one place states, as written, and the name of the place for errors."""

    place: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    zone: str = "UTC"

    @property
    def names_readers(self) -> bool:
        """Whether it says who may read."""
        return any(self.fields.get(name) is not None for name in READERS)


@dataclass(frozen=True, slots=True)
class Rules:
    """A ``rights.yaml``: `folder` is where it lies."""

    folder: Path
    rules: Sequence[tuple[str, Statement]]

    def statement(self, path: Path) -> Statement | None:
        """What it states about a file below its folder, None where no pattern matches."""
        matching = self.matching(path)
        if not matching:
            return None
        return Statement(matching[-1].place, _first_stated(matching[::-1]), matching[-1].zone)

    def matching(self, path: Path) -> list[Statement]:
        """The rules that match a file, in order."""
        name = unicodedata.normalize("NFC", path.relative_to(self.folder).as_posix())
        return [statement for pattern, statement in self.rules if fnmatchcase(name, pattern)]


def read_rules(folder: Path) -> Rules | None:
    """The ``rights.yaml`` of a folder, None where there is none. Raises RagLabError that names the file and field."""
    import yaml

    path = folder / SIDECAR
    if not path.is_file():
        if path.is_symlink() or path.exists():
            raise RagLabError(f"{path}: is no file, or a link to none; mend it, since it says who may read what")
        return None
    try:
        text = path.read_text(encoding="utf-8-sig")
        refuse_repeated_keys(yaml.compose(text, Loader=yaml.SafeLoader), path)
        given = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: no UTF-8, or a day that no month has
        raise RagLabError(f"{path}: cannot be read ({error}); write it as YAML in UTF-8") from error
    if not isinstance(given, Mapping) or set(given) - {"zone", "rules"} or not isinstance(given.get("rules"), Mapping):
        raise RagLabError(f"{path}: needs 'rules', a mapping of patterns to fields, and may have 'zone'; nothing else")
    zone = str(given.get("zone") or "UTC")
    try:
        time_zone(zone)
    except RagLabError as error:
        raise RagLabError(f"{path}, field {error}") from error
    named = {pattern: unicodedata.normalize("NFC", str(pattern)) for pattern in given["rules"]}
    rules = [(named[pattern], _rule(path, named[pattern], fields, zone)) for pattern, fields in given["rules"].items()]
    return Rules(folder, rules)


def _rule(path: Path, pattern: str, fields: Any, zone: str) -> Statement:
    place = f"{path}, rule {pattern!r}"
    if not isinstance(fields, Mapping):
        raise RagLabError(f"{place}: {fields!r} is not a mapping of fields such as tenant and groups")
    unknown = [name for name in fields if name not in KNOWN]
    if unknown:
        raise RagLabError(f"{place}, field {unknown[0]}: unknown; use {', '.join(KNOWN)}")
    statement = Statement(place, dict(fields), zone)
    rights_of([statement])
    return statement


def front_matter(parsed: Parsed, place: str, zone: str) -> Statement:
    """What a document states about itself.

    Raises RagLabError for a right that would go unread: a field whose name is nearly right, one inside another field,
    and one in front matter that is none (not closed, not in the first line, or no YAML).
    """
    metadata = parsed.metadata
    if not metadata and (limit := _unread_limit(parsed.original)):
        raise RagLabError(
            f"{place}: begins like front matter with '{limit}' and cannot be read as such; write YAML from the "
            "first line on, between two lines '---'"
        )
    for name, value in metadata.items():
        plain = re.sub(r"[\s.-]+", "_", name.strip().casefold())
        meant = MISTAKEN.get(plain, plain)
        if meant in LIMITING and meant != name:
            raise RagLabError(f"{place}, field {name}: unknown; write it as {meant}")
        if name != "sections" and isinstance(value, Mapping) and (inner := sorted(set(value) & set(LIMITING))):
            raise RagLabError(f"{place}, field {name}: {inner[0]} is not read inside of it; write it beside it")
    return Statement(place, {name: metadata[name] for name in KNOWN if name in metadata}, zone)


def _unread_limit(text: str) -> str:
    """The first field that says who reads a document in what stands where front matter does; "" for none."""
    head = _HEAD.match(text[:_LONGEST_HEAD].replace("\r\n", "\n").replace("\r", "\n"))
    found = _LIMIT.search(head[2] or head[3] or "") if head else None
    return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Rights:
    """Everything about a document that is not its text: the fields of `Document` of the same names.

    `also`: further readers of the whole document; a reader needs these rights and those of `acl`.
    """

    tenant: str
    acl: Acl
    standing: Standing
    version: str
    published_at: datetime | None
    valid_from: datetime | None
    valid_until: datetime | None
    sections: tuple[tuple[str, Acl], ...]
    also: Acl | None = None


def rights_of(statements: Iterable[Statement]) -> Rights:
    """What statements, the most important first, come to. Raises RagLabError that names place and field."""
    order = list(statements)
    stated = _first_stated(order)
    by_field = {name: next(s for s in order if s.fields.get(name) is not None) for name in stated}
    place = {name: statement.place for name, statement in by_field.items()}
    standing = standing_of(stated, next(iter(place.values()), ""))
    tenant = stated.get("tenant", "")
    if not isinstance(tenant, str):
        raise RagLabError(f"{place['tenant']}, field tenant: {tenant!r} is not a name")
    dates = {
        name: parse_instant(stated[name], by_field[name].zone, f"{place[name]}, field {name}", _BOUNDS[name])
        for name in _BOUNDS
        if name in stated
    }
    begin, end = dates.get("valid_from"), dates.get("valid_until")
    if begin is not None and end is not None and begin >= end:
        raise RagLabError(f"{place['valid_until']}: valid_until is not after valid_from, so it is never valid")
    readers = next((s for s in order if s.names_readers), None)
    acl = acl_of(readers.fields, readers.place) if readers else Acl()
    return Rights(
        tenant,
        acl,
        standing,
        str(stated.get("version", "")),
        dates.get("published"),
        begin,
        end,
        tuple(pair for statement in order for pair in _sections(statement)),
    )


def narrowed(own: Statement | None, given: Sequence[Statement]) -> Rights:
    """What the keeper's statements come to, narrowed by the document's own. Raises RagLabError as `rights_of` does."""
    stated = rights_of(given)
    if own is None:
        return stated
    mine = rights_of([own])
    if mine.tenant == GLOBAL_TENANT != stated.tenant:
        raise RagLabError(
            f"{own.place}, field tenant: a document cannot place itself in '{GLOBAL_TENANT}', which all tenants read; "
            f"state that in {SIDECAR} or the options"
        )
    if stated.tenant and mine.tenant not in ("", stated.tenant):
        raise RagLabError(
            f"{own.place}, field tenant: {mine.tenant!r} is not {stated.tenant!r}, as stated for it; correct one"
        )
    begin = max((d for d in (mine.valid_from, stated.valid_from) if d is not None), default=None)
    end = min((d for d in (mine.valid_until, stated.valid_until) if d is not None), default=None)
    if begin is not None and end is not None and begin >= end:
        raise RagLabError(f"{own.place}: its validity and the one stated for it have no instant in common; correct one")
    acl, also = mine.acl if not any(one.names_readers for one in given) else stated.acl, None
    if own.names_readers and acl != mine.acl:
        acl, also = _both(acl, mine.acl)
    low, high = mine.standing, stated.standing
    standing = Standing(
        *(
            max(getattr(low, name), getattr(high, name), key=order.index)
            for name, order in (("status", STATUSES), ("authority", AUTHORITIES), ("source_trust", TRUSTS))
        )
    )
    tenant = mine.tenant if own.fields.get("tenant") is not None else stated.tenant
    return Rights(
        tenant,
        acl,
        standing,
        mine.version or stated.version,
        mine.published_at or stated.published_at,
        begin,
        end,
        (*mine.sections, *stated.sections),
        also,
    )


def _both(one: Acl, other: Acl) -> tuple[Acl, Acl | None]:
    """What admits only those whom both admit, as one ACL if it can be."""
    if Acl() in (one, other):
        return Acl(), None
    if other.public:
        return one, None
    return (other, None) if one.public else (one, other)


_BOUNDS: Mapping[str, Any] = {"published": "from", "valid_from": "from", "valid_until": "until"}


def acl_of(fields: Mapping[str, Any], place: str) -> Acl:
    """An ACL from `public`, `groups` and `policy`."""
    public, groups, policy = (fields.get(name) for name in READERS)
    if public is not None and not isinstance(public, bool):
        raise RagLabError(f"{place}, field public: {public!r} is neither true nor false")
    if groups is not None and (
        isinstance(groups, str) or not all(isinstance(group, str) and group for group in _listed(groups, place))
    ):
        raise RagLabError(f"{place}, field groups: {groups!r} is not a list of names")
    if policy is not None and not isinstance(policy, str):
        raise RagLabError(f"{place}, field policy: {policy!r} is not the id of a policy")
    if policy and (public or groups):
        raise RagLabError(f"{place}, field policy: a policy names the readers by itself; leave out public and groups")
    names = sorted({unicodedata.normalize("NFC", group) for group in groups or ()})
    return Acl(bool(public), tuple(names), policy or "")


def _listed(value: Any, place: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise RagLabError(f"{place}, field groups: {value!r} is not a list of names")
    return value


def _first_stated(statements: Sequence[Statement]) -> dict[str, Any]:
    """Each field from the first place that states it; readers together; sections of all places."""
    found: dict[str, Any] = {}
    for statement in statements:
        if statement.names_readers and not any(name in found for name in READERS):
            found |= {name: statement.fields[name] for name in READERS if statement.fields.get(name) is not None}
        for name in PLAIN:
            if statement.fields.get(name) is not None:
                found.setdefault(name, statement.fields[name])
    sections = [s.fields["sections"] for s in reversed(statements) if s.fields.get("sections") is not None]
    if sections:
        found["sections"] = _joined(sections)
    return found


def _joined(sections: Sequence[Any]) -> Any:
    if not all(isinstance(given, Mapping) for given in sections):
        return next(given for given in sections if not isinstance(given, Mapping))
    return {heading: acl for given in sections for heading, acl in given.items()}


def _sections(statement: Statement) -> list[tuple[str, Acl]]:
    given = statement.fields.get("sections")
    if given is None:
        return []
    place = f"{statement.place}, field sections"
    if not isinstance(given, Mapping) or not all(isinstance(fields, Mapping) for fields in given.values()):
        raise RagLabError(
            f"{place}: {given!r} is not a mapping of headings to readers, as {{Salary: {{groups: [hr]}}}}"
        )
    for heading, fields in given.items():
        if not fields or set(fields) - set(READERS):
            raise RagLabError(f"{place}, heading {heading!r}: give public, groups or policy, and nothing else")
    return [(str(heading), acl_of(fields, place)) for heading, fields in given.items()]


def document_of(
    document_id: str,
    parsed: Parsed,
    rights: Rights,
    *,
    source_uri: str,
    source_version: str,
    ingested_at: datetime,
    metadata: Mapping[str, Any] | None = None,
) -> Document:
    """A document from what was parsed and what was stated. Raises RagLabError for the rights of an unknown heading."""
    return Document(
        document_id,
        parsed.text,
        title=parsed.title,
        tenant=rights.tenant,
        acl=rights.acl,
        language=parsed.language,
        source_uri=source_uri,
        source_version=rights.version or source_version,
        source_trust=rights.standing.source_trust,
        published_at=rights.published_at,
        valid_from=rights.valid_from,
        valid_until=rights.valid_until,
        ingested_at=ingested_at,
        status=rights.standing.status,
        authority=rights.standing.authority,
        blocks=parsed.blocks,
        sections=(
            *((SectionRights((0, len(parsed.text)), rights.also),) if rights.also else ()),
            *(
                SectionRights(span, acl)
                for heading, acl in rights.sections
                for span in _spans(document_id, heading, parsed.blocks)
            ),
        ),
        metadata={**(metadata or {}), **parsed.metadata},
    )


def _spans(document_id: str, heading: str, blocks: Sequence[Block]) -> list[Span]:
    """Where the sections with this heading lie, each from its first block to its last."""
    wanted = unicodedata.normalize("NFC", " ".join(heading.split()))
    spans: list[Span] = []
    inside = False
    for block in blocks:
        was, inside = inside, wanted in block.section_path
        if inside and was:
            spans[-1] = (spans[-1][0], block.span[1])
        elif inside:
            spans.append(block.span)
    if not spans:
        raise RagLabError(
            f"{document_id}: has no heading '{heading}', for which rights are stated; correct one of them"
        )
    return spans


def plain_rights(document: Document) -> dict[str, Any]:
    """Everything about a document but text, title, structure and metadata, for JSON."""
    return {
        **{name: getattr(document, name) for name in _TEXTS},
        **{name: _written(getattr(document, name)) for name in _DATES},
        "acl": _plain_acl(document.acl),
        "sections": [
            [*s.span, _plain_acl(s.acl), _written(s.valid_from), _written(s.valid_until)] for s in document.sections
        ],
    }


def restored(document_id: str, parsed: Parsed, plain: Mapping[str, Any]) -> Document:
    """The document again, from its parsed text and what `plain_rights` gave."""
    fields: dict[str, Any] = {name: plain[name] for name in _TEXTS}
    fields |= {name: _read(plain[name]) for name in _DATES}
    return Document(
        document_id,
        parsed.text,
        title=parsed.title,
        language=parsed.language,
        blocks=parsed.blocks,
        metadata=parsed.metadata,
        acl=_read_acl(plain["acl"]),
        sections=tuple(
            SectionRights((start, end), _read_acl(acl), _read(begin), _read(until))
            for start, end, acl, begin, until in plain["sections"]
        ),
        **fields,
    )


_TEXTS = ("tenant", "acl_version", "source_uri", "source_version", "source_trust", "status", "authority")
_DATES = ("published_at", "valid_from", "valid_until", "ingested_at")


def _plain_acl(acl: Acl) -> list[Any]:
    return [acl.public, list(acl.groups), acl.policy]


def _read_acl(plain: Sequence[Any]) -> Acl:
    return Acl(plain[0], tuple(plain[1]), plain[2])


def _written(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _read(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
