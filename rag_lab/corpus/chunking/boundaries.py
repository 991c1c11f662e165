"""Parts of a document that differ in who may read them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from rag_lab.contracts import BlockKind, Document, Span
from rag_lab.corpus.markdown import markdown_blocks
from rag_lab.corpus.rights import RightsClass


def rights_parts(document: Document) -> list[Span]:
    """Spans that cover the text, each with one rights class and another than its neighbours; one without sections.

    Rights change where a section with rights begins or ends, and at the headings that inherit them.
    """
    end = len(document.text)
    if not document.sections:
        return [(0, end)]
    headings = (b.span[0] for b in document.blocks or markdown_blocks(document.text) if b.kind is BlockKind.HEADING)
    edges = {edge for edge in (*(e for s in document.sections for e in s.span), *headings) if 0 < edge < end}
    parts: list[Span] = []
    before = None
    for span in pairwise(sorted({0, end, *edges})):
        rights = RightsClass.of(document, [span])
        if rights == before:
            parts[-1] = (parts[-1][0], span[1])
        else:
            parts.append(span)
        before = rights
    return parts


def crosses(document: Document, parts: Iterable[Span], span: Span) -> bool:
    """Whether a span holds text, not only white space, of more than one of the document's `parts`."""
    held = 0
    for start, end in parts:
        low, high = max(start, span[0]), min(end, span[1])
        held += low < high and not document.text[low:high].isspace()
    return held > 1
