"""From discovered sources to the changes of a generation: read, parse or look up, state the rights, keep.

A source that cannot be ingested fails alone: it is listed with its reason, and the version before stays. What was
parsed before, by the same version of its parser, is not parsed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import PurePath
from typing import Any

import numpy as np

from rag_lab.contracts import Document, RagLabError
from rag_lab.corpus.catalogue import Catalogue, SourceRow, VersionRow, instant
from rag_lab.corpus.discovery import RECORD_PARSER, Discovery, Found, basis_of
from rag_lab.corpus.kept import Kept, Part, write_part
from rag_lab.corpus.parsing import Parsed, ParseError, format_of, parser_version
from rag_lab.corpus.parsing.guard import parse_guarded
from rag_lab.corpus.segment import document_digest
from rag_lab.corpus.stated import document_of, front_matter, narrowed, plain_rights, restored
from rag_lab.progress import progress_bar
from rag_lab.store import Store

BATCH = 500
MOST_WORKERS = 4
SOURCES_A_WORKER = 50
"""A process for parsing takes about a second to start: another one is worth it from so many sources on."""
INCOMPLETE = (
    *("cannot be read", "could not be read", "cut or damaged", "is no JSON", "are no JSON"),
    *("has to be recognised", "never closed"),
)
"""What a note of a parser says when a part of the source is missing from the text."""
STATES_SOME_RIGHTS = frozenset({"markdown"})
"""Formats whose metadata is front matter, written by hand, and so may state rights."""
READABLE = ("active", "partial", "revoked", "expired")


@dataclass
class Ingested:
    """What a look at the sources came to. Documents are those to publish; the rest is by document id.

    `gone`: live documents whose source is not there any more, or was deleted; `bases`: documents that come out as they
    were although what decides them changed; `asleep`: sources that are there, but deleted and unchanged, or revoked
    and not published.
    """

    documents: list[Document] = field(default_factory=list)
    versions: list[VersionRow] = field(default_factory=list)
    sources: list[SourceRow] = field(default_factory=list)
    since: dict[str, str] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    bases: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    partial: dict[str, str] = field(default_factory=dict)
    asleep: list[str] = field(default_factory=list)
    admits_nobody: list[str] = field(default_factory=list)
    parsed: int = 0
    parse_hits: int = 0


@dataclass(frozen=True, eq=False)
class _Source:
    """A source on its way: what was read and what is known of it."""

    found: Found
    data: bytes
    content: str
    basis: str
    parser: str
    kind: str
    row: SourceRow | None


class Ingestion:
    """One look at sources. `revive`: a deleted source whose content changed counts again, since it was added anew.

    Of `revoked` documents nothing is read unless they are published: what was purged must not come back.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        store: Store,
        checked: Mapping[str, str],
        revoked: frozenset[str],
        *,
        revive: bool,
        progress: bool,
    ) -> None:
        self._catalogue = catalogue
        self._store = store
        self._checked = checked
        self._revoked = revoked
        self._revive = revive
        self._progress = progress
        self._started = instant()
        self._live = catalogue.live()
        self._rows = {row.document_id: row for row in catalogue.sources()}
        self.result = Ingested()

    def run(self, discovery: Discovery, roots: Iterable[str]) -> Ingested:
        """Look at everything that was discovered below some roots."""
        found = list(discovery.found.values())
        with progress_bar("reading sources", len(found), self._progress) as advance:
            changed: list[_Source] = []
            for one in found:
                source = self._read(one)
                if source is None:
                    advance(1)
                    continue
                changed.append(source)
                if len(changed) == BATCH:
                    self._take(changed)
                    advance(len(changed))
                    changed = []
            self._take(changed)
            advance(len(changed))
        self._miss(discovery, frozenset(roots))
        self._catalogue.count(parse_hits=self.result.parse_hits, parse_misses=self.result.parsed)
        return self.result

    # --- one source --------------------------------------------------------------------------------------------------

    def _read(self, one: Found) -> _Source | None:
        """The source with its bytes, None when nothing about it changed or it cannot be read."""
        row = self._rows.get(one.document_id)
        if one.document_id in self._revoked and one.document_id not in self._live:
            self.result.asleep.append(one.document_id)
            return None
        try:
            data = one.record.text.encode("utf-8", "surrogatepass") if one.record else _bytes(one)
            content = sha256(data).hexdigest()
            kind = "record" if one.record else format_of(data, one.name)
            parser = RECORD_PARSER if one.record else _parser_key(kind, one.name)
        except RagLabError as error:
            self._fail(one, row, str(error))
            return None
        basis = basis_of(one, content, parser)
        if row is not None and self._is_settled(one, row, content, basis):
            return None
        return _Source(one, data, content, basis, parser, kind, row)

    def _is_settled(self, one: Found, row: SourceRow, content: str, basis: str) -> bool:
        if row.deleted_by == "caller" and (row.content == content or not self._revive):
            self.result.asleep.append(one.document_id)
            return True
        if row.status == "expired" and one.document_id not in self._live and row.basis == basis:
            self.result.unchanged.append(one.document_id)
            return True
        live = self._live.get(one.document_id)
        if live is None or live.basis != basis or row.status not in READABLE or row.deleted_by:
            return False
        self.result.unchanged.append(one.document_id)
        if row.status == "partial":
            self.result.partial[one.document_id] = row.error
        if _admits_nobody(live):
            self.result.admits_nobody.append(one.document_id)
        if (row.size, row.modified_ns, row.root) != (one.size, one.modified_ns, one.root):
            self.result.sources.append(replace(row, size=one.size, modified_ns=one.modified_ns, root=one.root))
        return True

    def _fail(self, one: Found, row: SourceRow | None, reason: str) -> None:
        """List a source that cannot be ingested; what is live of it stays."""
        reason = " ".join(reason.split())
        self.result.failed[one.document_id] = reason
        known = row or SourceRow(one.document_id, one.uri, one.root, "failed", self._started)
        changed = replace(
            known,
            uri=one.uri,
            root=one.root,
            status="failed",
            error=reason,
            size=one.size,
            modified_ns=one.modified_ns,
        )
        self.result.sources.append(changed)

    # --- a batch of changed sources ----------------------------------------------------------------------------------

    def _take(self, sources: Sequence[_Source]) -> None:
        """Parse what is not parsed yet, make the documents, and keep in one part what became one."""
        known: dict[str, tuple[Parsed, str, int]] = {}
        self._look_up(sources, known)
        unknown = {_key(source): source for source in reversed(sources) if _key(source) not in known}
        outcomes = self._parse([source for source in reversed(unknown.values()) if source.found.record is None])
        files = sum(source.found.record is None for source in sources)
        self.result.parsed += len(outcomes)
        self.result.parse_hits += files - len(outcomes)
        entries: list[Kept] = []
        parses: list[tuple[str, str, int]] = []
        made: list[tuple[_Source, Document]] = []
        for source in sources:
            key, record = _key(source), source.found.record
            try:
                parsed = known[key][0] if key in known else _parsed_record(record) if record else outcomes[key]
                if isinstance(parsed, ParseError):
                    raise parsed
                made.append((source, self._document(source, parsed)))
            except RagLabError as error:
                self._fail(source.found, source.row, str(error))
                continue
            if key not in known:
                if record is None:
                    parses.append((source.content, source.parser, len(entries)))
                known[key] = parsed, "", len(entries)
                entries.append(Kept(source.data, parsed))
        new = write_part(self._store, entries) if entries else ""
        self._catalogue.put_parses(new, parses)
        for source, document in made:
            parsed, part, position = known[_key(source)]
            self._accept(source, parsed, document, part or new, position)

    def _look_up(self, sources: Sequence[_Source], known: dict[str, tuple[Parsed, str, int]]) -> None:
        """Fill in what was parsed before; a part that is damaged or gone is parsed again."""
        opened: dict[str, Part] = {}
        for source in sources:
            place = None if source.found.record else self._catalogue.parse_of(source.content, source.parser)
            if place is None:
                continue
            part, position = place
            with suppress(RagLabError):
                if part not in opened:
                    opened[part] = Part(self._store, part)
                known[_key(source)] = opened[part].parsed(position), part, position

    def _parse(self, sources: Sequence[_Source]) -> dict[str, Parsed | ParseError]:
        """Parse files in processes of their own, under limits."""
        if not sources:
            return {}
        workers = min(1 + len(sources) // SOURCES_A_WORKER, os.cpu_count() or 1, MOST_WORKERS)
        found = parse_guarded(((source.found.name, source.data) for source in sources), workers=workers)
        return {_key(source): outcome for source, (_, outcome) in zip(sources, found, strict=True)}

    def _document(self, source: _Source, parsed: Parsed) -> Document:
        one, now = source.found, datetime.now(UTC)
        if one.record is not None:
            return replace(one.record, ingested_at=now)
        place = one.uri
        zone = one.statements[0].zone
        stated = front_matter(parsed, place, zone) if source.kind in STATES_SOME_RIGHTS else None
        return document_of(
            one.document_id,
            parsed,
            narrowed(stated, one.statements),
            source_uri=one.name,
            source_version=source.content[:12],
            ingested_at=now,
        )

    def _accept(self, source: _Source, parsed: Parsed, document: Document, part: str, position: int) -> None:
        one, live = source.found, self._live.get(source.found.document_id)
        notes = "; ".join(note for note in parsed.notes if any(mark in note for mark in INCOMPLETE))
        ended = document.valid_until is not None and document.valid_until <= datetime.now(UTC)
        row = SourceRow(
            one.document_id,
            one.uri,
            one.root,
            "partial" if notes else "expired" if ended else "active",
            source.row.discovered_at if source.row else self._started,
            source.kind,
            source.content,
            source.basis,
            one.size,
            one.modified_ns,
            notes,
            ingested_at=instant(),
            searchable_at=source.row.searchable_at if source.row else None,
        )
        self.result.sources.append(row)
        if notes:
            self.result.partial[one.document_id] = notes
        found = document_digest(document)
        version = VersionRow(
            one.document_id,
            source.content,
            source.basis,
            found,
            text_digest(document.text),
            json.dumps(plain_rights(document), ensure_ascii=False),
            instant(document.valid_until) if document.valid_until else None,
            source.parser,
            part,
            position,
        )
        if _admits_nobody(version):
            self.result.admits_nobody.append(one.document_id)
        if live is not None and live.digest == found and not (source.row and source.row.deleted_by):
            self.result.unchanged.append(one.document_id)
            self.result.bases[one.document_id] = source.basis
            return
        self.result.documents.append(document)
        self.result.versions.append(version)
        self.result.since[one.document_id] = self._since(source)

    def _since(self, source: _Source) -> str:
        """When the source changed: by its own time, but not before its root was last looked at, nor in the future."""
        checked = self._checked.get(source.found.root, self._started)
        written = instant(datetime.fromtimestamp(source.found.modified_ns / 1e9, UTC))
        return min(max(written, checked), self._started)

    def _miss(self, discovery: Discovery, roots: frozenset[str]) -> None:
        """Live documents whose source is gone, and those that were deleted and not yet taken out."""
        back = {version.document_id for version in self.result.versions}
        for row in self._rows.values():
            missing = row.root in roots and row.document_id not in discovery.found
            if missing and not row.deleted_by:
                self.result.sources.append(replace(row, status="deleted", deleted_by="source", error=""))
            deleted = row.deleted_by and row.document_id not in back
            if row.document_id in self._live and (missing or deleted):
                self.result.gone.append(row.document_id)
                self.result.since[row.document_id] = self._started


def _key(source: _Source) -> str:
    """What two sources share that parse to the same: bytes and parser. A record is only ever its own."""
    return source.found.uri if source.found.record else f"{source.content} {source.parser}"


def text_digest(text: str) -> str:
    """SHA-256 of a document's text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def documents_of(versions: Iterable[VersionRow], store: Store) -> list[Document]:
    """The documents of versions again, read from the kept parts; each part is opened once."""
    found: list[Document] = []
    opened: tuple[str, Part] | None = None
    for version in sorted(versions, key=lambda v: (v.part, v.position)):
        if opened is None or opened[0] != version.part:
            opened = version.part, Part(store, version.part)
        found.append(restored(version.document_id, opened[1].parsed(version.position), json.loads(version.rights)))
    return found


def _bytes(one: Found) -> bytes:
    if one.path is None:
        raise ParseError(f"{one.uri}: has no file")
    try:
        return one.path.read_bytes()
    except OSError as error:
        raise ParseError(f"{one.uri}: cannot be read ({error.strerror or error}); check that it may be") from error


def _parser_key(kind: str, name: str) -> str:
    """What decides, with the bytes, how they are parsed: the parser's version, and an ending that picks a dialect."""
    dialect = PurePath(name).suffix.lower() if kind in ("code", "table") else ""
    return f"{parser_version(kind)}{' ' + dialect if dialect else ''}"


def _parsed_record(record: Document) -> Parsed:
    """A record of a dataset as if it had been parsed: its text is the original."""
    offsets = np.arange(len(record.text) + 1, dtype=np.int32)
    metadata = {str(name): value for name, value in record.metadata.items()}
    return Parsed(
        record.text, record.blocks, record.text, offsets, RECORD_PARSER, record.title, record.language, metadata
    )


def _admits_nobody(version: VersionRow) -> bool:
    rights: dict[str, Any] = json.loads(version.rights)
    public, groups, policy = rights["acl"]
    return not rights["tenant"] or not (public or groups or policy)
