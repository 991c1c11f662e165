"""Other wordings of a question, by rules: its key words, what it states, the names in it; and a more general one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag_lab.generation.adaptive.names import names
from rag_lab.generation.queries.facts import plain
from rag_lab.generation.terms import CJK, STOPWORDS, question_language, terms

_WORD = re.compile(rf"[{CJK}]+|[^\s{CJK}]+")
_EDGES = '.,;:?!()[]{}"“”„«»「」『』《》〈〉。，；：？！、（）'
_MARKS = " ?？.。!！,，;；:："
_AUXILIARY = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b"
_ASKED = {
    "en": re.compile(
        r"^\W*(?:(?:please|can you|could you) )?(?:(?:tell me|name|list|give me|do you know) )?"
        r"(?:(?:in|at|on|for|from|to|by) )?(?:what|which|who|whom|whose|when|where|why"
        r"|how(?: (?:many|much|long|old|far|often|big|tall|high))?)\b"
        rf"(?:['’]s\b)?\s*(?P<noun>(?:(?!{_AUXILIARY})[a-z-]+ ){{0,3}}?){_AUXILIARY}\s*|^\W*{_AUXILIARY}\s*",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "请问|你知道|告诉我|(?:是|叫|为)?(?:什么时候|什么地方|为什么|什么|哪一?[个位部家座种本条支年月日天]|哪里|哪儿|哪些|哪)"
        "|(?:是|叫|为)?(?:谁|何时|何地)|有?多少|怎么样|怎么|怎样|如何|是否|是不是|有没有|(?:吗|呢)(?=[？?]?$)"
    ),
}
_PARTICLE = re.compile("请问|的|了|着|是|在|和|与|及|或|吗|呢|[，。；：？！、,;:?!\\s]+")
_LEADING = re.compile(r"^(?:(?:the|an?|my|our|your|I|we|you|one|there)\s+)+", re.IGNORECASE)
_ADJUNCT = {
    "en": re.compile(
        r"[,;:]| (?:for|under|over|in|on|at|during|with|without|after|before|since|until|from|by|when|if|where|who|"
        r"that|which|while|because|according|as|than)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile("[，,；;：:]|在|于|是|有|被|由|对于?|从|何|多|几|怎|如何|为什么|吗|呢|什么|哪|谁"),
}


def variations(texts: Sequence[str], languages: Sequence[str], most: int) -> list[list[str]]:
    """At most so many other queries for each question, distinct from it and from one another, in a fixed order.

    In order: the key words, without stop words and question words; what is left without the words that ask; the names
    and quoted phrases alone.
    """
    return [
        _distinct(text, _wordings(text, question_language(text, language)), most)
        for text, language in zip(texts, languages, strict=True)
    ]


def step_back(texts: Sequence[str], languages: Sequence[str]) -> list[str]:
    """A more general query for each question, its first name with the head of what is asked; "" where there is none.

    It has some of the question's terms, and no other ones.
    (Zheng et al., *Take a Step Back*, 2023, let a model ask the more general question.)
    """
    return [
        next(iter(_distinct(text, [_general(text, question_language(text, language))], 1)), "")
        for text, language in zip(texts, languages, strict=True)
    ]


def _distinct(text: str, wordings: Sequence[str], most: int) -> list[str]:
    own = plain(text).casefold().strip(_EDGES)
    found: dict[str, str] = {}
    for wording in wordings:
        key = plain(wording).casefold().strip(_EDGES)
        if key and key != own and terms(wording):
            found.setdefault(key, wording.strip())
    return list(found.values())[:most]


def _wordings(text: str, language: str) -> list[str]:
    stated = " ".join(_ASKED[language].sub(lambda match: match.groupdict().get("noun") or "", text).split())
    stated = re.sub("[是在于有]$", "", stated.strip(_MARKS)) if language == "zh" else stated.strip(_MARKS)
    return [" ".join(_key_words(text, language)), stated, " ".join(_names(text))]


def _key_words(text: str, language: str) -> Iterator[str]:
    if language == "zh":
        yield from (piece for piece in _PARTICLE.split(_ASKED["zh"].sub(" ", text)) if piece.strip(_EDGES))
        return
    for token in _WORD.findall(text):
        word = token.strip(_EDGES)
        if word and word.lower() not in STOPWORDS:
            yield word


def _names(text: str) -> list[str]:
    return [name for name in names(text) if terms(name)]


def _general(text: str, language: str) -> str:
    stated = (
        _ASKED["en"].sub(lambda match: match["noun"] or "", text) if language == "en" else text.removeprefix("请问")
    )
    end = _ADJUNCT[language].search(stated, 1)
    head = _LEADING.sub("", (stated[: end.start()] if end else stated).strip(_MARKS))
    name = next(iter(_names(text)), "")
    general = head if name in head else f"{name} {head}"
    kept = set(terms(general))
    return general if kept < set(terms(text)) and (name or len(kept) > 1) else ""
