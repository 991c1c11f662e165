"""What a publication warns of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rag_lab.corpus.catalogue import VersionRow
from rag_lab.corpus.ingestion import Ingested
from rag_lab.corpus.settings import encoder_of, late_encoder_of

if TYPE_CHECKING:
    from rag_lab.corpus.corpus import Corpus


def warnings_of(corpus: Corpus, found: Ingested) -> tuple[str, ...]:
    """What the present settings are not made for, and what is published and yet denied."""
    settings = corpus.catalogue.settings
    languages = {document.language for document in found.documents} - {""}
    warnings = []
    if languages and (strange := languages - set(encoder_of(settings["encoder"]).languages)):
        warnings.append(
            f"encoder {settings['encoder']} does not know {', '.join(sorted(strange))}: dense scores say little "
            "there; migrate to multilingual-e5"
        )
    late = late_encoder_of(settings.get("colbert", "none")) if languages else None
    if late and (strange := languages - set(late.languages)):
        warnings.append(
            f"colbert encoder {late.name} does not know {', '.join(sorted(strange))}: its scores say little there; "
            "make a new corpus with the setting 'colbert: multilingual-e5'"
        )
    if settings["analyzer"] in ("en", "zh") and languages - {settings["analyzer"]}:
        others = ", ".join(sorted(languages - {settings["analyzer"]}))
        warnings.append(f"analyzer {settings['analyzer']} is not made for {others}: BM25 finds less there")
    denied = corpus.denials.of(corpus.name).held({v.document_id: v.digest for v in found.versions})
    if denied:
        what = f"1 published document is denied ({min(denied)})"
        if len(denied) > 1:
            what = f"{len(denied)} published documents are denied ({min(denied)} is one)"
        warnings.append(f"{what}: unread until lifted")
    warnings += _copies(corpus, found.versions, denied)
    return tuple(warnings)


def _copies(corpus: Corpus, versions: Sequence[VersionRow], denied: Collection[str]) -> list[str]:
    """Warnings of new documents with the content of a denied one: a denial goes by id, so a copy is not denied."""
    barred = {row.content: row.document_id for row in corpus.catalogue.sources(corpus.denials.denied(corpus.name))}
    found = [v for v in versions if v.content in barred and v.document_id not in denied]
    return [
        f"{v.document_id} has the content of {barred[v.content]}, which is denied, and is not: revoke it as well"
        for v in found
        if barred[v.content] != v.document_id
    ]
