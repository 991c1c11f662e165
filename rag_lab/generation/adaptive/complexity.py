"""How many steps a question takes: none, one, or several; estimated from its words alone.

The rule: nothing is retrieved for a question without anything to look for (a greeting, a sum). It takes *several* steps
when it can be taken apart into parts, when it compares two or more things, or when it has two or more signs of
something that is described instead of named. It takes one step otherwise. A classifier on the same features may be
trained in place of the rule (see `classifier`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from rag_lab.contracts import FloatArray
from rag_lab.generation.adaptive.names import names
from rag_lab.generation.terms import question_language, terms

Level: TypeAlias = Literal["none", "one", "several"]

FEATURES = ("parts", "names", "compared", "described", "nested", "terms")
"""Counts: parts of a decomposition, names, words that compare, relative clauses, descriptions within descriptions,
content terms."""

MANY_NAMES, MANY_TERMS, SIGNS = 2, 10, 2
"""So many names or terms are one sign each; so many signs make several steps."""

_COMPARED = {
    "en": re.compile(
        r"\b(?:both|same|shared?|differences?|differ|compared?|comparison|versus|vs|in common|respectively|alike"
        r"|similar|which (?:of|one)|earlier|later|older|younger|taller|shorter|longer|larger|bigger|smaller|higher"
        r"|lower|closer|more|fewer|less|first)\b|\b(?:or|between .{1,60} and)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "比较|相比|对比|区别|差别|差异|不同|相同|一样|同一|都|分别|共同|更|还是|哪一?个.*[早晚大小高低长短多少]|谁.*[早晚大小高]"
    ),
}
_DESCRIBED = {
    "en": re.compile(
        r"(?<!^)\b(?:who|whom|whose|that|which|where|when)\b(?! (?:of|one)\b)"
        r"|\b(?:named|called|known|starring|featuring|directed|written|produced|founded|created|owned|played|portrayed"
        r"|based|located|born|released|published|recorded|composed|used|held|won|made) "
        r"(?:by|for|in|after|as|on|at)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile("(?:所|由|曾|被|以)[^，。？]{1,12}的|[导主创写演作执编建设发出][演导唱立办者曲建明版行]的"),
}
_NESTED = {
    "en": re.compile(
        r"\b(?:the|a|an) (?:\w+[ -]){1,4}(?:of|for|in|from|by|behind|with) (?:the|a|an|this|that|\w+ing) \w+"
        r"|['’]s? (?:\w+ ){0,2}?\w+['’]s?(?= )|\bof (?:the )?\w+['’]s? \w+|\bof the (?:\w+ ){1,4}of\b",
        re.IGNORECASE,
    ),
    "zh": re.compile("的[^，。？的]{1,8}的"),
}
_SUM = re.compile(r"[\d\s.,+*/x×÷^()=%-]+|[\d\s.,]+(?:[+*/×÷^-]|plus|minus|times|加|减|乘以?|除以)[\d\s.,+*/×÷^()=-]+")
_COMMANDS = re.compile(
    r"^\W*(?:(?:what(?:'s| is)|calculate|compute|how much is|hi|hello|hey|thanks?(?: you)?|thank you|good (?:morning|"
    r"evening|afternoon)|bye|goodbye|who are you|how are you|what can you do)\b"
    "|请?计算|算一?下|你好|您好|谢谢|再见|你是谁|早上好)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """How many steps a question takes; score: the signs of several steps, or how probable they are to a classifier.

    compares: whether it names two or more things and compares them.
    """

    level: Level
    score: float
    compares: bool


def measure(questions: Sequence[str], languages: Sequence[str], parts: Sequence[int]) -> FloatArray:
    """The `FEATURES` of each question, ``[n, 6]``; `parts`: of its decomposition, 0 where there is none."""
    found = np.zeros((len(questions), len(FEATURES)))
    for i, (text, declared, count) in enumerate(zip(questions, languages, parts, strict=True)):
        code = question_language(text, declared)
        found[i] = (
            count,
            len(names(text)),
            len(_COMPARED[code].findall(text)),
            len(_DESCRIBED[code].findall(text)),
            len(_NESTED[code].findall(text)),
            len(terms(text)),
        )
    return found


def estimate(questions: Sequence[str], features: FloatArray) -> list[Estimate]:
    """The rule, for each question and its ``features [n, 6]``."""
    found = []
    for text, (parts, named, compared, described, nested, content) in zip(questions, features.tolist(), strict=True):
        compares = compared > 0 and named > 1
        signs = (described > 0) + (nested > 0) + (named >= MANY_NAMES) + (content >= MANY_TERMS)
        several = parts > 1 or compares or signs >= SIGNS
        found.append(Estimate(_level(text, several), float(signs), compares))
    return found


def classified(questions: Sequence[str], features: FloatArray, several: FloatArray) -> list[Estimate]:
    """The same by a classifier's probabilities, ``several [n]``."""
    ruled = estimate(questions, features)
    return [
        replace(one, level=_level(text, p >= 0.5), score=p)
        for text, one, p in zip(questions, ruled, several.tolist(), strict=True)
    ]


def _level(text: str, several: bool) -> Level:
    if nothing_to_look_for(text):
        return "none"
    return "several" if several else "one"


def nothing_to_look_for(text: str) -> bool:
    """Whether a question is a greeting or a sum: what is left of it without that holds no term."""
    rest = _COMMANDS.sub(" ", text)
    bare = rest.strip(" ?？.。!！,，\n")
    return (
        (rest != text and not terms(bare)) or bool(_SUM.fullmatch(bare) and re.search(r"\d", bare)) or not terms(text)
    )
