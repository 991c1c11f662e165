"""What a question states exactly: dates, numbers with their units, identifiers, and phrases in quotes.

Texts are compared in one form (`plain`): compatibility forms folded (full-width digits), dashes and apostrophes alike,
number words in digits. A fact's `text` is given in that form.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Literal, TypeAlias

from rag_lab.generation.dates import named_days
from rag_lab.generation.queries.numerals import in_digits
from rag_lab.generation.terms import HAN, number

Kind: TypeAlias = Literal["date", "number", "identifier", "acronym", "quote"]


@dataclass(frozen=True, slots=True)
class Fact:
    """Something stated exactly.

    `value` is what counts: (year, month, day) of a date, "" where it names none; or the words of a relative one; value
    and unit of a number; the text in lower case of anything else.
    """

    kind: Kind
    text: str
    value: tuple[str, ...]


_DASHES = re.compile("[\u2010-\u2015\u2212\ufe58\ufe63]")
_QUOTES = (
    re.compile(r"(?<![^\s(\[\"“])'(?=\S)([^'\n]*[^'\s])'(?![^\W_])"),
    *(
        re.compile(f"{opening}([^{opening}{closing}\n]+){closing}")
        for opening, closing in ('""', "“”", "„“", "«»", "‹›", "「」", "『』", "《》", "〈〉", "``", "‘’")
    ),
)
_ADDRESS = re.compile(
    r"\b(?:https?://|www\.)[!#-&(-;=?-Z\\-~]*[A-Za-z0-9/#=]|[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
)
_VERSION = re.compile(
    r"(?<![A-Za-z0-9.])(?:v(?:ersion|er\.?)?\s?(\d+(?:\.\d+)*)|(\d+(?:\.\d+){2,}))(?![A-Za-z0-9]|\.\d)"
    r"|(?:版本|第)\s?(\d+(?:\.\d+)+)\s?版?|(?<![\d.])(\d+(?:\.\d+)+)\s?版",
    re.IGNORECASE,
)
_SAME_DAY = {
    "today": "今天",
    "yesterday": "昨天",
    "tomorrow": "明天",
    "last year": "去年 previous\\syear past\\syear",
    "this year": "今年",
    "next year": "明年",
    "last month": "上月 上个月 previous\\smonth past\\smonth",
    "this month": "本月 这月 这个月",
    "next month": "下月 下个月",
    "last week": "上周 上个周 previous\\sweek past\\sweek",
    "this week": "本周 这周",
    "next week": "下周 下个周",
    "last quarter": "上季度 previous\\squarter past\\squarter",
    "this quarter": "本季度",
    "next quarter": "下季度",
    **{
        f"{day}day": f"{day}days 星期{mark} 礼拜{mark} 周{mark}"
        for day, mark in zip(("mon", "tues", "wednes", "thurs", "fri", "satur"), "一二三四五六", strict=True)
    },
    "sunday": "sundays 星期日 星期天 礼拜日 礼拜天 周日",
}
_EXTENSION = "py|ya?ml|jsonl?|txt|csv|tsv|pdf|md|rst|docx?|xlsx?|pptx?|html?|xml|sh|log|cfg|ini|toml|exe|dll|zip|gz"
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_])(?:--[A-Za-z][\w-]*|~?/[\w.-]+(?:/[\w.-]+)*|[A-Za-z0-9_]+(?:[-_./:#+][A-Za-z0-9_]+)*)",
    re.ASCII,
)
_CODE = re.compile(
    rf"--.+|~?/.+|.*[A-Za-z0-9]_[A-Za-z0-9].*|.+\.(?:{_EXTENSION})|[a-z]{{2,3}}-[A-Z]{{2}}|[a-z]+[A-Z]\w*"
    r"|(?=.*\d)(?=.*[A-Za-z]).*"
)
_ACRONYM = re.compile(r"[A-Z][A-Z&/-]*[A-Z]")
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_WEEKDAYS = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_RELATIVE = re.compile(
    rf"\b(?:today|yesterday|tomorrow|tonight|(?:last|this|next|past|previous)\s+(?:day|week|weekend|month|quarter|year|"
    rf"decade|century|spring|summer|autumn|fall|winter|{_MONTHS}|{_WEEKDAYS})|{_WEEKDAYS}s?"
    rf"|(?<=in )(?:{_MONTHS})|(?<=of )(?:{_MONTHS})|(?<=since )(?:{_MONTHS})|(?<=until )(?:{_MONTHS})"
    rf"|(?<=before )(?:{_MONTHS})|(?<=after )(?:{_MONTHS})|(?<=during )(?:{_MONTHS})|(?<=by )(?:{_MONTHS}))\b"
    r"|[今昨明前后]天|[今去明前后]年|[上下本这]个?[月周]|[上下本]季度|(?:星期|礼拜)[一二三四五六日天]|周[一二三四五六日](?![年岁])",
    re.IGNORECASE,
)

_UNITS = {
    "%": "% percent per\\s?cent percentage\\s?points?",
    "°C": "°C degrees?\\s?Celsius 摄氏度",
    "°F": "°F degrees?\\s?Fahrenheit 华氏度",
    "km": "km kilomet(?:er|re)s? 公里 千米",
    "m": "m met(?:er|re)s? 米",
    "cm": "cm centimet(?:er|re)s? 厘米",
    "mm": "mm millimet(?:er|re)s? 毫米",
    "mile": "miles? 英里",
    "foot": "ft foot feet 英尺",
    "inch": "inch(?:es)? 英寸",
    "kg": "kg kilograms? kilos? 公斤 千克",
    "g": "g grams? 克",
    "mg": "mg milligrams? 毫克",
    "t": "tons? tonnes? 吨",
    "lb": "lbs? pounds? 磅",
    "l": "lit(?:er|re)s? 升",
    "ml": "ml millilit(?:er|re)s? 毫升",
    "W": "W watts? 瓦",
    "kW": "kW kilowatts? 千瓦",
    "kWh": "kWh 千瓦时 度电",
    "MB": "MB megabytes?",
    "GB": "GB gigabytes?",
    "TB": "TB terabytes?",
    "ms": "ms milliseconds? 毫秒",
    "s": "s secs? seconds? 秒",
    "min": "mins? minutes? 分钟",
    "h": "h hrs? hours? 小时",
    "day": "days? 天",
    "week": "weeks? 周 星期",
    "month": "months? 个月",
    "year": "years? 年",
    "USD": "USD \\$ US\\$ dollars? 美元",
    "EUR": "EUR € euros? 欧元",
    "GBP": "GBP £ 英镑",
    "CNY": "CNY RMB ¥ yuan 元 人民币",
    "JPY": "JPY yen 日元",
    "am": "am a\\.m\\.",
    "pm": "pm p\\.m\\.",
    "nth": "st nd rd th",
}
_CURRENCIES = ("USD", "EUR", "GBP", "CNY", "RMB", "JPY")
_DAY_NAMES = {name.replace("\\s", " "): day for day, names in _SAME_DAY.items() for name in names.split()}
_SCALE = {
    **dict.fromkeys(("hundred", "百"), 100),
    **dict.fromkeys(("thousand", "千"), 1000),
    "万": 10**4,
    **dict.fromkeys(("million", "百万"), 10**6),
    "亿": 10**8,
    **dict.fromkeys(("billion", "十亿"), 10**9),
    **dict.fromkeys(("trillion", "万亿"), 10**12),
}
_NAMES = {name: unit for unit, names in _UNITS.items() for name in names.split()}
_BY_LENGTH = "|".join(sorted(_NAMES, key=len, reverse=True))
_QUANTITY = re.compile(
    rf"(?P<percent>百分之)?(?P<nth>第)?(?P<before>US\$|[$€£¥]|(?:{'|'.join(_CURRENCIES)})(?=\s?\d))?\s?"
    rf"(?P<value>(?:(?<![^\s(,;:{HAN}])-)?\d+(?:[.,:]\d+)*)"
    rf"(?:\s?(?P<scale>{'|'.join(sorted(_SCALE, key=len, reverse=True))})(?![A-Za-z]))?"
    rf"(?:[\s-]?(?P<unit>(?:{_BY_LENGTH}))(?![A-Za-z0-9_]))?",
    re.IGNORECASE,
)
_MEASURED = re.compile(rf"\d[\d.,:/-]*(?:{_BY_LENGTH}|s|x)?(?:-[a-z]+)*", re.IGNORECASE)


@lru_cache(maxsize=50_000)
def plain(text: str) -> str:
    """The form in which texts are compared, but for upper and lower case."""
    folded = unicodedata.normalize("NFKC", text).replace("’", "'")
    return in_digits(" ".join(_DASHES.sub("-", folded).split()))


@lru_cache(maxsize=50_000)
def facts(text: str) -> tuple[Fact, ...]:
    """The facts of a text, each kind in order of appearance."""
    return tuple(dict.fromkeys(_facts(plain(text))))


def _facts(text: str) -> Iterator[Fact]:
    for pattern in _QUOTES:
        for match in pattern.finditer(text):
            if words := phrase(match[1]):
                yield Fact("quote", match[0], (words,))
    rest = text
    for match in _ADDRESS.finditer(text):
        rest = _masked(rest, match.span())
        yield Fact("identifier", match[0], (match[0].casefold(),))
    for span, day in named_days(rest):
        yield Fact("date", rest[slice(*span)].strip(), tuple("" if part is None else str(part) for part in day))
    for span, _ in named_days(rest):
        rest = _masked(rest, span)
    for match in _RELATIVE.finditer(rest):
        rest = _masked(rest, match.span())
        yield Fact("date", match[0], _day(match[0].casefold()))
    for match in _VERSION.finditer(rest):
        rest = _masked(rest, match.span())
        yield Fact("number", match[0].strip(), (next(filter(None, match.groups())), ""))
    shouted = text.upper() == text and len(re.findall("[A-Z]+", text)) > 2
    for match in _TOKEN.finditer(rest):
        token = match[0]
        if _CODE.fullmatch(token) and not _MEASURED.fullmatch(token):
            rest = _masked(rest, match.span())
            yield Fact("identifier", token, (token.casefold(),))
        elif not shouted and _ACRONYM.fullmatch(token) and token not in _CURRENCIES:
            yield Fact("acronym", token, (token.casefold(),))
    for match in _QUANTITY.finditer(rest):
        yield Fact("number", match[0].strip(), _quantity(match))


def _day(words: str) -> tuple[str, ...]:
    """What a date means that names no day: a month of any year, or one that is relative."""
    months = _MONTHS.casefold().split("|")
    return ("", str(months.index(words) + 1), "") if words in months else (_DAY_NAMES.get(words, words),)


def phrase(text: str) -> str:
    """The words of a quoted phrase in lower case, without the punctuation at its ends."""
    return text.casefold().strip(" .,;:!?。，；：！？、")


def _masked(text: str, span: tuple[int, int]) -> str:
    """The text with spaces where something was read, so that places stay."""
    start, end = span
    return text[:start] + " " * (end - start) + text[end:]


def _quantity(match: re.Match[str]) -> tuple[str, str]:
    value = number(match["value"])
    if re.fullmatch(r"\d{4}s", match[0].strip()):
        return match[0].strip(), ""  # a decade
    if match["scale"] and (plain_value := re.fullmatch(r"-?\d+(?:\.\d+)?", value.replace(",", ""))):
        scaled = format(Decimal(plain_value[0]) * _SCALE[match["scale"].lower()], "f")
        value = scaled.rstrip("0").rstrip(".") if "." in scaled else scaled
    unit = "%" if match["percent"] else "nth" if match["nth"] else _unit(match["unit"] or match["before"] or "")
    return value, unit


@lru_cache(maxsize=1000)
def _unit(name: str) -> str:
    exact = next((unit for known, unit in _NAMES.items() if re.fullmatch(known, name)), "")
    return exact or next((unit for known, unit in _NAMES.items() if re.fullmatch(known, name, re.IGNORECASE)), "")
