"""Segments: the chunks of one set of documents, and what models made of them, immutable in the store.

A segment's key says which versions of which documents it was cut from and how, so a segment that several were merged
into is the one that cutting their documents at once would have given. A snapshot lists segments, and for each the
documents in it that are *dead*: removed, or replaced by a later segment.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from rag_lab.contracts import Document, Encoder
from rag_lab.corpus import encoded
from rag_lab.corpus.chunk_table import Part, build_chunks, merge_chunks, read_table
from rag_lab.corpus.chunking import Chunker
from rag_lab.corpus.encoded import Series, kind_of
from rag_lab.store import Store, digest, verify

FORMAT = "segment-2"
DOCUMENTS = "documents.parquet"


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment as one snapshot holds it.

    dead: ids of documents in it that do not count; encoded: keys of the parts with what models made of its chunks, by
    slot (`encoded.Model`).
    """

    store: Store
    key: str
    dead: frozenset[str] = frozenset()
    encoded: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where the chunks are."""
        return self.store.path("segments", self.key)

    @property
    def part(self) -> Part:
        """The living chunks, for `chunk_table`."""
        return self.folder, self.dead

    @cached_property
    def listed(self) -> dict[str, tuple[str, int]]:
        """Digest and number of chunks of every document in the segment, dead or alive, by ascending id."""
        columns = read_table(self.folder / DOCUMENTS).to_pydict()
        return dict(zip(columns["document_id"], zip(columns["digest"], columns["chunks"], strict=True), strict=True))

    @cached_property
    def documents(self) -> dict[str, str]:
        """Digest of every living document."""
        return {name: found for name, (found, _) in self.listed.items() if name not in self.dead}

    @cached_property
    def chunks(self) -> int:
        """Number of living chunks."""
        return sum(count for name, (_, count) in self.listed.items() if name not in self.dead)

    def without(self, document_ids: Collection[str]) -> Segment:
        """The same segment with more dead documents; ids that it does not hold change nothing."""
        more = self.dead | self.documents.keys() & set(document_ids)
        return self if more == self.dead else Segment(self.store, self.key, more, self.encoded)

    def read(self, slot: str) -> Series:
        """What fills a slot, of all chunks in the segment, dead or alive, mapped."""
        return Series.read(self.store.path(kind_of(slot), self.encoded[slot]))


def document_digest(document: Document) -> str:
    """A digest of everything in a document that can reach a chunk."""
    unseen = ("metadata", "ingested_at")
    return digest(*(getattr(document, name) for name in Document.__slots__ if name not in unseen))


def contents_key(documents: Mapping[str, str], cut_by: Sequence[str]) -> str:
    """The key of the chunks of these documents (digest by id), cut by these versions of parser, chunker, tokenizer."""
    total = sha256()
    for name in sorted(documents):
        total.update(f"{len(name)} {name} {documents[name]}\n".encode("utf-8", "surrogatepass"))
    return digest(FORMAT, total.hexdigest(), list(cut_by))


def build_segment(
    store: Store,
    documents: Sequence[Document],
    digests: Mapping[str, str],
    chunker: Chunker,
    token_encoder: Encoder | None,
    cut_by: Sequence[str],
) -> Segment:
    """Cut documents, whose digests are given by id, unless the store has their segment already."""

    def build(at: Path) -> Mapping[str, Any]:
        facts = build_chunks(at, documents, chunker, token_encoder)
        _list_documents(at, digests)
        return facts

    key = contents_key(digests, cut_by)
    store.publish("segments", key, build)
    return Segment(store, key)


def merge_segments(store: Store, segments: Sequence[Segment], cut_by: Sequence[str]) -> Segment:
    """One segment of all living documents of several. Nothing is cut or encoded, and nothing of the dead stays."""
    digests = {name: found for segment in segments for name, found in segment.documents.items()}

    def build(at: Path) -> Mapping[str, Any]:
        for segment in segments:
            verify(segment.folder)
        facts = merge_chunks(at, [segment.part for segment in segments])
        _list_documents(at, digests)
        return facts

    key = contents_key(digests, cut_by)
    store.publish("segments", key, build)
    return encoded.merge(Segment(store, key), segments)


def _list_documents(at: Path, digests: Mapping[str, str]) -> None:
    """Write which documents were cut, also those that gave no chunk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rag_lab.corpus.chunk_table import CHUNKS

    names = sorted(digests)
    ids = pq.read_table(at / CHUNKS, columns=["document_id"])["document_id"]
    counts = {entry["values"]: entry["counts"] for entry in ids.value_counts().to_pylist()}
    columns = {
        "document_id": pa.array(names, type=pa.string()),
        "digest": pa.array([digests[name] for name in names], type=pa.string()),
        "chunks": pa.array([counts.get(name, 0) for name in names], type=pa.int32()),
    }
    pq.write_table(pa.table(columns), at / DOCUMENTS)
