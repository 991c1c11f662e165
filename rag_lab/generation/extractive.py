"""The extractive reader: quotes the sentence that supports the question best, or abstains.

It is deterministic, needs no model, and every claim that it makes is a verbatim span of a document. It does not write:
the answer to a question is the whole sentence.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache

import numpy as np

from rag_lab.context import has_empty_scope
from rag_lab.contracts import (
    Abstention,
    Answer,
    Claim,
    Completion,
    Context,
    Encoder,
    IntArray,
    Outcome,
    Passage,
    RagLabError,
    Reason,
    Request,
    Source,
)
from rag_lab.generation.answer_types import answer_type, comparable, contradict, fit, quantities
from rag_lab.generation.coming import NOT_YET, only_coming
from rag_lab.generation.dates import announces, mentioned_dates
from rag_lab.generation.prompts import PROMPT_VERSION, language, parts
from rag_lab.generation.sentences import split_sentences
from rag_lab.generation.support import COEFFICIENTS, Similarity, Support, background_idf, measure
from rag_lab.generation.terms import count_tokens, numbers, terms, token_ends
from rag_lab.store import digest

CONFLICT_MARGIN = 0.15
SUPPORTS = 0.5
SAME_SUBJECT = 0.6
_ALGORITHM = 2

_AHEAD = re.compile(r"\b(?:upcoming|planned|future|announced|coming)\b|即将|未来|今后|将来", re.IGNORECASE)
_ANNOUNCES_MORE = re.compile(r"[:：]$|\b(?:following|below)\b|以下|如下", re.IGNORECASE)
_ALSO = {"en": "Also stated: ", "zh": "另有记载："}


class ExtractiveReader:
    """A `Generator` that quotes.

    Args:
        threshold: confidence from which it answers, from `calibrate`; None never abstains for want of support.
        idf: background weights of terms, from `background_idf`; None takes them from the context alone.
        encoder: helps with paraphrase and with questions in another language than the passages.

    A sentence that announces something that takes effect after the request's time is not the answer while another
    sentence supports the question at least half as well; it is added as an *upcoming* claim. One of a passage that is
    not in force itself never answers, not even when the question asks ahead. Where nothing else supports the question,
    the reader abstains and tells what is coming (see `coming`).

    Of two sentences that answer the same question (`_rivals`: they speak of the same subject and give a comparable
    value), the one whose passage has the lower precedence answers, however much more alike the other one and the
    question are, and the other is not cited. When a sentence of equal
    precedence in another document, supported nearly as well, gives another value, it is added as a further claim,
    whichever was published later, so that a conflict stays visible; where there is no room for both, the reader
    abstains as *conflicting* and cites both.
    """

    name = "extractive"
    window: int | None = None
    calls = 0
    """Calls of a language model that one question takes."""

    def __init__(
        self,
        threshold: float | None = None,
        idf: Mapping[str, float] | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        if threshold is not None and not threshold >= 0:
            raise RagLabError(f"extractive: threshold must be a number of at least 0, got {threshold}")
        self.threshold = threshold
        self._idf = idf
        self._idf_digest = digest(sorted(idf.items())) if idf is not None else "none"
        self._similarity = Similarity(encoder) if encoder is not None else None
        self.version = self._version()

    def _version(self) -> str:
        """Algorithm, coefficients, headers that are counted, threshold, background weights and encoder."""
        encoder = self._similarity.encoder.version if self._similarity else "none"
        rules = (COEFFICIENTS, CONFLICT_MARGIN, SUPPORTS, SAME_SUBJECT, PROMPT_VERSION)
        settings = (*rules, self.threshold, self._idf_digest, encoder)
        return f"extractive-{_ALGORITHM}-{digest(settings)[:12]}"

    def with_threshold(self, threshold: float | None) -> ExtractiveReader:
        """The same reader, sharing its caches, with another threshold."""
        other = copy.copy(self)
        other.threshold = threshold
        other.version = other._version()
        return other

    def with_background(self, texts: Sequence[str]) -> ExtractiveReader:
        """The same reader with words weighed by how rare they are in `texts`; background weights given before stay."""
        if self._idf is not None:
            return self
        encoder = self._similarity.encoder if self._similarity else None
        return ExtractiveReader(self.threshold, background_idf(texts), encoder)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Words, Han characters and punctuation marks of each text, ``[n]``."""
        return count_tokens(texts)

    def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Sequence[Passage]]) -> IntArray:
        """Tokens of question, headers and passages, ``[n]``; the reader needs no instructions.

        Every text is counted once, and so is a context that several requests share.
        """
        count = cache(lambda text: int(count_tokens([text])[0]))
        shared: dict[tuple[int, str], int] = {}
        for request, passages in zip(requests, contexts, strict=True):
            key = id(passages), language(request)
            if key not in shared:
                shared[key] = sum(count(text) for passage in passages for text in parts(passage, key[1]))
        both = zip(requests, contexts, strict=True)
        return np.array([count(r.query) + shared[id(p), language(r)] for r, p in both], dtype=np.int32)

    def generate(
        self, requests: Sequence[Request], contexts: Sequence[Context], output_tokens: IntArray
    ) -> list[Completion]:
        """One completion per request. It makes no call of a language model."""
        begin, encoding = time.perf_counter(), self._encoding_ms()
        support = measure([request.query for request in requests], contexts, self._idf, self._similarity)
        outcomes = [
            self._decide(request, context, support, i, int(room))
            for i, (request, context, room) in enumerate(zip(requests, contexts, output_tokens, strict=True))
        ]
        prompts = self.prompt_tokens(requests, [context.passages for context in contexts])
        outputs = count_tokens([_written(outcome) for outcome in outcomes])
        working = (time.perf_counter() - begin) * 1000 - (self._encoding_ms() - encoding)
        ms = np.full(len(requests), working / max(len(requests), 1))
        if self._similarity is not None and support.texts:
            ms += self._similarity.charge([request.query for request in requests], support.texts, support.query)
        return [
            Completion(outcome, int(prompt), int(output), 0, float(each))
            for outcome, prompt, output, each in zip(outcomes, prompts, outputs, ms, strict=True)
        ]

    def _encoding_ms(self) -> float:
        return self._similarity.encoding_ms if self._similarity else 0.0

    def _decide(self, request: Request, context: Context, support: Support, query: int, room: int) -> Outcome:
        if has_empty_scope(context) and not context.passages:
            return Abstention(request.request_id, Reason.NO_AUTHORISED_EVIDENCE, confidence=0.0)
        candidates = sorted(support.of(query), key=lambda i: (-support.score[i], i))
        if not candidates:
            return Abstention(request.request_id, Reason.INSUFFICIENT, confidence=0.0)
        if room <= 0:
            return Abstention(request.request_id, Reason.OVER_BUDGET)
        main, upcoming, other = self._choose(request, context, support, candidates)
        confidence = float(support.confidence[main])
        if self.threshold is not None and confidence < self.threshold:
            return Abstention(request.request_id, Reason.INSUFFICIENT, confidence=confidence)
        if main == upcoming:
            return self._tell(request, context, support, main, room)
        quote = _cut(support.texts[main], room)
        claims = [_claim(context, support, main, quote, "answer")]
        text = quote
        room -= int(count_tokens([text])[0])
        if other is not None:
            also = "\n" + _ALSO[language(request)] + support.texts[other]
            claims.append(_claim(context, support, other, support.texts[other], "answer"))
            if (needed := int(count_tokens([also])[0])) > room:
                sources = tuple(source for claim in claims for source in claim.sources)
                return Abstention(request.request_id, Reason.CONFLICTING, sources=sources, confidence=confidence)
            text += also
            room -= needed
        if upcoming is not None and count_tokens([support.texts[upcoming]])[0] <= room:
            claims.append(_claim(context, support, upcoming, support.texts[upcoming], "upcoming"))
        return Answer(request.request_id, text, tuple(claims), confidence=confidence)

    def _tell(self, request: Request, context: Context, support: Support, i: int, room: int) -> Outcome:
        """What is coming, where nothing in force supports the question."""
        claim = _claim(context, support, i, support.texts[i], "upcoming")
        text = _cut(NOT_YET[language(request)] + claim.text, room)
        return only_coming(request.request_id, text, claim.sources, float(support.confidence[i]))

    def _choose(
        self, request: Request, context: Context, support: Support, candidates: Sequence[int]
    ) -> tuple[int, int | None, int | None]:
        """Positions of the sentence to answer with, of an announced change, and of a conflicting statement.

        The first two are the same where only the announced change supports the question.
        """
        confidence = support.confidence
        asks_ahead = _asks_ahead(request)
        ahead = {i for i in candidates if _is_ahead(context, support, i, request.time, asks_ahead)}
        near = [i for i in candidates if confidence[i] >= SUPPORTS * confidence[candidates[0]]]
        announced = [i for i in near if i in ahead]
        held = [i for i in near if i not in ahead]
        least = max(self.threshold or 0.0, np.finfo(np.float64).tiny)
        supported = [i for i in candidates if i not in ahead and confidence[i] >= least]
        upcoming = _prevailing(request, context, support, announced[0], announced) if announced else None
        first = next((i for i in held if i in supported), None)
        if upcoming is not None and first is None:
            return upcoming, upcoming, None
        main = _prevailing(request, context, support, held[0] if first is None else first, supported)
        return main, upcoming, _conflicting(request, context, support, main, held)


def _asks_ahead(request: Request) -> bool:
    dates = mentioned_dates(request.query, request.time.year)
    return bool(_AHEAD.search(request.query)) or any(date > request.time for date in dates)


def _is_ahead(context: Context, support: Support, i: int, now: datetime, asks_ahead: bool) -> bool:
    """Whether a sentence is not in force yet: by its passage, or by what it, its title or a line before it announces.

    What is only announced may answer a question that asks ahead; a passage that is not in force may not.
    """
    passage = context.passages[support.passage[i]]
    if passage.coming or (passage.valid_from is not None and passage.valid_from > now):
        return True
    if asks_ahead:
        return False
    if announces(support.texts[i], now) or announces(passage.title, now):
        return True
    earlier = (passage.text[s:e] for s, e in split_sentences(passage.text) if s < support.start[i])
    return any(announces(sentence, now) and _ANNOUNCES_MORE.search(sentence) for sentence in earlier)


def _precedence(context: Context, support: Support, i: int) -> int:
    return context.passages[int(support.passage[i])].precedence


def _prevailing(request: Request, context: Context, support: Support, main: int, candidates: Sequence[int]) -> int:
    """What prevails over `main`: a candidate of lower precedence that answers the same question, or itself."""
    while True:
        over = [
            i
            for i in candidates
            if _precedence(context, support, i) < _precedence(context, support, main)
            and _rivals(request, context, support, main, i)
        ]
        if not over:
            return main
        main = min(over, key=lambda i: _precedence(context, support, i))


def _rivals(request: Request, context: Context, support: Support, one: int, other: int) -> bool:
    """Whether `other` answers what `one` answers, in agreement or not.

    Both speak of the same subject; where the question asks for a number or a date and `one` names values, `other` names
    one that can be compared, however little it is supported; else it is supported nearly as well or contradicts.
    """
    if not _same_subject(request, context, support, one, other):
        return False
    values = support.texts[one], support.texts[other]
    if quantities(values[0]) and answer_type(request.query) in ("number", "date"):
        return comparable(*values)
    return _nearly_as_well(support, one, other) or contradict(request.query, *values)


def _same_subject(request: Request, context: Context, support: Support, one: int, other: int) -> bool:
    """Whether `other` is of the kind asked for if `one` is, and says of the question most of what `one` says of it.

    Most: its sentence, lead-in or title hold at least `SAME_SUBJECT` of the question's terms that `one` holds. Where
    `one` holds none, as across languages, its own terms but numerals take their place.
    """
    first, second = support.texts[one], support.texts[other]
    kind = answer_type(request.query)
    if fit(kind, request.query, second) < fit(kind, request.query, first):
        return False
    said = frozenset(terms(first))
    subject = said.intersection(terms(request.query)) or said - numbers(first)
    title = context.passages[int(support.passage[other])].title
    held = subject.intersection([*terms(second), *terms(support.leads[other]), *terms(title)])
    return len(held) >= SAME_SUBJECT * len(subject)


def _nearly_as_well(support: Support, one: int, other: int) -> bool:
    return bool(support.confidence[other] >= support.confidence[one] - CONFLICT_MARGIN)


def _conflicting(
    request: Request, context: Context, support: Support, main: int, candidates: Sequence[int]
) -> int | None:
    """The best sentence of equal precedence in another document that gives another value, supported nearly as well."""
    document = context.passages[support.passage[main]].document_id
    for i in candidates:
        elsewhere = context.passages[support.passage[i]].document_id != document
        equal = _precedence(context, support, i) == _precedence(context, support, main)
        if (
            elsewhere
            and equal
            and _nearly_as_well(support, main, i)
            and contradict(request.query, support.texts[main], support.texts[i])
            and _same_subject(request, context, support, main, i)
        ):
            return i
    return None


def _claim(context: Context, support: Support, i: int, quote: str, kind: str) -> Claim:
    passage = context.passages[support.passage[i]]
    start = passage.span[0] + int(support.start[i])
    source = Source(
        passage.document_id,
        passage.source_version,
        passage.chunk_id,
        (start, start + len(quote)),
        quote,
        passage.source_uri,
    )
    return Claim(quote, (source,), "upcoming" if kind == "upcoming" else "answer")


def _cut(sentence: str, room: int) -> str:
    """The first `room` tokens of a sentence."""
    ends = token_ends(sentence)
    return sentence if len(ends) <= room else sentence[: ends[room - 1]]


def _written(outcome: Outcome) -> str:
    """All that the reader wrote: the text, and the announced change beside it."""
    if not isinstance(outcome, Answer):
        return outcome.text if isinstance(outcome, Abstention) else ""
    return "\n".join([outcome.text, *(claim.text for claim in outcome.claims[1:] if claim.kind == "upcoming")])
