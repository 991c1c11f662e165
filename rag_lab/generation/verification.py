"""Checking generated claims against the passages that were in the context.

Support is lexical, so it is a necessary sign and no proof. A claim is supported by its passages when

* every text that it puts in quotation marks stands there verbatim (white space aside), so that a quotation with an
  ellipsis that swallows a "not" does not pass;
* every number that it names stands there;
* they hold at least `TERM_SHARE` of its terms; and
* the sentence that holds most of them does not say the opposite by a negation.

A sentence without markers is attributed to the passage that supports it best, if one does: one in force before one to
come, and of equal support the one of lower precedence. A sentence whose markers are all invalid is not supported. What
the cited passages in force support is an answer, with these alone as sources; what needs one to come is *upcoming*.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rag_lab.contracts import Claim, Passage, Source, Span
from rag_lab.generation.abstention import content
from rag_lab.generation.citations import CitedText, cited, split_claims, without_markers
from rag_lab.generation.sentences import split_sentences
from rag_lab.generation.support import term_share
from rag_lab.generation.terms import numbers

VERIFICATION_VERSION = "2"
TERM_SHARE = 0.6
SAME_STATEMENT = 0.8

_QUOTED = re.compile(r"\"([^\"\n]+)\"|“([^”\n]+)”|「([^」\n]+)」|『([^』\n]+)』|«([^»\n]+)»")
_NEGATION = re.compile(
    r"\b(?:not|no|never|cannot|without|neither|nor)\b|n['’]t\b|不得|不能|不可|不是|不会|不再|没有|尚未|并未|禁止",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Verified:
    """What of an answer may leave: supported claims and their text, what was dropped, and the invalid citations."""

    claims: tuple[Claim, ...]
    text: str
    dropped: tuple[str, ...]
    invalid: int


def verify(text: str, passages: Sequence[Passage]) -> Verified:
    """Keep the claims of `text` that their passages support.

    The text that comes back holds them without their markers: what was cited is in the claims.
    """
    _, invalid = cited(text, len(passages))
    claims: list[Claim] = []
    dropped: list[str] = []
    for sentence in split_claims(text, len(passages)):
        supporting = _supporting(sentence, passages)
        if supporting:
            kind: Literal["answer", "upcoming"] = "upcoming" if any(p.coming for p in supporting) else "answer"
            claims.append(Claim(sentence.text, tuple(source_of(sentence.text, p) for p in supporting), kind))
        else:
            dropped.append(sentence.text)
    kept = " ".join(claim.text for claim in claims) if dropped else without_markers(text, len(passages))
    return Verified(tuple(claims), kept, tuple(dropped), invalid)


def supports(claim: str, passages: Sequence[Passage]) -> bool:
    """Whether the passages together support a claim."""
    said = content(claim)
    evidence = "\n".join("\n".join((passage.title, passage.lead, passage.text)) for passage in passages)
    flat = " ".join(evidence.split())
    quotes = [" ".join(next(filter(None, match)).split()) for match in _QUOTED.findall(said)]
    if any(quote.rstrip(".,;。，；") not in flat for quote in quotes):
        return False
    if not numbers(said) <= numbers(evidence) or term_share(said, evidence) < TERM_SHARE:
        return False
    best = max((_best_sentence(said, passage) for passage in passages), key=lambda found: found[0])
    return best[0] < SAME_STATEMENT or bool(_NEGATION.search(said)) == bool(_NEGATION.search(best[1]))


def _supporting(sentence: CitedText, passages: Sequence[Passage]) -> list[Passage]:
    """The passages to credit: the cited ones, or the best one for a sentence without a marker; none if unsupported."""
    if sentence.numbers:
        named = [passage for passage in passages if passage.number in sentence.numbers]
        in_force = [passage for passage in named if not passage.coming]
        return next((group for group in (in_force, named) if group and supports(sentence.text, group)), [])
    if sentence.invalid:
        return []
    able = [passage for passage in passages if supports(sentence.text, [passage])]
    return sorted(able, key=lambda p: (p.coming, -_best_sentence(sentence.text, p)[0], p.precedence, p.number))[:1]


def _best_sentence(claim: str, passage: Passage) -> tuple[float, str, Span]:
    """The sentence of a passage that holds most of the claim's terms: share, text and offsets in the passage."""
    best = (-1.0, passage.text, (0, len(passage.text)))
    for start, end in split_sentences(passage.text):
        sentence = passage.text[start:end]
        share = term_share(claim, sentence)
        if share > best[0]:
            best = (share, sentence, (start, end))
    return best


def source_of(claim: str, passage: Passage) -> Source:
    """The sentence of `passage` that holds most of the claim's terms, as a source."""
    _, quote, (start, end) = _best_sentence(content(claim), passage)
    span = (passage.span[0] + start, passage.span[0] + end)
    return Source(passage.document_id, passage.source_version, passage.chunk_id, span, quote, passage.source_uri)
