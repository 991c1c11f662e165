"""How well each sentence of each context supports its question, for a whole batch in arrays.

The lexical part is the weighted share of the question's terms that a sentence covers. A term counts 1 when the sentence
holds it, less when only its lead-in or the passage's title does. The rows with which a passage goes on with a cut table
have the table's header, the passage's `lead`, as their lead-in. Weights are inverse document frequencies over
the sentences of the question's own context, ``log((N + 1) / (df + 0.5))``, times those of a background collection
when one is given. A question's result therefore never depends on the other questions of its batch.

The coefficients were chosen by ``experiments/reader_coefficients.py`` on the handbook's calibration questions. The
rules were written with questions of the collections in `DEVELOPED_ON` in view, so the reader's own figures on those are
not held out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, Context, Encoder, FloatArray, IntArray, Passage, Span
from rag_lab.generation.answer_types import answer_type, fit
from rag_lab.generation.sentences import is_lead_in, is_table_row, lead_ins, split_sentences
from rag_lab.generation.terms import is_chinese, terms

DEVELOPED_ON = ("squad2-dev", "squad2-dev-articles", "cmrc2018-dev")

LEAD = 0.4
TITLE = 0.4
KIND = 0.2
RANK = 0.1
SIMILARITY = 0.3
CROSS_LANGUAGE = 0.5
NOTHING_NEW = 0.0
COEFFICIENTS = (LEAD, TITLE, KIND, RANK, SIMILARITY, CROSS_LANGUAGE, NOTHING_NEW)

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
# Sentences about unrelated things: what an encoder gives them is its zero (0.05 for one model, 0.75 for another).
_UNRELATED = (
    "The ferry leaves the island at seven in the evening.",
    "Photosynthesis turns light into chemical energy.",
    "The court dismissed the appeal on procedural grounds.",
    "这座桥建于十九世纪末。",
    "请在提交代码之前运行测试。",
    "她最喜欢的乐器是大提琴。",
)


@dataclass(frozen=True, eq=False)
class Support:
    """Sentences of a batch, grouped by question, and how well each supports it.

    query, passage: positions in the batch and in the context, ``[m]``; start, end: offsets in the passage's text;
    texts, leads: each sentence and its lead-in, empty where it has none; formal: whether it is one in form, as the
    header of a table row is; score: for choosing a sentence that answers; confidence: comparable between questions, in
    [0, 1]; relevance: to the question, whether or not the sentence says anything that the question does not.
    """

    query: IntArray
    passage: IntArray
    start: IntArray
    end: IntArray
    texts: list[str]
    leads: list[str]
    formal: BoolArray
    score: FloatArray
    confidence: FloatArray
    relevance: FloatArray
    offsets: npt.NDArray[np.int64]

    def of(self, query: int) -> range:
        """Positions of the sentences of one question."""
        return range(int(self.offsets[query]), int(self.offsets[query + 1]))


@dataclass(frozen=True, eq=False)
class _Sentences:
    query: IntArray
    passage: IntArray
    number: IntArray
    start: IntArray
    end: IntArray
    lead: npt.NDArray[np.int64]
    formal: BoolArray
    texts: list[str]
    leads: list[str]
    titles: list[str]


class Similarity:
    """Similarity of questions and sentences by an encoder, rescaled so that unrelated texts get 0; texts are kept.

    What encoding a text took is kept with it: whoever uses the text is charged that time, not whoever came first.
    `encoding_ms` is the time that encoding has taken in all.
    """

    _LIMIT = 200_000

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self._queries: dict[str, npt.NDArray[np.float32]] = {}
        self._passages: dict[str, npt.NDArray[np.float32]] = {}
        self._ms: dict[str, float] = {}
        self.encoding_ms = 0.0
        self._zero: float | None = None

    def __call__(self, questions: Sequence[str], sentences: Sequence[str], query: IntArray) -> FloatArray:
        """Similarity of ``sentences[i]`` to ``questions[query[i]]``, ``[m]``."""
        self._encode(questions, sentences)
        asked = np.stack([self._queries[text] for text in questions])
        said = np.stack([self._passages[text] for text in sentences])
        raw = np.einsum("ij,ij->i", asked[query], said, dtype=np.float64)
        zero = self.zero
        # Batches of other sizes change the last digits of a vector; they must not decide a tie.
        scaled: FloatArray = np.round(np.clip((raw - zero) / (1 - zero), 0, 1), 4)
        return scaled

    def charge(self, questions: Sequence[str], sentences: Sequence[str], query: IntArray) -> FloatArray:
        """Milliseconds of encoding each question with its sentences, whenever they were encoded, ``[questions]``."""
        spent = np.array([self._ms[f"query: {text}"] for text in questions])
        each = np.array([self._ms[f"passage: {text}"] for text in sentences])
        return spent + np.bincount(query, weights=each, minlength=len(questions))

    def _encode(self, questions: Sequence[str], sentences: Sequence[str]) -> None:
        if len(self._ms) > self._LIMIT:
            for kept in (self._queries, self._passages, self._ms):
                kept.clear()
        _ = self.zero  # loading the model is no text's time
        for role, kept, encode, texts in (
            ("query", self._queries, self.encoder.encode_queries, questions),
            ("passage", self._passages, self.encoder.encode_passages, sentences),
        ):
            new = [text for text in dict.fromkeys(texts) if text not in kept]
            if not new:
                continue
            begin = time.perf_counter()
            kept.update(zip(new, encode(new), strict=True))
            took = (time.perf_counter() - begin) * 1000
            self.encoding_ms += took
            self._ms.update((f"{role}: {text}", took / len(new)) for text in new)

    @property
    def zero(self) -> float:
        """The similarity that the encoder gives unrelated texts."""
        if self._zero is None:
            pairs = self.encoder.encode_queries(_UNRELATED) @ self.encoder.encode_passages(_UNRELATED).T
            apart = ~np.eye(len(_UNRELATED), dtype=bool)
            self._zero = float(min(np.round(pairs[apart].mean(), 3), 0.95))
        return self._zero


def measure(
    questions: Sequence[str],
    contexts: Sequence[Context],
    idf: Mapping[str, float] | None = None,
    similarity: Similarity | None = None,
) -> Support:
    """Score every sentence of every context. `idf` maps terms to weights; ``idf[""]`` is that of an unseen term."""
    table = _collect(contexts)
    n = len(questions)
    offsets = np.searchsorted(table.query, np.arange(n + 1))
    found = (table.query, table.passage, table.start, table.end, table.texts, table.leads, table.formal)
    if not table.texts:
        empty = np.zeros(0)
        return Support(*found, empty, empty, empty, offsets)
    ranked, plain, new = _coverage(questions, table, np.diff(offsets), idf)
    kind = np.array(
        [fit(answer_type(questions[q]), questions[q], s) for q, s in zip(table.query, table.texts, strict=True)]
    )
    announces = np.where(_only_announces(table), NOTHING_NEW, 1.0)
    relevance = announces * (ranked + KIND * kind) / (1 + KIND)
    confidence = announces * (plain + KIND * kind) / (1 + KIND)
    if similarity is not None:
        share = _similarity_share(questions, table)
        alike = announces * similarity(questions, table.texts, table.query)
        relevance = (1 - share) * relevance + share * alike
        confidence = (1 - share) * confidence + share * alike
    answers = np.where(new, 1.0, NOTHING_NEW)
    score = answers * relevance + RANK / table.number
    return Support(*found, score, answers * confidence, relevance, offsets)


def background_idf(texts: Sequence[str]) -> dict[str, float]:
    """Inverse document frequency of every term over `texts`, ``log(1 + N / (df + 0.5))``; ``""`` for an unseen one."""
    frequency: dict[str, int] = {}
    for text in texts:
        for term in terms(text):
            frequency[term] = frequency.get(term, 0) + 1
    n = len(texts)
    return {term: float(np.log1p(n / (df + 0.5))) for term, df in [*frequency.items(), ("", 0)]}


def term_share(claim: str, evidence: str) -> float:
    """Share of the claim's terms that the evidence holds; 1 for a claim without terms that stands there literally."""
    asked = terms(claim)
    if not asked:
        return float(claim.strip() in evidence)
    held = set(terms(evidence))
    return sum(term in held for term in asked) / len(asked)


def _only_announces(table: _Sentences) -> BoolArray:
    """Sentences that only announce what follows ``[m]``: headings, questions, lines before lists, headers of tables."""
    announces = np.array([is_lead_in(text) for text in table.texts])
    is_row = np.array([is_table_row(text) for text in table.texts])
    headers = table.lead[is_row & table.formal & (table.lead >= 0)]
    announces[headers[is_row[headers]]] = True
    return announces


def _collect(contexts: Sequence[Context]) -> _Sentences:
    rows: list[tuple[int, int, int, int, int, int, bool]] = []
    texts: list[str] = []
    leads: list[str] = []
    titles: list[str] = []
    for query, context in enumerate(contexts):
        for position, passage in enumerate(context.passages):
            first = len(texts)
            for (start, end), lead, formal, lead_text in _sentences(passage):
                rows.append((query, position, passage.number, start, end, lead + first if lead >= 0 else -1, formal))
                texts.append(passage.text[start:end])
                leads.append(lead_text)
                titles.append(passage.title)
    columns = np.array(rows, dtype=np.int64).reshape(-1, 7).T
    query_, passage_, number, start_, end_, lead_, formal_ = columns
    as_int = np.int32
    return _Sentences(
        query_.astype(as_int),
        passage_.astype(as_int),
        number.astype(as_int),
        start_.astype(as_int),
        end_.astype(as_int),
        lead_,
        formal_.astype(bool),
        texts,
        leads,
        titles,
    )


def _sentences(passage: Passage) -> Iterator[tuple[Span, int, bool, str]]:
    """Each sentence's span, its lead-in's position in the passage (-1: none there), whether in form, and its text."""
    spans = split_sentences(passage.text)
    gap = _BLANK_LINE.search(passage.text)
    table_ends = (gap.start() if gap else len(passage.text)) if passage.lead else 0
    for span, (lead, formal) in zip(spans, lead_ins(passage.text), strict=True):
        if span[0] < table_ends:
            yield span, -1, True, passage.lead
        else:
            yield span, lead, formal, passage.text[slice(*spans[lead])] if lead >= 0 else ""


class _Membership:
    """Which terms are in which texts, as sorted keys; terms of questions and texts share one vocabulary."""

    def __init__(self, texts: Sequence[str], questions: Sequence[str]) -> None:
        vocabulary: dict[str, int] = {}
        self.identity = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        asked = [[vocabulary.setdefault(t, len(vocabulary)) for t in terms(q)] for q in questions]
        held = [[vocabulary.setdefault(t, len(vocabulary)) for t in terms(text)] for text in self.identity]
        self.vocabulary = vocabulary
        self.question_offsets = np.concatenate([[0], np.cumsum([len(x) for x in asked])]).astype(np.int64)
        self.question_terms = np.array([t for x in asked for t in x], dtype=np.int64)
        self.sizes = np.array([len(x) for x in held], dtype=np.int64)
        owner = np.repeat(np.arange(len(held)), self.sizes)
        self._keys = np.sort(owner * len(vocabulary) + np.array([t for x in held for t in x], dtype=np.int64))

    def ids(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        return np.array([self.identity[text] for text in texts], dtype=np.int64)

    def holds(self, text: npt.NDArray[np.int64], term: npt.NDArray[np.int64]) -> BoolArray:
        if not len(self._keys):
            return np.zeros(len(text), dtype=bool)
        key = text * len(self.vocabulary) + term
        found: BoolArray = self._keys[np.searchsorted(self._keys, key).clip(max=len(self._keys) - 1)] == key
        return found


def _coverage(
    questions: Sequence[str], table: _Sentences, counts: npt.NDArray[np.int64], idf: Mapping[str, float] | None
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Coverage with the weights for choosing and for confidence, and whether a sentence holds a new term, ``[m]``."""
    index = _Membership([*table.texts, *table.leads, *table.titles], questions)
    sentence, lead, title = index.ids(table.texts), index.ids(table.leads), index.ids(table.titles)
    m = len(table.texts)
    lengths = np.diff(index.question_offsets)[table.query]
    pair = np.repeat(np.arange(m), lengths)
    place = np.arange(len(pair)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    slot = index.question_offsets[table.query[pair]] + place
    term = index.question_terms[slot]

    held = index.holds(sentence[pair], term)
    by_lead = index.holds(lead[pair], term)
    by_title = index.holds(title[pair], term)
    value = np.where(held, 1.0, np.maximum(LEAD * by_lead, TITLE * by_title))

    frequency = np.bincount(slot, weights=held, minlength=len(index.question_terms))
    owner = np.repeat(np.arange(len(questions)), np.diff(index.question_offsets))
    weight = np.log((counts[owner] + 1) / (frequency + 0.5))
    plain = weight
    if idf is not None:
        known = np.array([idf.get(t, idf.get("", 1.0)) for t in index.vocabulary])
        plain = known[index.question_terms]
        weight = weight * plain
    new = index.sizes[sentence] > np.bincount(pair, weights=held, minlength=m)
    return _share(pair, weight[slot], value, m), _share(pair, plain[slot], value, m), new


def _share(pair: npt.NDArray[np.int64], weight: FloatArray, value: FloatArray, m: int) -> FloatArray:
    total = np.bincount(pair, weights=weight, minlength=m)
    covered = np.bincount(pair, weights=weight * value, minlength=m)
    return np.divide(covered, total, out=np.zeros(m), where=total > 0)


def _similarity_share(questions: Sequence[str], table: _Sentences) -> FloatArray:
    """Weight of the encoder: larger where question and sentence are in different languages and share few terms."""
    asked = np.array([is_chinese(question) for question in questions])
    said = np.array([is_chinese(sentence) for sentence in table.texts])
    return np.where(asked[table.query] == said, SIMILARITY, CROSS_LANGUAGE)
