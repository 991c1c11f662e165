"""Bringing out a generation, by one publisher at a time: ingest, build, verify, activate.

The publisher holds a lock that dies with its process; whatever a killed one left is cleaned up by the next. Snapshots
themselves are made by `rag_lab.corpus.publishing`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import CacheUse, Document, RagLabError
from rag_lab.corpus.catalogue import Changes, instant
from rag_lab.corpus.cautions import warnings_of
from rag_lab.corpus.deletion import SOURCE_GONE, deny_deleted, user
from rag_lab.corpus.discovery import Discovery, Options, discover
from rag_lab.corpus.encoded import EMBEDDING
from rag_lab.corpus.ingestion import Ingested, Ingestion
from rag_lab.corpus.removal import drop_unnamed_parts, remove_unused, retire
from rag_lab.corpus.settings import built_with, chunker_of, encoder_of, late_encoder_of, settled, sparse_encoder_of
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.store import manifest

if TYPE_CHECKING:
    from rag_lab.corpus.chunking import Chunker
    from rag_lab.corpus.corpus import Corpus


@dataclass(frozen=True)
class Report:
    """What a publication came to. `generation` is the new active one, None when nothing changed.

    Lists hold document ids. `failed` and `partial` give the reason by id; `asleep` were deleted before and are
    unchanged, or are revoked and not published; `admits_nobody` have no stated reader or tenant; `skipped` counts
    files that were not looked at, by kind. `parsed` sources went through a parser, `parse_hits` were known. Of the
    chunks that were cut, `encoded` texts went through the encoder, and `embedding_hits` chunks had a vector already.
    """

    generation: int | None = None
    added: Sequence[str] = ()
    updated: Sequence[str] = ()
    removed: Sequence[str] = ()
    unchanged: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    partial: Mapping[str, str] = field(default_factory=dict)
    asleep: Sequence[str] = ()
    admits_nobody: Sequence[str] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    parsed: int = 0
    parse_hits: int = 0
    encoded: int = 0
    embedding_hits: int = 0
    seconds: float = 0.0


@contextmanager
def publishing(corpus: Corpus, wait_s: float) -> Iterator[None]:
    """The right to publish. What a killed publisher left is cleaned up first."""
    from filelock import FileLock, Timeout

    lock = FileLock(corpus.folder / "publish.lock", timeout=wait_s)
    try:
        lock.acquire()
    except Timeout as error:
        raise RagLabError(
            f"corpus {corpus.name}: another publisher has been at work for {wait_s:g} s; wait for it, or stop it"
        ) from error
    try:
        # One that was killed while it built left a generation; while it removed, only what it had noted.
        if corpus.catalogue.recover() or corpus.catalogue.made():
            retire(corpus)
            corpus.store.sweep()
        corpus.kept.sweep()
        drop_unnamed_parts(corpus)
        yield
        remove_unused(corpus)
    finally:
        lock.release()


def publish_sources(corpus: Corpus, roots: Mapping[str, Options], *, revive: bool, progress: bool) -> Report:
    """All stages for everything below some roots, and for what was deleted before."""
    clock, started = time.perf_counter(), instant()
    catalogue = corpus.catalogue
    checked = {uri: at for uri, (_, at) in catalogue.roots().items()}
    discovery = discover(roots, catalogue.sources(), checked) if roots else Discovery({}, {})
    for root, options in roots.items():
        catalogue.put_root(root, options.plain(), checked.get(root, started))
    before = catalogue.live()
    ingestion = Ingestion(
        catalogue, corpus.kept, checked, corpus.denials.of(corpus.name).revoked, revive=revive, progress=progress
    )
    found = ingestion.run(discovery, roots)
    missing = [row.document_id for row in found.sources if row.deleted_by]
    deny_deleted(corpus, missing, SOURCE_GONE, "source")
    number, use = bring_out(corpus, found, "", progress)
    for root, options in roots.items():
        catalogue.put_root(root, options.plain(), started)
    published = [version.document_id for version in found.versions]
    return Report(
        number,
        added=[name for name in published if name not in before],
        updated=[name for name in published if name in before],
        removed=found.gone,
        unchanged=len(found.unchanged),
        failed=found.failed,
        partial=found.partial,
        asleep=found.asleep,
        admits_nobody=found.admits_nobody,
        skipped={kind: n for kind, n in discovery.skipped.items() if n},
        warnings=(
            *warnings_of(corpus, found),
            *(f"{rule}: matches no file; correct or remove it" for rule in discovery.idle),
        ),
        parsed=found.parsed,
        parse_hits=found.parse_hits,
        encoded=use.misses,
        embedding_hits=use.hits,
        seconds=time.perf_counter() - clock,
    )


def bring_out(corpus: Corpus, found: Ingested, note: str, progress: bool) -> tuple[int | None, CacheUse]:
    """Build, verify and activate a generation with what was found; None when it changes nothing.

    The second value is how many chunks had a vector already.
    """
    catalogue = corpus.catalogue
    with catalogue.transaction():
        catalogue.rebase(found.bases)
        if not found.documents and not found.gone and (not catalogue.active or corpus.snapshot().sound):
            catalogue.put_sources(found.sources)
            return None, CacheUse(EMBEDDING, 0, 0)
    settings = settled(catalogue.settings, found.documents)
    number = catalogue.begin(settings, note)
    try:
        staying = catalogue.live().keys() - set(found.gone) - {d.document_id for d in found.documents}
        snapshot, use = _updated(corpus, settings, found, staying, progress)
        check(snapshot, len(staying) + len(found.documents))
        published = {version.document_id: version.digest for version in found.versions}
        corpus.denials.readmit(corpus.name, published, SOURCE_GONE, by=user())
        with catalogue.transaction():
            _verified(corpus, number, snapshot)
            catalogue.activate(number, Changes(found.versions, found.gone, found.sources, found.since))
    except BaseException:
        catalogue.recover()
        raise
    retire(corpus)
    return number, use


def _updated(
    corpus: Corpus, settings: Mapping[str, Any], found: Ingested, staying: Collection[str], progress: bool
) -> tuple[Snapshot, CacheUse]:
    """The active snapshot with what was found; made anew from all documents where chunker or models changed, or where
    it was written by another version of this program, or damaged."""
    from rag_lab.corpus.publishing import OtherVersion

    if corpus.catalogue.active and corpus.snapshot().sound:
        try:
            return _build(corpus, settings, found.documents, corpus.snapshot(), found.gone, progress)
        except OtherVersion:
            pass
    return _build(corpus, settings, [*corpus.documents(staying), *found.documents], None, (), progress)


def build_beside(
    corpus: Corpus, settings: Mapping[str, Any], note: str, progress: bool = False
) -> tuple[int, Snapshot]:
    """A generation of the same documents with other settings, which nobody reads until it is activated.

    The caller holds the right to publish.
    """
    wanted = {**settled(corpus.catalogue.settings, []), **settings}
    number = corpus.catalogue.begin(wanted, note)
    try:
        documents = corpus.documents()
        snapshot, _ = _build(corpus, wanted, documents, None, (), progress)
        check(snapshot, len(documents))
        _verified(corpus, number, snapshot)
    except BaseException:
        corpus.catalogue.recover()
        raise
    return number, snapshot


def replace_with(corpus: Corpus, snapshot: Snapshot, removed: Sequence[str], note: str) -> int:
    """Bring out a snapshot that was made from the active one without some documents; return its generation.

    The caller holds the right to publish.
    """
    catalogue = corpus.catalogue
    number = catalogue.begin(built_with(catalogue.settings), note)
    try:
        check(snapshot, len(catalogue.live().keys() - set(removed)))
        with catalogue.transaction():
            _verified(corpus, number, snapshot)
            catalogue.activate(number, Changes(removed=removed))
    except BaseException:
        catalogue.recover()
        raise
    return number


def _verified(corpus: Corpus, number: int, snapshot: Snapshot) -> None:
    facts = snapshot.facts
    corpus.catalogue.verified(number, snapshot.id, facts["documents"], facts["chunks"], checksum_of(snapshot))


def _build(
    corpus: Corpus,
    settings: Mapping[str, Any],
    documents: Sequence[Document],
    base: Snapshot | None,
    removed: Sequence[str],
    progress: bool,
) -> tuple[Snapshot, CacheUse]:
    """A snapshot, and how many of the chunks that were cut for it had a vector already."""
    from rag_lab.corpus.publishing import publish

    uses: list[CacheUse] = []
    chunker, encoder = _prefixed(corpus, settings, progress), encoder_of(settings["encoder"])
    snapshot = publish(
        corpus.noting,
        documents,
        chunker,
        token_encoder=encoder if chunker.counts_tokens else None,
        analyzer=None if settings["analyzer"] == "none" else settings["analyzer"],
        encoder=encoder if settings["factories"] else None,
        factories=settings["factories"],
        late=late_encoder_of(settings["colbert"]),
        late_indexes=settings["colbert_indexes"],
        sparse=[sparse_encoder_of(name) for name in settings["splade"]],
        progress=progress,
        corpus=corpus.name,
        base=base,
        removed=removed,
        known=corpus.snapshot().segments if corpus.catalogue.active and corpus.snapshot().sound else (),
        on_use=uses.append,
    )
    use = next((use for use in uses if use.cache == EMBEDDING), CacheUse(EMBEDDING, 0, 0))
    corpus.catalogue.count(embedding_hits=use.hits, embedding_misses=use.misses)
    return snapshot, use


def check(snapshot: Snapshot, documents: int, chunks: int | None = None) -> None:
    """Counts agree with the catalogue, and every file is what was written."""
    facts = snapshot.facts
    if facts["documents"] != documents or (chunks is not None and facts["chunks"] != chunks):
        raise RagLabError(
            f"snapshot {snapshot.id}: holds {facts['documents']} documents and {facts['chunks']} chunks, the "
            f"catalogue says {documents} and {chunks if chunks is not None else 'any'}; publish again"
        )
    snapshot.verify()


def _prefixed(corpus: Corpus, settings: Mapping[str, Any], progress: bool) -> Chunker:
    """The chunker, with generated sentences where they are asked for."""
    chunker, given = chunker_of(settings["chunker"]), settings["context_prefix"]
    if given is None:
        return chunker
    from rag_lab.corpus.prefixing import ContextPrefix

    place = f"corpus {corpus.name}, setting context_prefix"
    return ContextPrefix.read(given, place).on(chunker, corpus.store, place, progress)


def checksum_of(snapshot: Snapshot) -> str:
    """A digest of the SHA-256 of every file that a snapshot reads."""
    total = sha256(json.dumps(snapshot.facts, sort_keys=True).encode())
    for kind, key in snapshot.parts:
        total.update(json.dumps(manifest(snapshot.store.path(kind, key)), sort_keys=True).encode())
    return total.hexdigest()[:32]
