"""What to ask next: the names in the best evidence that the question does not have, with what is still missing of it.

A passage gives bridges in this order: titles of other documents that it names; its own title; and where it names no
document, the names in the sentence that covers most of the question. What the question says itself is no bridge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag_lab.contracts import Span
from rag_lab.generation.adaptive.evidence import Asked
from rag_lab.generation.adaptive.names import names
from rag_lab.generation.adaptive.titles import Mention, plain_title
from rag_lab.generation.sentences import split_sentences
from rag_lab.generation.terms import CJK, terms

MOST_NAMES = 3
"""Names that are taken from the best sentence of a passage without links."""

_WORD = re.compile(rf"[{CJK}]+|[^\W{CJK}]+")


@dataclass(frozen=True, slots=True)
class Bridge:
    """A name that leads on, and where it stands in the passage's text; None for the passage's own title."""

    name: str
    span: Span | None = None


def bridges(question: str, title: str, text: str, mentions: Sequence[Mention], asked: Asked) -> list[Bridge]:
    """The bridges of one passage, best first.

    `mentions`: titles in its text that belong to other documents which the reader may see.
    """
    own = plain_title(title)
    found = [Bridge(mention.title, mention.span) for mention in mentions if mention.title != own]
    if own:
        found.append(Bridge(own))
    if not mentions:
        found += _named_in_best_sentence(text, asked)
    distinct: dict[str, Bridge] = {}
    for bridge in found:
        if not says(question, bridge.name):
            distinct.setdefault(bridge.name.casefold(), bridge)
    return list(distinct.values())


def _named_in_best_sentence(text: str, asked: Asked) -> list[Bridge]:
    span = best_sentence(text, asked)
    if span is None:
        return []
    sentence = text[slice(*span)]
    found = []
    for name in names(sentence)[:MOST_NAMES]:
        begin = sentence.find(name)
        if begin >= 0:
            found.append(Bridge(name, (span[0] + begin, span[0] + begin + len(name))))
    return found


def best_sentence(text: str, asked: Asked) -> Span | None:
    """The sentence that covers most of a question, the first of equals; None where none covers anything."""
    spans = split_sentences(text)
    covered = [asked.coverage(asked.mask(text[slice(*span)])) for span in spans]
    best = max(covered, default=0.0)
    return spans[covered.index(best)] if best > 0 else None


def says(question: str, name: str) -> bool:
    """Whether the words of a name stand in a question, one after the other, upper and lower case alike."""
    return f" {_words(name)} " in f" {_words(question)} " if _WORD.search(name) else True


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def missing_words(question: str, missing: Sequence[str]) -> str:
    """The question's own words for the terms that are still missing, in order."""
    wanted = frozenset(missing)
    return " ".join(word for word in _WORD.findall(question) if wanted.intersection(terms(word)))


def content_words(question: str) -> str:
    """The words of a question that hold a term, in order."""
    return " ".join(word for word in _WORD.findall(question) if terms(word))
