"""The language of a text, where its source does not declare one.

Chinese, Japanese and Korean are told by their script; traditional and simplified Chinese are both "zh". Other texts go
through py3langid (97 languages, one fixed model). A text that is too short for it, or that it is not sure of, gets the
guess by script of `rag_lab.datasets.languages`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from rag_lab.datasets.languages import language_of

VERSION = "language-1"

_SAMPLE = 4000
_LETTERS = 20
_SURE = 0.5
_LETTER = re.compile(r"[^\W\d_]")
_BY_SCRIPT = frozenset({"zh", "ja", "ko", ""})
_SAME = {"nb": "no", "nn": "no"}


def identify(text: str) -> str:
    """Two-letter code of the language, "und" when the script tells nothing, "" when the text has no letters."""
    sample = _sample(text)
    guess = language_of(sample)
    if guess in _BY_SCRIPT or len(_LETTER.findall(sample)) < _LETTERS:
        return guess
    language, probability = _model().classify(sample)
    return _SAME.get(language, language) if probability >= _SURE and language != "zxx" else guess


def normal(tag: str) -> str:
    """The primary subtag of a declared language tag: "zh-Hant-TW" is "zh"; "" for what is no tag."""
    found = re.match(r"\s*([A-Za-z]{2,3})(?:[-_]|\s*$)", tag)
    code = found.group(1).lower() if found else ""
    return "" if code in ("und", "mul", "zxx") else _SAME.get(code, code)


def _sample(text: str) -> str:
    """The start and the middle: a start alone may be a licence or a menu in another language."""
    if len(text) <= _SAMPLE:
        return text
    middle = len(text) // 2
    return text[: _SAMPLE // 2] + "\n" + text[middle : middle + _SAMPLE // 2]


@cache
def _model() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
