"""What kind of thing a question asks for, whether a sentence names one, and the values that it names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from rag_lab.generation.terms import HAN, NUMBER_WORDS, number, stem

AnswerType: TypeAlias = Literal["number", "date", "person", "place", "reason", "code"]

# The first pattern that a question matches decides.
_QUESTION: tuple[tuple[AnswerType, re.Pattern[str]], ...] = (
    (
        "code",
        re.compile(
            r"\b(?:what|which)\b[^?]{0,40}?\b(?:code|command|identifier|id|key|option|flag|port|parameter|endpoint|header)\b"
            r"|(?:什么|哪个|哪条|哪些)[^？?]{0,10}(?:代码|编号|命令|参数|端口|选项)|错误码|错误代码",
            re.IGNORECASE,
        ),
    ),
    (
        "number",
        re.compile(
            r"\bhow (?:many|much|old|tall|far|large|big|high|fast|often|long|deep|wide)\b"
            r"|\bwhat (?:percent|percentage|number|proportion|amount|age|price|cost|fee)\b"
            r"|多少|几[个名人位次条座种部家岁米公倍]|多[大高长远久重]|人数|数量",
            re.IGNORECASE,
        ),
    ),
    (
        "date",
        re.compile(
            r"\bwhen\b|\b(?:what|which) (?:year|month|day|date|century|decade|time|era|period)\b"
            r"|什么时候|何时|哪一?[年月天日]|时间|几[年月日点]|年份|日期",
            re.IGNORECASE,
        ),
    ),
    ("person", re.compile(r"\bwho(?:m|se)?\b|谁|哪一?[位人]", re.IGNORECASE)),
    ("reason", re.compile(r"\bwhy\b|为什么|为何|原因", re.IGNORECASE)),
    ("place", re.compile(r"\bwhere\b|哪里|哪儿|何处|什么地方|哪个?一?[省市县国区]", re.IGNORECASE)),
)

_SENTENCE: Mapping[AnswerType, re.Pattern[str]] = {
    "number": re.compile(
        r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|"
        r"billion|half|third|quarter|percent|zero|several|once|twice|both|daily|weekly|monthly|yearly|annually)\b"
        r"|[一二两三四五六七八九十百千万亿半][个名人位年月日天次条座种部家岁元倍公米小分周成]|分之",
        re.IGNORECASE,
    ),
    "date": re.compile(
        r"\b(?:1\d{3}|20\d\d)s?\b|\d\s*[-/:]\s*\d|\b(?:January|February|March|April|May|June|July|August|September|"
        r"October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec|century|centuries|(?:Mon|Tues|Wednes|"
        r"Thurs|Fri|Satur|Sun)days?|days?|years?|months?|weeks?|hours?|decades?|BC|AD|a\.m|p\.m|noon|midnight)\b"
        r"|\d+\s*[年月日号时点]|世纪|年代|星期|周[一二三四五六日]|季度",
        re.IGNORECASE,
    ),
    "reason": re.compile(
        r"\b(?:because|due to|since|as a result|caused?|causes|in order to|so that|reasons?|owing|therefore|thus|"
        r"to avoid|to prevent)\b|因|由于|为了|所以|原因|导致",
        re.IGNORECASE,
    ),
    "place": re.compile(
        rf"\b(?:[Ii]n|[Aa]t|[Nn]ear|[Ff]rom|[Tt]o|[Oo]n|[Aa]cross|[Bb]etween|north|south|east|west|floor|room|building)\b"
        rf" (?:the )?[A-Z0-9]|位于|在[{HAN}]|[省市县区州国楼层室]"
    ),
    "code": re.compile(r"`[^`]+`|\b[A-Z]{2,}[-_]?\d+|\b\w+[_-]\w*\d|\b\w+_\w+|--\w|\b\d{3,}\b|[\w/]+\(\)"),
}
_CAPITAL = re.compile(r"(?<!^)(?<![.!?]\s)\b[A-Z][\w’'-]+")
# "One" is a pronoun too often.
_WORDS = re.compile(rf"\b(?:{'|'.join(word for word in NUMBER_WORDS if word not in ('zero', 'one'))})\b", re.IGNORECASE)
_FAMILIES = {
    "money": "$ € £ ¥ usd eur gbp cny rmb dollar euro pound yuan 元 块 镑",
    "time": "second minut hour day week month year 秒 分钟 小时 天 日 工作日 周 个月 年",
}
_FAMILY = {unit: family for family, units in _FAMILIES.items() for unit in units.split()}
_TITLES = frozenset(("mr", "mrs", "ms", "dr", "prof", "sir", "madam"))
_CLOCK = re.compile(r"(?<![\d:：])(?:[01]?\d|2[0-4])[:：][0-5]\d(?:[:：][0-5]\d)?(?![\d:：])")
_QUANTITY = re.compile(
    rf"(?P<currency>[$€£¥])?\s?(?P<value>\d+(?:[.,]\d+)*)\s?(?P<scale>%|million\b|billion\b|[万亿])?\s?"
    rf"(?P<unit>[^\W\d_{HAN}]+|个月|个?(?:小时|工作日)|分钟|[{HAN}])?"
)


@lru_cache(maxsize=50_000)
def answer_type(question: str) -> AnswerType | None:
    """What `question` asks for; None when its wording does not tell."""
    return next((kind for kind, pattern in _QUESTION if pattern.search(question)), None)


@lru_cache(maxsize=200_000)
def _names(kind: AnswerType, sentence: str) -> bool:
    return bool(_SENTENCE[kind].search(sentence))


@lru_cache(maxsize=200_000)
def _capitals(sentence: str) -> frozenset[str]:
    return frozenset(match.group().lower() for match in _CAPITAL.finditer(sentence))


def fit(kind: AnswerType | None, question: str, sentence: str) -> float:
    """1 when `sentence` names something of the kind asked for, 0 when not, 0.5 when that cannot be told.

    A person is a capitalised word that the question does not hold; Chinese has no capitals.
    """
    if kind is None or (kind == "person" and re.search(f"[{HAN}]", sentence)):
        return 0.5
    if kind == "person":
        asked = question.lower()
        return float(any(name not in asked for name in _capitals(sentence)))
    return float(_names(kind, sentence))


def quantities(text: str) -> dict[str, frozenset[str]]:
    """Values that `text` names, by unit: ``{"€": {"500"}, "day": {"3"}, ":": {"9:00"}}``; ``":"`` is the clock's.

    Number words count as numbers; numbers without a unit are left out.
    """
    found: dict[str, set[str]] = {}
    if times := {time.replace("：", ":").removeprefix("0") for time in _CLOCK.findall(text)}:
        found[":"] = times
    text = _WORDS.sub(lambda word: NUMBER_WORDS[word[0].lower()], _CLOCK.sub(" ", text))
    for match in _QUANTITY.finditer(text):
        unit = match["currency"] or (match["scale"] == "%" and "%") or (match["unit"] and stem(match["unit"].lower()))
        if unit:
            unit = unit if unit == "个月" else unit.removeprefix("个") or unit
            value = number(match["value"]) + (match["scale"] or "").replace("%", "")
            found.setdefault(unit, set()).add(value)
    return {unit: frozenset(values) for unit, values in found.items()}


def comparable(one: str, other: str) -> bool:
    """Whether two texts name values of one unit, or of units of one family: money, or lengths of time."""
    left, right = ({_FAMILY.get(unit, unit) for unit in quantities(text)} for text in (one, other))
    return not left.isdisjoint(right)


def differ(one: str, other: str) -> bool:
    """Whether two texts name values of one unit that have none in common."""
    left, right = quantities(one), quantities(other)
    shared = left.keys() & right.keys()
    return bool(shared) and all(left[unit].isdisjoint(right[unit]) for unit in shared)


def contradict(question: str, one: str, other: str) -> bool:
    """Whether two sentences give different answers of the kind that `question` asks for, as far as that can be told.

    Numbers and dates differ by their values, persons by the capitalised words that the question does not hold. Places,
    reasons and codes can be given in too many ways, and Chinese names have no capitals.
    """
    kind = answer_type(question)
    if kind == "person":
        asked = question.lower()
        left, right = ({n for n in _capitals(text) - _TITLES if n not in asked} for text in (one, other))
        return bool(left) and bool(right) and left.isdisjoint(right)
    return kind in (None, "number", "date") and differ(one, other)
