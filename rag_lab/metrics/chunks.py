"""What a chunker made of the documents: how many chunks, how long, whether gold spans stayed whole, and rights.

Gold spans are the pieces of evidence of the scored questions that have offsets; a span stays whole when one chunk holds
all of it but white space. `gold_whole` looks at what is searched, `gold_whole_shown` at what a context shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Document, IntArray, Question
from rag_lab.corpus.chunk_table import ChunkTable
from rag_lab.corpus.chunking import crosses, rights_parts
from rag_lab.metrics.evidence import FULL, Evidence, Ints
from rag_lab.metrics.scores import Scores
from rag_lab.metrics.summary import Settings, summarise

NO_BOUNDARY = "no document has sections with rights of their own"
NO_SPANS = "no gold evidence has offsets"
PERCENTILE = 95


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure about the chunks of a snapshot; None where there is nothing to measure, and `note` says why.

    `low` to `high` is the bootstrap interval over questions, and `n` what the figure is over.
    """

    name: str
    unit: str
    value: float | None
    n: int
    low: float | None = None
    high: float | None = None
    note: str = ""


def chunk_measures(
    chunks: ChunkTable,
    documents: Sequence[Document],
    questions: Sequence[Question],
    evidence: Evidence,
    tokens: IntArray,
    settings: Settings,
) -> list[Measure]:
    """Everything about the chunks of one snapshot; ``tokens [rows]`` are those of each chunk's own text."""
    own = np.column_stack([chunks.start, chunks.end]).astype(np.int64)
    shown = np.column_stack([chunks.shown_start, chunks.shown_end]).astype(np.int64)
    characters = (shown[:, 1] - shown[:, 0]).astype(np.float64)
    return [
        Measure("chunks", "chunks", float(len(chunks)), len(documents)),
        Measure("tokens_mean", "tokens", _mean(tokens), len(chunks)),
        Measure("tokens_p95", "tokens", float(np.percentile(tokens, PERCENTILE)) if len(tokens) else None, len(chunks)),
        Measure("shown_characters_mean", "characters", _mean(characters), len(chunks)),
        _whole("gold_whole", evidence, chunks.document_id, own, questions, settings),
        _whole("gold_whole_shown", evidence, chunks.document_id, shown, questions, settings),
        *_crossings(chunks, documents, shown),
    ]


def whole_pieces(evidence: Evidence, chunk_documents: Sequence[str], spans: Ints) -> npt.NDArray[np.bool_]:
    """Which gold pieces lie whole in one span, ``[pieces]``; ``spans [rows, 2]`` are of `chunk_documents`."""
    pairs = evidence.pairs(chunk_documents, spans)
    start, end = evidence.start[pairs.piece], evidence.end[pairs.piece]
    inside = np.minimum(end, pairs.end) - np.maximum(start, pairs.start)
    found = np.zeros(len(evidence.question), dtype=bool)
    found[pairs.piece[inside >= FULL * (end - start)]] = True
    return found & ~evidence.whole


def _whole(
    name: str,
    evidence: Evidence,
    chunk_documents: Sequence[str],
    spans: Ints,
    questions: Sequence[Question],
    settings: Settings,
) -> Measure:
    has_span = ~evidence.whole
    if not has_span.any():
        return Measure(name, "share of gold spans", None, 0, note=NO_SPANS)
    size = evidence.size
    above = np.bincount(evidence.question, weights=whole_pieces(evidence, chunk_documents, spans), minlength=size)
    below = np.bincount(evidence.question, weights=has_span, minlength=size).astype(np.float64)
    scores = Scores(name, above.astype(np.float64), below, below > 0, np.zeros(size, dtype=bool))
    (found,) = summarise([scores], [question.query_id for question in questions], None, settings)
    return Measure(name, "share of gold spans", found.value, int(below.sum()), found.low, found.high, found.note)


def _crossings(chunks: ChunkTable, documents: Sequence[Document], shown: Ints) -> list[Measure]:
    """Chunks that show text of more than one rights class, in number and share."""
    parts = {d.document_id: (d, rights_parts(d)) for d in documents if d.sections}
    if not any(len(spans) > 1 for _, spans in parts.values()):
        return [
            Measure("boundary_chunks", "chunks", None, 0, note=NO_BOUNDARY),
            Measure("boundary_share", "share of chunks", None, 0, note=NO_BOUNDARY),
        ]
    count = sum(_crosses(parts, name, (a, b)) for name, (a, b) in zip(chunks.document_id, shown.tolist(), strict=True))
    share = count / len(chunks) if len(chunks) else 0.0
    return [
        Measure("boundary_chunks", "chunks", float(count), len(chunks)),
        Measure("boundary_share", "share of chunks", share, len(chunks)),
    ]


def _crosses(parts: Mapping[str, tuple[Document, Any]], document_id: str, span: tuple[int, int]) -> bool:
    return document_id in parts and crosses(*parts[document_id], span)


def _mean(values: npt.NDArray[Any]) -> float | None:
    return float(values.mean()) if len(values) else None
