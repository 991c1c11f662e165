"""A corpus: the named thing that changes, as a sequence of snapshots of which readers see one.

Publishing goes through fixed stages: discover versions, parse, chunk, embed, write a new generation that nobody reads,
verify its counts and checksums, activate it in one transaction, retire the old one. What was there already costs
nothing. One publisher is at work at a time, under a lock that dies with its process; whatever a killed one left is
cleaned up by the next. Denying a document (`revoke`, `delete`) needs no lock and waits for nobody.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import Document, Principal, RagLabError, Request
from rag_lab.corpus.catalogue import Catalogue, Event, GenerationRow, instant
from rag_lab.corpus.deletion import deny_deleted, user
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.discovery import DATASET, Options, root_of
from rag_lab.corpus.ingestion import Ingested, documents_of
from rag_lab.corpus.policies import BOOK, PolicyBook
from rag_lab.corpus.publisher import Report, bring_out, check, publish_sources, publishing
from rag_lab.corpus.removal import Noting, remove_unused, retire
from rag_lab.corpus.rights import Scopes, scopes_of
from rag_lab.corpus.settings import checked
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.store import Store, write_atomically

if TYPE_CHECKING:
    import pandas as pd

    from rag_lab.corpus.migration import Migration
    from rag_lab.corpus.purge import Proof, Purge
    from rag_lab.corpus.status import Status

FOLDER = "corpora"
CATALOGUE = "catalogue.sqlite"
WAIT_S = 600.0


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
        no Lucene index), `factories` (FAISS indexes), `colbert` (a late-interaction encoder by name, or "auto"; "none"
        makes no token vectors), `colbert_indexes` (of `snapshot.LATE_INDEXES`), `splade` (learned sparse models by
        name), `keep` (how many generations stay readable) and `freshness` (targets, those of
        `rag_lab.metrics.freshness`).
        """
        _check_name(name)
        chosen = checked(name, settings)
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
        return Noting(self.store.root, self.catalogue)

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
        with publishing(self, wait_s):
            return publish_sources(self, roots, revive=True, progress=progress)

    def update(self, *, progress: bool = False, wait_s: float = WAIT_S) -> Report:
        """Look at everything that was added: publish what is new or changed, take out what is gone.

        A folder or file that was added and is not there any more keeps its documents, and is warned of: a disk may just
        not be mounted. Files that are gone from a folder are deleted.
        """
        with publishing(self, wait_s):
            known = self.catalogue.roots()
            there = {uri: Options.read(plain) for uri, (plain, _) in known.items() if _is_there(uri)}
            report = publish_sources(self, there, revive=False, progress=progress)
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
        deny_deleted(self, wanted, reason, "caller")
        with publishing(self, wait_s):
            # A publisher that was at work meanwhile may have brought out another content.
            late = [row.document_id for row in self.catalogue.sources(wanted) if row.deleted_by != "caller"]
            deny_deleted(self, late, reason, "caller")
            return publish_sources(self, {}, revive=False, progress=progress)

    def revoke(self, document_ids: Collection[str], reason: str, *, by: str = "") -> Denied:
        """Deny documents to everybody, in every snapshot and in whatever content, from now until they are lifted.

        Takes effect before the call returns, also while a publication is at work. Unknown ids are denied as well and
        named in the result.
        """
        wanted, started = self._named(document_ids), instant()
        epoch = self.denials.deny(self.name, wanted, reason, by=by or user())
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
            epoch = self.denials.lift(self.name, wanted, by=by or user())
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
        with publishing(self, wait_s):
            gone = [name for name in ended if name in self.catalogue.live(ended)]
            started = time.perf_counter()
            ingested = Ingested(gone=gone, since=dict.fromkeys(gone, instant()))
            number, _ = bring_out(self, ingested, "expired documents removed", progress)
            return ended, Report(number, removed=gone, seconds=time.perf_counter() - started)

    def activate(self, number: int, *, wait_s: float = WAIT_S) -> GenerationRow:
        """Make another generation the one that readers see.

        One that was built and not yet switched to (see `migrate`) becomes active itself; of a retired one the content
        and the settings come back as a new generation. What is on the deny list stays denied in all of them.
        """
        with publishing(self, wait_s):
            wanted = self.catalogue.generation(number)
            if wanted.state == "active":
                return wanted
            if not wanted.snapshot:
                raise RagLabError(
                    f"generation {number}: is {wanted.state} and its snapshot is gone; choose a later one"
                )
            check(Snapshot(self.store, wanted.snapshot), wanted.documents, wanted.chunks)
            change = self.catalogue.activate if wanted.state == "verified" else self.catalogue.restore
            made = change(number)
            retire(self)
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

        with publishing(self, wait_s):
            done = migrate(self, encoder, questions, split, limit, switch, if_not_worse, progress)
            retire(self)
            return done

    def purge(self, *, progress: bool = False, wait_s: float = WAIT_S) -> Purge:
        """Remove every byte of the documents that are denied, and search the disk for what is left of them."""
        from rag_lab.corpus.purge import purge

        with publishing(self, wait_s):
            remove_unused(self)
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

    def delays(self) -> pd.DataFrame:
        """How long every change took or, where it has no effect yet, has lasted; see `rag_lab.metrics.freshness`."""
        from rag_lab.corpus.status import drift_of, timed

        now = datetime.now(UTC)
        return timed(self, now, drift_of(self, now))

    def status(self, *, drift: bool = True) -> Status:
        """What there is, how old it is, and what is wrong with it; see `rag_lab.corpus.status`."""
        from rag_lab.corpus.status import status_of

        return status_of(self, datetime.now(UTC), drift)

    def _named(self, document_ids: Collection[str]) -> list[str]:
        """Ids as the corpus has them. One that it does not have as it was typed is meant in NFC, as files are named."""
        wanted = _ids(document_ids)
        known = {row.document_id for row in self.catalogue.sources(wanted)} | self.denials.denied(self.name)
        return list(dict.fromkeys(name if name in known else unicodedata.normalize("NFC", name) for name in wanted))


def corpora(store: Store) -> list[str]:
    """Names of the corpora in a store."""
    folder = store.root / FOLDER
    return sorted(path.parent.name for path in folder.glob(f"*/{CATALOGUE}")) if folder.is_dir() else []


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
