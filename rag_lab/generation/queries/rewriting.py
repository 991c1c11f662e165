"""A question of a conversation made to stand alone, by rules: what its pronouns mean, and what it leaves out.

A fragment (*And in 2023?*, *那2023年呢？*) takes the last question with the like of it replaced; a bare question word
takes the last question along; a pronoun takes a name. He and she mean what the last turn has named first and newly; it
and the like mean what the last question names first. Everything else stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_lab.generation.adaptive.names import names
from rag_lab.generation.queries.chinese_parts import subject
from rag_lab.generation.queries.facts import facts, plain
from rag_lab.generation.terms import question_language

SHORT = 12
"""Characters of a Chinese turn that is taken for a bare answer: a name."""

_FRAGMENT = {
    "en": re.compile(
        r"(?:(?:and|but|so|ok|okay|then)[, ]+)?(?:(?:what|how) about|and)\s+"
        r"(?:(?P<preposition>in|for|at|on|of|with|by|from|since|to|under)\s+)?(?P<what>.+?)\s*[?.!]*",
        re.IGNORECASE,
    ),
    "zh": re.compile("(?:那么|那|而|还有|以及)?[，,]?(?P<preposition>在)?(?P<what>.{1,30}?)呢[？?]*"),
}
_BARE = {
    "en": re.compile(
        r"(?:and |but )?(?:why|how|when|where|who|which(?: one)?|how (?:much|many|long|often|far|old)|since when|"
        r"until when|by whom|what for)(?: (?:so|then|exactly|not))?\s*[?.!]*",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "(?:那么?)?(?:为什么|为何|怎么办|怎么|如何|什么时候|何时|在?哪里|谁|多少钱?|多久|哪[个些])(?:呢)?[？?]*"
    ),
}
_KIND = "company|organisation|organization|city|country|film|movie|book|song|album|team|policy|document|place|law|rule"
# Not the "it" of "is it true that" and "it is raining".
_IT = (
    r"it(?! (?:(?:is|was|has been) )?"
    r"(?:(?:true|possible|necessary|allowed|legal|raining|snowing)\b|[a-z]+ (?:that|to)\b))"
)
_PRONOUN = {
    "en": re.compile(
        r"\b(?:(?P<owner>his|its|their|her(?= [a-z]))|(?P<person>he|she|him|her)"
        rf"|(?P<thing>(?:this|that|the same) (?:{_KIND})|{_IT}|they|them|there(?= ?[?.!]*$)))\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "(?P<person>(?<![其吉])他们?|她们?)|(?P<thing>它们|它|该(?:公司|国|书|片|市|校|组织|政策|文件)"
        "|这[个家部本座所](?:公司|国家|城市|电影|书|学校|政策|文件)|那里|那儿)|(?P<owner>其(?![他它中实余次间]))"
    ),
}
_QUESTION = re.compile(r"[?？]\s*$")
_QUOTED = re.compile(r"\"[^\"\n]+\"|“[^”\n]+”|「[^」\n]+」|『[^』\n]+』|《[^》\n]+》")


def rewrite(texts: Sequence[str], histories: Sequence[Sequence[str]], languages: Sequence[str]) -> list[str]:
    """Each question as it would be asked on its own, ``[n]``; unchanged where it has no history or refers to nothing.

    `histories` hold the turns before, oldest first. `languages` are the declared ones ("en", "zh", "" for unknown).
    """
    return [
        _alone(text, history, question_language(text, language)) if history else text
        for text, history, language in zip(texts, histories, languages, strict=True)
    ]


def _alone(text: str, history: Sequence[str], language: str) -> str:
    last = next((turn for turn in reversed(history) if _QUESTION.search(turn)), history[-1])
    if _BARE[language].fullmatch(text.strip()):
        return f"{text.strip()} {last}"
    if match := _FRAGMENT[language].fullmatch(text.strip()):
        return _replaced(last, match["what"].strip(), match["preposition"] or "", language)
    person, thing = _meant(history, last, language)
    return _named(text, person, thing, language)


def _replaced(last: str, what: str, preposition: str, language: str) -> str:
    """The last question with its date, number or name replaced; both together where it is unclear by which."""
    kinds = {fact.kind for fact in facts(what)}
    if kinds & {"date", "number"}:
        held = [fact.text for fact in facts(last) if fact.kind in kinds or _is_year(fact.text, what)]
        if len(held) == 1 and plain(last).count(held[0]) == 1:
            return plain(last).replace(held[0], what)
    else:
        known = _names(last, language)
        after = [name for name in known if preposition and f"{preposition} {name}" in last]
        if (after or len(known) == 1) and (what[0].isupper() or language == "zh"):
            return last.replace((after or known)[0], what, 1)
    return f"{last} {preposition} {what}".replace("  ", " ")


def _is_year(one: str, other: str) -> bool:
    """Whether both are years, which read as numbers alone and as dates beside a month."""
    return all(re.fullmatch(r"[12]\d{3}年?", text.strip()) for text in (one, other))


def _meant(history: Sequence[str], last: str, language: str) -> tuple[str, str]:
    """The names that a person's pronoun and a thing's mean, "" for none."""
    asked = _names(last, language)
    newest = next((found for turn in reversed(history) if (found := _names(turn, language))), [])
    new = [name for name in newest if name not in asked]
    return (new or newest or [""])[0], (asked or newest or [""])[0]


def _names(turn: str, language: str) -> list[str]:
    found = list(names(turn))
    if language == "zh":
        quoted = [match[0] for match in _QUOTED.finditer(turn)]
        bare = turn.strip(" 。.！!")
        before = subject(turn)
        short = [bare] if len(bare) <= SHORT and not _QUESTION.search(turn) and not before else []
        found = list(dict.fromkeys([*filter(None, [before]), *quoted, *short, *found]))
    return found


def _named(text: str, person: str, thing: str, language: str) -> str:
    """The text with the pronouns replaced that nothing in it can explain, those in quotation marks left alone."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    own = [text.find(name) for name in names(text) if name in text]
    before = min((place for place in own if place >= 0), default=len(text))

    def replaced(match: re.Match[str]) -> str:
        means = person if match["person"] else thing
        if match["owner"] and match["owner"].lower() in ("his", "her"):
            means = person
        inside = any(start <= match.start() < end for start, end in quoted)
        if not means or inside or before < match.start():
            return match[0]
        return means + (("'s" if language == "en" else "的") if match["owner"] else "")

    return _PRONOUN[language].sub(replaced, text)
