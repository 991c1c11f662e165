"""How English questions are put together: coordination, comparison, nested descriptions."""

from __future__ import annotations

import re

from rag_lab.contracts import Span
from rag_lab.generation.queries.parts import QUOTE, put

DEEPEST = 4

_CAPITAL = r"[A-Z\u00c0-\u00de][\w.&’'-]*[\w.]|[A-Z\u00c0-\u00de]"
_REFERENCE = r"#\d+|[\ue100-\ue1ff]"
_LINK = r"of|the|de|la|le|du|von|van|der|del|da|di|al|el|&"
_MORE = rf"(?:(?: (?:{_LINK}))* (?:{_CAPITAL}|\d+|[{QUOTE}]))*"
NAME = rf"(?:[{QUOTE}]|{_REFERENCE}|(?:\d+(?:st|nd|rd|th)? )?(?:{_CAPITAL}){_MORE})"
_FUNCTION = """
of in on at by for from with to and or that which who whose whom where when is was are were be been has have
had did do does the a an as than both same
"""
_WORD = rf"(?!(?:{'|'.join(_FUNCTION.split())})\b)[a-z][\w-]*"
_THING = rf"(?:(?:[Tt]he|an?) )?(?:(?:{_WORD}|\d+) ){{0,3}}?{NAME}"

_PERSONS = """
director author writer composer singer producer founder founders creator inventor discoverer owner president
prime_minister chairman chairwoman chair ceo chief_executive king queen emperor mayor governor leader head
coach captain manager wife husband spouse mother father parents son daughter brother sister grandfather
grandmother uncle aunt star lead_actor lead_actress editor publisher architect designer developer
screenwriter lyricist illustrator narrator host winner champion successor predecessor teacher student adviser
advisor namesake performer
"""
_OTHERS = """
capital birthplace hometown headquarters country city alma_mater employer record_label parent_company
manufacturer distributor studio currency official_language home_stadium mascot sequel prequel
"""
_PERSON, _OTHER = ("|".join(words.split()).replace("_", " ") for words in (_PERSONS, _OTHERS))
_RELATION = rf"(?:{_WORD} ){{0,2}}?(?P<relation>(?i:{_PERSON}|{_OTHER}))"
_OF = re.compile(rf"\b(?P<what>[Tt]he {_RELATION} of (?P<whose>{_THING}))(?!['’]s\b)(?! of\b)")
_POSSESSIVE = re.compile(rf"(?P<whose>{NAME})['’]s? (?P<what>{_RELATION})\b(?! of\b)")

_CONTENT = (
    "fact claim idea evidence hypothesis belief notion possibility statement theory extent degree way reason time"
)
_NOUN = rf"(?:the|an?) (?P<noun>(?!(?:{'|'.join(_CONTENT.split())})\b)(?:{_WORD} ){{0,3}}?{_WORD})"
_RELATIVE = re.compile(rf"\b{_NOUN} (?:who|that|which) (?P<rest>.+)")
_WHOSE = re.compile(rf"\b{_NOUN} whose (?P<rest>.+)")
_WHERE = re.compile(rf"\b{_NOUN} (?:where|(?P<preposition>in|at|on|for|from|to|by|with) which) (?P<rest>.+)")
_PARTICIPLE = "written|sung|built|won|made|held|shot|led|drawn|known|born|set|[a-z]+ed"
_REDUCED = re.compile(rf"\b{_NOUN} (?P<verb>{_PARTICIPLE}) (?P<rest>(?:by|in|for|as|at|on|after|to|with) .+)")
_STARRING = re.compile(rf"\b{_NOUN} (?P<verb>starring|featuring|containing) (?P<rest>.+)")
_NOW = ("located", "based", "situated", "known", "called", "named", "headquartered")
_OBJECT = re.compile(rf"(?:{NAME}|(?:the|an?|his|her|its|their|he|she|it|they|we|you|I)\b)")

_END = re.compile(r"[,;:?!]")
_PREDICATE = re.compile(
    r" (?:born|die|died|live|lived|work|study|located|based|situated|from|buried|raised|educated|married|released|"
    r"founded|built|published|established|set|grow up|go to (?:school|college|university)|attend [a-z]+|come from|"
    r"play for)$"
)
_BEFORE = re.compile(r"\b(?P<aux>did|do|does|has|have|had|can|could|will|would|should)\s+$", re.IGNORECASE)
_VERB_AT_END = re.compile(r" [a-z]+(?: (?:up|for|from|in|at|to|with|by|on|of))?$")
_ASKED_OPENLY = re.compile(
    r"(?:(?:[Ii]n|[Aa]t|[Oo]n|[Ff]or|[Ff]rom|[Tt]o) )?(?:[Ww]h(?:om?|at|ich|ere|en|y|ose)|[Hh]ow)\b"
)
_WHOLE = re.compile(
    rf"(?:and )?(?:name|tell me|(?:who|where|(?:what|which)(?: {_WORD})?) (?:is|was|are|were)|(?:who|what|where)'s)?\s*"
    rf"(?:{_REFERENCE})",
    re.IGNORECASE,
)
_IS = re.compile(rf"(?P<subject>{_THING}) (?P<verb>is|was|are|were) (?P<predicate>.+)")


def nested(question: str) -> list[str]:
    """A question about something that is described, after one that asks what that is; [] where nothing is described."""
    text = question.rstrip(" ?.!")
    parts: list[str] = []
    while len(parts) < DEEPEST and (found := _innermost(text)):
        span, asks = found
        rest = put(text, span, len(parts) + 1)
        if _WHOLE.fullmatch(rest):
            break
        parts.append(asks)
        text = rest
    return [*parts, text + "?"] if parts else []


def _innermost(text: str) -> tuple[Span, str] | None:
    """The span of the description that begins last, and a question for what it describes."""
    found = []
    for start in [match.start() for match in re.finditer(r"\b(?:the|an?) ", text, re.IGNORECASE)]:
        if match := _OF.match(text, start):
            who = "Who" if re.fullmatch(_PERSON, match["relation"], re.IGNORECASE) else "What"
            found.append((match.span("what"), f"{who} is {_lower(match['what'])}?"))
        else:
            found += _described(text, start)
    for match in _POSSESSIVE.finditer(text):
        who = "Who" if re.fullmatch(_PERSON, match["relation"]) else "What"
        found.append((match.span(), f"{who} is the {match['what']} of {match['whose']}?"))
    return max(found, key=lambda one: one[0], default=None)


def _described(text: str, start: int) -> list[tuple[Span, str]]:
    """A noun with a relative clause, or with a participle in its place, that begins at `start`."""
    for pattern in (_WHERE, _WHOSE, _RELATIVE, _REDUCED, _STARRING):
        match = pattern.match(text, start)
        if match is None:
            continue
        rest = _clause(text, match)
        if rest is None:
            return []
        return [((start, match.start("rest") + len(rest)), _asking(pattern, match, rest))]
    return []


def _clause(text: str, match: re.Match[str]) -> str | None:
    """How far a clause goes: to the next mark, without the verb that is the question's; None if that is unclear."""
    end = _END.search(match["rest"])
    rest = match["rest"][: end.start()] if end else match["rest"]
    subject = _BEFORE.search(text[: match.start()])
    # What is asked for stands first, so the question's own verb stands last: What does the man who ... do?
    asked = subject and subject["aux"].lower() in ("do", "does", "did") and _ASKED_OPENLY.match(text)
    verb = None if end else (_VERB_AT_END if asked else _PREDICATE).search(rest)
    if subject and verb is None:
        return None
    inverted = subject or re.search(r"\b(?:is|was|are|were) $", text[: match.start()], re.IGNORECASE)
    rest = rest[: verb.start()] if verb and inverted else rest
    return rest.strip() or None


def _asking(pattern: re.Pattern[str], match: re.Match[str], rest: str) -> str:
    noun = match["noun"]
    if pattern is _WHERE:
        if clause := _IS.fullmatch(rest):
            rest = f"{clause['verb']} {clause['subject']} {clause['predicate']}"
        return f"{(match['preposition'] or 'in').capitalize()} which {noun} {rest}?"
    if pattern is _WHOSE:
        return f"Which {noun}'s {rest}?"
    if pattern is _REDUCED:
        return f"Which {noun} {'is' if match['verb'] in _NOW else 'was'} {match['verb']} {rest}?"
    if pattern is _STARRING:
        return f"Which {noun} is {match['verb']} {rest}?"
    return f"{rest} which {noun}?" if _OBJECT.match(rest) else f"Which {noun} {rest}?"


_WH = r"(?:who|whom|whose|what|which|when|where|why|how)\b"
_AND_ASKS = re.compile(rf",? and (?:then )?(?=(?:in |at |on |for |from )?{_WH})", re.IGNORECASE)
_ASKS = re.compile(rf"(?:(?:in|at|on|for|from|by) )?{_WH}", re.IGNORECASE)
_ANSWERED = re.compile(
    r"(?:who\b|whom\b|(?:in )?(?:which|what) (?!is\b|was\b|are\b|were\b|do\b|does\b|did\b)\w+)", re.I
)
_PRONOUN = re.compile(r"\b(he|she|him|it|they|them|his|her|its|their)\b", re.IGNORECASE)
_OWNING = ("his", "its", "their")

_ITEMS = re.compile(r"\s*,\s*(?:or\s+|and\s+)?|\s+or\s+")
_CHOICE = re.compile(r"^(?P<stem>.+?)\s*[,:]\s*(?:(?:between|either)\s+)?(?P<items>.+\s(?:or|and)\s.+)$", re.IGNORECASE)
_BETWEEN = re.compile(r"^(?:between|of|among|out of) (?P<items>.+? and [^,]+), (?P<stem>.+)$", re.IGNORECASE)
_PAIR = rf"(?P<one>{_THING})(?:,? and |, )(?P<other>{_THING})"
_BOTH = re.compile(rf"^(?P<aux>(?i:are|were|do|did|have)) (?:both )?{_PAIR}(?: both| all| each)? (?P<rest>.+)$")
_COMMON = re.compile(
    rf"^(?:[Ww]hat|[Ww]hich)(?: (?P<noun>[a-z ]+?))? (?:do|did|are|were) (?:both )?{_PAIR}"
    r"(?: both)?(?: (?:share|have|had))?(?: in common)?$"
)
_DIFFERENCE = re.compile(
    rf"^(?:(?:[Ww]hat (?:is|are) )?[Tt]he (?:main |key )?(?:differences?|similarit(?:y|ies)|relationship) "
    rf"between {_PAIR}"
    rf"|[Hh]ow (?:do|does|is|are) (?P<one2>{_THING}) (?:and|differ from|different from) (?P<other2>{_THING})"
    rf"(?: differ| different)?|[Cc]ompare (?P<one3>{_THING}) (?:and|with|to) (?P<other3>{_THING}))$"
)
_SAME = re.compile(
    r"(?:(?:of|from|share|have|had|in) )?"
    r"(?:(?P<verb>[a-z]+ed|born|from|made|built) (?P<preposition>in|on|at|by|from|under) )?"
    r"(?:the same|a common) (?P<noun>[a-z ]+)",
    re.IGNORECASE,
)
_SINGULAR = {"are": "Is", "were": "Was", "do": "Does", "did": "Did", "have": "Has"}
_ADJECTIVES = {
    "tall": "taller tallest shorter shortest",
    "large": "larger largest bigger biggest smaller smallest",
    "long": "longer longest",
    "high": "higher highest lower lowest",
    "old": "older oldest younger youngest newer newest",
    "heavy": "heavier heaviest lighter lightest",
    "fast": "faster fastest slower slowest",
    "deep": "deeper deepest",
    "wide": "wider widest narrower narrowest",
    "expensive": "cheaper cheapest",
    "populous": "",
}
_BASE = {form: base for base, forms in _ADJECTIVES.items() for form in forms.split()}
_ORDER = "first|last|earlier|later|earliest|latest|sooner|more recently|most recently"


def split(question: str) -> list[str]:
    """Questions that stand beside each other in one: several sentences, *and* between questions, things compared."""
    text = question.rstrip(" ?.!")
    return _coordinated(text) or _compared(text)


def _coordinated(text: str) -> list[str]:
    pieces = [piece.strip(" ,") for sentence in re.split(r"\?\s+", text) for piece in _AND_ASKS.split(sentence)]
    if len(pieces) < 2 or not all(_ASKS.match(re.sub(r"^and ", "", piece, flags=re.IGNORECASE)) for piece in pieces):
        return []
    parts = [pieces[0]]
    for piece in pieces[1:]:
        parts.append(_resolved(re.sub(r"^and ", "", piece, flags=re.IGNORECASE), parts))
    return [part[0].upper() + part[1:] + "?" for part in parts]


def _resolved(piece: str, before: list[str]) -> str:
    """The piece with its pronouns replaced by what an earlier one asks for, or is about."""
    first = before[0]
    names = re.findall(rf"(?<!^)\b{NAME}|[{QUOTE}]", first[first.find(" ") + 1 :])
    means = "#1" if _ANSWERED.match(first) else names[0] if names else ""
    if not means:
        return piece

    def replaced(match: re.Match[str]) -> str:
        word = match[0].lower()
        owns = word in _OWNING or (word == "her" and re.match(r" [a-z]", piece[match.end() :]))
        return means + ("'s" if owns else "")

    return _PRONOUN.sub(replaced, piece)


def _compared(text: str) -> list[str]:
    if match := _BOTH.match(text):
        return [_of_one(match["aux"].lower(), match["rest"], name) for name in (match["one"], match["other"])]
    if match := _COMMON.match(text):
        noun = match["noun"]
        asks = f"What is the {noun} of " if noun and noun.strip() else "What is "
        return [f"{asks}{name}?" for name in (match["one"], match["other"])]
    if match := _DIFFERENCE.match(text):
        names = [name for name in match.groups() if name]
        return [f"What is {name}?" for name in names]
    if match := _BETWEEN.match(text):
        return _chosen(match["stem"], re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", match["items"]))
    match = _CHOICE.match(text)
    if match and _ASKS.match(match["stem"]):
        return _chosen(match["stem"], _ITEMS.split(match["items"]))
    return []


def _of_one(auxiliary: str, rest: str, name: str) -> str:
    """What *are A and B ...* asks of one of them."""
    if same := _SAME.fullmatch(rest):
        if same["verb"]:
            verb = "was" if auxiliary in ("were", "did") else "is"
            return f"{same['preposition'].capitalize()} which {same['noun']} {verb} {name} {same['verb']}?"
        return f"What is the {same['noun']} of {name}?"
    return f"{_SINGULAR[auxiliary]} {name} {rest}?"


def _chosen(stem: str, items: list[str]) -> list[str]:
    """What is to be known of each thing to choose one by the stem."""
    things = [item.strip() for item in items if item.strip()]
    return [_measured(stem.strip(), thing) for thing in things] if len(things) > 1 else []


def _measured(stem: str, thing: str) -> str:
    """What a comparison asks of one of the things."""
    if re.search(rf"\b(?:born (?:{_ORDER}))\b", stem) or (re.match("who", stem, re.I) and _ends(stem, "old")):
        return f"When was {thing} born?"
    if re.search(rf"\b(?:died|die) (?:{_ORDER})$", stem):
        return f"When did {thing} die?"
    if match := re.search(rf"\b(was|were|is) ([a-z]+) (?:{_ORDER})$", stem):
        return f"When was {thing} {match[2]}?"
    if match := re.search(r"\b(?:has|have|had) (?:more|fewer|the most|the fewest) ([a-z -]+)$", stem):
        return f"How many {match[1]} does {thing} have?"
    if match := re.search(r"\b(?:is|was|are|were) (?:more|less|the most|the least) ([a-z]+)$", stem):
        return f"How {match[1]} is {thing}?"
    base = next((base for base in _ADJECTIVES if _ends(stem, base)), None)
    return f"How {base} is {thing}?" if base else f"{stem}, {thing}?"


def _ends(stem: str, base: str) -> bool:
    return _BASE.get(stem.split()[-1].lower()) == base


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
