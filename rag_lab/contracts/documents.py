"""Documents, their structure, and the chunks that they are cut into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from rag_lab.contracts.arrays import Span
from rag_lab.contracts.rights import Acl

GLOBAL_TENANT = "global"
"""Documents of this tenant may be read from every tenant, as far as their ACL admits the caller."""


class BlockKind(StrEnum):
    """What a block of a document is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    LIST = "list"
    TABLE = "table"
    CODE = "code"
    QUOTE = "quote"


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a document's text that belongs together. `level` is that of a heading (1 to 6), else 0.

    `section_path` holds the headings above the block (for a heading: with itself). `page` counts from 1, 0 where the
    source has no pages. `lead` is the span of a table's header row, which later parts of a cut table need.
    """

    kind: BlockKind
    span: Span
    section_path: tuple[str, ...] = ()
    level: int = 0
    page: int = 0
    lead: Span | None = None


@dataclass(frozen=True, slots=True)
class SectionRights:
    """Rights of a part of a document, on top of the document's own: a reader needs both."""

    span: Span
    acl: Acl
    valid_from: datetime | None = None
    valid_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A source document: its text, its structure, who may read it, and what decides its standing.

    Three dates are kept apart: `published_at` (the author's), the validity interval, and `ingested_at` (ours).
    `blocks` are ascending and disjoint; a document without any is read as Markdown by chunkers that need structure.
    `status` (active, retired), `authority` (policy, article) and `source_trust` (primary, copy) decide which of two
    conflicting sources prevails.
    """

    document_id: str
    text: str
    title: str = ""
    tenant: str = "default"
    acl: Acl = field(default_factory=Acl)
    acl_version: str = "1"
    language: str = ""
    source_uri: str = ""
    source_version: str = "1"
    source_trust: str = "primary"
    published_at: datetime | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    ingested_at: datetime | None = None
    status: str = "active"
    authority: str = "policy"
    blocks: tuple[Block, ...] = ()
    sections: tuple[SectionRights, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The unit that is indexed, retrieved and cited. ``document.text[slice(*source_span)] == text``.

    `acls` must all admit a reader: the document's, and those of the sections that the chunk is made from.
    `embedded_text` is what the indexes see, `shown_span` the part of the document that a context shows for the chunk:
    the chunk itself, or its parent.
    """

    tenant: str
    document_id: str
    chunk_id: str
    text: str
    title: str
    section_path: tuple[str, ...]
    language: str
    source_uri: str
    source_version: str
    source_span: Span
    content_hash: str
    source_trust: str
    acls: tuple[Acl, ...]
    acl_version: str
    valid_from: datetime | None
    valid_until: datetime | None
    published_at: datetime | None
    status: str
    authority: str
    page: int
    embedded_text: str
    shown_span: Span
    parser_version: str
    chunker_version: str
    embedding_model: str
    index_version: str
