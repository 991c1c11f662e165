"""Publish a snapshot: a fresh one of documents, or one made from a base and what changed.

Only what changed is cut and encoded. What is there already, in the base or under its key in the store, is named again
and not made again. The one thing that takes time in proportion to the corpus is Lucene's merge, and where a rule says
that indexes or segments should be put in order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.contracts import CacheUse, Document, Encoder, RagLabError
from rag_lab.corpus.chunk_table import ChunkKeys, Part, read_chunks, read_keys
from rag_lab.corpus.chunking import Chunker
from rag_lab.corpus.encoded import (
    IMPACTS,
    TOKEN_VECTORS,
    VECTORS,
    as_sparse_vectors,
    as_token_vectors,
    beside,
    dense_model,
    encode,
    gather,
    late_model,
    sparse_model,
)
from rag_lab.corpus.segment import Segment, build_segment, contents_key, document_digest, merge_segments
from rag_lab.corpus.snapshot import FLAT, FORMAT, KIND, LATE_INDEXES, TEXT_KEYS, Snapshot, late_kind, snapshot_id
from rag_lab.provenance import version_of
from rag_lab.retrieval.late.vectors import LateEncoder
from rag_lab.retrieval.sparse.vectors import SparseEncoder
from rag_lab.store import Store, digest, verify

if TYPE_CHECKING:
    from rag_lab.retrieval.row_index import Analysis, Entries

PARSER_VERSION = "text-1"
CUT_BY = ("parser", "chunker", "tokens")

Folders = Callable[[Path], Mapping[str, Any] | None]


def publish(
    store: Store,
    documents: Sequence[Document],
    chunker: Chunker,
    *,
    token_encoder: Encoder | None = None,
    analyzer: str | None = None,
    encoder: Encoder | None = None,
    factories: Sequence[str] = (),
    late: LateEncoder | None = None,
    late_indexes: Sequence[str] = ("exact",),
    sparse: Sequence[SparseEncoder] = (),
    progress: bool = False,
    corpus: str = "",
    base: Snapshot | None = None,
    removed: Collection[str] = (),
    known: Sequence[Segment] = (),
    on_use: Callable[[CacheUse], object] | None = None,
) -> Snapshot:
    """Build what is missing and return the snapshot.

    `token_encoder` counts tokens for the chunker; `analyzer` (en, zh, multilingual) asks for a Lucene index; `encoder`
    with `factories` asks for vectors and FAISS indexes, `late` with `late_indexes` (`snapshot.LATE_INDEXES`) for token
    vectors and a PLAID index where there is to be one, `sparse` for weighted terms of each encoder and a Lucene index
    of them. The same input returns the same snapshot, built only once.

    With `base` the snapshot holds the documents of the base, without those in `removed`, and with `documents` added or
    in place of those with the same id; a document that is as it was costs nothing. Segments are put together when that
    is due (`tidy`), FAISS and PLAID indexes built again when they are outdated (`dense.outdated`).

    `known`: segments whose texts are not encoded again, beside those of the base.
    `on_use` is told for each model how many of the cut chunks it knew (caches "embedding", "token vectors" and "sparse
    vectors").

    Raises:
        RagLabError: an id is given twice, or both given and removed; the base belongs to another corpus or was made
            with other settings or versions, which takes a publication without a base.
    """
    dense = encoder if factories else None
    late = late if late_indexes else None
    settings = _Settings.of(chunker, token_encoder, analyzer, dense, factories, late, late_indexes, sparse, corpus)
    # Token vectors come first: their pass may give the dense vectors as well.
    models = [late_model(late)] if late is not None else []
    models += [dense_model(dense)] if dense is not None else []
    models += [sparse_model(one) for one in sparse]
    joint = beside(dense, late) if dense is not None and late is not None else None
    given = {document.document_id: document for document in documents}
    if len(given) < len(documents):
        raise RagLabError(f"documents: {len(documents) - len(given)} ids are given twice; give each document once")
    if both := given.keys() & set(removed):
        raise RagLabError(f"documents: {min(both)} is both given and removed; choose one")
    held: list[Segment] = []
    before: Mapping[str, str] = {}
    if base is not None:
        settings.check_same(base)
        held, before = list(base.segments), base.documents
    digests = {name: document_digest(document) for name, document in given.items()}
    changed = {name: found for name, found in digests.items() if before.get(name) != found}
    gone = (changed.keys() | set(removed)) & before.keys()
    kept = [segment.without(gone) for segment in held]
    fresh = None
    if changed or base is None:
        some = [given[name] for name in sorted(changed)]
        fresh = build_segment(store, some, changed, chunker, token_encoder, settings.cut_by)
        for model in models:
            together = joint if model.kind == TOKEN_VECTORS else None
            just_made = joint.blocks if joint is not None and model.kind == VECTORS else ()
            fresh, use = encode(fresh, model, [*held, *known], progress, together, just_made)
            if on_use is not None:
                on_use(use)
        kept.append(fresh)
    change = _Change(base, gone, fresh)
    return _publish(store, settings, tidy(store, kept, settings.cut_by), change)


def compact(store: Store, snapshot: Snapshot) -> Snapshot:
    """The same rows in one segment, without anything of the dead. Nothing is cut or encoded.

    The result is the snapshot that publishing its documents afresh would give, but for FAISS and PLAID indexes that
    were not outdated, which stay.
    """
    settings = _Settings.read(snapshot)
    merged = merge_segments(store, snapshot.segments, settings.cut_by)
    return _publish(store, settings, [merged], _Change(snapshot))


def rewrite_without(store: Store, snapshot: Snapshot, denies: Callable[[str, str], bool]) -> Snapshot:
    """The snapshot without the documents that `denies` names by id and digest, of which no part holds a byte.

    Segments that hold any of them, dead or alive, are written anew, without anything dead; so is the Lucene index, and
    a FAISS or PLAID index that has an id which is no row any more. Older snapshots, and the parts that they name, stay.
    """
    settings = _Settings.read(snapshot)
    kept: list[Segment] = []
    for segment in snapshot.segments:
        bad = {name for name, (found, _) in segment.listed.items() if denies(name, found)}
        if bad:
            segment = merge_segments(store, [segment.without(bad)], settings.cut_by)
        kept.append(segment)
    gone = {name for name, found in snapshot.documents.items() if denies(name, found)}
    change = _Change(snapshot, gone, clean=True)
    return _publish(store, settings, tidy(store, kept, settings.cut_by), change)


def tidy(store: Store, segments: Sequence[Segment], cut_by: Sequence[str]) -> list[Segment]:
    """Put segments together, oldest first, so that each holds at least twice the living chunks of the next.

    A segment with more dead documents than living ones is written anew without them; one without living documents is
    left out. So there are about log2(chunks) segments at most; a chunk is copied only into a segment of 1.5 times the
    size, or for at least as many removals as there are chunks to copy; and it is never encoded again.
    """
    groups: list[list[Segment]] = []
    for segment in segments:
        if not segment.documents:
            continue
        groups.append([segment])
        while len(groups) > 1 and 2 * _size(groups[-1]) > _size(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    due = [len(group) > 1 or len(group[0].dead) > len(group[0].documents) for group in groups]
    tidied = [merge_segments(store, g, cut_by) if do else g[0] for g, do in zip(groups, due, strict=True)]
    return tidied or [merge_segments(store, [segment.without(segment.listed) for segment in segments], cut_by)]


def _size(group: Sequence[Segment]) -> int:
    return sum(segment.chunks for segment in group)


def documents_digest(documents: Sequence[Document]) -> str:
    """A digest of everything in the documents that can reach a chunk; the order of the documents does not matter."""
    return contents_key({document.document_id: document_digest(document) for document in documents}, [])


@dataclass(frozen=True)
class _Settings:
    """What a snapshot is made with, apart from its documents. encoder, late: name, version and dimension; sparse:
    versions by name."""

    corpus: str
    versions: Mapping[str, str]
    analyzer: str | None
    encoder: Mapping[str, Any] | None
    factories: tuple[str, ...]
    late: Mapping[str, Any] | None
    late_indexes: tuple[str, ...]
    sparse: Mapping[str, str]

    @classmethod
    def of(
        cls,
        chunker: Chunker,
        token_encoder: Encoder | None,
        analyzer: str | None,
        encoder: Encoder | None,
        factories: Sequence[str],
        late: LateEncoder | None,
        late_indexes: Sequence[str],
        sparse: Sequence[SparseEncoder],
        corpus: str,
    ) -> _Settings:
        """From what `publish` is given."""
        if unknown := [kind for kind in late_indexes if kind not in LATE_INDEXES]:
            raise RagLabError(f"late index {unknown[0]!r}: is unknown; use one of {', '.join(LATE_INDEXES)}")
        versions = {"parser": PARSER_VERSION, "chunker": chunker.version}
        if token_encoder and chunker.counts_tokens:
            versions["tokens"] = token_encoder.version
        if analyzer is not None:
            from rag_lab.retrieval.bm25 import index_version

            versions["lucene"] = index_version(analyzer)
        if encoder is not None:
            versions["encoder"] = f"{encoder.name} {encoder.version}"
            versions["faiss"] = f"faiss {version_of('faiss-cpu')}"
        if late is not None:
            versions["late"] = f"{late.name} {late.version}"
            versions["plaid"] = f"colbert-ai {version_of('colbert-ai')}"
        for one in sparse:
            from rag_lab.retrieval.sparse.index import index_version as impact_version

            versions[f"impacts:{one.name}"], versions["impact"] = one.version, impact_version()
        versions["index"] = digest(versions)[:12]
        return cls(
            corpus,
            versions,
            analyzer,
            _about(encoder),
            tuple(dict.fromkeys(factories)) if encoder else (),
            _about(late),
            tuple(dict.fromkeys(late_indexes)) if late else (),
            {one.name: one.version for one in sparse},
        )

    @classmethod
    def read(cls, snapshot: Snapshot) -> _Settings:
        """Those of a snapshot."""
        facts = snapshot.facts
        return cls(
            facts["corpus"],
            facts["versions"],
            facts["analyzer"],
            facts["encoder"],
            tuple(facts["factories"]),
            facts["late"],
            tuple(facts["late_indexes"]),
            facts["sparse"],
        )

    @property
    def cut_by(self) -> list[str]:
        """Versions that decide how documents are cut."""
        return [self.versions.get(name, "") for name in CUT_BY]

    def check_same(self, base: Snapshot) -> None:
        """Refuse a base that an update cannot go on from."""
        theirs = _Settings.read(base)
        if theirs.corpus != self.corpus:
            raise RagLabError(f"base: snapshot {base.id} is of corpus '{theirs.corpus}', not '{self.corpus}'")
        for name in sorted((theirs.versions.keys() | self.versions.keys()) - {"index", "faiss", "plaid"}):
            old, new = theirs.versions.get(name, "none"), self.versions.get(name, "none")
            if old != new:
                raise OtherVersion(
                    f"base: snapshot {base.id} was made with {name} {old}, not {new}; publish everything without base"
                )


def _about(encoder: Encoder | LateEncoder | None) -> dict[str, Any] | None:
    if encoder is None:
        return None
    return {"name": encoder.name, "version": encoder.version, "dimension": encoder.dimension}


class OtherVersion(RagLabError):
    """A base was made by other versions or settings than those to publish with."""


@dataclass(frozen=True)
class _Change:
    """How a snapshot differs from its base: documents that are gone, and the segment that is new.

    clean: nothing of what is gone may be left in an index.
    """

    base: Snapshot | None
    gone: Collection[str] = ()
    fresh: Segment | None = None
    clean: bool = False


def _publish(store: Store, settings: _Settings, segments: Sequence[Segment], change: _Change) -> Snapshot:
    """Build the indexes of these segments, and the snapshot."""
    rows = _Rows([segment.part for segment in segments])
    documents = {name: found for segment in segments for name, found in segment.documents.items()}
    parts: dict[str, str] = {}
    contents = contents_key(documents, settings.cut_by)
    if settings.analyzer is not None:
        parts["lucene"] = _lucene_part(store, settings, contents, segments, rows, change)
    for name in settings.sparse:
        parts[f"impact:{name}"] = _impact_part(store, settings, name, contents, segments, rows, change)
    for factory in settings.factories:
        if factory != FLAT:
            parts[f"faiss:{factory}"] = _faiss_part(store, settings, factory, segments, rows, change)
    if any(late_kind(kind, _size(segments)) == "plaid" for kind in settings.late_indexes):
        parts["plaid"] = _plaid_part(store, settings, segments, rows, change)
    facts = {
        "corpus": settings.corpus,
        "segments": [{"key": s.key, "dead": sorted(s.dead), "encoded": dict(s.encoded)} for s in segments],
        "parts": parts,
        "versions": dict(settings.versions),
        "analyzer": settings.analyzer,
        "encoder": settings.encoder,
        "factories": list(settings.factories),
        "late": settings.late,
        "late_indexes": list(settings.late_indexes),
        "sparse": dict(settings.sparse),
        "documents": len(documents),
        "chunks": _size(segments),
    }
    made = Snapshot(store, snapshot_id(facts))
    if made.folder.is_dir() and not made.sound:
        store.remove(KIND, made.id)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    store.publish(KIND, made.id, lambda _: {"published_at": now, **facts})
    return Snapshot(store, made.id)


class _Rows:
    """The rows of a snapshot to be, read only if some index has to be built."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self._keys: ChunkKeys | None = None

    @property
    def keys(self) -> ChunkKeys:
        if self._keys is None:
            self._keys = read_keys(self.parts)
        return self._keys


def _lucene_part(
    store: Store, settings: _Settings, contents: str, segments: Sequence[Segment], rows: _Rows, change: _Change
) -> str:
    """The key of the Lucene index of texts."""
    from rag_lab.retrieval import bm25

    def texts(some: Sequence[Segment]) -> list[str]:
        table = read_chunks([segment.part for segment in some])
        return [table.indexed_text(row) for row in range(len(table))]

    key = digest(FORMAT, "lucene", contents, settings.versions["lucene"])
    analysis = bm25.analysis_of(settings.analyzer or "")
    return _published(
        store, "lucene", key, _row_index_builder(store, "lucene", analysis, texts, segments, rows, change)
    )


def _impact_part(
    store: Store,
    settings: _Settings,
    model: str,
    contents: str,
    segments: Sequence[Segment],
    rows: _Rows,
    change: _Change,
) -> str:
    """The key of the Lucene index of the terms that a model weighed."""
    from rag_lab.retrieval.sparse.index import ANALYSIS, as_text

    def texts(some: Sequence[Segment]) -> list[str]:
        keys = read_keys([segment.part for segment in some])
        series = gather(some, f"{IMPACTS}:{model}", keys, on_disk=True)
        return as_text(as_sparse_vectors(series, model, settings.sparse[model]))

    key = digest(FORMAT, "impact", contents, settings.sparse[model], settings.versions["impact"])
    build = _row_index_builder(store, f"impact:{model}", ANALYSIS, texts, segments, rows, change)
    return _published(store, "impact", key, build)


def _row_index_builder(
    store: Store,
    name: str,
    analysis: Analysis,
    texts: Callable[[Sequence[Segment]], list[str]],
    segments: Sequence[Segment],
    rows: _Rows,
    change: _Change,
) -> Folders:
    """What makes the index of that name: from the base's where that is whole, else of all rows."""

    def build(at: Path) -> None:
        from rag_lab.retrieval import row_index

        kind, older = name.partition(":")[0], change.base.facts["parts"].get(name) if change.base else None
        if older is None or not store.intact(kind, older):
            row_index.build(at, _entries(segments, texts), analysis)
            return
        new = _entries([change.fresh] if change.fresh else [], texts)
        row_index.update(at, store.path(kind, older), change.gone, new, rows.keys.fingerprint, analysis)

    return build


def _entries(segments: Sequence[Segment], texts: Callable[[Sequence[Segment]], list[str]]) -> Entries:
    """The chunks of some segments as Lucene's entries."""
    from rag_lab.retrieval.row_index import Entries

    if not segments:
        return Entries([], [], [], [], np.zeros(0, dtype=np.int64))
    parts = [segment.part for segment in segments]
    for folder, _ in parts:
        verify(folder)
    table, keys = read_chunks(parts), read_keys(parts)
    scopes = [table.classes[code].key for code in table.rights]
    return Entries(texts(segments), scopes, table.document_id, keys.position, keys.fingerprint)


def _faiss_part(
    store: Store, settings: _Settings, factory: str, segments: Sequence[Segment], rows: _Rows, change: _Change
) -> str:
    """The key of a FAISS index for these rows: the base's if it will do, else of a new one."""
    from rag_lab.retrieval.dense import DenseIndex
    from rag_lab.retrieval.encoders import Embeddings

    encoder, keys = settings.encoder or {}, rows.keys
    if kept := _kept(store, f"faiss:{factory}", settings, rows, change):
        return kept

    def build(at: Path) -> None:
        vectors = gather(segments, VECTORS, keys, on_disk=False).arrays["vectors"]
        passages = Embeddings(vectors, encoder["name"], encoder["version"])
        DenseIndex.build(passages, factory).save(at)
        np.save(at / TEXT_KEYS, keys.text_key)

    made_of = (_sum(keys), encoder["version"], factory, settings.versions["faiss"])
    return _published(store, "faiss", digest(FORMAT, "faiss", *made_of), build)


def _plaid_part(store: Store, settings: _Settings, segments: Sequence[Segment], rows: _Rows, change: _Change) -> str:
    """The key of a PLAID index for these rows: the base's if it will do, else of a new one."""
    from rag_lab.retrieval.late import LateIndex

    late, keys = settings.late or {}, rows.keys
    if kept := _kept(store, "plaid", settings, rows, change):
        return kept

    def build(at: Path) -> None:
        series = gather(segments, TOKEN_VECTORS, keys, on_disk=True)
        LateIndex.build(as_token_vectors(series, late["name"], late["version"]), "plaid").save(at)
        np.save(at / TEXT_KEYS, keys.text_key)

    made_of = (_sum(keys), late["version"], settings.versions["plaid"])
    return _published(store, "plaid", digest(FORMAT, "plaid", *made_of), build)


def _kept(store: Store, name: str, settings: _Settings, rows: _Rows, change: _Change) -> str:
    """The key of the base's part of that name if it still serves these rows, beside which others are searched exactly;
    else ""."""
    from rag_lab.retrieval.dense import match_rows, outdated

    older = change.base.facts if change.base else {"parts": {}, "versions": {}}
    key, kind = str(older["parts"].get(name, "")), name.partition(":")[0]
    if not key or older["versions"].get(kind) != settings.versions[kind] or not store.intact(kind, key):
        return ""
    row_of = match_rows(np.load(store.path(kind, key) / TEXT_KEYS), rows.keys.text_key)
    return "" if outdated(row_of, len(rows.keys)) or (change.clean and (row_of < 0).any()) else key


def _sum(keys: ChunkKeys) -> str:
    return sha256(keys.text_key.tobytes()).hexdigest()


def _published(store: Store, kind: str, key: str, build: Folders) -> str:
    store.publish(kind, key, build)
    return key
