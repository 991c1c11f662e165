"""Segments: the chunks of one set of documents, and their vectors, immutable in the store.

A segment's key says which versions of which documents it was cut from and how, so a segment that several were merged
into is the one that cutting their documents at once would have given. A snapshot lists segments, and for each the
documents in it that are *dead*: removed, or replaced by a later segment.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import CacheUse, Document, Encoder, IntArray, RagLabError, batches
from rag_lab.corpus.chunk_table import (
    Part,
    build_chunks,
    gone,
    merge_chunks,
    read_keys,
    read_table,
    read_text_keys,
)
from rag_lab.corpus.chunking import Chunker
from rag_lab.progress import progress_bar
from rag_lab.retrieval.dense import text_numbers
from rag_lab.store import Store, digest, manifest, verify

FORMAT = "segment-2"
ENCODING_BLOCK = 512
DOCUMENTS, VECTORS = "documents.parquet", "vectors.npy"
EMBEDDING = "embedding"
"""Name of the cache of vectors, in a `CacheUse`."""

VectorArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Segment:
    """A segment as one snapshot holds it.

    dead: ids of documents in it that do not count; vectors: key of the part with its vectors, "" where there is none.
    """

    store: Store
    key: str
    dead: frozenset[str] = frozenset()
    vectors: str = ""

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
        return self if more == self.dead else Segment(self.store, self.key, more, self.vectors)

    def read_vectors(self) -> VectorArray:
        """Vectors of all chunks in the segment, dead or alive, mapped."""
        path = self.store.path("vectors", self.vectors) / VECTORS
        try:
            vectors: VectorArray = np.load(path, mmap_mode="r" if manifest(path.parent)["vectors"] else None)
        except OSError as error:
            raise gone(path) from error
        return vectors


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
    merged = Segment(store, key)
    if not all(segment.vectors for segment in segments):
        return merged
    about = manifest(store.path("vectors", segments[0].vectors))

    def build_vectors(at: Path) -> Mapping[str, Any]:
        for segment in segments:
            verify(store.path("vectors", segment.vectors))
        keys = read_keys([segment.part for segment in segments])
        np.save(at / VECTORS, gather(segments, keys.part, keys.place, about["dimension"]))
        return {name: about[name] for name in ("encoder", "encoder_version", "dimension")} | {"vectors": len(keys)}

    vectors = _vectors_key(key, about["encoder_version"])
    store.publish("vectors", vectors, build_vectors)
    return replace(merged, vectors=vectors)


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


# --- vectors --------------------------------------------------------------------------------------------------------


def gather(segments: Sequence[Segment], part: IntArray, place: IntArray, dimension: int) -> VectorArray:
    """Vectors in an order of rows: that of row i is the one at ``place[i]`` in ``segments[part[i]]``.

    Those of one whole segment in its own order are mapped, others copied.
    """
    if len(segments) == 1:
        vectors = segments[0].read_vectors()
        return vectors if len(vectors) == len(place) else vectors[place]
    made = np.empty((len(place), dimension), dtype=np.float32)
    for number, segment in enumerate(segments):
        mine = np.flatnonzero(part == number)
        made[mine] = segment.read_vectors()[place[mine]]
    return made


def encode_segment(
    store: Store, segment: Segment, encoder: Encoder, known: Iterable[Segment], progress: bool
) -> tuple[Segment, CacheUse]:
    """The segment with vectors, and how many of its chunks had to be encoded for that.

    Texts that a segment among `known` has vectors of are not encoded again, nor is what the store has, and a text that
    several chunks share is encoded once.
    """
    key = _vectors_key(segment.key, encoder.version)
    blocks = _Blocks(store, key)
    encoded = 0

    def build(at: Path) -> Mapping[str, Any]:
        nonlocal encoded
        verify(segment.folder)
        vectors, encoded = _encode(segment, encoder, known, blocks, progress)
        np.save(at / VECTORS, vectors)
        about = {"encoder": encoder.name, "encoder_version": encoder.version, "dimension": encoder.dimension}
        return about | {"vectors": segment.chunks}

    store.publish("vectors", key, build)
    blocks.clear()
    return replace(segment, vectors=key), CacheUse(EMBEDDING, segment.chunks - encoded, encoded)


def _vectors_key(segment: str, encoder_version: str) -> str:
    return digest(FORMAT, "vectors", segment, encoder_version)


def _encode(
    segment: Segment, encoder: Encoder, known: Iterable[Segment], blocks: _Blocks, progress: bool
) -> tuple[VectorArray, int]:
    """Vectors of a segment without dead: copied where the text is known, else encoded, each distinct text once.

    The second value is how many texts were encoded.
    """
    from rag_lab.corpus.chunk_table import read_chunks

    keys = read_text_keys(segment.folder)
    numbers = text_numbers(keys)
    first = np.unique(numbers, return_index=True)[1]
    distinct = np.sort(first)
    position = np.empty(len(keys), dtype=np.int64)
    position[distinct] = np.arange(len(distinct))
    vectors = np.empty((len(distinct), encoder.dimension), dtype=np.float32)
    wanted = {keys[row].tobytes(): i for i, row in enumerate(distinct.tolist())}
    for other in known:
        _copy_known(other, wanted, vectors)
    missing, encoded = sorted(wanted.values()), 0
    table = read_chunks([segment.part])
    with progress_bar("encoding passages", len(missing), progress) as advance:
        for part in batches(len(missing), ENCODING_BLOCK):
            some = missing[part]
            name = digest([keys[distinct[i]].tolist() for i in some])
            made = blocks.read(name)
            if made is None:
                made = encoder.encode_passages([table.indexed_text(int(distinct[i])) for i in some]).astype(np.float32)
                if made.shape != (len(some), encoder.dimension):
                    raise RagLabError(
                        f"encoder {encoder.name}: gave vectors of shape {made.shape} for {len(some)} chunks, "
                        f"not {(len(some), encoder.dimension)}"
                    )
                blocks.write(name, made)
                encoded += len(some)
            vectors[some] = made
            advance(len(some))
    return vectors[position[first[numbers]]], encoded


def _copy_known(other: Segment, wanted: dict[bytes, int], vectors: VectorArray) -> None:
    """Fill in the vectors of wanted texts that `other` holds, and strike them from `wanted`."""
    if not wanted or not other.vectors:
        return
    keys = read_text_keys(other.folder)
    halves = np.array([np.frombuffer(key, dtype=np.int64)[0] for key in wanted])
    likely = np.flatnonzero(np.isin(keys[:, 0], halves))
    found = {keys[row].tobytes(): row for row in likely.tolist() if keys[row].tobytes() in wanted}
    if not found:
        return
    verify(other.store.path("vectors", other.vectors))
    theirs = other.read_vectors()
    for key, row in found.items():
        vectors[wanted.pop(key)] = theirs[row]


@dataclass(frozen=True)
class _Blocks:
    """Vectors of a part that is being encoded, by a digest of their texts, so that an interrupted encoding goes on."""

    store: Store
    key: str

    def read(self, name: str) -> VectorArray | None:
        kept = self.store.read("encoding", self.key, f"{name}.npy")
        return None if kept is None else np.load(io.BytesIO(kept), allow_pickle=False)

    def write(self, name: str, vectors: VectorArray) -> None:
        buffer = io.BytesIO()
        np.save(buffer, vectors)
        self.store.write("encoding", self.key, f"{name}.npy", buffer.getvalue())

    def clear(self) -> None:
        self.store.remove("encoding", self.key)
