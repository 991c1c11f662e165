"""What a corpus holds, how old it is, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.contracts import CacheUse, RagLabError
from rag_lab.corpus.catalogue import Event, SourceRow, instant
from rag_lab.corpus.discovery import DATASET, Found, Options, discover
from rag_lab.corpus.encoded import EMBEDDING
from rag_lab.corpus.kept import KIND as KEPT
from rag_lab.corpus.purge import backlog, first_denials
from rag_lab.corpus.snapshot import KIND as SNAPSHOTS
from rag_lab.corpus.snapshot import PARTS, Snapshot
from rag_lab.metrics.freshness import Check, Targets, age_s, check, delays, summary
from rag_lab.store import manifest

if TYPE_CHECKING:
    import pandas as pd

    from rag_lab.corpus.corpus import Corpus


@dataclass(frozen=True, slots=True)
class Drift:
    """Sources that are not as they were published, by document id; `oldest_s` is the age of the first such change.

    `since`: when each of them changed; `unseen`: roots that were not looked at, since they are datasets or cannot be
    read.
    """

    changed: Sequence[str] = ()
    new: Sequence[str] = ()
    missing: Sequence[str] = ()
    unseen: Sequence[str] = ()
    oldest_s: float | None = None
    since: Mapping[str, datetime] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.changed or self.new or self.missing)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A document that nobody reads any more and of which bytes are still on the disk."""

    document_id: str
    why: str
    age_s: float


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the published documents is indexed: chunks with vectors, and characters that lie in a chunk.

    Shares are None where there is nothing to have a share of. White space does not count.
    """

    rows: int = 0
    rows_with_vectors: int = 0
    characters: int = 0
    covered: int = 0

    @property
    def embedding(self) -> float | None:
        """Share of the chunks that have a vector."""
        return self.rows_with_vectors / self.rows if self.rows else None

    @property
    def span(self) -> float | None:
        """Share of the characters that lie in a chunk."""
        return self.covered / self.characters if self.characters else None


@dataclass(frozen=True, slots=True)
class Status:
    """One look at a corpus. Ages are in seconds; shares are None where there is nothing to have a share of.

    `sources` counts them by state; `failed` and `partial` give reasons by document id; `orphans` lists what nothing
    names, by kind; `backlog` waits for a purge; `duplicate_documents` and `duplicate_chunks` are the shares whose
    content another one has as well; `delays` and `checks` are those of `rag_lab.metrics.freshness`.
    """

    corpus: str
    generation: int | None
    snapshot: str
    settings: Mapping[str, Any]
    documents: int
    chunks: int
    index_age_s: float | None
    sources: Mapping[str, int]
    failed: Mapping[str, str]
    partial: Mapping[str, str]
    orphans: Mapping[str, Sequence[str]]
    backlog: Sequence[Waiting]
    coverage: Coverage
    drift: Drift | None
    parse_success: float | None
    duplicate_documents: float | None
    duplicate_chunks: float | None
    caches: Sequence[CacheUse]
    delays: Sequence[Mapping[str, Any]]
    checks: Sequence[Check]
    pins: Mapping[int, int]


def status_of(corpus: Corpus, now: datetime, drift: bool) -> Status:
    """Look at everything; `drift` also at the sources themselves."""
    catalogue = corpus.catalogue
    active = catalogue.active
    snapshot = corpus.snapshot() if active else None
    rows = catalogue.sources()
    live = catalogue.live()
    age = age_s(active.activated_at, now) if active else None
    found = _drift(corpus, rows, now) if drift else None
    frame = timed(corpus, now, found)
    targets = Targets.read(catalogue.settings["freshness"])
    counters = catalogue.counters()
    there = [row for row in rows if not row.deleted_by]
    failed = {row.document_id: row.error for row in there if row.status == "failed"}
    pins: dict[int, int] = {}
    for number, _ in catalogue.pins():
        pins[number] = pins.get(number, 0) + 1
    return Status(
        corpus=corpus.name,
        generation=active.number if active else None,
        snapshot=active.snapshot if active else "",
        settings=catalogue.settings,
        documents=active.documents if active else 0,
        chunks=active.chunks if active else 0,
        index_age_s=age,
        sources=_counts([row.status for row in rows]),
        failed=failed,
        partial={row.document_id: row.error for row in there if row.status == "partial"},
        orphans=_orphans(corpus),
        backlog=_backlog(corpus, now),
        coverage=_coverage(corpus, snapshot) if snapshot else Coverage(),
        drift=found,
        parse_success=1 - len(failed) / len(there) if there else None,
        duplicate_documents=_duplicates([version.content for version in live.values()]),
        duplicate_chunks=_duplicates(snapshot.chunks.content_hash) if snapshot else None,
        caches=[
            CacheUse(name, counters.get(f"{name}_hits", 0), counters.get(f"{name}_misses", 0))
            for name in ("parse", EMBEDDING)
        ],
        delays=summary(frame),
        checks=check(targets, frame, age),
        pins=pins,
    )


def _counts(values: Sequence[str]) -> dict[str, int]:
    return {value: values.count(value) for value in sorted(set(values))}


def _duplicates(hashes: Sequence[str]) -> float | None:
    return 1 - len(set(hashes)) / len(hashes) if len(hashes) else None


def _orphans(corpus: Corpus) -> dict[str, list[str]]:
    """Entries on the disk that no generation names, and live documents without a source."""
    catalogue, store = corpus.catalogue, corpus.store
    named = {row.snapshot for row in catalogue.generations()}
    snapshots = [snapshot for key in store.entries(SNAPSHOTS) if (snapshot := Snapshot(store, key)).sound]
    parts = {part for snapshot in snapshots for part in snapshot.parts}
    lost = [(kind, key) for kind in PARTS for key in store.entries(kind) if (kind, key) not in parts]
    found = {
        "kept parts": sorted(set(corpus.kept.entries(KEPT)) - catalogue.parts()),
        "originals": _unnamed_originals(corpus),
        "snapshots": [s.id for s in snapshots if s.corpus == corpus.name and s.id not in named],
        "parts of the store": [f"{kind}/{key}" for kind, key in lost],
        "documents without a source": catalogue.without_source(),
    }
    return {kind: names for kind, names in found.items() if names}


def _unnamed_originals(corpus: Corpus) -> list[str]:
    found = []
    for part, used in corpus.catalogue.positions().items():
        folder = corpus.kept.path(KEPT, part)
        if not folder.is_dir():
            continue
        found += [f"{part}[{i}]" for i in range(manifest(folder)["documents"]) if i not in used]
    return found


def _backlog(corpus: Corpus, now: datetime) -> list[Waiting]:
    """Documents that are denied or were taken out, and are not purged yet; the oldest first."""
    activated = {row.number: row.activated_at for row in corpus.catalogue.generations()}
    found = {
        document_id: Waiting(document_id, "removed", age_s(activated.get(number), now) or 0.0)
        for document_id, number in corpus.catalogue.taken_out().items()
    }
    denials = corpus.denials.of(corpus.name)
    for document_id, first in first_denials(corpus, backlog(corpus, denials), denials).items():
        found[document_id] = Waiting(document_id, first.kind, (now - first.at).total_seconds())
    return sorted(found.values(), key=lambda waiting: -waiting.age_s)


def _coverage(corpus: Corpus, snapshot: Snapshot) -> Coverage:
    table = snapshot.chunks
    covered = characters = 0
    for document in corpus.documents():
        solid = np.fromiter((not c.isspace() for c in document.text), dtype=bool, count=len(document.text))
        inside = np.zeros(len(document.text) + 1, dtype=np.int64)
        within = table.documents.get(document.document_id, slice(0, 0))
        np.add.at(inside, table.start[within], 1)
        np.add.at(inside, table.end[within], -1)
        covered += int((solid & (np.cumsum(inside)[:-1] > 0)).sum())
        characters += int(solid.sum())
    vectors = len(snapshot.vectors) if snapshot.facts.get("encoder") else 0
    return Coverage(len(table), vectors, characters, covered)


def _drift(corpus: Corpus, rows: Sequence[SourceRow], now: datetime) -> Drift:
    """Files that were written, made or taken away since they were published: by time and size, then by content."""
    roots = corpus.catalogue.roots()
    unseen = [uri for uri in roots if uri.startswith(DATASET) or not Path(uri).exists()]
    looked_at = {uri: Options.read(options) for uri, (options, _) in roots.items() if uri not in unseen}
    try:
        found = discover(looked_at, rows, roots).found
    except RagLabError as error:
        return Drift(unseen=[*unseen, str(error)])
    known = {row.document_id: row for row in rows}
    changed = [name for name, one in found.items() if name in known and _is_changed(one, known[name])]
    new = [name for name in found if name not in known or known[name].deleted_by == "source"]
    missing = [r.document_id for r in rows if r.root in looked_at and not r.deleted_by and r.document_id not in found]
    checked = {uri: datetime.fromisoformat(at) for uri, (_, at) in roots.items()}
    since = {name: checked[known[name].root] for name in missing}
    since |= {name: max(checked[found[name].root], _moment(found[name].modified_ns)) for name in (*changed, *new)}
    oldest = max(0.0, (now - min(since.values())).total_seconds()) if since else None
    return Drift(changed, new, missing, unseen, oldest, since)


def _is_changed(one: Found, row: SourceRow) -> bool:
    if row.deleted_by or one.path is None or (one.size, one.modified_ns) == (row.size, row.modified_ns):
        return False
    try:
        return sha256(one.path.read_bytes()).hexdigest() != row.content
    except OSError:
        return True


def _moment(modified_ns: int) -> datetime:
    return datetime.fromtimestamp(modified_ns / 1e9, UTC)


def timed(corpus: Corpus, now: datetime, drift: Drift | None) -> pd.DataFrame:
    """The delays of a corpus (`freshness.delays`): of what had its effect, and of what still waits for it.

    That are sources which failed or, as far as `drift` was looked at, are not published as they are, and denied
    documents that are not purged.
    """
    catalogue = corpus.catalogue
    first = min((row.activated_at for row in catalogue.generations() if row.activated_at), default=None)
    waiting: dict[tuple[str, str], datetime] = {}
    for row in catalogue.sources(status="failed"):
        known = row.ingested_at or row.discovered_at
        kind = "loaded" if row.ingested_at is None and (first is None or known <= first) else "searchable"
        waiting[kind, row.document_id] = max(_moment(row.modified_ns), datetime.fromisoformat(known))
    if drift is not None:
        for name in (*drift.changed, *drift.new):
            key = ("searchable", name)
            waiting[key] = min(drift.since[name], waiting.get(key, now))
        waiting |= {("removed", name): drift.since[name] for name in drift.missing}
    for one in _backlog(corpus, now):
        if one.why != "removed":
            waiting["purged", one.document_id] = now - timedelta(seconds=one.age_s)
    events = [Event(kind, name, instant(min(since, now))) for (kind, name), since in waiting.items()]
    return delays([*catalogue.events(), *events], now)


def drift_of(corpus: Corpus, now: datetime) -> Drift:
    """How far the sources are from what is published."""
    return _drift(corpus, corpus.catalogue.sources(), now)
