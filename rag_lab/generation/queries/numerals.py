"""Numbers that are written in words, as digits: English (twenty-one, third) and Chinese (二〇二四年, 三百, 第五)."""

from __future__ import annotations

import re

from rag_lab.generation.terms import NUMBER_WORDS

MEASURES = (
    "个名人位次条座种部家岁米年月日天周号点时分秒元块倍成件台辆本册集季章节楼层级期届代国省市县篇页只张所支轮口句项"
)
_ORDINALS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]
_ORDINAL = {word: number for number, word in enumerate(_ORDINALS, 1)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORD = "|".join(sorted([*NUMBER_WORDS, *_SCALES], key=len, reverse=True))
_WORDS = re.compile(rf"(?<!\d )(?<!\d-)\b(?:{_WORD})(?:(?:-|\s+(?:and\s+)?)(?:{_WORD}))*\b", re.IGNORECASE)
_NTH = re.compile(rf"\b(?:{'|'.join(_ORDINAL)})\b", re.IGNORECASE)

_DIGIT = {**{mark: value for value, mark in enumerate("零一二三四五六七八九")}, "〇": 0, "两": 2}
_PLACE = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10**4, "亿": 10**8}
_HAN_RUN = "[零〇一二两三四五六七八九十百千万亿]"
# Two digits in a row are only then a number when it is a year (九八年); otherwise they may be part of a name.
_HAN_NUMBER = re.compile(
    rf"(?<=百分之){_HAN_RUN}+|[零〇一二三四五六七八九]{{2,4}}(?=年)|第{_HAN_RUN}+|[零〇一二三四五六七八九]{{4}}"
    rf"|(?<![周期拜{_HAN_RUN[1:-1]}])(?:[一二两三四五六七八九]?(?:[十千]|百(?!分之)){_HAN_RUN}*|{_HAN_RUN}+[万亿]|[二两三四五六七八九])"
    rf"(?=[{MEASURES}])"
)


def in_digits(text: str) -> str:
    """The text with such numbers as digits; a lone *one* or 一 is too seldom a number, and stays."""
    text = _WORDS.sub(_english, text)
    text = _NTH.sub(lambda word: _suffixed(_ORDINAL[word[0].lower()]), text)
    return _HAN_NUMBER.sub(_chinese, text)


def _english(match: re.Match[str]) -> str:
    words = [word for word in re.split(r"[-\s]+", match[0].lower()) if word != "and"]
    if words == ["one"] or (len(words) > 1 and not any(word in _SCALES for word in words) and not _is_compound(words)):
        return match[0]
    total = part = 0
    for word in words:
        if word not in _SCALES:
            part += int(NUMBER_WORDS[word])
        elif word == "hundred":
            part = max(part, 1) * 100
        else:
            total, part = total + max(part, 1) * _SCALES[word], 0
    return str(total + part)


def _is_compound(words: list[str]) -> bool:
    """Twenty-one, but not *one two three*."""
    tens, ones = (int(NUMBER_WORDS[word]) for word in (words[0], words[-1]))
    return len(words) == 2 and tens >= 20 and tens % 10 == 0 and 0 < ones < 10


def _suffixed(number: int) -> str:
    return f"{number}" + {1: "st", 2: "nd", 3: "rd"}.get(number, "th")


def _chinese(match: re.Match[str]) -> str:
    run = match[0].removeprefix("第")
    prefix = match[0][: len(match[0]) - len(run)]
    if not any(mark in _PLACE or mark in _LARGE for mark in run):
        return prefix + "".join(str(_DIGIT[mark]) for mark in run)
    value = section = digit = 0
    for mark in run:
        if mark in _DIGIT:
            digit = _DIGIT[mark]
        elif mark in _PLACE:
            section, digit = section + (digit or 1) * _PLACE[mark], 0
        elif mark == "万":
            value, section, digit = value + (section + digit or 1) * _LARGE[mark], 0, 0
        else:
            value, section, digit = (value + section + digit or 1) * _LARGE[mark], 0, 0
    return prefix + str(value + section + digit)
