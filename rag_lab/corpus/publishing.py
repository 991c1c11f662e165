"""Publish a snapshot: build the parts that are missing, each under a key of all that decides it, and link them.

Two snapshots that share a chunker or an encoder share the work; the files are hard links.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Document, Encoder, RagLabError, batches
from rag_lab.corpus.chunk_table import ChunkTable, build_chunks, read_chunks
from rag_lab.corpus.chunking import Chunker
from rag_lab.corpus.snapshot import Snapshot, index_name
from rag_lab.progress import progress_bar
from rag_lab.provenance import version_of
from rag_lab.store import Store, digest, manifest, verify

FORMAT = "snapshot-2"
PARSER_VERSION = "text-1"
ENCODING_BLOCK = 512


def publish(
    store: Store,
    documents: Sequence[Document],
    chunker: Chunker,
    *,
    token_encoder: Encoder | None = None,
    analyzer: str | None = None,
    encoder: Encoder | None = None,
    factories: Sequence[str] = (),
    progress: bool = False,
) -> Snapshot:
    """Build what is missing and return the snapshot.

    `token_encoder` counts tokens for the chunker; `analyzer` (en, zh, multilingual) asks for a Lucene index; `encoder`
    with `factories` asks for vectors and FAISS indexes. The same input returns the same snapshot, built only once.
    """
    source = documents_digest(documents)
    tokens = token_encoder.version if token_encoder and chunker.version != "whole-1" else ""
    parts = {"chunks": digest(FORMAT, "chunks", source, chunker.version, tokens, PARSER_VERSION)}
    folders = {
        "chunks": store.publish(
            "parts", parts["chunks"], lambda at: build_chunks(at, documents, chunker, token_encoder)
        )
    }
    versions = {"parser": PARSER_VERSION, "chunker": chunker.version}
    table = _Lazy(folders["chunks"])
    if analyzer is not None:
        from rag_lab.retrieval.bm25 import index_version

        lucene = index_version(analyzer)
        parts["lucene"] = digest(FORMAT, "lucene", parts["chunks"], lucene)
        folders["lucene"] = store.publish(
            "parts", parts["lucene"], lambda at: _build_lucene(at, table.chunks, analyzer)
        )
        versions |= {"lucene": lucene}
    if encoder is not None and factories:
        faiss = f"faiss {version_of('faiss-cpu')}"
        vectors = digest(FORMAT, "vectors", parts["chunks"], encoder.version)
        blocks = _Blocks(store, vectors)
        vectors_at = store.publish(
            "parts", vectors, lambda at: _build_vectors(at, table.chunks, encoder, blocks, progress)
        )
        blocks.clear()
        for factory in factories:
            name = index_name(factory)
            parts[name] = digest(FORMAT, "faiss", vectors, factory, faiss)
            folders[name] = store.publish("parts", parts[name], _faiss_builder(vectors_at, factory, encoder))
        versions |= {"encoder": f"{encoder.name} {encoder.version}", "faiss": faiss}
    versions["index"] = digest(versions)[:12]

    def assemble(at: Path) -> Mapping[str, Any]:
        for name, folder in folders.items():
            _link(folder, at / name)
        return {
            "published_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "parts": parts,
            "versions": versions,
            "documents": len(documents),
            "chunks": manifest(folders["chunks"])["chunks"],
        }

    return Snapshot(store.publish("snapshots", digest(FORMAT, parts, versions)[:16], assemble))


def documents_digest(documents: Sequence[Document]) -> str:
    """A digest of everything in the documents that can reach a chunk; the order of the documents does not matter."""
    total = sha256()
    for document in sorted(documents, key=lambda d: d.document_id):
        total.update(
            digest(
                *(getattr(document, name) for name in Document.__slots__ if name not in ("metadata", "ingested_at")),
            ).encode()
        )
    return total.hexdigest()[:32]


class _Lazy:
    """The chunk table, read only if some part has to be built."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def chunks(self) -> ChunkTable:
        verify(self._folder)
        return read_chunks(self._folder)


def _build_lucene(at: Path, chunks: ChunkTable, analyzer: str) -> None:
    from rag_lab.retrieval.bm25 import build

    texts = [chunks.indexed_text(row) for row in range(len(chunks))]
    scopes = [chunks.classes[code].key for code in chunks.rights]
    build(at, texts, scopes, analyzer, chunks.chunk_id)


@dataclass(frozen=True)
class _Blocks:
    """Vectors of a part that is being encoded, block by block, so that an interrupted encoding goes on."""

    store: Store
    key: str

    def read(self, start: int) -> npt.NDArray[np.float32] | None:
        kept = self.store.read("encoding", self.key, f"{start}.npy")
        return None if kept is None else np.load(io.BytesIO(kept), allow_pickle=False)

    def write(self, start: int, vectors: npt.NDArray[np.float32]) -> None:
        buffer = io.BytesIO()
        np.save(buffer, vectors)
        self.store.write("encoding", self.key, f"{start}.npy", buffer.getvalue())

    def clear(self) -> None:
        shutil.rmtree(self.store.path("encoding", self.key), ignore_errors=True)


def _build_vectors(
    at: Path, chunks: ChunkTable, encoder: Encoder, blocks: _Blocks, progress: bool
) -> Mapping[str, Any]:
    made = [np.zeros((0, encoder.dimension), dtype=np.float32)]
    with progress_bar("encoding passages", len(chunks), progress) as advance:
        for part in batches(len(chunks), ENCODING_BLOCK):
            vectors = blocks.read(part.start)
            if vectors is None:
                texts = [chunks.indexed_text(row) for row in range(part.start, part.stop)]
                vectors = encoder.encode_passages(texts).astype(np.float32)
                if vectors.shape != (len(texts), encoder.dimension):
                    raise RagLabError(
                        f"encoder {encoder.name}: gave vectors of shape {vectors.shape} for {len(texts)} chunks, "
                        f"not {(len(texts), encoder.dimension)}"
                    )
                blocks.write(part.start, vectors)
            made.append(vectors)
            advance(part.stop - part.start)
    np.save(at / "vectors.npy", np.concatenate(made))
    return {"encoder": encoder.name, "encoder_version": encoder.version, "vectors": len(chunks)}


def _faiss_builder(vectors_at: Path, factory: str, encoder: Encoder) -> Any:
    def build(at: Path) -> None:
        from rag_lab.retrieval.dense import DenseIndex
        from rag_lab.retrieval.encoders import Embeddings

        verify(vectors_at)
        passages = Embeddings(np.load(vectors_at / "vectors.npy"), encoder.name, encoder.version)
        DenseIndex.build(passages, factory).save(at)

    return build


def _link(source: Path, target: Path) -> None:
    """Put the files of a part into a snapshot without copying their bytes where the file system allows it."""
    verify(source)
    for path in sorted(source.rglob("*")):
        to = target / path.relative_to(source)
        if path.is_dir():
            to.mkdir(parents=True, exist_ok=True)
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, to)
        except OSError:
            shutil.copy2(path, to)
