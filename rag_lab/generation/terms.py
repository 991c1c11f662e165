"""Tokens and terms of English and Chinese text: what the reader counts, and what it compares.

A *token* is the unit of the reader's budget: a run of letters and digits, one Han or kana character, or one
punctuation mark. White space is free. Counts are additive over texts that are separated by white space.

A *term* is the unit of comparison: a lower-cased, lightly stemmed word, a number, or two neighbouring Han characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from rag_lab.contracts import IntArray

HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ffff"
CJK = HAN + "\u3040-\u30ff"

_TOKEN = re.compile(rf"[{CJK}]|[^\W{CJK}]+|[^\w\s]")
_HAN_CHARACTER = re.compile(f"[{HAN}]")
_LETTER = re.compile(rf"[^\W\d_{CJK}]+")
_WORD = re.compile(rf"\d+(?:[.,]\d+)*|[{CJK}]+|[^\W\d_{CJK}]+(?:['’][^\W\d_{CJK}]+)?")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_POSSESSIVE = re.compile(r"['’]s?$")
_VOWEL = re.compile("[aeiouy]")

_FUNCTION_WORDS = """
a about above after again all also am an and any are as at be been before being between both but by can could did
do does doing down during each else few for from further had has have having he her here hers him his how i if in
into is it its itself just many may me might more most much must my no nor not of off on once only or other our
out over own same shall she should so some such than that the their them then there these they this those through
to too under until up upon us very was we were what when where which while who whom whose why will with would you
your
"""
STOPWORDS = frozenset(_FUNCTION_WORDS.split())
# Particles and question words: they end a run of Han characters, so that no bigram is made of them.
_HAN_BREAK = re.compile(
    "请问|为什么|什么|哪些|哪里|哪个|哪|谁|多少|何时|何|怎么样|怎么|怎样|如何|是否|是不是|有没有|几|吗|呢|的|了|是|着"
)
_CARDINALS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
_TENS = "thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: str(value) for value, word in enumerate(_CARDINALS.split())} | {
    word: str(value) for word, value in zip(_TENS.split(), range(30, 100, 10), strict=True)
}


def count_tokens(texts: Sequence[str]) -> IntArray:
    """Tokens of each text, ``[n]``."""
    return np.fromiter((len(_TOKEN.findall(text)) for text in texts), dtype=np.int32, count=len(texts))


def token_ends(text: str) -> list[int]:
    """End offset of each token of `text`, in order."""
    return [match.end() for match in _TOKEN.finditer(text)]


def is_chinese(text: str) -> bool:
    """Whether `text` reads as Chinese: Han characters outnumber a fifth of its Latin words."""
    return 5 * len(_HAN_CHARACTER.findall(text)) > len(_LETTER.findall(text)) and bool(_HAN_CHARACTER.search(text))


def question_language(text: str, declared: str = "") -> str:
    """``"zh"`` or ``"en"``: the declared language when it is one of them, else the one `text` is written in."""
    code = declared.lower().replace("_", "-").split("-")[0]
    if code in ("en", "zh"):
        return code
    return "zh" if is_chinese(text) else "en"


@lru_cache(maxsize=200_000)
def stem(word: str) -> str:
    """Strip the inflections of an English word in lower case: plural, -ed, -ing, -ly, -ion and a final e."""
    if len(word) < 4:
        return word
    word = _without_plural(word)
    for ending, least in (("ing", 6), ("ied", 5), ("ed", 5), ("ion", 7), ("ly", 6)):
        root = word[: -len(ending)]
        if word.endswith(ending) and len(word) >= least and _VOWEL.search(root):
            word = root + "y" if ending == "ied" else root
            if ending in ("ing", "ed") and len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _without_plural(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def number(word: str) -> str:
    """A numeral without its thousands separators: ``10,000`` and ``10000`` are one term."""
    return word.replace(",", "") if _GROUPED.fullmatch(word) else word.rstrip(".,")


def _han_terms(run: str) -> list[str]:
    found: list[str] = []
    for piece in _HAN_BREAK.split(run):
        found.extend(piece[i : i + 2] for i in range(len(piece) - 1))
        if len(piece) == 1:
            found.append(piece)
    return found


@lru_cache(maxsize=200_000)
def terms(text: str) -> tuple[str, ...]:
    """Distinct content terms of `text`, in order of appearance; compatibility forms (full width) are folded."""
    found: dict[str, None] = {}
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).lower()):
        if word[0].isdigit():
            found[number(word)] = None
        elif re.match(f"[{CJK}]", word):
            found.update(dict.fromkeys(_han_terms(word)))
        else:
            word = _POSSESSIVE.sub("", word)
            if word and word not in STOPWORDS:
                found[NUMBER_WORDS.get(word) or stem(word)] = None
    return tuple(found)


def numbers(text: str) -> frozenset[str]:
    """The numerals of `text`, without thousands separators, number words included."""
    return frozenset(term for term in terms(text) if term[0].isdigit())
