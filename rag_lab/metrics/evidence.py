"""Gold evidence against spans of text: which pieces are covered, and how far. Array code for all questions at once.

Relevance goes by overlap of spans, so that the size of chunks does not decide: a gold span is there when the passages
of its document together cover it all, a gold document when any passage of it is there. Chunkers drop white space
between chunks; where the document's text is known, spans are measured in characters that are not white space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, Context, FloatArray, GoldSpan, Question, RagLabError, Source

Ints = npt.NDArray[np.int64]
FULL = 1 - 1e-12
_WHITE_SPACE = np.array([point for point in range(0x3001) if chr(point).isspace()], dtype=np.uint32)


@dataclass(frozen=True, eq=False)
class Passages:
    """Spans of text that questions got, ``[k]``: position of the question, document code, start, end."""

    question: Ints
    document: Ints
    start: Ints
    end: Ints


@dataclass(frozen=True, eq=False)
class Evidence:
    """The gold pieces of all questions that can be answered.

    has: questions with gold evidence ``[n]``; every: those of them that need every piece ``[n]``; the other arrays are
    ``[pieces]``: question, document code, start, end, and whether the whole document is the piece. `codes` numbers the
    gold documents; any other document has code -1.
    """

    has: BoolArray
    every: BoolArray
    question: Ints
    document: Ints
    start: Ints
    end: Ints
    whole: BoolArray
    codes: Mapping[str, int]
    solid: Mapping[int, Ints]

    @classmethod
    def of(cls, questions: Sequence[Question], texts: Mapping[str, str] | None = None) -> Evidence:
        """Collect the gold of `questions`; `texts` may hold the text of gold documents, by id.

        Raises RagLabError for a gold span that is empty, reversed, or outside of its text.
        """
        pieces = [
            (position, gold)
            for position, question in enumerate(questions)
            if question.answerable is not False
            for gold in dict.fromkeys(question.gold)
        ]
        codes: dict[str, int] = {}
        for position, gold in pieces:
            _check_span(questions[position].query_id, gold, texts or {})
            codes.setdefault(gold.document_id, len(codes))
        solid = {codes[name]: _solid_offsets(text) for name, text in (texts or {}).items() if name in codes}
        rows = [(i, codes[gold.document_id], *(gold.span or (0, 0)), gold.span is None) for i, gold in pieces]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
        has = np.zeros(len(questions), dtype=bool)
        has[columns[0]] = True
        every = np.fromiter((q.evidence == "all" for q in questions), dtype=bool, count=len(questions)) & has
        start, end = (_to_solid(columns[1], columns[side], solid) for side in (2, 3))
        return cls(has, every, columns[0], columns[1], start, end, columns[4].astype(bool), codes, solid)

    @property
    def size(self) -> int:
        """Number of questions."""
        return len(self.has)

    def code(self, documents: Sequence[str] | npt.NDArray[np.str_]) -> Ints:
        """Document codes, ``[k]``."""
        given = (self.codes.get(str(name), -1) for name in documents)
        return np.fromiter(given, dtype=np.int64, count=len(documents))

    def passages(self, question: npt.ArrayLike, document: npt.ArrayLike, span: npt.ArrayLike) -> Passages:
        """Passages from positions of questions ``[k]``, document codes ``[k]`` and spans ``[k, 2]``.

        Passages of documents that are gold for no question are left out.
        """
        code = np.asarray(document, dtype=np.int64)
        kept = code >= 0
        limits = np.asarray(span, dtype=np.int64).reshape(-1, 2)[kept]
        start, end = (_to_solid(code[kept], limits[:, side], self.solid) for side in (0, 1))
        return Passages(np.asarray(question, dtype=np.int64)[kept], code[kept], start, end)

    def of_contexts(self, contexts: Sequence[Context | None]) -> Passages:
        """The passages of every context."""
        flat = [(i, p) for i, context in enumerate(contexts) if context for p in context.passages]
        codes = self.code([passage.document_id for _, passage in flat])
        return self.passages([i for i, _ in flat], codes, [passage.span for _, passage in flat])

    def of_sources(self, sources: Sequence[Sequence[Source]]) -> Passages:
        """The passages that every answer cites."""
        flat = [(i, source) for i, cited in enumerate(sources) for source in cited]
        codes = self.code([source.document_id for _, source in flat])
        return self.passages([i for i, _ in flat], codes, [source.span for _, source in flat])

    def coverage(self, passages: Passages) -> FloatArray:
        """Share of each piece that the passages of its own question cover, ``[pieces]``."""
        width = len(self.codes) or 1
        piece, row = _join(self.question * width + self.document, passages.question * width + passages.document)
        return self._covered(piece, passages.start[row], passages.end[row])

    def touched(self, passages: Passages) -> BoolArray:
        """Pieces that any passage of their own question overlaps, ``[pieces]``."""
        return self.coverage(passages) > 0

    def coverage_by_collection(self, pairs: Pairs, allowed: BoolArray | None = None) -> FloatArray:
        """Share of each piece that rows of the collection cover ``[pieces]``; `allowed` ``[pairs]`` restricts them."""
        kept = slice(None) if allowed is None else allowed
        return self._covered(pairs.piece[kept], pairs.start[kept], pairs.end[kept])

    def pairs(self, chunk_documents: Sequence[str] | npt.NDArray[np.str_], chunk_spans: npt.ArrayLike) -> Pairs:
        """Every piece with every row of its document; ``chunk_spans`` is ``[rows, 2]``."""
        rows = np.arange(len(chunk_documents))
        code = self.code(chunk_documents)
        gold_rows = rows[code >= 0]
        spans = np.asarray(chunk_spans, dtype=np.int64).reshape(-1, 2)
        collection = self.passages(rows, code, spans)
        piece, position = _join(self.document, collection.document)
        return Pairs(piece, gold_rows[position], collection.start[position], collection.end[position])

    def kept(self, coverage: FloatArray) -> BoolArray:
        """Questions whose evidence is there, every piece or one as they need, ``[n]``."""
        covered = np.bincount(self.question, weights=coverage >= FULL, minlength=self.size)
        needed = np.bincount(self.question, minlength=self.size)
        return np.where(self.every, covered >= needed, covered > 0) & self.has

    def share(self, there: BoolArray) -> FloatArray:
        """Share of the needed pieces that are `there`, ``[pieces]`` to ``[n]``; 1 or 0 where one is enough."""
        found = np.bincount(self.question, weights=there, minlength=self.size)
        needed = np.maximum(np.bincount(self.question, minlength=self.size), 1)
        return np.where(self.every, found / needed, np.minimum(found, 1))

    def gold_share(self, passages: Passages) -> FloatArray:
        """Share of each passage that lies in gold of its own question, ``[k]``; 1 where its document is the piece."""
        width = len(self.codes) or 1
        key = passages.question * width + passages.document
        passage, piece = _join(key, self.question * width + self.document)
        inside = _union_share(passage, self.start[piece], self.end[piece], passages.start, passages.end)
        inside[passage[self.whole[piece]]] = 1
        return inside

    def _covered(self, piece: Ints, start: Ints, end: Ints) -> FloatArray:
        covered = _union_share(piece, start, end, self.start, self.end)
        covered[piece[self.whole[piece]]] = 1
        return covered


@dataclass(frozen=True, eq=False)
class Pairs:
    """Gold pieces with rows of the collection that lie in the same document, ``[pairs]``."""

    piece: Ints
    row: Ints
    start: Ints
    end: Ints


def _check_span(query_id: str, gold: GoldSpan, texts: Mapping[str, str]) -> None:
    if gold.span is None:
        return
    start, end = gold.span
    length = len(texts[gold.document_id]) if gold.document_id in texts else end
    if not 0 <= start < end <= length:
        place = f"question {query_id!r}: gold span {list(gold.span)} of document {gold.document_id!r}"
        raise RagLabError(f"{place} is empty or outside of its text of {length} characters")
    if gold.document_id in texts and not texts[gold.document_id][start:end].strip():
        raise RagLabError(f"question {query_id!r}: gold span {list(gold.span)} of {gold.document_id!r} is white space")


def _solid_offsets(text: str) -> Ints:
    """How many characters before each offset are not white space, ``[len(text) + 1]``."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return np.concatenate([[0], np.cumsum(~np.isin(points, _WHITE_SPACE))])


def _to_solid(document: Ints, offset: Ints, solid: Mapping[int, Ints]) -> Ints:
    """Offsets ``[k]`` in documents, counted without white space where the text is known."""
    if not solid or not len(document):
        return offset
    mapped = offset.copy()
    order = np.argsort(document, kind="stable")
    codes, first = np.unique(document[order], return_index=True)
    for code, rows in zip(codes.tolist(), np.split(order, first[1:]), strict=True):
        if code in solid:
            mapped[rows] = solid[code][np.clip(offset[rows], 0, len(solid[code]) - 1)]
    return mapped


def _join(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Positions of all pairs with equal keys."""
    order = np.argsort(right, kind="stable")
    low, high = np.searchsorted(right[order], left, "left"), np.searchsorted(right[order], left, "right")
    count = high - low
    position = np.repeat(np.arange(len(left)), count)
    within = np.arange(len(position)) - np.repeat(np.cumsum(count) - count, count)
    return position, order[np.repeat(low, count) + within]


def _union_share(target: Ints, start: Ints, end: Ints, target_start: Ints, target_end: Ints) -> FloatArray:
    """Share of each target interval ``[t]`` that the union of its intervals covers.

    `target` ``[k]`` says which target an interval belongs to. Within a target, intervals by their start add what lies
    beyond all ends before them.
    """
    low, high = np.maximum(start, target_start[target]), np.minimum(end, target_end[target])
    some = low < high
    target, low, high = target[some], low[some], high[some]
    order = np.lexsort((low, target))
    target, low, high = target[order], low[order], high[order]
    apart = target * (int(high.max(initial=0)) + 1)
    reached = np.maximum.accumulate(high + apart) - apart
    before = np.concatenate([[0], reached[:-1]])
    before[np.flatnonzero(np.diff(target, prepend=-1))] = 0
    added = np.maximum(high - np.maximum(low, before), 0)
    covered = np.bincount(target, weights=added, minlength=len(target_start))
    length = target_end - target_start
    share: FloatArray = np.divide(covered, length, out=np.zeros(len(length)), where=length > 0)
    return share
