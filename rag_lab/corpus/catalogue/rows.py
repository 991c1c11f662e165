"""The records of a catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source: one file, or one record of a dataset. Times are ISO 8601 in UTC.

    `content` is the SHA-256 of its bytes and `basis` a digest of all that decides its document, as last ingested;
    `size` and `modified_ns` are the file's, as last looked at.
    `deleted_by` says who took a deleted source away: ``caller``, or ``source`` when its file went.
    """

    document_id: str
    uri: str
    root: str
    status: str
    discovered_at: str
    kind: str = ""
    content: str = ""
    basis: str = ""
    size: int = 0
    modified_ns: int = 0
    error: str = ""
    deleted_by: str = ""
    ingested_at: str | None = None
    searchable_at: str | None = None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of a document, valid in the generations from `added` to before `removed`.

    `basis` is a digest of all that decides it (content, parser, stated rights), `digest` that of the document, as
    snapshots and the deny list know it, and `text_digest` that of its text alone; `rights` holds tenant, ACL, dates and
    standing as JSON; `part` and `position` say where the parsed document is kept.
    """

    document_id: str
    content: str
    basis: str
    digest: str
    text_digest: str
    rights: str
    valid_until: str | None
    parser: str
    part: str
    position: int
    added: int = 0
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """One generation: a snapshot, the settings it was built with, and its state.

    States are building, verified (whole and checked, not read by anybody), active, retired, failed.
    """

    number: int
    state: str
    snapshot: str
    base: int
    documents: int
    chunks: int
    checksum: str
    settings: Mapping[str, Any]
    note: str
    started_at: str
    verified_at: str | None
    activated_at: str | None
    retired_at: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that took time: from a source's change, or a call, to its effect; `ended_at` is None until then."""

    kind: str
    document_id: str
    started_at: str
    ended_at: str | None = None
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a new generation changes.

    `versions` are added, each in place of the document's live one; documents of `removed` go; `sources` are the rows of
    the sources that were touched; `since` says when a change of a source began, for those whose delay is measured.
    """

    versions: Sequence[VersionRow] = ()
    removed: Sequence[str] = ()
    sources: Sequence[SourceRow] = ()
    since: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.versions or self.removed)


SOURCE_COLUMNS = tuple(f.name for f in fields(SourceRow))
VERSION_COLUMNS = tuple(f.name for f in fields(VersionRow))
EVENT_COLUMNS = tuple(f.name for f in fields(Event))
GENERATION_COLUMNS = tuple(f.name for f in fields(GenerationRow))


def instant(moment: datetime | None = None) -> str:
    """An instant (now by default) as text that sorts by time."""
    return (moment or datetime.now(UTC)).astimezone(UTC).isoformat(timespec="microseconds")


def collision(document_id: str, first: str, second: str) -> str:
    """Why two sources cannot be in one corpus."""
    return (
        f"document id '{document_id}': would name both {first} and {second}; "
        "rename one of them, or add the folder above both"
    )
