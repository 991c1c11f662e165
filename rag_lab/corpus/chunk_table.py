"""The chunks of a snapshot as a table, with the rights classes that its rows point to, and the files that keep both."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.contracts import Acl, Document, Encoder, IntArray, RagLabError
from rag_lab.corpus.chunking import Chunker, Piece
from rag_lab.corpus.rights import RightsClass, classify

COLUMNS = (
    "tenant",
    "document_id",
    "chunk_id",
    "text",
    "title",
    "section_path",
    "prefix",
    "lead",
    "language",
    "source_uri",
    "source_version",
    "start",
    "end",
    "shown",
    "shown_start",
    "shown_end",
    "page",
    "content_hash",
    "source_trust",
    "status",
    "authority",
    "published_at",
    "acl_version",
)
NUMBERS = ("start", "end", "shown_start", "shown_end", "page")


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """The chunks of a snapshot by column; every column has one value a row.

    `text` is the document's from `start` to `end`; `shown` its text from `shown_start` to `shown_end`, which contains
    the chunk; `lead` the header row of the table that the chunk continues; `prefix` a generated context. `content_hash`
    is of `shown`.
    """

    tenant: list[str]
    document_id: list[str]
    chunk_id: list[str]
    text: list[str]
    title: list[str]
    section_path: list[list[str]]
    prefix: list[str]
    lead: list[str]
    language: list[str]
    source_uri: list[str]
    source_version: list[str]
    start: IntArray
    end: IntArray
    shown: list[str]
    shown_start: IntArray
    shown_end: IntArray
    page: IntArray
    content_hash: list[str]
    source_trust: list[str]
    status: list[str]
    authority: list[str]
    published_at: list[datetime | None]
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
        """What the indexes see: title, heading path, generated prefix, table header and text."""
        above = (self.title[row], *self.section_path[row], self.prefix[row], self.lead[row])
        return " ".join(part for part in (*above, self.text[row]) if part)


def build_chunks(
    at: Path, documents: Sequence[Document], chunker: Chunker, token_encoder: Encoder | None
) -> Mapping[str, Any]:
    """Cut the documents and write ``chunks.parquet`` and ``rights.json`` into the folder `at`; return their counts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if token_encoder is None and chunker.version != "whole-1":
        raise RagLabError(f"snapshot.chunker: {chunker.version} counts tokens and needs snapshot.encoder")
    rows: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    classes: list[RightsClass] = []
    for document in sorted(documents, key=lambda d: d.document_id):
        pieces = chunker.cut(document, token_encoder.token_spans if token_encoder else _no_tokens)
        for number, piece in enumerate(sorted(pieces, key=lambda p: p.span)):
            for name, value in _row(document, number, piece).items():
                rows[name].append(value)
            sources = (piece.span, piece.shown or piece.span, piece.lead or piece.span)
            classes.append(RightsClass.of(document, sources))
    distinct, codes = classify(classes)
    types = {"section_path": pa.list_(pa.string()), "published_at": pa.timestamp("us", tz="UTC")}
    types |= dict.fromkeys(NUMBERS, pa.int32())
    columns = {name: pa.array(values, type=types.get(name, pa.string())) for name, values in rows.items()}
    pq.write_table(pa.table(columns | {"rights": pa.array(codes, type=pa.int32())}), at / "chunks.parquet")
    (at / "rights.json").write_text(
        json.dumps([_plain_class(c) for c in distinct], ensure_ascii=False), encoding="utf-8"
    )
    return {"chunks": len(classes), "classes": len(distinct)}


def _row(document: Document, number: int, piece: Piece) -> dict[str, Any]:
    """The values of `COLUMNS` for one piece."""
    shown_start, shown_end = piece.shown or piece.span
    shown = document.text[shown_start:shown_end]
    return {
        "tenant": document.tenant,
        "document_id": document.document_id,
        "chunk_id": f"{document.document_id}#{number}",
        "text": document.text[slice(*piece.span)],
        "title": document.title,
        "section_path": list(piece.section_path),
        "prefix": "",
        "lead": document.text[slice(*piece.lead)] if piece.lead else "",
        "language": document.language,
        "source_uri": document.source_uri,
        "source_version": document.source_version,
        "start": piece.span[0],
        "end": piece.span[1],
        "shown": shown,
        "shown_start": shown_start,
        "shown_end": shown_end,
        "page": piece.page,
        "content_hash": sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        "source_trust": document.source_trust,
        "status": document.status,
        "authority": document.authority,
        "published_at": document.published_at,
        "acl_version": document.acl_version,
    }


def _plain_class(rights: RightsClass) -> dict[str, Any]:
    return {
        "tenant": rights.tenant,
        "acls": [{"public": a.public, "groups": list(a.groups), "policy": a.policy} for a in rights.acls],
        "valid_from": rights.valid_from.isoformat() if rights.valid_from else None,
        "valid_until": rights.valid_until.isoformat() if rights.valid_until else None,
    }


def _read_class(data: Mapping[str, Any]) -> RightsClass:
    begin, end = (datetime.fromisoformat(data[k]) if data[k] else None for k in ("valid_from", "valid_until"))
    acls = tuple(Acl(bool(acl["public"]), tuple(acl["groups"]), acl["policy"]) for acl in data["acls"])
    return RightsClass(data["tenant"], acls, begin, end)


def read_chunks(folder: Path) -> ChunkTable:
    """What `build_chunks` wrote."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "chunks.parquet")
    columns: dict[str, Any] = {
        name: table[name].to_numpy() if name in NUMBERS else table[name].to_pylist() for name in COLUMNS
    }
    classes = [_read_class(data) for data in json.loads((folder / "rights.json").read_text(encoding="utf-8"))]
    return ChunkTable(**columns, rights=table["rights"].to_numpy(), classes=classes)


def _no_tokens(text: str) -> list[tuple[int, int]]:
    raise RagLabError(f"snapshot.chunker: no tokenizer to cut a text of {len(text)} characters; set snapshot.encoder")
