"""Exact match, F1 and containment of answers, for English and Chinese.

After SQuAD's evaluation script (Rajpurkar et al., 2016), with what it gets wrong put right: a Han or kana character is
a unit of its own, signs that change the meaning stay (``C++`` is not ``C``, ``$5`` and ``-5`` are not ``5``, ``3.14``
is not ``314``), and articles go only when something else is left. Overlap counts tokens as a multiset.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from rag_lab.contracts import Answer, Outcome, Question, RagLabError
from rag_lab.metrics.scores import Family, Metric, Observation, Scores, in_state, named

Tokens = tuple[str, ...]

_CHARACTERS = (
    "\u3005-\u3007\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
)
_ARTICLES = frozenset(("a", "an", "the"))
_KEPT = frozenset("+#$%")
_SIGN = "\ue000"
_TO_ASCII = str.maketrans("\u2212\u2010\u2011\u2012\u2013\u2019", "-----'")
_FULL_WIDTH_IN_NUMBER = re.compile(r"(?<=\d)[．，](?=\d)")
_NUMBER_PUNCTUATION = re.compile(r"(?<=\d)[.,](?=\d)")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[-/:](?=\d)")
_RAISED = re.compile("(?<=\\d)(?=[\u00b2\u00b3\u00b9\u2070-\u207b\u00bc-\u00be\u2150-\u215e])")
_SIGNED = re.compile(r"""(?<![^\s(\[{,;:="'$€£¥])(-|[<>]=?\s?)(?=[$€£¥]?\.?\d)""")
_UNIT_GAP = re.compile(r"(?<=\d)\s+(?=[%‰٪°])|(?<=[$€£¥])\s+(?=\d)")
_PIECES = re.compile(rf"[{_CHARACTERS}]|[^\s{_CHARACTERS}]+")


@lru_cache(maxsize=65_536)
def tokens(text: str) -> Tokens:
    """Units of comparison: single Han and kana characters, and words, without case, punctuation and articles."""
    return _without_articles(_units(text, ""))


@lru_cache(maxsize=65_536)
def _split_tokens(text: str) -> Tokens:
    """As `tokens`, but punctuation parts a word, and articles stay: ``Paris-based`` and ``Paris's`` hold ``paris``."""
    return _units(text, " ")


def _units(text: str, punctuation: str) -> Tokens:
    """Units of a text; `punctuation` stands for ASCII punctuation, a space for any other.

    Signs and separators of numbers are moved out of reach (`_SIGN`) while punctuation is dropped.
    """
    text = _FULL_WIDTH_IN_NUMBER.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = "".join(_plain(character) for character in _RAISED.sub(" ", text).translate(_TO_ASCII))
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).replace("\u2044", "/")
    text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    text = _BETWEEN_DIGITS.sub(" ", _UNIT_GAP.sub("", text))
    text = _SIGNED.sub(lambda found: "".join(chr(ord(_SIGN) + ord(sign)) for sign in found[1].strip()), text)
    text = _NUMBER_PUNCTUATION.sub(lambda found: chr(ord(_SIGN) + ord(found[0])), text)
    text = "".join(_bare(character, punctuation) for character in text)
    return tuple(_PIECES.findall(text))


def _plain(character: str) -> str:
    """A space for punctuation beyond ASCII, but for the percent family, dashes and the full-width forms of `_KEPT`."""
    if character.isascii() or character in "‰٪" or unicodedata.category(character)[0] != "P":
        return character
    folded = unicodedata.normalize("NFKC", character)
    return folded if folded in _KEPT or folded == "-" else " "


def _bare(character: str, punctuation: str) -> str:
    """Drop what carries no meaning: ASCII punctuation but `_KEPT`, control and format characters."""
    if "\ue000" <= character <= "\ue07f":
        return chr(ord(character) - ord(_SIGN))
    if character.isascii() and not character.isalnum() and not character.isspace() and character not in _KEPT:
        return punctuation
    return "" if unicodedata.category(character) in ("Cc", "Cf") and not character.isspace() else character


def _without_articles(units: Tokens) -> Tokens:
    return tuple(unit for unit in units if unit not in _ARTICLES) or units


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1 when the answer has the tokens of any gold in their order, else 0."""
    return float(any(tokens(answer) == tokens(gold) != () for gold in golds))


def f1(answer: str, golds: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of tokens as a multiset; the best over the golds."""
    return max((_overlap(tokens(answer), tokens(gold)) for gold in golds), default=0.0)


def contains(answer: str, golds: Sequence[str]) -> bool:
    """Any gold stands in the answer between token boundaries: ``no`` is not in ``know``, nor ``1`` in ``2011``.

    Han and kana characters are tokens of their own, so there any run of them may match. A gold that is an article (the
    grade ``A``) must be the whole answer. Containment does not read: an answer that denies a gold contains it.
    """
    return any(
        _holds(tokens(answer), tokens(gold))
        or (not _ARTICLES.issuperset(tokens(gold)) and _holds(_split_tokens(answer), _split_tokens(gold)))
        for gold in golds
    )


def answer_text(outcome: Outcome | None) -> str:
    """What an answer says about now: its claims of kind "answer", or its text when it has no claims."""
    if not isinstance(outcome, Answer):
        return ""
    if not outcome.claims:
        return outcome.text
    return " ".join(claim.text for claim in outcome.claims if claim.kind == "answer")


def check_answers(questions: Sequence[Question]) -> int:
    """How many reference answers have nothing to compare after normalisation; such a one matches no answer.

    Raises RagLabError for a question that has no other reference, since no answer to it could be right.
    """
    empty = 0
    for question in questions:
        unusable = [answer for answer in question.answers if not tokens(answer)]
        if unusable and len(unusable) == len(question.answers):
            place = f"question {question.query_id!r}: reference answer {unusable[0]!r}"
            raise RagLabError(f"{place} has no letter, digit or sign to compare, and there is no other")
        empty += len(unusable)
    return empty


def _overlap(answer: Tokens, gold: Tokens) -> float:
    common = (Counter(answer) & Counter(gold)).total()
    return 2 * common / (len(answer) + len(gold)) if common else 0.0


def _holds(answer: Tokens, gold: Tokens) -> bool:
    size = len(gold)
    return size > 0 and any(answer[i : i + size] == gold for i in range(len(answer) - size + 1))


_UNIT = "the unit is the character for Han and kana, the word otherwise"
_NEEDS = ("answers", "generation")
_METRICS = (
    Metric("EM", _NEEDS, f"Share of the answers that equal a reference after normalisation; {_UNIT}."),
    Metric("F1", _NEEDS, f"Overlap of tokens with the closest reference answer; {_UNIT}."),
    Metric("Correct", _NEEDS, "Share of the answers that contain a reference as whole tokens."),
)
_FUNCTIONS: dict[str, Callable[[str, Sequence[str]], float]] = {"EM": exact_match, "F1": f1, "Correct": contains}


def _compute(names: Sequence[str], seen: Observation) -> dict[str, Scores]:
    outcomes, questions = seen.outcomes or (), seen.questions
    empty = check_answers(questions)
    about = np.array([bool(q.answers) and q.answerable is not False for q in questions], dtype=bool)
    failed, abstained = in_state(outcomes, "failed"), in_state(outcomes, "abstained") & about
    counts = (
        (int(abstained.sum()), "abstentions score 0"),
        (empty, "reference answers hold nothing to compare and match nothing"),
    )
    notes = tuple(f"{count} {what}" for count, what in counts if count)
    pairs = [(answer_text(outcome), question.answers) for outcome, question in zip(outcomes, questions, strict=True)]
    return {
        name: Scores.mean(name, [_FUNCTIONS[name](*pair) for pair in pairs], about, failed, notes) for name in names
    }


FAMILY = Family(named(*_METRICS), _compute)
