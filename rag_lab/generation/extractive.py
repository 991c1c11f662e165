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
from rag_lab.generation.answer_types import answer_type, differ
from rag_lab.generation.dates import announces, mentioned_dates
from rag_lab.generation.prompts import block, language
from rag_lab.generation.sentences import split_sentences
from rag_lab.generation.support import COEFFICIENTS, Similarity, Support, background_idf, measure
from rag_lab.generation.terms import count_tokens, token_ends
from rag_lab.store import digest

CONFLICT_MARGIN = 0.15
SUPPORTS = 0.5
_ALGORITHM = 1

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
    sentence supports the question at least half as well; it is added as an *upcoming* claim. When a sentence of
    another document, supported nearly as well, gives another value, it is added as a further claim, so that a
    conflict stays visible.
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
        """Algorithm, coefficients, threshold, background weights and encoder."""
        encoder = self._similarity.encoder.version if self._similarity else "none"
        settings = (COEFFICIENTS, CONFLICT_MARGIN, SUPPORTS, self.threshold, self._idf_digest, encoder)
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
        """Tokens of question, headers and passages, ``[n]``; the reader needs no instructions."""
        blocks = [[block(p, language(r)) for p in passages] for r, passages in zip(requests, contexts, strict=True)]
        texts = list(dict.fromkeys([*(r.query for r in requests), *(text for found in blocks for text in found)]))
        tokens = dict(zip(texts, count_tokens(texts).tolist(), strict=True))
        sums = [tokens[r.query] + sum(tokens[text] for text in b) for r, b in zip(requests, blocks, strict=True)]
        return np.array(sums, dtype=np.int32)

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
        code = language(request)
        quote = _cut(support.texts[main], room)
        claims = [_claim(context, support, main, quote, "upcoming" if upcoming == main else "answer")]
        text = quote
        room -= int(count_tokens([text])[0])
        if other is not None:
            also = "\n" + _ALSO[code] + support.texts[other]
            if (needed := int(count_tokens([also])[0])) <= room:
                claims.append(_claim(context, support, other, support.texts[other], "answer"))
                text += also
                room -= needed
        if upcoming is not None and upcoming != main and count_tokens([support.texts[upcoming]])[0] <= room:
            claims.append(_claim(context, support, upcoming, support.texts[upcoming], "upcoming"))
        return Answer(request.request_id, text, tuple(claims), confidence=confidence)

    def _choose(
        self, request: Request, context: Context, support: Support, candidates: Sequence[int]
    ) -> tuple[int, int | None, int | None]:
        """Positions of the sentence to answer with, of an announced change, and of a conflicting statement."""
        confidence = support.confidence
        best = candidates[0]
        near = [i for i in candidates if confidence[i] >= SUPPORTS * confidence[best]]
        ahead = [] if _asks_ahead(request) else [i for i in near if _is_ahead(context, support, i, request.time)]
        present = [i for i in near if i not in ahead and confidence[i] >= (self.threshold or 0.0)]
        upcoming = ahead[0] if ahead else None
        if upcoming is not None and not present:
            return upcoming, upcoming, None
        main = present[0] if present else best
        return main, upcoming, _conflicting(request, context, support, main, [i for i in near if i not in ahead])


def _asks_ahead(request: Request) -> bool:
    dates = mentioned_dates(request.query, request.time.year)
    return bool(_AHEAD.search(request.query)) or any(date > request.time for date in dates)


def _is_ahead(context: Context, support: Support, i: int, now: datetime) -> bool:
    """Whether a sentence announces what is not in force yet: itself, by its passage, or by a line that leads to it."""
    passage = context.passages[support.passage[i]]
    if passage.valid_from is not None and passage.valid_from > now:
        return True
    if announces(support.texts[i], now) or announces(passage.title, now):
        return True
    earlier = (passage.text[s:e] for s, e in split_sentences(passage.text) if s < support.start[i])
    return any(announces(sentence, now) and _ANNOUNCES_MORE.search(sentence) for sentence in earlier)


def _conflicting(
    request: Request, context: Context, support: Support, main: int, candidates: Sequence[int]
) -> int | None:
    """The best sentence of another document that names another value and is supported nearly as well."""
    if answer_type(request.query) not in (None, "number", "date"):
        return None
    document = context.passages[support.passage[main]].document_id
    for i in candidates:
        near = support.confidence[i] >= support.confidence[main] - CONFLICT_MARGIN
        elsewhere = context.passages[support.passage[i]].document_id != document
        if near and elsewhere and differ(support.texts[main], support.texts[i]):
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
        return ""
    return "\n".join([outcome.text, *(claim.text for claim in outcome.claims[1:] if claim.kind == "upcoming")])
