"""Deleted documents, taken away by a caller or with their source, are denied in every content that they had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rag_lab.corpus.catalogue import Event, instant

if TYPE_CHECKING:
    from rag_lab.corpus.corpus import Corpus

SOURCE_GONE = "its source is gone"
"""The reason of a deletion that ends by itself when the same content comes back."""


def deny_deleted(corpus: Corpus, document_ids: Sequence[str], reason: str, deleted_by: str) -> None:
    """Deny documents in every content they ever had here, and note that they are deleted."""
    if not document_ids:
        return
    catalogue = corpus.catalogue
    started = instant()
    contents = catalogue.digests(document_ids)
    while contents:
        corpus.denials.delete(corpus.name, {name: found[0] for name, found in contents.items()}, reason, by=user())
        contents = {name: found[1:] for name, found in contents.items() if len(found) > 1}
    ended = instant()
    catalogue.record(Event("deleted", document_id, started, ended) for document_id in document_ids)
    catalogue.set_status(document_ids, "deleted", deleted_by)


def user() -> str:
    """Who is at work: the name under which denials are written, "" where the system has none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
