"""A corpus: the named thing that changes, as a sequence of snapshots of which readers see one.

Publishing goes through fixed stages: discover versions, parse, chunk, embed, write a new generation that nobody reads,
verify its counts and checksums, activate it in one transaction, retire the old one. What was there already costs
nothing. One publisher is at work at a time, under a lock that dies with its process; whatever a killed one left is
cleaned up by the next. Denying a document (`revoke`, `delete`) needs no lock and waits for nobody.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import CacheUse, Document, Encoder, Principal, RagLabError, Request
from rag_lab.corpus.catalogue import Catalogue, Changes, Event, GenerationRow, VersionRow, instant
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.discovery import DATASET, Discovery, Options, discover, root_of
from rag_lab.corpus.ingestion import Ingested, Ingestion, documents_of
from rag_lab.corpus.kept import KIND as KEPT
from rag_lab.corpus.policies import BOOK, PolicyBook
from rag_lab.corpus.rights import Scopes, scopes_of
from rag_lab.corpus.segment import EMBEDDING
from rag_lab.corpus.snapshot import FLAT, PARTS, Snapshot
from rag_lab.corpus.snapshot import KIND as SNAPSHOTS
from rag_lab.store import Store, manifest, write_atomically

if TYPE_CHECKING:
    from rag_lab.corpus.chunking import Chunker
    from rag_lab.corpus.migration import Migration
    from rag_lab.corpus.purge import Proof, Purge
    from rag_lab.corpus.status import Status

FOLDER = "corpora"
CATALOGUE = "catalogue.sqlite"
ANALYZERS = ("auto", "en", "zh", "multilingual", "none")
BUILT_WITH = ("chunker", "context_prefix", "encoder", "analyzer", "factories")
DEFAULTS: Mapping[str, Any] = {
    "chunker": {"name": "blocks"},
    "context_prefix": None,
    "encoder": "auto",
    "analyzer": "auto",
    "factories": [FLAT],
    "keep": 3,
    "freshness": {},
}
WAIT_S = 600.0
SOURCE_GONE = "its source is gone"
"""The reason of a deletion that ends by itself when the same content comes back."""


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


@dataclass(frozen=True)
class Denied:
    """What a denial came to: the epoch of the deny list, and the denied ids that the corpus does not know."""

    epoch: int
    unknown: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Corpus:
    """An open corpus. Open it anew in every process and thread."""

    store: Store
    name: str
    catalogue: Catalogue

    # --- opening -----------------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, store: Store, name: str, **settings: Any) -> Corpus:
        """A new, empty corpus.

        Settings are `chunker` (name and sizes, as in an experiment file), `context_prefix` (generator, options, tokens
        and reach: a sentence that a language model writes for each chunk, `rag_lab.corpus.prefixing`), `encoder` and
        `analyzer` (names, or "auto", which is decided by the languages of the first documents; analyzer "none" builds
        no Lucene index), `factories` (FAISS indexes), `keep` (how many generations stay readable) and `freshness`
        (targets, those of `rag_lab.metrics.freshness`).
        """
        _check_name(name)
        chosen = {**DEFAULTS, **{key: value for key, value in settings.items() if value is not None}}
        if unknown := sorted(chosen.keys() - DEFAULTS.keys()):
            raise RagLabError(f"corpus {name}, setting {unknown[0]}: unknown; use {', '.join(DEFAULTS)}")
        if not isinstance(chosen["keep"], int) or chosen["keep"] < 1:
            raise RagLabError(f"corpus {name}, setting keep: {chosen['keep']!r} must be a whole number from 1")
        from rag_lab.metrics.freshness import Targets

        chosen["freshness"] = Targets.read(chosen["freshness"], f"corpus {name}, setting freshness").plain()
        _chunker(chosen["chunker"])
        if chosen["analyzer"] not in ANALYZERS:
            raise RagLabError(
                f"corpus {name}, setting analyzer: {chosen['analyzer']!r} is unknown; use one of {', '.join(ANALYZERS)}"
            )
        if chosen["encoder"] != "auto":
            _encoder(chosen["encoder"])
        if chosen["context_prefix"] is not None:
            from rag_lab.corpus.prefixing import ContextPrefix

            place = f"corpus {name}, setting context_prefix"
            prefix = ContextPrefix.read(chosen["context_prefix"], place)
            prefix.writer(place)
            chosen["context_prefix"] = prefix.model_dump()
        chosen["factories"] = list(chosen["factories"])
        path = store.path(FOLDER, name) / CATALOGUE
        if path.exists():
            raise RagLabError(f"corpus {name}: exists already; add to it, or take another name")
        return cls(store, name, Catalogue.create(path, chosen))

    @classmethod
    def open(cls, store: Store, name: str) -> Corpus:
        """A corpus that is there. Raises RagLabError otherwise."""
        _check_name(name)
        path = store.path(FOLDER, name) / CATALOGUE
        if not path.is_file():
            known = ", ".join(corpora(store))
            there = f"there are {known}" if known else "there is none yet"
            raise RagLabError(f"corpus {name}: unknown, {there}; create it with rag-lab corpus add {name} PATH")
        return cls(store, name, Catalogue(path))

    def close(self) -> None:
        """Give the catalogue free."""
        self.catalogue.close()

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where the catalogue, the kept originals and the parsed documents are."""
        return self.store.path(FOLDER, self.name)

    @property
    def kept(self) -> Store:
        """The store of kept parts; they belong to this corpus alone."""
        return Store(self.folder)

    @property
    def noting(self) -> Store:
        """The store, with a note of all that is made in it: what no snapshot names in the end is removed."""
        return _Noting(self.store.root, self.catalogue)

    @property
    def denials(self) -> DenyList:
        """The deny lists of the store."""
        return DenyList(self.store)

    @property
    def policies(self) -> PolicyBook:
        """Who the readers of each policy are: ``policies.yaml`` in the corpus's folder. A wrong one admits nobody."""
        return PolicyBook.load_or_deny(self.folder / BOOK)

    def put_policies(self, path: Path) -> PolicyBook:
        """Take a policy book in place of the one before, from the next request on. A wrong one is refused."""
        book = PolicyBook.load(path)
        write_atomically(self.folder / BOOK, path.read_bytes())
        return book

    def remove(self) -> None:
        """Close and delete a corpus to which nothing was added."""
        if self.catalogue.roots():
            raise RagLabError(f"corpus {self.name}: has sources; delete and purge its documents instead")
        self.close()
        shutil.rmtree(self.folder)

    # --- changing ----------------------------------------------------------------------------------------------------

    def add(
        self,
        sources: Path | str | Iterable[Path | str],
        *,
        tenant: str | None = None,
        public: bool | None = None,
        groups: Collection[str] | None = None,
        policy: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        recursive: bool = True,
        progress: bool = False,
        wait_s: float = WAIT_S,
    ) -> Report:
        """Add files, folders and datasets (``dataset:NAME``), or look at them again with other options.

        The options hold for what no ``rights.yaml`` states, and a file's own front matter narrows both; see
        `rag_lab.corpus.stated`. Nothing stated admits nobody. `metadata` may state further fields (`valid_until`, ...)
        and reaches every document. `wait_s`: how long to wait for another publisher.
        """
        given = [sources] if isinstance(sources, str | Path) else list(sources)
        chosen = None if groups is None else tuple(sorted(groups))
        options = Options(tenant, public, chosen, policy, metadata, recursive)
        known = self.catalogue.roots()
        roots = {root_of(one): options for one in given}
        if options == Options(recursive=recursive):  # nothing is stated: what was stated before holds
            roots = {uri: Options.read(known[uri][0]) if uri in known else options for uri in roots}
        if not roots:
            raise RagLabError(f"corpus {self.name}: nothing to add; name a file, a folder, or dataset:NAME")
        with self._publishing(wait_s):
            return self._publish(roots, revive=True, progress=progress)

    def update(self, *, progress: bool = False, wait_s: float = WAIT_S) -> Report:
        """Look at everything that was added: publish what is new or changed, take out what is gone.

        A folder or file that was added and is not there any more keeps its documents, and is warned of: a disk may just
        not be mounted. Files that are gone from a folder are deleted.
        """
        with self._publishing(wait_s):
            known = self.catalogue.roots()
            there = {uri: Options.read(plain) for uri, (plain, _) in known.items() if _is_there(uri)}
            report = self._publish(there, revive=False, progress=progress)
            lost = [
                f"{uri}: is not there any more, its documents stay; delete them, or bring it back"
                for uri in sorted(known.keys() - there.keys())
                if not all(row.deleted_by for row in self.catalogue.sources(root=uri))
            ]
            return replace(report, warnings=(*report.warnings, *lost))

    def delete(
        self, document_ids: Collection[str], reason: str = "deleted", *, progress: bool = False, wait_s: float = WAIT_S
    ) -> Report:
        """Deny documents at once, then publish a generation without them.

        They come back only when they are added with other content, or lifted. Raises RagLabError for an unknown id.
        """
        wanted = self._named(document_ids)
        unknown = sorted(set(wanted) - {row.document_id for row in self.catalogue.sources(wanted)})
        if unknown:
            raise RagLabError(f"corpus {self.name}: has no document '{unknown[0]}'; nothing was deleted")
        self._deny_deleted(wanted, reason, "caller")
        with self._publishing(wait_s):
            # A publisher that was at work meanwhile may have brought out another content.
            late = [row.document_id for row in self.catalogue.sources(wanted) if row.deleted_by != "caller"]
            self._deny_deleted(late, reason, "caller")
            return self._publish({}, revive=False, progress=progress)

    def revoke(self, document_ids: Collection[str], reason: str, *, by: str = "") -> Denied:
        """Deny documents to everybody, in every snapshot and in whatever content, from now until they are lifted.

        Takes effect before the call returns, also while a publication is at work. Unknown ids are denied as well and
        named in the result.
        """
        wanted, started = self._named(document_ids), instant()
        epoch = self.denials.deny(self.name, wanted, reason, by=by or _user())
        if missed := set(wanted) - self.denials.denied(self.name):
            raise RagLabError(f"corpus {self.name}: '{min(missed)}' was lifted meanwhile; revoke it again")
        ended = instant()
        self.catalogue.record(Event("revoked", document_id, started, ended) for document_id in wanted)
        self.catalogue.set_status(wanted, "revoked")
        known = {row.document_id for row in self.catalogue.sources(wanted)}
        return Denied(epoch, [document_id for document_id in wanted if document_id not in known])

    def lift(self, document_ids: Collection[str], *, by: str = "") -> int:
        """End the denials of documents; return the epoch of the deny list. Those that are published can be read again.

        One that was taken out comes back with the next update, if its source is there. Raises RagLabError for an id
        that is not denied.
        """
        wanted = self._named(document_ids)
        live = self.catalogue.live(wanted)
        with self.catalogue.transaction():
            epoch = self.denials.lift(self.name, wanted, by=by or _user())
            self.catalogue.lifted([name for name in wanted if name in live], "active")
            self.catalogue.lifted([name for name in wanted if name not in live], "deleted", "source")
            now = instant()
            self.catalogue.record(Event("lifted", document_id, now, now) for document_id in wanted)
        return epoch

    def expire(
        self, now: datetime | None = None, *, remove: bool = False, progress: bool = False, wait_s: float = WAIT_S
    ) -> tuple[list[str], Report | None]:
        """Documents whose validity has ended, so that nobody retrieves them for a later time.

        With `remove`, a generation without them is published: they are not found for an earlier time either.
        """
        today = datetime.now(UTC)
        moment = now or today
        ended = [version.document_id for version in self.catalogue.ended_by(moment)]
        over = ended if remove else [version.document_id for version in self.catalogue.ended_by(min(moment, today))]
        untouched = [row.document_id for row in self.catalogue.sources(over) if row.status in ("active", "partial")]
        self.catalogue.set_status(untouched, "expired")
        if not remove or not ended:
            return ended, None
        with self._publishing(wait_s):
            gone = [name for name in ended if name in self.catalogue.live(ended)]
            started = time.perf_counter()
            ingested = Ingested(gone=gone, since=dict.fromkeys(gone, instant()))
            number, _ = self._bring_out(ingested, "expired documents removed", progress)
            return ended, Report(number, removed=gone, seconds=time.perf_counter() - started)

    def activate(self, number: int, *, wait_s: float = WAIT_S) -> GenerationRow:
        """Make another generation the one that readers see.

        One that was built and not yet switched to (see `migrate`) becomes active itself; of a retired one the content
        and the settings come back as a new generation. What is on the deny list stays denied in all of them.
        """
        with self._publishing(wait_s):
            wanted = self.catalogue.generation(number)
            if wanted.state == "active":
                return wanted
            if not wanted.snapshot:
                raise RagLabError(
                    f"generation {number}: is {wanted.state} and its snapshot is gone; choose a later one"
                )
            self._check(Snapshot(self.store, wanted.snapshot), wanted.documents, wanted.chunks)
            change = self.catalogue.activate if wanted.state == "verified" else self.catalogue.restore
            made = change(number)
            self._retire()
            return made

    def migrate(
        self,
        encoder: str,
        questions: str,
        *,
        split: str = "test",
        limit: int | None = None,
        switch: bool = False,
        if_not_worse: bool = False,
        progress: bool = False,
        wait_s: float = WAIT_S,
    ) -> Migration:
        """Build the corpus with another embedding model beside the present one, and compare both on a dataset.

        The new generation is read by nobody until it is activated: with `switch`, or with `if_not_worse` when no metric
        is worse by more than `migration.MARGIN`, as `migration.ENOUGH` questions show, or by `activate` later.
        """
        from rag_lab.corpus.migration import migrate

        with self._publishing(wait_s):
            done = migrate(self, encoder, questions, split, limit, switch, if_not_worse, progress)
            self._retire()
            return done

    def purge(self, *, progress: bool = False, wait_s: float = WAIT_S) -> Purge:
        """Remove every byte of the documents that are denied, and search the disk for what is left of them."""
        from rag_lab.corpus.purge import purge

        with self._publishing(wait_s):
            self.remove_unused()
            return purge(self, progress=progress)

    def prove(self, *, progress: bool = False) -> Proof:
        """Search the disk once more for all documents that were purged."""
        from rag_lab.corpus.purge import prove

        return prove(self, progress=progress)

    # --- reading -----------------------------------------------------------------------------------------------------

    def snapshot(self, generation: int | None = None) -> Snapshot:
        """The snapshot of the active generation, or of another one that is still kept."""
        row = self.catalogue.active if generation is None else self.catalogue.generation(generation)
        if row is None:
            raise RagLabError(f"corpus {self.name}: nothing is published yet; add documents")
        if not row.snapshot:
            raise RagLabError(f"generation {row.number}: is {row.state} and its snapshot is gone; choose a later one")
        return Snapshot(self.store, row.snapshot)

    @contextmanager
    def pinned(self, generation: int | None = None) -> Iterator[tuple[int, Snapshot]]:
        """A generation's number and snapshot, which is kept as long as the block, or this process, lasts."""
        with self.catalogue.transaction():
            row = self.catalogue.active if generation is None else self.catalogue.generation(generation)
            number = row.number if row else 0
            snapshot = self.snapshot(generation)
            self.catalogue.pin(number, os.getpid())
        try:
            yield number, snapshot
        finally:
            self.catalogue.unpin(number, os.getpid())

    def chunks(
        self,
        document_id: str,
        principal: Principal | None,
        moment: datetime | None = None,
        generation: int | None = None,
    ) -> list[int]:
        """Rows of a document, in the snapshot of a generation, that a principal may read at a time (now by default)."""
        snapshot = self.snapshot(generation)
        table = snapshot.chunks
        within = table.documents.get(document_id, slice(0, 0))
        allowed = self.scopes(snapshot, [self.request(principal, moment)]).rows(0)
        return [row for row in range(within.start, within.stop) if allowed[row]]

    def is_withheld(
        self, document_id: str, principal: Principal, moment: datetime | None = None, generation: int | None = None
    ) -> bool:
        """Whether a principal would read something of a document if it were not denied."""
        table = self.snapshot(generation).chunks
        within = table.documents.get(document_id, slice(0, 0))
        request = self.request(principal, moment)
        scopes = scopes_of([request], table.classes, table.rights, table.document_id, self.policies)
        withheld = scopes.rows(0)[within].any() and not self.chunks(document_id, principal, moment, generation)
        return bool(withheld)

    def scopes(self, snapshot: Snapshot, requests: Sequence[Request]) -> Scopes:
        """What requests may read of a snapshot of this corpus, by its policies and its deny list as they are now."""
        return snapshot.scopes(requests, self.policies)

    def request(self, principal: Principal | None, moment: datetime | None = None) -> Request:
        """A request of a principal that asks for nothing: what its scope is can then be seen."""
        tenant = principal.tenant if principal else ""
        now = moment or datetime.now(UTC)
        return Request("corpus", "", principal, tenant, now, policy_version=self.policies.version)

    def documents(self, document_ids: Iterable[str] | None = None) -> list[Document]:
        """Documents of the newest generation, read from what was kept; also those that are denied."""
        return documents_of(self.catalogue.live(document_ids).values(), self.kept)

    def status(self, now: datetime | None = None, *, drift: bool = True) -> Status:
        """What there is, how old it is, and what is wrong with it; see `rag_lab.corpus.status`."""
        from rag_lab.corpus.status import status_of

        return status_of(self, now or datetime.now(UTC), drift)

    # --- publishing --------------------------------------------------------------------------------------------------

    @contextmanager
    def _publishing(self, wait_s: float) -> Iterator[None]:
        """The right to publish. What a killed publisher left is cleaned up first."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / "publish.lock", timeout=wait_s)
        try:
            lock.acquire()
        except Timeout as error:
            raise RagLabError(
                f"corpus {self.name}: another publisher has been at work for {wait_s:g} s; wait for it, or stop it"
            ) from error
        try:
            if self.catalogue.recover():
                self._retire()
                self.store.sweep()
            self.kept.sweep()
            self._drop_unnamed_parts()
            yield
            self.remove_unused()
        finally:
            lock.release()

    def _publish(self, roots: Mapping[str, Options], *, revive: bool, progress: bool) -> Report:
        """All stages for everything below some roots, and for what was deleted before."""
        clock, started = time.perf_counter(), instant()
        catalogue = self.catalogue
        checked = {uri: at for uri, (_, at) in catalogue.roots().items()}
        discovery = discover(roots, catalogue.sources(), checked) if roots else Discovery({}, {})
        for root, options in roots.items():
            catalogue.put_root(root, options.plain(), checked.get(root, started))
        before = catalogue.live()
        ingestion = Ingestion(
            catalogue, self.kept, checked, self.denials.of(self.name).revoked, revive=revive, progress=progress
        )
        found = ingestion.run(discovery, roots)
        missing = [row.document_id for row in found.sources if row.deleted_by]
        self._deny_deleted(missing, SOURCE_GONE, "source")
        number, use = self._bring_out(found, "", progress)
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
                *self._warnings(found),
                *(f"{rule}: matches no file; correct or remove it" for rule in discovery.idle),
            ),
            parsed=found.parsed,
            parse_hits=found.parse_hits,
            encoded=use.misses,
            embedding_hits=use.hits,
            seconds=time.perf_counter() - clock,
        )

    def _bring_out(self, found: Ingested, note: str, progress: bool) -> tuple[int | None, CacheUse]:
        """Build, verify and activate a generation with what was found; None when it changes nothing.

        The second value is how many chunks had a vector already.
        """
        catalogue = self.catalogue
        with catalogue.transaction():
            catalogue.rebase(found.bases)
            if not found.documents and not found.gone:
                catalogue.put_sources(found.sources)
                return None, CacheUse(EMBEDDING, 0, 0)
        settings = self._settled(found.documents)
        number = catalogue.begin(settings, note)
        try:
            staying = catalogue.live().keys() - set(found.gone) - {d.document_id for d in found.documents}
            snapshot, use = self._updated(settings, found, staying, progress)
            self._check(snapshot, len(staying) + len(found.documents))
            published = {version.document_id: version.digest for version in found.versions}
            self.denials.readmit(self.name, published, SOURCE_GONE, by=_user())
            with catalogue.transaction():
                self._verified(number, snapshot)
                catalogue.activate(number, Changes(found.versions, found.gone, found.sources, found.since))
        except BaseException:
            catalogue.recover()
            raise
        self._retire()
        return number, use

    def _updated(
        self, settings: Mapping[str, Any], found: Ingested, staying: Collection[str], progress: bool
    ) -> tuple[Snapshot, CacheUse]:
        """The active snapshot with what was found; made anew from all documents where chunker or models changed."""
        from rag_lab.corpus.publishing import OtherVersion

        if self.catalogue.active:
            try:
                return self._build(settings, found.documents, self.snapshot(), found.gone, progress)
            except OtherVersion:
                pass
        return self._build(settings, [*self.documents(staying), *found.documents], None, (), progress)

    def build_beside(self, settings: Mapping[str, Any], note: str, progress: bool = False) -> tuple[int, Snapshot]:
        """A generation of the same documents with other settings, which nobody reads until it is activated.

        The caller holds the right to publish.
        """
        wanted = {**self._settled([]), **settings}
        number = self.catalogue.begin(wanted, note)
        try:
            documents = self.documents()
            snapshot, _ = self._build(wanted, documents, None, (), progress)
            self._check(snapshot, len(documents))
            self._verified(number, snapshot)
        except BaseException:
            self.catalogue.recover()
            raise
        return number, snapshot

    def replace_with(self, snapshot: Snapshot, removed: Sequence[str], note: str) -> int:
        """Bring out a snapshot that was made from the active one without some documents; return its generation.

        The caller holds the right to publish.
        """
        catalogue = self.catalogue
        number = catalogue.begin(self._chosen, note)
        try:
            self._check(snapshot, len(catalogue.live().keys() - set(removed)))
            with catalogue.transaction():
                self._verified(number, snapshot)
                catalogue.activate(number, Changes(removed=removed))
        except BaseException:
            catalogue.recover()
            raise
        return number

    def _verified(self, number: int, snapshot: Snapshot) -> None:
        facts = snapshot.facts
        self.catalogue.verified(number, snapshot.id, facts["documents"], facts["chunks"], checksum_of(snapshot))

    def _build(
        self,
        settings: Mapping[str, Any],
        documents: Sequence[Document],
        base: Snapshot | None,
        removed: Sequence[str],
        progress: bool,
    ) -> tuple[Snapshot, CacheUse]:
        """A snapshot, and how many of the chunks that were cut for it had a vector already."""
        from rag_lab.corpus.publishing import publish

        uses: list[CacheUse] = []
        chunker, encoder = self._prefixed(settings, progress), _encoder(settings["encoder"])
        snapshot = publish(
            self.noting,
            documents,
            chunker,
            token_encoder=encoder if chunker.counts_tokens else None,
            analyzer=None if settings["analyzer"] == "none" else settings["analyzer"],
            encoder=encoder if settings["factories"] else None,
            factories=settings["factories"],
            progress=progress,
            corpus=self.name,
            base=base,
            removed=removed,
            on_use=uses.append,
        )
        use = uses[0] if uses else CacheUse(EMBEDDING, 0, 0)
        self.catalogue.count(embedding_hits=use.hits, embedding_misses=use.misses)
        return snapshot, use

    def _check(self, snapshot: Snapshot, documents: int, chunks: int | None = None) -> None:
        """Counts agree with the catalogue, and every file is what was written."""
        facts = snapshot.facts
        if facts["documents"] != documents or (chunks is not None and facts["chunks"] != chunks):
            raise RagLabError(
                f"snapshot {snapshot.id}: holds {facts['documents']} documents and {facts['chunks']} chunks, the "
                f"catalogue says {documents} and {chunks if chunks is not None else 'any'}; publish again"
            )
        snapshot.verify()

    @property
    def _chosen(self) -> dict[str, Any]:
        """The settings that a snapshot is built with, as they were chosen."""
        stated = {**DEFAULTS, **self.catalogue.settings}
        return {name: stated[name] for name in BUILT_WITH}

    def _prefixed(self, settings: Mapping[str, Any], progress: bool) -> Chunker:
        """The chunker, with generated sentences where they are asked for."""
        chunker, given = _chunker(settings["chunker"]), settings["context_prefix"]
        if given is None:
            return chunker
        from rag_lab.corpus.prefixing import ContextPrefix

        place = f"corpus {self.name}, setting context_prefix"
        return ContextPrefix.read(given, place).on(chunker, self.store, place, progress)

    def _settled(self, documents: Sequence[Document]) -> dict[str, Any]:
        """The settings to build with; "auto" is decided by the languages of the first documents and then stays."""
        settings = self._chosen
        languages = {document.language for document in documents} - {""}
        if settings["analyzer"] == "auto":
            settings["analyzer"] = next(iter(languages)) if languages in ({"en"}, {"zh"}) else "multilingual"
        if settings["encoder"] == "auto":
            settings["encoder"] = "minilm" if languages <= {"en"} else "multilingual-e5"
        return settings

    def _warnings(self, found: Ingested) -> tuple[str, ...]:
        """What the present settings are not made for, and what is published and yet denied."""
        settings = self.catalogue.settings
        languages = {document.language for document in found.documents} - {""}
        warnings = []
        if languages and (strange := languages - set(_encoder(settings["encoder"]).languages)):
            warnings.append(
                f"encoder {settings['encoder']} does not know {', '.join(sorted(strange))}: dense scores say little "
                "there; migrate to multilingual-e5"
            )
        if settings["analyzer"] in ("en", "zh") and languages - {settings["analyzer"]}:
            others = ", ".join(sorted(languages - {settings["analyzer"]}))
            warnings.append(f"analyzer {settings['analyzer']} is not made for {others}: BM25 finds less there")
        denied = self.denials.of(self.name).held({v.document_id: v.digest for v in found.versions})
        if denied:
            what = f"1 published document is denied ({min(denied)})"
            if len(denied) > 1:
                what = f"{len(denied)} published documents are denied ({min(denied)} is one)"
            warnings.append(f"{what}: unread until lifted")
        warnings += self._copies(found.versions, denied)
        return tuple(warnings)

    def _copies(self, versions: Sequence[VersionRow], denied: Collection[str]) -> list[str]:
        """Warnings of new documents with the content of a denied one: a denial goes by id, so a copy is not denied."""
        barred = {row.content: row.document_id for row in self.catalogue.sources(self.denials.denied(self.name))}
        found = [v for v in versions if v.content in barred and v.document_id not in denied]
        return [
            f"{v.document_id} has the content of {barred[v.content]}, which is denied, and is not: revoke it as well"
            for v in found
            if barred[v.content] != v.document_id
        ]

    def _named(self, document_ids: Collection[str]) -> list[str]:
        """Ids as the corpus has them. One that it does not have as it was typed is meant in NFC, as files are named."""
        wanted = _ids(document_ids)
        known = {row.document_id for row in self.catalogue.sources(wanted)} | self.denials.denied(self.name)
        return list(dict.fromkeys(name if name in known else unicodedata.normalize("NFC", name) for name in wanted))

    def _deny_deleted(self, document_ids: Sequence[str], reason: str, deleted_by: str) -> None:
        """Deny documents in every content they ever had here, and note that they are deleted."""
        if not document_ids:
            return
        catalogue = self.catalogue
        started = instant()
        contents = catalogue.digests(document_ids)
        while contents:
            self.denials.delete(self.name, {name: found[0] for name, found in contents.items()}, reason, by=_user())
            contents = {name: found[1:] for name, found in contents.items() if len(found) > 1}
        ended = instant()
        catalogue.record(Event("deleted", document_id, started, ended) for document_id in document_ids)
        catalogue.set_status(document_ids, "deleted", deleted_by)

    def _retire(self) -> None:
        """Remove the snapshots of generations that are neither among the last ones nor pinned by a living process."""
        catalogue = self.catalogue
        for number, process in catalogue.pins():
            if not _is_alive(process):
                catalogue.unpin(number, process)
        pinned = {number for number, _ in catalogue.pins()}
        rows = catalogue.generations()
        read = [row for row in rows if row.state in ("active", "retired")]
        staying = {row.number for row in read[-int(catalogue.settings["keep"]) :]} | pinned
        active = next((row.number for row in rows if row.state == "active"), 0)
        staying |= {row.number for row in rows if row.state == "verified" and row.base == active} | {active}
        named = {row.snapshot for row in rows if row.number in staying}
        going = [row for row in rows if row.number not in staying and row.snapshot]
        gone = {row.snapshot for row in going} - named
        with catalogue.transaction():
            catalogue.note_made((SNAPSHOTS, name) for name in gone)
            for row in going:
                catalogue.drop(row.number)
        self.remove_snapshots(gone)

    def remove_snapshots(self, snapshots: Collection[str]) -> None:
        """Remove snapshots, what stages computed from them, and those of their parts that no other snapshot names."""
        there = [name for name in sorted(snapshots) if self.store.intact(SNAPSHOTS, name)]
        parts = {part for name in there for part in Snapshot(self.store, name).parts}
        # A publisher that is killed from here on leaves to the next one what it did not remove.
        self.catalogue.note_made({*parts, *((SNAPSHOTS, name) for name in snapshots)})
        for name in sorted(snapshots):
            self.store.remove(SNAPSHOTS, name)
            self.store.remove("stages", name)
        self._remove_unnamed(parts)

    def remove_unused(self) -> None:
        """Remove what publications of this corpus made and nothing names.

        That are segments which were put together with others at once, and what a killed publisher began to make or to
        remove.
        """
        named = {row.snapshot for row in self.catalogue.generations()}
        self.remove_snapshots({key for kind, key in self.catalogue.made() if kind == SNAPSHOTS} - named)
        made = self.catalogue.made()
        self._remove_unnamed({entry for entry in made if entry[0] in PARTS})
        self.catalogue.forget_made(made)

    def _remove_unnamed(self, parts: set[tuple[str, str]]) -> None:
        """Remove those of these parts that no snapshot of the store names."""
        unnamed = set(parts)
        for name in self.store.entries(SNAPSHOTS) if unnamed else ():
            snapshot = Snapshot(self.store, name)
            unnamed -= set(snapshot.parts) if snapshot.sound else set()
        for kind, key in sorted(unnamed):
            self.store.remove(kind, key)

    def _drop_unnamed_parts(self) -> None:
        """Remove kept parts that no version and no parse names: an interrupted publisher's."""
        for key in set(self.kept.entries(KEPT)) - self.catalogue.parts():
            self.kept.remove(KEPT, key)


@dataclass(frozen=True)
class _Noting(Store):
    """A store that notes in the catalogue what is made in it, before it is made."""

    catalogue: Catalogue

    def publish(self, kind: str, key: str, build: Callable[[Path], Mapping[str, Any] | None]) -> Path:
        """As in `Store`."""
        if not self.path(kind, key).exists():
            self.catalogue.note_made([(kind, key)])
        return super().publish(kind, key, build)


def corpora(store: Store) -> list[str]:
    """Names of the corpora in a store."""
    folder = store.root / FOLDER
    return sorted(path.parent.name for path in folder.glob(f"*/{CATALOGUE}")) if folder.is_dir() else []


def checksum_of(snapshot: Snapshot) -> str:
    """A digest of the SHA-256 of every file that a snapshot reads."""
    total = sha256(json.dumps(snapshot.facts, sort_keys=True).encode())
    for kind, key in snapshot.parts:
        total.update(json.dumps(manifest(snapshot.store.path(kind, key)), sort_keys=True).encode())
    return total.hexdigest()[:32]


def _chunker(settings: Mapping[str, Any]) -> Chunker:
    from rag_lab.corpus.chunking import load_chunker

    return load_chunker(**settings)


def _encoder(name: str) -> Encoder:
    from rag_lab.retrieval import encoders

    return encoders.load_encoder(name)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise RagLabError(
            f"corpus '{name}': not a name; use up to 64 letters, digits, '.', '_' and '-', a letter or digit first"
        )


def _ids(document_ids: Collection[str]) -> list[str]:
    if isinstance(document_ids, str):
        raise RagLabError(f"document_ids: {document_ids!r} is one id; give a list of ids")
    if not document_ids:
        raise RagLabError("document_ids: is empty; name at least one document")
    return list(dict.fromkeys(document_ids))


def _is_there(uri: str) -> bool:
    return uri.startswith(DATASET) or Path(uri).exists()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
