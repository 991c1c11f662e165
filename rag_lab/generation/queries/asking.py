"""What a language model is asked for other wordings of a question, and how its answer is read.

The instructions are in the language of the question. They ask for one query a line; a JSON list is read as well, for
many models write one whatever they are asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

Task: TypeAlias = Literal["rewrite", "multi_query", "hyde", "step_back", "decompose", "translate"]

_KEEP = {
    "en": "Keep every name, date, number, identifier and quoted phrase exactly as it is. ",
    "zh": "人名、日期、数字、编号和引号中的文字必须原样保留。",
}
_LINES = {
    "en": "Write one a line, without numbers, and nothing else.",
    "zh": "每行一个，不要编号，不要写其他内容。",
}
_INSTRUCTIONS: dict[Task, dict[str, str]] = {
    "rewrite": {
        "en": "Rewrite the last question so that it can be understood without the conversation. "
        + _KEEP["en"]
        + "Do not answer it. Write only the question.",
        "zh": "请改写最后一个问题，使它离开对话也能看懂。" + _KEEP["zh"] + "不要回答。只写改写后的问题。",
    },
    "multi_query": {
        "en": "Write {n} other search queries for the question, with other words for the same thing. "
        + _KEEP["en"]
        + "Do not answer it. "
        + _LINES["en"],
        "zh": "请为这个问题写出{n}个意思相同、用词不同的检索查询。" + _KEEP["zh"] + "不要回答。" + _LINES["zh"],
    },
    "hyde": {
        "en": "Write a short passage, as it would stand in a handbook or an encyclopedia, that answers the question. "
        "Write only the passage.",
        "zh": "请写一小段话来回答这个问题，写法像手册或百科全书中的一段。只写这段话。",
    },
    "step_back": {
        "en": "Write one more general question, whose answer gives the background of the question. Do not answer it. "
        "Write only the more general question.",
        "zh": "请写一个更概括的问题，它的答案能说明这个问题的背景。不要回答。只写更概括的问题。",
    },
    "decompose": {
        "en": "Write the simpler questions that have to be answered first, in order, {n} at most. "
        "Where one needs the answer of an earlier one, write #1 for the answer of the first, #2 for the second. "
        + _KEEP["en"]
        + "Do not answer them. "
        + _LINES["en"],
        "zh": "请按顺序写出需要先回答的较简单的问题，最多{n}个。如果后面的问题要用到前面问题的答案，"
        "用#1表示第一个问题的答案，用#2表示第二个问题的答案。" + _KEEP["zh"] + "不要回答。" + _LINES["zh"],
    },
    "translate": {
        "en": "Translate the question into Chinese. " + _KEEP["en"] + "Do not answer it. Write only the translation.",
        "zh": "请把这个问题翻译成英文。" + _KEEP["zh"] + "不要回答。只写译文。",
    },
}
_TURNS = {"en": ("Conversation:", "Last question: "), "zh": ("对话：", "最后一个问题：")}
_QUESTION = {"en": "Question: ", "zh": "问题："}

_FENCE = re.compile(r"^```\w*\s*\n?|\n?```\s*$")
_MARK = re.compile(r"^\s*(?:[-*•·]|\(?\d{1,2}[.)、:：]|\(?[a-h][.)]|第[一二三四五六七八九十]+[个，、：:]?)\s*")
_LABEL = re.compile(
    r"^(?:(?:the )?(?:rewritten|last|more general|sub-?|new|search|standalone|simpler)? ?(?:question|query|queries|"
    r"questions|passage|translation|answer)|改写后的问题|更概括的问题|问题|查询|译文|答案)\s*\d*\s*[:：]\s*",
    re.IGNORECASE,
)
_QUOTES = ('"', '"'), ("'", "'"), ("“", "”"), ("「", "」"), ("`", "`")


def instructions(task: Task, language: str, n: int = 1) -> str:
    """What the model is told to do, in ``"en"`` or ``"zh"``; `n`: how many it is to write."""
    return _INSTRUCTIONS[task][language].replace("{n}", str(n))


def put_question(text: str, language: str, history: Sequence[str] = ()) -> str:
    """The user's turn. Texts are joined, so braces and the like arrive as they are."""
    if not history:
        return _QUESTION[language] + text
    turns, last = _TURNS[language]
    return "\n".join([turns, *("- " + " ".join(turn.split()) for turn in history), "", last + text])


def read_lines(text: str) -> list[str] | None:
    """The texts of a list, one a line or as JSON, without marks and quotation marks; None for JSON that is broken."""
    body = _FENCE.sub("", text.strip()).strip()
    if body[:1] in ("[", "{") and not re.match(r"\[\d+\]", body):
        try:
            found = _texts(json.loads(body))
        except (ValueError, RecursionError):
            return None
    else:
        found = [_LABEL.sub("", _MARK.sub("", line)) for line in body.splitlines() if not line.rstrip().endswith(":")]
    cleaned = [_unquoted(" ".join(one.split())) for one in found]
    return [one for one in cleaned if one]


def read_text(text: str) -> str | None:
    """The one text that was asked for, its first line or JSON value; None for JSON that is broken, "" for nothing."""
    found = read_lines(text)
    return None if found is None else next(iter(found), "")


def read_passage(text: str) -> str:
    """A passage on one line, without a label before it."""
    return _LABEL.sub("", " ".join(_FENCE.sub("", text.strip()).split()))


def _texts(value: Any) -> list[str]:
    """The texts in a JSON value, in order; of an object those that are called question, query or text, else all."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    if isinstance(value, dict):
        named = [value[name] for name in ("question", "query", "text") if isinstance(value.get(name), str)]
        return named[:1] or [text for one in value.values() for text in _texts(one)]
    return []


def _unquoted(text: str) -> str:
    """The text without quotation marks around the whole of it."""
    for opening, closing in _QUOTES:
        inner = text[1:-1]
        if (
            len(text) > 2
            and text[0] == opening
            and text[-1] == closing
            and opening not in inner
            and closing not in inner
        ):
            return inner.strip()
    return text
