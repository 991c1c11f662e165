"""A snapshot: an immutable, content-addressed folder with the chunks of a corpus, their rights, and its indexes.

Rows are ordered by (document id, offset): a row is both Lucene's document number and FAISS's id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import Chunk, RagLabError, Request
from rag_lab.corpus.chunk_table import ChunkTable, read_chunks
from rag_lab.corpus.policies import PolicyBook
from rag_lab.corpus.rights import Scopes, scopes_of
from rag_lab.store import manifest

if TYPE_CHECKING:
    from rag_lab.retrieval.bm25 import Bm25Index
    from rag_lab.retrieval.dense import DenseIndex


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
        return read_chunks(self.folder / "chunks")

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
        return scopes_of(requests, self.chunks.classes, self.chunks.rights, self.chunks.document_id, PolicyBook())

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


def index_name(factory: str) -> str:
    """Folder name of a FAISS index: its factory string with path-safe characters."""
    return "faiss-" + "".join(c if c.isalnum() else "_" for c in factory)
