"""Chunks as a table, with the rights classes that its rows point to, and the files that keep both."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

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
KEYS = ("position", "text_key_1", "text_key_2", "fingerprint")
CHUNKS, RIGHTS = "chunks.parquet", "rights.json"

TextKeys: TypeAlias = npt.NDArray[np.int64]
Part: TypeAlias = tuple[Path, Collection[str]]
"""A folder with chunks, and the ids of those of its documents that are left out."""


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """Chunks by column, in the order of rows; every column has one value a row.

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

    def without(self, document_ids: Collection[str]) -> ChunkTable:
        """The chunks of the other documents."""
        staying = [row for row, name in enumerate(self.document_id) if name not in document_ids]
        if len(staying) == len(self):
            return self
        columns = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "classes"}
        taken: dict[str, Any] = {
            name: column[staying] if isinstance(column, np.ndarray) else [column[row] for row in staying]
            for name, column in columns.items()
        }
        return ChunkTable(**taken, classes=self.classes)

    def indexed_text(self, row: int) -> str:
        """What the indexes see: title, heading path, generated prefix, table header and text."""
        return _embedded(self.title[row], self.section_path[row], self.prefix[row], self.lead[row], self.text[row])


@dataclass(frozen=True, eq=False)
class ChunkKeys:
    """What tells the chunks of a table apart, without their texts; one value a row.

    position: number of the chunk in its document, from 0; text_key: 128 bits that depend on the embedded text alone,
    ``[n, 2]``; fingerprint: 64 bits, other for every (document, position, rights class, embedded text);
    part, place: which of the parts it was read from, and its row there.
    """

    document_id: list[str]
    position: IntArray
    text_key: TextKeys
    fingerprint: npt.NDArray[np.int64]
    part: IntArray
    place: IntArray

    def __len__(self) -> int:
        return len(self.document_id)


def build_chunks(
    at: Path, documents: Sequence[Document], chunker: Chunker, token_encoder: Encoder | None
) -> Mapping[str, Any]:
    """Cut the documents and write ``chunks.parquet`` and ``rights.json`` into the folder `at`; return their counts."""
    import pyarrow as pa

    rows: dict[str, list[Any]] = {name: [] for name in (*COLUMNS, *KEYS)}
    classes: list[RightsClass] = []
    ordered = sorted(documents, key=lambda d: d.document_id)
    for document, pieces in zip(ordered, chunker.cut(ordered, token_encoder), strict=True):
        for number, piece in enumerate(sorted(pieces, key=lambda p: p.span)):
            sources = (piece.span, piece.shown or piece.span, piece.lead or piece.span)
            classes.append(RightsClass.of(document, sources))
            row = _row(document, number, piece)
            for name, value in (row | _row_keys(row, number, classes[-1])).items():
                rows[name].append(value)
    distinct, codes = classify(classes)
    types = {"section_path": pa.list_(pa.string()), "published_at": pa.timestamp("us", tz="UTC")}
    types |= dict.fromkeys((*NUMBERS, "position"), pa.int32()) | dict.fromkeys(KEYS[1:], pa.int64())
    columns = {name: pa.array(values, type=types.get(name, pa.string())) for name, values in rows.items()}
    return _write(at, pa.table(columns | {"rights": pa.array(codes, type=pa.int32())}), distinct)


def merge_chunks(at: Path, parts: Sequence[Part]) -> Mapping[str, Any]:
    """Write the chunks of `parts`, without the documents that are left out, as `build_chunks` would."""
    return _write(at, *_merged(parts, [*COLUMNS, *KEYS, "rights"]))


def _write(at: Path, table: Any, classes: Sequence[RightsClass]) -> Mapping[str, Any]:
    import pyarrow.parquet as pq

    pq.write_table(table, at / CHUNKS)
    (at / RIGHTS).write_text(json.dumps([_plain_class(c) for c in classes], ensure_ascii=False), encoding="utf-8")
    return {"chunks": len(table), "classes": len(classes)}


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
        "prefix": piece.prefix,
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


def _row_keys(row: Mapping[str, Any], number: int, rights: RightsClass) -> dict[str, int]:
    """The values of `KEYS` for a row of `COLUMNS`."""
    text = _embedded(row["title"], row["section_path"], row["prefix"], row["lead"], row["text"])
    text_key = sha256(text.encode("utf-8", "surrogatepass")).digest()
    whole = sha256(f"{rights.key} {number} {row['document_id']} ".encode() + text_key).digest()
    values = np.frombuffer(text_key[:16] + whole[:8], dtype="<i8").tolist()
    return dict(zip(KEYS, (number, *values), strict=True))


def _embedded(title: str, section_path: Sequence[str], prefix: str, lead: str, text: str) -> str:
    return " ".join(part for part in (title, *section_path, prefix, lead, text) if part)


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


def read_chunks(parts: Sequence[Part]) -> ChunkTable:
    """The chunks of all parts in the order of rows: by document id, then by position."""
    table, classes = _merged(parts, [*COLUMNS, "rights"])
    columns: dict[str, Any] = {
        name: table[name].to_numpy() if name in NUMBERS else table[name].to_pylist() for name in COLUMNS
    }
    return ChunkTable(**columns, rights=table["rights"].to_numpy(), classes=classes)


def read_keys(parts: Sequence[Part]) -> ChunkKeys:
    """The keys of the chunks that `read_chunks` would read."""
    table = _rows(parts, KEYS)
    return ChunkKeys(
        table["document_id"].to_pylist(),
        table["position"].to_numpy(),
        _text_keys(table),
        table["fingerprint"].to_numpy(),
        table["part"].to_numpy(),
        table["place"].to_numpy(),
    )


def read_text_keys(folder: Path) -> TextKeys:
    """The text key of every chunk in a folder, ``[n, 2]``."""
    return _text_keys(read_table(folder / CHUNKS, KEYS[1:3]))


def read_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Columns of a Parquet file of a segment as an Arrow table."""
    import pyarrow.parquet as pq

    try:
        return pq.read_table(path, columns=None if columns is None else list(columns))
    except OSError as error:
        raise gone(path) from error


def gone(path: Path) -> RagLabError:
    """What a reader is told when a part of its snapshot is not there any more."""
    return RagLabError(f"{path}: cannot be read; the snapshot was retired or purged, open the newest one")


def _text_keys(table: Any) -> TextKeys:
    return np.stack([table[name].to_numpy() for name in KEYS[1:3]], axis=1)


def _rows(parts: Sequence[Part], columns: Sequence[str]) -> Any:
    """An Arrow table in the order of rows, with the columns `part` and `place` that say where each row lies.

    A document lies whole in one part, its chunks in order, so a stable sort by id is all it takes. Arrow compares UTF-8
    bytes, which is the order of code points.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    tables = []
    for number, (folder, without) in enumerate(parts):
        table = read_table(folder / CHUNKS, list(dict.fromkeys(["document_id", *columns])))
        table = table.append_column("part", pa.array(np.full(len(table), number, dtype=np.int32)))
        table = table.append_column("place", pa.array(np.arange(len(table), dtype=np.int32)))
        if without:
            ids = pa.array(sorted(without), type=pa.string())
            table = table.filter(pc.invert(pc.is_in(table["document_id"], value_set=ids)))
        tables.append(table)
    joined = pa.concat_tables(tables)
    if len(tables) == 1:
        return joined
    return joined.take(pc.sort_indices(joined, sort_keys=[("document_id", "ascending")]))


def _merged(parts: Sequence[Part], columns: Sequence[str]) -> tuple[Any, list[RightsClass]]:
    """The columns in the order of rows, and the rights classes that occur, which `rights` points to."""
    import pyarrow as pa

    table = _rows(parts, columns)
    lists = [[_read_class(data) for data in json.loads((at / RIGHTS).read_text("utf-8"))] for at, _ in parts]
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int32)
    listed = table["rights"].to_numpy() + starts[table["part"].to_numpy()]
    used, codes = np.unique(listed, return_inverse=True)
    flat = [rights for rights_of_part in lists for rights in rights_of_part]
    classes, renamed = classify([flat[i] for i in used.tolist()])
    rights = pa.array(renamed[codes].astype(np.int32), type=pa.int32())
    return table.select(columns).set_column(columns.index("rights"), "rights", rights), classes
