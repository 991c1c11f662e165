"""Text from documents, questions and answers, made fit for setting without changing what it says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

EXCERPT_CHARACTERS = 420

# Controls but for tab and newline, lone surrogates, non-characters, and the marks that reorder what the reader sees.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_NEWLINES = re.compile("\r\n|[\r\u2028\u2029\x85\x0b\x0c]")
_WIDE = "\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff"
_JOINERS = ("\u200d", "\ufe0e", "\ufe0f")


def visible(text: str) -> str:
    """The text with one kind of line end and a replacement character for each character that must not be printed."""
    return _UNPRINTABLE.sub("\ufffd", _NEWLINES.sub("\n", text))


def excerpt(text: str, limit: int = EXCERPT_CHARACTERS, around: Sequence[str] = ()) -> tuple[str, str]:
    """The beginning of a text, or the part around the first wording of `around` that is in it.

    Returns the part and a note on its place when something was left out.
    """
    shown = visible(text).strip()
    if len(shown) <= limit:
        return shown, ""
    start = _start(shown, limit, around)
    cut = shown[start : start + limit]
    if start + limit < len(shown):
        space = cut.rfind(" ", limit - 40)
        cut = (cut[:space] if space > 0 else cut).rstrip() + " …"
    if start == 0:
        return cut, f"first {limit:,} of {len(shown):,} characters"
    return f"… {cut.lstrip()}", f"from character {start + 1:,} of {len(shown):,}"


def _start(text: str, limit: int, around: Sequence[str]) -> int:
    """Where a part of `limit` characters starts that has the wording in its middle; 0 when the beginning has it."""
    folded = text.lower()
    for wording in around:
        wanted = visible(wording).strip().lower()
        at = folded.find(wanted) if wanted and len(folded) == len(text) else -1
        if at >= 0:
            end = at + len(wanted)
            centre = max(0, min(at - (limit - len(wanted)) // 2, len(text) - limit)) if end > limit else 0
            space = text.find(" ", centre, centre + 20) if centre else -1
            return space + 1 if space >= 0 else centre
    return 0


def on_one_line(text: str) -> str:
    """The text with all white space as single spaces."""
    return " ".join(visible(text).split())


def short(text: str, limit: int) -> str:
    """One line of at most `limit` characters."""
    line = on_one_line(text)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def pieces(text: str, longest: int = 24, size: int = 8) -> list[str]:
    """Split so that a line may end between two pieces: runs without a natural break are cut, the rest stays whole.

    ``"".join(pieces(text)) == text``. A run of up to `longest` characters is not cut; text in scripts that break
    anywhere (Chinese, Japanese) never is. Combining marks stay with their base.
    """
    parts: list[str] = []
    last = 0
    for run in re.finditer(rf"[^\s{_WIDE}]{{{longest + 1},}}", text):
        parts.append(text[last : run.start()])
        parts.extend(_cut(run.group(), size))
        last = run.end()
    parts.append(text[last:])
    return [part for part in parts if part]


def _cut(run: str, size: int) -> list[str]:
    parts, start = [], 0
    for end in range(1, len(run) + 1):
        whole = end == len(run) or not (_joined(run[end]) or run[end - 1] == "\u200d")
        if whole and (end - start >= size or end == len(run) or run[end - 1] in "/_-.:,;=&?@|"):
            parts.append(run[start:end])
            start = end
    return parts


def _joined(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character).startswith("M")


def heading_pieces(label: str) -> list[str]:
    """A metric's or variant's name, split where its words meet: ``AbstentionRecall`` -> Abstention, Recall."""
    return [part for part in re.split(r"(?<=[a-z][a-z])(?=[A-Z])|(?<=[_@/\-])(?=\w)", label) if part]
