"""The language of a text by its script, for collections that do not state it.

This is a guess between the languages that the project has analysers for: Han letters mean Chinese, Latin letters mean
English, kana Japanese, Hangul Korean; any other script is "und" (undetermined). State `language` in a document's
metadata where the guess is wrong, as for German.
"""

from __future__ import annotations

import re

SAMPLE = 2000
LATIN_LETTERS_PER_WORD = 5

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_HANGUL = re.compile(r"[\uac00-\ud7af\u1100-\u11ff]")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_LETTER = re.compile(r"[^\W\d_]")


def language_of(text: str) -> str:
    """Language code of a text, from its first 2,000 characters; "" when it has no letters.

    A Han letter says about as much as a Latin word, so it weighs as much as five Latin letters: an English page that
    quotes a Chinese term stays English, a Chinese one full of product names stays Chinese.
    """
    sample = text[:SAMPLE]
    if sample.isascii():
        return "en" if _LATIN.search(sample) else ""
    han = len(_HAN.findall(sample))
    kana = len(_KANA.findall(sample))
    hangul = len(_HANGUL.findall(sample))
    latin = len(_LATIN.findall(sample))
    letters = len(_LETTER.findall(sample))
    other = max(letters - han - kana - hangul - latin, 0)
    shares = {
        "en": latin / LATIN_LETTERS_PER_WORD,
        "zh": float(han),
        "ko": float(hangul),
        "und": other / LATIN_LETTERS_PER_WORD,
    }
    # Japanese mixes both scripts, and Chinese never has kana.
    if kana * 10 >= han and kana:
        shares["ja"] = float(shares.pop("zh") + kana)
    best = max(shares, key=lambda code: (shares[code], code))
    return best if shares[best] else ""
