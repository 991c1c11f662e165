"""Purge denied documents from the disk, and prove that nothing of them is left.

A denial takes effect at once and leaves the bytes where they are. Purging then takes them away: originals and parsed
texts, chunks with their parents and prefixes, vectors, weighted terms, postings, indexes, snapshots of every generation
that held the documents, and all that was computed from those (rankings, prompts, answers, results, reports). What
readers see is replaced first by a snapshot whose every part was written anew without them, so reading goes on.

The order makes an interrupted purge safe to repeat: first the marks of what is to go are kept (`remains`), what they
are made from goes last, and documents count as purged only after a search of the whole store. A search can be repeated
at any time from the kept marks. It looks through the store and through every folder that runs wrote results to.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rag_lab.contracts import RagLabError
from rag_lab.corpus.catalogue import Event, VersionRow, instant
from rag_lab.corpus.deny import Denial, Denials
from rag_lab.corpus.encoded import ENCODING
from rag_lab.corpus.exports import exports
from rag_lab.corpus.kept import KIND as KEPT
from rag_lab.corpus.kept import Kept, Part, rewrite_part
from rag_lab.corpus.prefixing import KIND as PREFIXES
from rag_lab.corpus.publisher import replace_with
from rag_lab.corpus.publishing import rewrite_without
from rag_lab.corpus.remains import Finding, Hashes, files_below, marks, search, without
from rag_lab.corpus.removal import remove_snapshots
from rag_lab.corpus.segment import Segment
from rag_lab.corpus.snapshot import KIND as SNAPSHOTS
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.progress import progress_bar
from rag_lab.store import Store, digest, manifest

if TYPE_CHECKING:
    from rag_lab.corpus.corpus import Corpus

MARKS = "marks"
ROWS = 1000
"""Rows that are read at a time."""

Denies: TypeAlias = Callable[[str, str], bool]
"""Whether a document (id, digest of its content) is denied."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What a search for purged documents came to.

    `left` are findings in what belongs to the corpus: the purge is not complete. `elsewhere` are findings in other
    corpora, which have a copy of their own; `exported` in folders that runs wrote results to, which are their owner's.
    `postings` counts Lucene indexes that still list a purged document. `unmarked` documents were too short, or too much
    like documents that stay, to be searched for. `searched` is in bytes, those that files pack included.
    """

    documents: Sequence[str]
    marks: int
    files: int
    searched: int
    left: Sequence[Finding]
    elsewhere: Sequence[Finding]
    exported: Sequence[Finding]
    postings: int
    unmarked: Sequence[str]
    unreadable: Sequence[Path]
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether everything could be searched and nothing was found in the store of this corpus."""
        return not self.left and not self.postings and not self.unreadable


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge removed, by kind of entry, and the proof. `generation` is the new active one, None if none is."""

    corpus: str
    documents: Sequence[str]
    generation: int | None = None
    removed: Mapping[str, int] = field(default_factory=dict)
    proof: Proof | None = None


def purge(corpus: Corpus, *, progress: bool = False) -> Purge:
    """Remove every trace of the documents that are denied and whose bytes are still there, and prove it.

    The caller holds the right to publish (`Corpus.purge`). Nothing happens when no denied document is there.
    """
    denials = corpus.denials.of(corpus.name)  # what is denied from here on is for the next purge
    names, denies = backlog(corpus, denials), denials.denies
    if not names:
        return Purge(corpus.name, ())
    began = {name: instant(denial.at) for name, denial in first_denials(corpus, names, denials).items()}
    held = [snapshot for snapshot in _snapshots(corpus) if _holds(snapshot, denies)]
    _keep_marks(corpus, names, held, denies)
    generation = _replace_active(corpus, denies)
    prefixes = _drop_prefixes(corpus, names, held, denies)
    removed = _drop_snapshots(corpus, held) | {PREFIXES: prefixes}
    removed[KEPT] = _rewrite_kept(corpus, names, denies)
    proof = prove(corpus, names, progress=progress)
    if proof.clean:
        now = instant()
        corpus.catalogue.record(Event("purged", name, began.get(name, now), now) for name in names)
    return Purge(corpus.name, names, generation, {kind: n for kind, n in removed.items() if n}, proof)


def backlog(corpus: Corpus, denials: Denials | None = None) -> list[str]:
    """Denied documents of which a version or a snapshot is still there, or that were not proven gone, by id.

    `denials`: a list of denials in place of that of now.
    """
    denied = denials or corpus.denials.of(corpus.name)
    held = {
        v.document_id for v in corpus.catalogue.versions(denied.documents) if denied.denies(v.document_id, v.digest)
    }
    for snapshot in _snapshots(corpus) if denied.documents else ():
        held |= {name for segment in snapshot.segments for name in _denied_in(segment, denied.denies)}
    return sorted(held | (set(_marked(corpus)) - _proven(corpus)))


def first_denials(corpus: Corpus, names: Collection[str], denials: Denials) -> dict[str, Denial]:
    """For each of some documents that are denied the first denial of what is still there of it, else of any of it."""
    there = corpus.catalogue.digests(names)
    found: dict[str, Denial] = {}
    for name in names:
        denied = denials.in_force.get(name, ())
        if holding := [d for d in denied if d.content in ("", *there.get(name, ()))] or denied:
            found[name] = min(holding, key=lambda denial: denial.at)
    return found


def _proven(corpus: Corpus) -> set[str]:
    """Documents that were proven gone and not denied again since: another content of theirs may be on its way out."""
    last = {event.document_id: event.kind for event in corpus.catalogue.events("revoked", "deleted", "purged")}
    return {document_id for document_id, kind in last.items() if kind == "purged"}


def prove(corpus: Corpus, document_ids: Sequence[str] | None = None, *, progress: bool = False) -> Proof:
    """Search the disk for documents that were purged (all by default), by the marks that were kept of them."""
    clock = perf_counter()
    names = _marked(corpus) if document_ids is None else list(document_ids)
    kept = {name: _read_marks(corpus, name) for name in names}
    every = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *kept.values()]))
    wanted = without(every, _living(corpus)) if len(every) else every
    root = corpus.store.root
    files = list(files_below([root, *exports(corpus.store)]))
    with progress_bar("searching the disk", len(files), progress) as advance:
        found = search(files, wanted, advance)
    others = _owned_by_others(corpus)
    exported = [finding for finding in found.findings if root not in finding.place.parents]
    inside = [finding for finding in found.findings if root in finding.place.parents]
    elsewhere = [finding for finding in inside if not others.isdisjoint(finding.place.parents)]
    return Proof(
        documents=names,
        marks=len(wanted),
        files=found.files,
        searched=found.searched,
        left=[finding for finding in inside if others.isdisjoint(finding.place.parents)],
        elsewhere=elsewhere,
        exported=exported,
        postings=_postings(corpus, names, others),
        unmarked=[name for name, hashes in kept.items() if not np.isin(hashes, wanted).any()],
        unreadable=found.unreadable,
        seconds=perf_counter() - clock,
    )


# --- marks ----------------------------------------------------------------------------------------------------------


def _keep_marks(corpus: Corpus, names: Iterable[str], held: Sequence[Snapshot], denies: Denies) -> None:
    """Keep marks of all that was made of some documents, beside those of an attempt before."""
    found: dict[str, list[Hashes]] = {name: [_read_marks(corpus, name)] for name in names}
    for version, entry in _entries(corpus, corpus.catalogue.versions(found)):
        if denies(version.document_id, version.digest):
            found[version.document_id] += [marks([entry.data], text=False), marks(_texts(entry), text=True)]
    for segment in {segment.key: segment for snapshot in held for segment in snapshot.segments}.values():
        for name, texts, encoded in _of_segment(segment, denies):
            found[name] += [marks(texts, text=True), marks(encoded, text=False)]
    store = corpus.kept
    for name, hashes in found.items():
        buffer = io.BytesIO()
        np.save(buffer, np.unique(np.concatenate(hashes)))
        store.write(MARKS, digest(name), "document.json", json.dumps(name).encode())
        store.write(MARKS, digest(name), "marks.npy", buffer.getvalue())


def _marked(corpus: Corpus) -> list[str]:
    """Ids of the documents that marks were kept of."""
    store = corpus.kept
    names = (store.read(MARKS, key, "document.json") for key in store.entries(MARKS))
    return sorted(json.loads(name) for name in names if name)


def _read_marks(corpus: Corpus, name: str) -> Hashes:
    kept = corpus.kept.read(MARKS, digest(name), "marks.npy")
    return np.zeros(0, dtype=np.uint64) if kept is None else np.load(io.BytesIO(kept), allow_pickle=False)


def _entries(corpus: Corpus, versions: Iterable[VersionRow]) -> Iterator[tuple[VersionRow, Kept]]:
    """What is kept of some versions."""
    part: Part | None = None
    for version in sorted(versions, key=lambda v: (v.part, v.position)):
        if part is None or part.key != version.part:
            part = Part(corpus.kept, version.part)
        yield version, part.entry(version.position)


def _texts(entry: Kept) -> list[bytes]:
    parsed = entry.parsed
    return _encoded([parsed.text, parsed.original, parsed.title, *parsed.hidden])


def _denied_in(segment: Segment, denies: Denies) -> list[str]:
    """Denied documents of a segment, dead or alive in its snapshot."""
    return [name for name, (found, _) in segment.listed.items() if denies(name, found)]


def _of_segment(segment: Segment, denies: Denies) -> Iterator[tuple[str, list[bytes], list[bytes]]]:
    """Texts that a segment holds of denied documents, and what models made of them."""
    from rag_lab.corpus.chunk_table import read_chunks

    names = _denied_in(segment, denies)
    if not names:
        return
    table = read_chunks([(segment.folder, frozenset())])
    encoded = [segment.read(slot) for slot in segment.encoded]
    for name in names:
        rows = table.documents.get(name, slice(0, 0))
        texts = [text for row in range(rows.start, rows.stop) for text in (table.shown[row], table.indexed_text(row))]
        yield name, _encoded(texts), [data for series in encoded for data in series.bytes_of(rows)]


def _living(corpus: Corpus) -> Iterator[bytes]:
    """All that the corpus holds and may: what also occurs there is no trace of a purged document."""
    denies = corpus.denials.of(corpus.name).denies
    kept = (v for v in corpus.catalogue.versions() if not denies(v.document_id, v.digest))
    for _, entry in _entries(corpus, kept):
        yield entry.data
        yield from _texts(entry)
    for snapshot in _snapshots(corpus):
        if _holds(snapshot, denies):
            continue
        table = snapshot.chunks
        for start in range(0, len(table), ROWS):
            rows = range(start, min(start + ROWS, len(table)))
            yield b"\n".join(_encoded(table.indexed_text(row) for row in rows))
            for slot in snapshot.slots:
                yield from snapshot.encoded(slot).bytes_of(slice(rows.start, rows.stop))


def _encoded(texts: Iterable[str]) -> list[bytes]:
    return [text.encode("utf-8", "surrogatepass") for text in texts if text]


# --- removing -------------------------------------------------------------------------------------------------------


def _snapshots(corpus: Corpus) -> list[Snapshot]:
    """Sound snapshots of the corpus."""
    found = (Snapshot(corpus.store, name) for name in corpus.store.entries(SNAPSHOTS))
    return [snapshot for snapshot in found if snapshot.sound and snapshot.corpus == corpus.name]


def _holds(snapshot: Snapshot, denies: Denies) -> bool:
    return any(_denied_in(segment, denies) for segment in snapshot.segments)


def _replace_active(corpus: Corpus, denies: Denies) -> int | None:
    """Bring out the active generation without what is denied, each part that held it written anew."""
    catalogue, active = corpus.catalogue, corpus.catalogue.active
    gone = [name for name, version in catalogue.live().items() if denies(name, version.digest)]
    if active is None or not (gone or _holds(corpus.snapshot(), denies)):
        return None
    return replace_with(corpus, rewrite_without(corpus.noting, corpus.snapshot(), denies), gone, "purge")


def _drop_prefixes(corpus: Corpus, names: Iterable[str], held: Sequence[Snapshot], denies: Denies) -> int:
    """Remove the sentences that were generated for chunks of denied documents; of how many documents."""
    digests = {v.digest for v in corpus.catalogue.versions(names) if denies(v.document_id, v.digest)}
    listed = ((name, found) for s in held for segment in s.segments for name, (found, _) in segment.listed.items())
    digests |= {found for name, found in listed if denies(name, found)}
    return sum(corpus.store.remove(PREFIXES, found) for found in sorted(digests))


def _drop_snapshots(corpus: Corpus, held: Sequence[Snapshot]) -> dict[str, int]:
    """Remove snapshots that hold what is denied, their parts, and all that was computed from them.

    What was computed from a snapshot that is not there any more goes as well: it may hold anything.
    """
    store, ids = corpus.store, {snapshot.id for snapshot in held}
    for row in corpus.catalogue.generations():
        if row.snapshot in ids:
            corpus.catalogue.drop(row.number)
    staying = set(store.entries(SNAPSHOTS)) - ids
    removed = {"stages": sum(store.remove("stages", name) for name in set(store.entries("stages")) - staying)}
    for kind in ("results", "reports"):
        ours = [key for key in store.entries(kind) if not _snapshots_of(store, kind, key) <= staying]
        removed[kind] = sum(store.remove(kind, key) for key in ours)
    removed[ENCODING] = sum(store.remove(ENCODING, key) for key in store.entries(ENCODING))
    removed[SNAPSHOTS] = len(ids)
    remove_snapshots(corpus, ids)
    return removed


def _snapshots_of(store: Store, kind: str, key: str) -> set[str]:
    """The snapshots that results or a report were made from; an id of none where that is not known."""
    try:
        return set(manifest(store.path(kind, key)).get("snapshots", [""]))
    except RagLabError:
        return {""}


def _rewrite_kept(corpus: Corpus, names: Iterable[str], denies: Denies) -> int:
    """Forget denied versions, and write every kept part anew that holds what no version names; how many were."""
    catalogue, store = corpus.catalogue, corpus.kept
    catalogue.drop_versions(v for v in catalogue.versions(names) if denies(v.document_id, v.digest))
    catalogue.forget_errors(names)
    rewritten, positions = 0, catalogue.positions()
    for key in store.entries(KEPT):
        named = positions.get(key, set())
        unnamed = set(range(len(Part(store, key)))) - named
        if not unnamed:
            continue
        new, moved = rewrite_part(store, key, unnamed)
        catalogue.move_part(key, new, moved)
        store.remove(KEPT, key)
        rewritten += 1
    catalogue.scrub()
    return rewritten


# --- whose is what --------------------------------------------------------------------------------------------------


def _owned_by_others(corpus: Corpus) -> set[Path]:
    """Folders of the store that belong to other corpora, or to them as well."""
    store = corpus.store
    folders = {folder for folder in (store.root / "corpora").iterdir() if folder.name != corpus.name}
    theirs: set[str] = set()
    for name in store.entries(SNAPSHOTS):
        snapshot = Snapshot(store, name)
        if snapshot.sound and snapshot.corpus != corpus.name:
            theirs.add(name)
            folders |= {snapshot.folder, store.path("stages", name)}
            folders |= {store.path(kind, key) for kind, key in snapshot.parts}
    for kind in ("results", "reports"):
        folders |= {store.path(kind, key) for key in store.entries(kind) if _snapshots_of(store, kind, key) & theirs}
    return folders


def _postings(corpus: Corpus, names: Sequence[str], others: Collection[Path]) -> int:
    """Lucene indexes of the corpus that list a document which is denied and not published in other content."""
    from rag_lab.retrieval.row_index import RowIndex

    store, gone = corpus.store, set(names) - corpus.catalogue.live().keys()
    listing = 0
    for folder in [store.path(kind, key) for kind in ("lucene", "impact") for key in store.entries(kind)]:
        if gone and folder not in others:
            with RowIndex(folder) as index:
                listing += not gone.isdisjoint(index.documents())
    return listing
