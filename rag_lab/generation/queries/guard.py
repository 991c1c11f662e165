"""A rewrite must not lose what the question states exactly, nor state what nobody said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain

from rag_lab.generation.queries.facts import Fact, facts, plain

_EDGE = "[^\\W_\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0002ffff]"
"""A character that a phrase must not be continued by: a letter or digit, but not one of a script without spaces."""


def guard(question: str, rewrite: str) -> list[str]:
    """The dates, numbers, identifiers and quoted phrases of `question` that `rewrite` lacks; [] if it may stand.

    A date may be written in another form or be more exact, a number may gain a unit, quotation marks may go. What is
    given back is in the form of `facts.plain`.
    """
    stated = facts(rewrite)
    return list(dict.fromkeys(f.text for f in facts(question) if not _is_kept(f, stated, rewrite)))


def added(rewrite: str, known: Sequence[str]) -> list[str]:
    """The dates, numbers and identifiers of `rewrite` that none of the `known` texts states.

    Acronyms and quotation marks are a matter of wording, so new ones are no new facts.
    """
    stated = tuple(chain.from_iterable(facts(text) for text in known))
    mine = [f for f in facts(rewrite) if f.kind in ("date", "number", "identifier")]
    return list(dict.fromkeys(f.text for f in mine if not _is_kept(f, stated, "")))


def _is_kept(fact: Fact, stated: Sequence[Fact], text: str) -> bool:
    if fact.kind in ("quote", "acronym"):
        return any(fact.value == other.value for other in stated) or _holds(text, fact.value[0])
    if fact.kind == "identifier":
        return any(fact.value == other.value for other in stated if other.kind == "identifier")
    return any(_covers(other, fact) for other in stated)


def _covers(other: Fact, fact: Fact) -> bool:
    """Whether a date or number says all that another one says."""
    kinds = (fact.kind, other.kind)
    if kinds == ("date", "date"):
        if len(fact.value) != len(other.value):
            return False
        return all(part in ("", theirs) for part, theirs in zip(fact.value, other.value, strict=True))
    if kinds == ("number", "number"):
        return fact.value[0] == other.value[0] and fact.value[1] in ("", other.value[1])
    if kinds == ("number", "date"):
        return fact.value[1] == "" and fact.value[0] in other.value
    if kinds == ("date", "number"):
        return fact.value == (other.value[0], "", "") and other.value[1] == ""
    return False


def _holds(text: str, words: str) -> bool:
    """Whether the words stand in a text as a phrase of their own, upper and lower case alike."""
    before = f"(?<!{_EDGE})" if re.match(_EDGE, words[0]) else ""
    after = f"(?!{_EDGE})" if re.match(_EDGE, words[-1]) else ""
    return re.search(before + re.escape(words) + after, plain(text).casefold()) is not None
