"""A snapshot: an immutable, content-addressed folder with the chunks of a corpus, their rights, and its indexes.

A snapshot is put together from *parts* (chunks, Lucene index, vectors, FAISS index). Each part is built once under a
key of all that decides its content, so two snapshots that share a chunker or an encoder share the work; the files are
hard links. Rows are ordered by (document id, offset): a row is both Lucene's document number and FAISS's id.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Acl, Chunk, Document, Encoder, IntArray, RagLabError, Request, batches
from rag_lab.corpus.chunking import Chunker
from rag_lab.corpus.rights import RightsClass, Scopes, classify, scopes_of
from rag_lab.progress import progress_bar
from rag_lab.provenance import version_of
from rag_lab.store import Store, digest, manifest, verify

if TYPE_CHECKING:
    from rag_lab.retrieval.bm25 import Bm25Index
    from rag_lab.retrieval.dense import DenseIndex

FORMAT = "snapshot-1"
PARSER_VERSION = "text-1"
ENCODING_BLOCK = 512
COLUMNS = (
    "tenant",
    "document_id",
    "chunk_id",
    "text",
    "title",
    "section_path",
    "language",
    "source_uri",
    "source_version",
    "start",
    "end",
    "content_hash",
    "source_trust",
    "acl_version",
)


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """The chunks of a snapshot by column; every column has one value a row."""

    tenant: list[str]
    document_id: list[str]
    chunk_id: list[str]
    text: list[str]
    title: list[str]
    section_path: list[list[str]]
    language: list[str]
    source_uri: list[str]
    source_version: list[str]
    start: IntArray
    end: IntArray
    content_hash: list[str]
    source_trust: list[str]
    acl_version: list[str]
    rights: IntArray
    classes: list[RightsClass]

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def valid_from(self) -> list[datetime | None]:
        """First instant of validity, by row."""
        return [self.classes[code].valid_from for code in self.rights]

    @cached_property
    def valid_until(self) -> list[datetime | None]:
        """First instant after validity, by row."""
        return [self.classes[code].valid_until for code in self.rights]

    @cached_property
    def documents(self) -> dict[str, slice]:
        """For each document id the slice of its rows."""
        ids = np.asarray(self.document_id, dtype=object)
        if not len(ids):
            return {}
        edges = np.flatnonzero(np.r_[True, ids[1:] != ids[:-1], True])
        return {ids[a]: slice(a, b) for a, b in pairwise(edges.tolist())}

    def indexed_text(self, row: int) -> str:
        """What the indexes see: title, heading path and text."""
        return " ".join(part for part in (self.title[row], *self.section_path[row], self.text[row]) if part)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """An opened snapshot. Indexes are opened when first used."""

    folder: Path

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The manifest: counts, versions and files."""
        return manifest(self.folder)

    @property
    def id(self) -> str:
        """The content address."""
        return str(self.facts["key"])

    @property
    def published_at(self) -> datetime:
        """When the snapshot was put together."""
        return datetime.fromisoformat(self.facts["published_at"])

    @cached_property
    def chunks(self) -> ChunkTable:
        """All chunks, by row."""
        return _read_chunks(self.folder / "chunks")

    @cached_property
    def bm25(self) -> Bm25Index:
        """The Lucene index."""
        from rag_lab.retrieval.bm25 import Bm25Index

        if "lucene" not in self.facts["parts"]:
            raise RagLabError(f"snapshot {self.id}: has no Lucene index; publish it with an analyzer")
        return Bm25Index(self.folder / "lucene")

    def dense(self, factory: str) -> DenseIndex:
        """The FAISS index with this factory string."""
        from rag_lab.retrieval.dense import DenseIndex

        name = index_name(factory)
        if name not in self.facts["parts"]:
            raise RagLabError(f"snapshot {self.id}: has no FAISS index '{factory}'; publish it with that factory")
        opened: dict[str, DenseIndex] = self.__dict__.setdefault("_dense", {})
        if name not in opened:
            opened[name] = DenseIndex.load(self.folder / name)
        return opened[name]

    def scopes(self, requests: Sequence[Request]) -> Scopes:
        """What each request may read, computed once."""
        for request in requests:
            if request.freshness_bound is not None and self.published_at < request.freshness_bound:
                raise RagLabError(
                    f"request {request.request_id}: snapshot {self.id} is of {self.published_at.isoformat()}, older "
                    f"than the freshness bound {request.freshness_bound.isoformat()}; publish again"
                )
        return scopes_of(requests, self.chunks.classes, self.chunks.rights, self.chunks.document_id)

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
            acl=rights.acl,
            acl_version=table.acl_version[row],
            valid_from=rights.valid_from,
            valid_until=rights.valid_until,
            parser_version=versions["parser"],
            chunker_version=versions["chunker"],
            embedding_model=versions.get("encoder", ""),
            index_version=versions["index"],
        )


def index_name(factory: str) -> str:
    """Folder name of a FAISS index: its factory string with path-safe characters."""
    return "faiss-" + "".join(c if c.isalnum() else "_" for c in factory)


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
            "parts", parts["chunks"], lambda at: _build_chunks(at, documents, chunker, token_encoder)
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
                *(getattr(document, name) for name in Document.__slots__ if name not in ("metadata", "acl")),
                [document.acl.public, document.acl.groups],
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
        return _read_chunks(self._folder)


def _build_chunks(
    at: Path, documents: Sequence[Document], chunker: Chunker, token_encoder: Encoder | None
) -> Mapping[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if token_encoder is None and chunker.version != "whole-1":
        raise RagLabError(f"snapshot.chunker: {chunker.version} counts tokens and needs snapshot.encoder")
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    classes: list[RightsClass] = []
    for document in sorted(documents, key=lambda d: d.document_id):
        pieces = chunker.cut(document, token_encoder.token_spans if token_encoder else _no_tokens)
        rights = RightsClass(document.tenant, document.acl, document.valid_from, document.valid_until)
        for number, piece in enumerate(sorted(pieces, key=lambda p: p.span)):
            text = document.text[slice(*piece.span)]
            values = (
                document.tenant,
                document.document_id,
                f"{document.document_id}#{number}",
                text,
                document.title,
                list(piece.section_path),
                document.language,
                document.source_uri,
                document.source_version,
                piece.span[0],
                piece.span[1],
                sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32],
                document.source_trust,
                document.acl_version,
            )
            for name, value in zip(COLUMNS, values, strict=True):
                rows[name].append(value)
            classes.append(rights)
    distinct, codes = classify(classes)
    types = {"section_path": pa.list_(pa.string()), "start": pa.int32(), "end": pa.int32()}
    columns = {name: pa.array(values, type=types.get(name, pa.string())) for name, values in rows.items()}
    pq.write_table(pa.table(columns | {"rights": pa.array(codes, type=pa.int32())}), at / "chunks.parquet")
    (at / "rights.json").write_text(
        json.dumps([_plain_class(c) for c in distinct], ensure_ascii=False), encoding="utf-8"
    )
    return {"chunks": len(classes), "classes": len(distinct)}


def _no_tokens(text: str) -> list[tuple[int, int]]:
    raise RagLabError(f"snapshot.chunker: no tokenizer to cut a text of {len(text)} characters; set snapshot.encoder")


def _plain_class(rights: RightsClass) -> dict[str, Any]:
    return {
        "tenant": rights.tenant,
        "public": rights.acl.public,
        "groups": list(rights.acl.groups),
        "valid_from": rights.valid_from.isoformat() if rights.valid_from else None,
        "valid_until": rights.valid_until.isoformat() if rights.valid_until else None,
    }


def _read_class(data: Mapping[str, Any]) -> RightsClass:
    begin, end = (datetime.fromisoformat(data[k]) if data[k] else None for k in ("valid_from", "valid_until"))
    return RightsClass(data["tenant"], Acl(bool(data["public"]), tuple(data["groups"])), begin, end)


def _read_chunks(folder: Path) -> ChunkTable:
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "chunks.parquet")
    columns: dict[str, Any] = {
        name: table[name].to_numpy() if name in ("start", "end") else table[name].to_pylist() for name in COLUMNS
    }
    classes = [_read_class(data) for data in json.loads((folder / "rights.json").read_text(encoding="utf-8"))]
    return ChunkTable(**columns, rights=table["rights"].to_numpy(), classes=classes)


def _build_lucene(at: Path, chunks: ChunkTable, analyzer: str) -> None:
    from rag_lab.retrieval.bm25 import build

    texts = [chunks.indexed_text(row) for row in range(len(chunks))]
    build(at, texts, chunks.rights.tolist(), analyzer, chunks.chunk_id)


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
