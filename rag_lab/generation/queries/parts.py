"""What the rules of both languages share: quoted phrases as single words, and parts of parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag_lab.contracts import Span

QUOTE = "\ue000-\ue0ff"
"""Characters that stand for quoted phrases while a question is taken apart."""
_HELD = 0xE100
_PHRASE = re.compile(
    r"\"[^\"\n]+\"|“[^”\n]+”|「[^」\n]+」|『[^』\n]+』|《[^》\n]+》|〈[^〉\n]+〉|‘[^’\n]+’|(?<!\w)'[^'\n]+'(?!\w)"
)
_PRIVATE = re.compile("[\ue000-\ue1ff]")
_OUTER = re.compile("[\ue100-\ue1ff]")
_REFERENCE = re.compile(r"#(\d+)")


def unquoted(text: str) -> tuple[str, Callable[[str], str]]:
    """The question on one line with each quoted phrase as one character, and what puts the phrases back."""
    phrases: list[str] = []

    def hide(match: re.Match[str]) -> str:
        if len(phrases) >= 0x100:
            return match[0]
        phrases.append(match[0])
        return chr(0xE000 + len(phrases) - 1)

    # What looks like a stand-in or a reference, but is the user's, must not be taken for one.
    plain = _PHRASE.sub(hide, _PRIVATE.sub(" ", text)).replace("#", "＃")

    def restore(part: str) -> str:
        # A number sign before a digit stays as it is, or it would be a reference.
        return re.sub(r"＃(?!\d)", "#", re.sub(f"[{QUOTE}]", lambda held: phrases[ord(held[0]) - 0xE000], part))

    return " ".join(plain.split()), restore


def put(text: str, span: Span, number: int) -> str:
    """The text with a reference to a part in the place of what the part asks for."""
    before, after = text[: span[0]], text[span[1] :]
    return f"{before}#{number}{' ' * after[:1].isdigit()}{after}"


def expand(parts: Sequence[str], nested: Callable[[str], list[str]]) -> list[str]:
    """The parts with each taken apart further; references follow: those to a part are to the last of its own parts."""
    found: list[str] = []
    last: dict[int, int] = {}
    for number, part in enumerate(parts, 1):
        held = _REFERENCE.sub(lambda to: chr(_HELD + last[int(to[1])]), part)
        found += [_moved(text, len(found)) for text in nested(held) or [held]]
        last[number] = len(found)
    return found


def _moved(text: str, by: int) -> str:
    """The text with references to its own parts moved on, and those that were held back in."""
    own = _REFERENCE.sub(lambda to: f"#{int(to[1]) + by}", text)
    return _OUTER.sub(lambda to: f"#{ord(to[0]) - _HELD}", own)
