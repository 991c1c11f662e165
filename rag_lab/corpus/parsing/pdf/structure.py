"""From the lines of all pages to headings, paragraphs, lists and tables.

A paragraph ends where the distance to the next line is larger than usual, where the next line is indented or looks
different, and where the next word would have fitted on the line. It may go on in the next column or on the next page.
Headings are larger than the text or bold and alone; their levels are the different looks, largest first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing.pdf.bidi import is_right_to_left
from rag_lab.corpus.parsing.pdf.pieces import Line

_LARGER = 1.12
_MUCH_LARGER = 1.4
_SENTENCE = 20
_MOST_LINES = 4
_LONGEST_HEADING = 200
_LONGEST_BOLD_HEADING = 120
BULLETS = "•◦▪▫‣⁃●○■□◆◇*·\uf0b7\uf0a7–—-"
_BULLET = re.compile(rf"[{re.escape(BULLETS)}]\s+(?=\S)")
_NUMBER = re.compile(r"([\[(]?)(\d{1,3}|[A-Za-z]|[ivx]{1,4})[.)\]]{1,2}\s+(?=\S)")
_NUMBERING = re.compile(r"(\d{1,2}(?:\.\d{1,2})*)\.?\s")
_STOPS = tuple('.!?。！？…"”’)）」')
_BEFORE_ITEMS = (*_STOPS, ":", ";", "：", "；")
_PAUSES = tuple(",;，；、")


@dataclass(slots=True)
class Draft:
    """A block before it is written. Lines belong to pages; `starts` holds the first line of each item of a list."""

    kind: BlockKind
    lines: list[tuple[int, Line]]
    starts: list[int] = field(default_factory=list)
    level: int = 0
    cells: tuple[tuple[tuple[Line, ...], ...], ...] = ()
    page: int = 0

    @property
    def last(self) -> Line:
        return self.lines[-1][1]


@dataclass(frozen=True, slots=True)
class Look:
    """What the text of a document usually looks like: font size, weight, distance of lines in font sizes."""

    size: float
    bold: bool
    leading: float


Cells = tuple[tuple[tuple[Line, ...], ...], ...]


def body_look(columns: Iterable[Sequence[Line]]) -> Look:
    """Size, weight and leading that most characters of a document have; labels and cells of tables are not asked."""
    sizes: Counter[tuple[float, bool]] = Counter()
    all_sizes: Counter[tuple[float, bool]] = Counter()
    distances: Counter[float] = Counter()
    for lines in columns:
        for line in lines:
            sizes[round(line.size * 2) / 2, line.bold] += len(line.text) if len(line.text) >= _SENTENCE else 0
            all_sizes[round(line.size * 2) / 2, line.bold] += len(line.text)
        for a, b in pairwise(lines):
            distance = (b.y1 - a.y1) / max(b.size, 0.1)
            if a.size == b.size and 0.8 < distance < 2.5:
                distances[round(distance, 1)] += 1
    (size, bold), _ = next(iter(((+sizes) or all_sizes).most_common(1)), ((10.0, False), 0))
    most = distances.most_common(1)[0][1] if distances else 0
    leading = min((distance for distance, count in distances.items() if count >= 0.5 * most), default=1.2)
    return Look(size, bold, leading)


def find_blocks(regions: Iterable[tuple[int, list[Line] | Cells]], look: Look) -> list[Draft]:
    """Blocks in reading order of regions (page, lines of a column or rows of a table)."""
    drafts: list[Draft] = []
    for page, region in regions:
        if isinstance(region, tuple):
            drafts.append(Draft(BlockKind.TABLE, [], cells=region, page=page))
        else:
            _add_column(drafts, page, region, look)
    _set_levels(drafts, look)
    return drafts


def _add_column(drafts: list[Draft], page: int, lines: list[Line], look: Look) -> None:
    headings = [_is_heading(lines, i, look) for i in range(len(lines))]
    for i, line in enumerate(lines):
        before = lines[i - 1] if i else None
        current = drafts[-1] if drafts and before is not None else None
        if headings[i]:
            goes_on = current and before and current.kind is BlockKind.HEADING and _is_same_heading(before, line)
            target = current if goes_on else None
            kind = BlockKind.HEADING
        elif _marker(line, current, drafts):
            _add_item(drafts, page, line, before, look)
            continue
        else:
            target = _goes_on(drafts, page, lines, i, look)
            kind = BlockKind.PARAGRAPH
        if target is None:
            drafts.append(Draft(kind, [(page, line)], page=page))
        else:
            target.lines.append((page, line))


def _goes_on(drafts: list[Draft], page: int, lines: list[Line], i: int, look: Look) -> Draft | None:
    """The block that a line goes on with, if it does not begin a paragraph."""
    if i == 0:
        return _unfinished(drafts, page, lines[0])
    current, before, line = drafts[-1], lines[i - 1], lines[i]
    if current.kind is BlockKind.LIST:
        return current if _stays_in_item(current, before, line, look) else None
    if current.kind is BlockKind.PARAGRAPH:
        return None if _ends(before, line, lines, i, look) else current
    return None


def _is_heading(lines: list[Line], i: int, look: Look) -> bool:
    line = lines[i]
    if not any(character.isalpha() for character in line.text) or len(line.text) > _LONGEST_HEADING:
        return False
    if line.size > _LARGER * look.size:
        if _same_size_around(lines, i) > _MOST_LINES:
            return False
        return line.size > _MUCH_LARGER * look.size or not line.text.endswith((".", "。", *_PAUSES))
    if not line.bold or look.bold or line.size < 0.95 * look.size or len(line.text) > _LONGEST_BOLD_HEADING:
        return False
    if line.text.endswith((".", ":", *_PAUSES, "。")):
        return False
    start, end = i, i
    while start > 0 and lines[start - 1].bold:
        start -= 1
    while end + 1 < len(lines) and lines[end + 1].bold:
        end += 1
    return end - start < 3


def _same_size_around(lines: list[Line], i: int) -> int:
    """How many lines that follow closely on one another look like this one."""

    def count(step: int) -> int:
        at = i
        while 0 <= at + step < len(lines) and at + step - i in range(-_MOST_LINES, _MOST_LINES + 1):
            upper, lower = sorted((lines[at], lines[at + step]), key=lambda line: line.y1)
            if _differs(upper, lower) or lower.y1 - upper.y1 > 1.7 * lower.size:
                break
            at += step
        return abs(at - i)

    return 1 + count(-1) + count(1)


def _is_same_heading(before: Line, line: Line) -> bool:
    same = abs(before.size - line.size) <= 0.1 * line.size and before.bold == line.bold
    return same and line.y1 - before.y1 <= 1.6 * line.size and not _NUMBERING.match(line.text)


def _marker(line: Line, current: Draft | None, drafts: list[Draft]) -> str:
    """The marker that makes a line an item of a list, else "". `current`: the block above in the same column."""
    bullet = _BULLET.match(line.text)
    if bullet:
        dash = bullet.group().strip() in ("-", "–", "—", "*", "·")
        fits = current is None or current.kind is not BlockKind.PARAGRAPH or current.last.text.endswith(_BEFORE_ITEMS)
        return bullet.group().strip() if not dash or fits else ""
    number = _NUMBER.match(line.text)
    if not number:
        return ""
    value = number.group(2)
    if value in ("1", "a", "A", "i", "I"):
        return value
    last = _last_number(drafts)
    return value if last and _follows(last, value) else ""


def _last_number(drafts: list[Draft]) -> str:
    for draft in reversed(drafts[-3:]):
        if draft.kind is BlockKind.LIST:
            for start in reversed(draft.starts):
                number = _NUMBER.match(draft.lines[start][1].text)
                if number:
                    return number.group(2)
    return ""


_ROMAN = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")


def _follows(last: str, value: str) -> bool:
    if last.isdigit() and value.isdigit():
        return int(value) == int(last) + 1
    if len(last) == len(value) == 1 and ord(value) == ord(last) + 1:
        return True
    return (last.lower(), value.lower()) in set(pairwise(_ROMAN))


def _add_item(drafts: list[Draft], page: int, line: Line, before: Line | None, look: Look) -> None:
    last = drafts[-1] if drafts else None
    near = before is None or line.y1 - before.y1 <= 3 * look.leading * line.size
    if last is not None and last.kind is BlockKind.LIST and near:
        last.starts.append(len(last.lines))
        last.lines.append((page, line))
    else:
        drafts.append(Draft(BlockKind.LIST, [(page, line)], starts=[0], page=page))


def _stays_in_item(draft: Draft, before: Line, line: Line, look: Look) -> bool:
    if line.y1 - before.y1 > (look.leading + 0.5) * line.size or _differs(before, line):
        return False
    first = draft.lines[draft.starts[-1]][1]
    return line.x0 > first.x0 + 0.3 * line.size or not before.text.endswith(_STOPS)


def _ends(before: Line, line: Line, lines: list[Line], i: int, look: Look) -> bool:
    """Whether the paragraph of the line before ends there."""
    if _differs(before, line):
        return True
    if line.y1 - before.y1 > (look.leading + 0.35) * line.size:
        return True
    divided = before.text.endswith("-") and before.text[-2:-1].isalnum()
    if divided or (line.text[0].islower() and not before.text.endswith(_STOPS)):
        return False
    width = line.right - line.left
    indent = line.x0 - before.x0
    if indent > 0.8 * line.size and line.x0 - line.left < 0.3 * width and before.text.endswith(_STOPS):
        return True
    free = before.x0 - before.left if is_right_to_left(before.text) else _edge(lines, i) - before.x1
    first = line.text.split(" ")[0]
    word = (line.x1 - line.x0) * len(first) / max(1, len(line.text))
    return free > word + 1.5 * line.size and free > 0.2 * width


def _edge(lines: list[Line], i: int) -> float:
    """The right edge that the lines around keep to: that of a narrower block, if two of them reach it."""
    around = [line for line in lines[max(0, i - 3) : i + 3] if abs(line.x0 - lines[i].x0) < 3 * line.size]
    ends = sorted((line.x1 for line in around), reverse=True)
    if len(ends) >= 3 and ends[0] - ends[1] < lines[i].size:
        return ends[0]
    return lines[i].right


def _differs(before: Line, line: Line) -> bool:
    return abs(before.size - line.size) > 0.08 * max(before.size, line.size)


def _unfinished(drafts: list[Draft], page: int, line: Line) -> Draft | None:
    """The paragraph or item that the first line of a column goes on with; notes at the foot are looked over."""
    for draft in reversed(drafts[-4:]):
        if draft.kind not in (BlockKind.PARAGRAPH, BlockKind.LIST) or page - draft.lines[-1][0] > 1:
            return None
        if _differs(draft.last, line):
            if draft.last.size < line.size:
                continue
            return None
        if draft.last.text.endswith((*_STOPS, ":", "：")):
            return None
        goes_on = line.text[:1].islower() or draft.last.text.endswith("-")
        full = draft.last.x1 >= draft.last.right - 1.5 * draft.last.size
        return draft if goes_on or (full and is_wide(line.text[:1]) and is_wide(draft.last.text[-1:])) else None
    return None


def _set_levels(drafts: list[Draft], look: Look) -> None:
    headings = [draft for draft in drafts if draft.kind is BlockKind.HEADING]
    looks = sorted({_look_of(draft, look) for draft in headings})
    for draft in headings:
        draft.level = min(6, looks.index(_look_of(draft, look)) + 1)


def _look_of(draft: Draft, look: Look) -> tuple[float, bool, int]:
    """Sorts larger before smaller, bold before plain, 1 before 1.1."""
    line = draft.lines[0][1]
    number = _NUMBERING.match(line.text)
    depth = number.group(1).count(".") + 1 if number else 1
    return -round(line.size / look.size * 20) / 20, not line.bold, depth


def is_wide(character: str) -> bool:
    """Whether a script writes without spaces: Han, kana, full-width punctuation."""
    return bool(character) and (
        "\u2e80" <= character <= "\ua4cf"
        or "\uf900" <= character <= "\ufaff"
        or "\uff00" <= character <= "\uffef"
        or "\U00020000" <= character <= "\U0003ffff"
    )


class Hyphens:
    """Tells a hyphen that only divides a word at the end of a line from one that belongs to it."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._words: set[str] = set()
        for line in lines:
            self._words.update(word.strip("()[]\"'“”‘’.,;:!?").lower() for word in line.text.split())

    def is_soft(self, before: str, after: str) -> bool:
        """Whether the hyphen at the end of `before` goes when `after` follows on the next line."""
        head = re.search(r"(\w+(?:-\w+)*)-$", before)
        tail = re.match(r"[^\W\d_]+(?:-\w+)*", after)
        if not head or not tail or not after[0].islower() or head.group(1)[-1].isdigit():
            return False
        kept, joined = f"{head.group(1)}-{tail.group()}".lower(), f"{head.group(1)}{tail.group()}".lower()
        return joined in self._words or kept not in self._words


def joined(lines: Sequence[tuple[int, Line]], hyphens: Hyphens) -> Iterator[tuple[int, Line, str, bool]]:
    """(page, line, what comes before it, whether its last hyphen goes) for the lines of a paragraph."""
    for i, (page, line) in enumerate(lines):
        following = lines[i + 1][1].text if i + 1 < len(lines) else ""
        soft = bool(following) and line.text.endswith("-") and hyphens.is_soft(line.text, following)
        yield page, line, _between(lines[i - 1][1].text, line.text) if i else "", soft


def _between(before: str, after: str) -> str:
    if before.endswith("-") and before[-2:-1].isalnum() and after[:1].isalnum():
        return ""
    return "" if is_wide(before[-1:]) and is_wide(after[:1]) else " "
