"""Cut where the meaning of the text turns.

Sentences are embedded once each, all documents in one batch. Between sentence i and i + 1 stands the similarity

    s_i = cos( mean of v over i - w + 1 .. i ,  mean of v over i + 1 .. i + w ),   w = `window`

of what comes before and after, which is Hearst's comparison of neighbouring blocks (TextTiling: Segmenting text into
multi-paragraph subtopic passages, Computational Linguistics 23, 1997) with sentence vectors in place of word counts.
The text is cut where s_i lies below the `percentile`-th percentile of the document's own similarities (Kamradt, 5
levels of text splitting, 2023, who cuts beyond the 95th percentile of distance: `percentile` 5), or below `threshold`
where that is given. Then lengths are put right: a part of more than `size` tokens is cut at its lowest similarity,
again and again, where that can be without a part of fewer than `least`; a part of fewer than `least` tokens joins the
more similar neighbour with which it fits. A sentence that is longer than `size` is cut at the coarsest separator
within reach.

Similarities are rounded to four digits, so that the last bits of a vector decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field
from pydantic.dataclasses import dataclass

from rag_lab.contracts import BoolArray, Document, Encoder, FloatArray, RagLabError, Span
from rag_lab.corpus.chunking.breaks import sentences
from rag_lab.corpus.chunking.piece import SETTINGS, Chunker, Piece, Tokens, needed
from rag_lab.corpus.chunking.recursive import recursive
from rag_lab.text import trim

Ints = npt.NDArray[np.int64]

_DIGITS = 4


@dataclass(frozen=True, config=SETTINGS)
class Semantic(Chunker):
    """Runs of similar sentences, of `least` (a fifth of `size` if not given) to `size` tokens where that can be."""

    name: ClassVar[str] = "semantic"
    rule: ClassVar[int] = 2
    size: int = Field(200, ge=8)
    least: int | None = Field(None, ge=1)
    window: int = Field(2, ge=1)
    percentile: float = Field(5.0, ge=0, le=100)
    threshold: float | None = Field(None, ge=-1, le=1)

    def __post_init__(self) -> None:
        if self.fewest > self.size // 2:
            raise RagLabError(
                f"snapshot.chunker.least: at least {self.least} and at most {self.size} tokens leave no choice where "
                "to cut; make least half of size or smaller"
            )

    @property
    def fewest(self) -> int:
        """Tokens of the smallest part that is not joined to another."""
        return self.size // 5 if self.least is None else self.least

    def cut(self, documents: Sequence[Document], encoder: Encoder | None) -> list[list[Piece]]:
        """Embed the sentences of all documents, then cut each document."""
        known = needed(self, encoder)
        parts = []
        for document in documents:
            tokens = Tokens(document.text, known.token_spans)
            parts.append((tokens, list(self._sentences(tokens))))
        texts = [tokens.text[slice(*span)] for tokens, spans in parts for span in spans]
        vectors = known.encode_passages(texts) if texts else np.zeros((0, known.dimension), dtype=np.float32)
        pieces, first = [], 0
        for tokens, spans in parts:
            own = vectors[first : first + len(spans)].astype(np.float64)
            first += len(spans)
            pieces.append([Piece(span) for span in self._runs(tokens, spans, own)])
        return pieces

    def _sentences(self, tokens: Tokens) -> list[Span]:
        """Sentences without outer white space, over-long ones in parts."""
        found: list[Span] = []
        for sentence in sentences(tokens.text, (0, len(tokens.text))):
            span = trim(tokens.text, sentence)
            if span:
                found.extend([span] if tokens.count(span) <= self.size else recursive(tokens, span, self.size))
        return found

    def _runs(self, tokens: Tokens, spans: Sequence[Span], vectors: FloatArray) -> list[Span]:
        if not spans:
            return []
        similarity = neighbour_similarity(vectors, self.window)
        edges = [0, *(np.flatnonzero(self._turns(similarity)) + 1).tolist(), len(spans)]
        places = np.array([tokens.within(span) for span in spans])
        edges = self._not_too_long(edges, similarity, places)
        edges = self._not_too_short(edges, similarity, places)
        return [(spans[a][0], spans[b - 1][1]) for a, b in pairwise(edges)]

    def _turns(self, similarity: FloatArray) -> BoolArray:
        if not len(similarity):
            return np.zeros(0, dtype=bool)
        limit = self.threshold if self.threshold is not None else np.percentile(similarity, self.percentile)
        return np.asarray(similarity < limit)

    def _not_too_long(self, edges: Sequence[int], similarity: FloatArray, places: Ints) -> list[int]:
        """Cut each part of more than `size` tokens at its lowest similarity, the first of equal ones."""
        found = [edges[0]]
        open_parts = [(a, b) for a, b in pairwise(edges)][::-1]
        while open_parts:
            a, b = open_parts.pop()
            if _length(places, a, b) <= self.size:
                found.append(b)
                continue
            cuts = np.arange(a + 1, b)
            roomy = np.minimum(_length(places, a, cuts), _length(places, cuts, b)) >= self.fewest
            cuts = cuts[roomy] if roomy.any() else cuts
            cut = int(cuts[np.argmin(similarity[cuts - 1])])
            open_parts += [(cut, b), (a, cut)]
        return found

    def _not_too_short(self, edges: Sequence[int], similarity: FloatArray, places: Ints) -> list[int]:
        """Join each part of fewer than `least` tokens, in order, to the more similar neighbour with which it fits."""
        kept = list(edges)
        i = 0
        while i < len(kept) - 1:
            a, b = kept[i], kept[i + 1]
            joins = [
                (float(similarity[edge - 1]), -place, place)
                for place, edge, low, high in (
                    (i, a, kept[max(i - 1, 0)], b),
                    (i + 1, b, a, kept[min(i + 2, len(kept) - 1)]),
                )
                if 0 < place < len(kept) - 1 and _length(places, low, high) <= self.size
            ]
            if _length(places, a, b) >= self.fewest or not joins:
                i += 1
                continue
            place = max(joins)[2]
            del kept[place]
            i = place - 1
        return kept


def _length(places: Ints, first: int | Ints, end: int | Ints) -> Ints:
    """Tokens from one sentence up to another, from the first and last token of each sentence, ``[n, 2]``."""
    length: Ints = places[np.asarray(end) - 1, 1] - places[first, 0]
    return length


def neighbour_similarity(vectors: FloatArray, window: int) -> FloatArray:
    """Cosine of the mean vectors of up to `window` sentences before and after each gap: ``[n, d]`` to ``[n - 1]``."""
    total = np.vstack([np.zeros((1, vectors.shape[1])), np.cumsum(vectors, axis=0)])
    gap = np.arange(1, len(vectors))
    left = total[gap] - total[np.maximum(gap - window, 0)]
    right = total[np.minimum(gap + window, len(vectors))] - total[gap]
    length = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    dot = np.einsum("ij,ij->i", left, right)
    similarity: FloatArray = np.divide(dot, length, out=np.zeros(len(gap)), where=length > 0)
    return similarity.round(_DIGITS)
