"""A snapshot: an immutable, content-addressed entry that names the parts of a corpus at one moment.

Parts are segments of chunks with what models made of them (vectors, token vectors, weighted terms), a Lucene index of
texts and others of weighted terms, FAISS indexes and a PLAID index; the snapshot opens them in the store where they
are. Its rows are the living chunks of all segments, ordered by (document id, position in it): a row is also Lucene's
document number and the position of its vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.contracts import Chunk, RagLabError, Request
from rag_lab.corpus.chunk_table import ChunkKeys, ChunkTable, read_chunks, read_keys
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.encoded import KINDS, TOKEN_VECTORS, VECTORS, Series, as_token_vectors, gather, kind_of
from rag_lab.corpus.policies import NO_BOOK, PolicyBook
from rag_lab.corpus.rights import Scopes, scopes_of
from rag_lab.corpus.segment import Segment
from rag_lab.store import Store, digest, manifest, verify

if TYPE_CHECKING:
    from rag_lab.retrieval.bm25 import Bm25Index
    from rag_lab.retrieval.dense import DenseIndex, VectorArray
    from rag_lab.retrieval.late import LateIndex, TokenVectors
    from rag_lab.retrieval.sparse import ImpactIndex

FORMAT = "snapshot-4"
KIND = "snapshots"
PARTS = ("segments", *KINDS, "lucene", "impact", "faiss", "plaid")
"""Kinds of the entries that a snapshot names."""
FACTS = (
    "corpus",
    "segments",
    "parts",
    "versions",
    "analyzer",
    "encoder",
    "factories",
    "late",
    "late_indexes",
    "sparse",
    "documents",
    "chunks",
)
"""What a snapshot is: its id is a digest of these, so the manifest is checked against the id."""
FLAT = "Flat"
LATE_INDEXES = ("auto", "exact", "plaid")
TEXT_KEYS = "text_keys.npy"
PLAID_CHUNKS = 20_000
"""With more chunks than this the late-interaction index "auto" is PLAID, else exact search.

Measured in processor time a question, 100 questions at a time, on SciFact's passages (240 tokens, 192 dimensions) and
noisy copies of them. To a depth of 1,000 exact search takes 123 ms for 5,183 chunks, 236 ms for 10,366 and 482 ms for
20,732, PLAID 362 ms for 10,366, most of it for the passages that it compares, whose number goes by the depth; so they
meet at some 16,000 chunks. To a depth of 100 PLAID takes 65, 69 and 78 ms. But its index takes 7 to 14 ms a chunk to
build on a busy machine, about as long as exact search takes for 300 to 600 questions.
"""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A snapshot in a store, by its id. Tables and indexes are opened when first used."""

    store: Store
    id: str

    @property
    def folder(self) -> Path:
        """Where its manifest is."""
        return self.store.path(KIND, self.id)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The manifest: corpus, segments, parts, counts, versions. Raises `RagLabError` when it is not as written."""
        found = manifest(self.folder)
        if snapshot_id({name: found.get(name) for name in FACTS}) != self.id:
            raise RagLabError(f"{self.folder}: its manifest is not what was written; delete it and publish again")
        return found

    @property
    def corpus(self) -> str:
        """The corpus that it belongs to, "" for none."""
        return str(self.facts["corpus"])

    @property
    def published_at(self) -> datetime:
        """When the snapshot was put together."""
        return datetime.fromisoformat(self.facts["published_at"])

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Its segments, oldest first."""
        return tuple(
            Segment(self.store, listed["key"], frozenset(listed["dead"]), listed["encoded"])
            for listed in self.facts["segments"]
        )

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Kind and key of every entry of the store that the snapshot reads."""
        found = [("segments", segment.key) for segment in self.segments]
        found += [(kind_of(slot), key) for segment in self.segments for slot, key in segment.encoded.items()]
        return found + [(name.partition(":")[0], key) for name, key in self.facts["parts"].items()]

    @property
    def sound(self) -> bool:
        """Whether the manifest is as it was written."""
        try:
            return bool(self.facts)
        except RagLabError:
            return False

    def verify(self) -> None:
        """Check every file of every part against its SHA-256; the error names the file."""
        verify(self.folder)
        for kind, key in self.parts:
            verify(self.store.path(kind, key))

    @cached_property
    def documents(self) -> Mapping[str, str]:
        """Digest of every document by its id, also of those without a chunk."""
        return {name: found for segment in self.segments for name, found in segment.documents.items()}

    @cached_property
    def chunks(self) -> ChunkTable:
        """All chunks, by row."""
        return read_chunks([segment.part for segment in self.segments])

    @cached_property
    def keys(self) -> ChunkKeys:
        """What tells the rows apart, and where each lies among the segments."""
        return read_keys([segment.part for segment in self.segments])

    @property
    def vectors(self) -> VectorArray:
        """The vector of each row, ``[rows, dimension]``."""
        if self.facts["encoder"] is None:
            raise RagLabError(f"snapshot {self.id}: has no vectors; publish it with an encoder and a FAISS factory")
        vectors: VectorArray = self.encoded(VECTORS).arrays["vectors"]
        return vectors

    @cached_property
    def token_vectors(self) -> TokenVectors:
        """The token vectors of each row, mapped."""
        late = self.facts["late"]
        if late is None:
            raise RagLabError(f"snapshot {self.id}: has no token vectors; publish it with a late-interaction encoder")
        return as_token_vectors(self.encoded(TOKEN_VECTORS), late["name"], late["version"])

    @property
    def slots(self) -> tuple[str, ...]:
        """The slots (`encoded.Model`) that all segments have."""
        return tuple(self.segments[0].encoded)

    def encoded(self, slot: str) -> Series:
        """What fills a slot, in the order of rows."""
        opened: dict[str, Series] = self.__dict__.setdefault("_encoded", {})
        if slot not in opened:
            opened[slot] = gather(self.segments, slot, self.keys, on_disk=slot != VECTORS)
        return opened[slot]

    @cached_property
    def bm25(self) -> Bm25Index:
        """The Lucene index."""
        from rag_lab.retrieval.bm25 import Bm25Index

        if "lucene" not in self.facts["parts"]:
            raise RagLabError(f"snapshot {self.id}: has no Lucene index; publish it with an analyzer")
        return Bm25Index(self.store.path("lucene", self.facts["parts"]["lucene"]))

    def dense(self, factory: str) -> DenseIndex:
        """The FAISS index with this factory string, or exact search for "Flat"."""
        if factory not in self.facts["factories"]:
            raise RagLabError(f"snapshot {self.id}: has no FAISS index '{factory}'; publish it with that factory")
        opened: dict[str, DenseIndex] = self.__dict__.setdefault("_dense", {})
        if factory not in opened:
            opened[factory] = self._open_dense(factory)
        return opened[factory]

    def _open_dense(self, factory: str) -> DenseIndex:
        from rag_lab.retrieval.dense import DenseIndex, match_rows
        from rag_lab.retrieval.encoders import Embeddings

        if factory == FLAT:
            encoder = self.facts["encoder"]
            return DenseIndex.build(Embeddings(self.vectors, encoder["name"], encoder["version"]))
        folder = self.store.path("faiss", self.facts["parts"][f"faiss:{factory}"])
        return DenseIndex.load(folder, self.vectors, match_rows(np.load(folder / TEXT_KEYS), self.keys.text_key))

    def late(self, kind: str) -> LateIndex:
        """The late-interaction index of a kind of `LATE_INDEXES`; see `late_kind` for "auto"."""
        if kind not in self.facts["late_indexes"]:
            raise RagLabError(
                f"snapshot {self.id}: has no late-interaction index '{kind}'; publish it with a late encoder and that "
                "index"
            )
        built = late_kind(kind, self.facts["chunks"])
        opened: dict[str, LateIndex] = self.__dict__.setdefault("_late", {})
        if built not in opened:
            opened[built] = self._open_late(built)
        return opened[built]

    def _open_late(self, built: str) -> LateIndex:
        from rag_lab.retrieval.dense import match_rows
        from rag_lab.retrieval.late import LateIndex

        if built == "exact":
            return LateIndex.build(self.token_vectors)
        folder = self.store.path("plaid", self.facts["parts"]["plaid"])
        return LateIndex.load(folder, self.token_vectors, match_rows(np.load(folder / TEXT_KEYS), self.keys.text_key))

    def impact(self, model: str) -> ImpactIndex:
        """The Lucene index of the terms that a learned sparse model of this name weighed."""
        from rag_lab.retrieval.sparse import ImpactIndex

        if model not in self.facts["sparse"]:
            raise RagLabError(
                f"snapshot {self.id}: has no weighted terms of '{model}'; publish it with that sparse encoder"
            )
        opened: dict[str, ImpactIndex] = self.__dict__.setdefault("_impact", {})
        if model not in opened:
            folder = self.store.path("impact", self.facts["parts"][f"impact:{model}"])
            opened[model] = ImpactIndex(folder, model, self.facts["sparse"][model])
        return opened[model]

    def denied(self) -> frozenset[str]:
        """Those of its documents that nobody may read any more, by the deny list of its corpus."""
        return DenyList(self.store).of(self.corpus).held(self.documents) if self.corpus else frozenset()

    @contextmanager
    def reading(self) -> Iterator[frozenset[str]]:
        """The same, and nothing more is denied before the block ends: for a check and a hand-out, not for work."""
        if not self.corpus:
            yield frozenset()
            return
        with DenyList(self.store).reading(self.corpus) as denials:
            yield denials.held(self.documents)

    def scopes(self, requests: Sequence[Request], book: PolicyBook = NO_BOOK) -> Scopes:
        """What each request may read, computed once: by the policies of `book`, and without what is denied."""
        for request in requests:
            if request.freshness_bound is not None and self.published_at < request.freshness_bound:
                raise RagLabError(
                    f"request {request.request_id}: snapshot {self.id} is of {self.published_at.isoformat()}, older "
                    f"than the freshness bound {request.freshness_bound.isoformat()}; publish again"
                )
        table = self.chunks
        return scopes_of(requests, table.classes, table.rights, table.document_id, book, self.denied())

    def chunk(self, row: int) -> Chunk:
        """One chunk as a record."""
        table, rights = self.chunks, self.chunks.classes[int(self.chunks.rights[row])]
        versions = self.facts["versions"]
        return Chunk(
            tenant=table.tenant[row],
            document_id=table.document_id[row],
            chunk_id=table.chunk_id[row],
            text=table.text[row],
            title=table.title[row],
            section_path=tuple(table.section_path[row]),
            language=table.language[row],
            source_uri=table.source_uri[row],
            source_version=table.source_version[row],
            source_span=(int(table.start[row]), int(table.end[row])),
            content_hash=table.content_hash[row],
            source_trust=table.source_trust[row],
            acls=rights.acls,
            acl_version=table.acl_version[row],
            valid_from=rights.valid_from,
            valid_until=rights.valid_until,
            published_at=table.published_at[row],
            status=table.status[row],
            authority=table.authority[row],
            page=int(table.page[row]),
            embedded_text=table.indexed_text(row),
            shown_span=(int(table.shown_start[row]), int(table.shown_end[row])),
            parser_version=versions["parser"],
            chunker_version=versions["chunker"],
            embedding_model=versions.get("encoder", ""),
            index_version=versions["index"],
        )


def snapshot_id(facts: Mapping[str, Any]) -> str:
    """The content address of what `FACTS` names."""
    return digest(FORMAT, {name: facts[name] for name in FACTS})[:16]


def late_kind(kind: str, chunks: int) -> str:
    """What a late-interaction index is with so many chunks: "exact" or "plaid"; "auto" is decided by `PLAID_CHUNKS`."""
    if kind == "auto":
        return "plaid" if chunks > PLAID_CHUNKS else "exact"
    return kind
