"""Bytes to text: byte-order marks, UTF-8, what the source declares, then the detector of web browsers (chardetng).

UTF-8 comes before the declaration, because no other encoding looks like it by chance. A declaration of a Latin
alphabet is what many programs write without looking, so it gives way to a multi-byte encoding that the detector sees.
Encoding labels mean what they mean to a browser: `gb2312` is read as GB18030, `iso-8859-1` as Windows-1252.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

VERSION = "decoding-1"

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DETECTED = 1 << 20
_ENOUGH = 6
_MULTI_BYTE = frozenset({"GBK", "gb18030", "Big5", "Shift_JIS", "EUC-JP", "EUC-KR"})
_LATIN = frozenset({"windows-1252", "iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii", "iso8859-1", "utf-8"})
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_JAPANESE_ESCAPE = re.compile(rb"\x1b\$[@B]")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a source without its byte-order mark; `notes` say how it was read when that was not plain UTF-8."""

    text: str
    encoding: str
    notes: tuple[str, ...] = ()


def decode(data: bytes, declared: str = "") -> Decoded:
    """The text of `data`. `declared` is the encoding that the source states, "" when it states none.

    Nothing is refused: what cannot be read becomes U+FFFD, and a note counts it.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _read(data[len(mark) :].decode(encoding, "replace"), encoding, "byte-order mark")
    if _JAPANESE_ESCAPE.search(data):
        return _read(_web(data, "iso-2022-jp") or "", "iso-2022-jp", "escape sequences")
    wide = _wide(data)
    if wide:
        return wide
    try:
        return Decoded(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return _damaged(data) or _declared(data, declared) or _detected(data)


def declared_in(head: bytes) -> str:
    """The encoding that the start of an HTML or XML file states, "" when it states none."""
    found = re.search(rb"(?i)<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", head)
    found = found or re.search(rb"(?i)<meta\b[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w.:-]+)", head)
    return found.group(1).decode("ascii") if found else ""


def _read(text: str, encoding: str, how: str) -> Decoded:
    unreadable = text.count("\ufffd")
    notes: tuple[str, ...] = () if encoding == "utf-8" and not unreadable else (f"encoding: {encoding} ({how})",)
    if unreadable:
        notes += (f"encoding: {unreadable} characters cannot be read",)
    return Decoded(text, encoding, notes)


def _web(data: bytes, label: str) -> str | None:
    """The text as a browser reads it under an encoding label, None for an unknown label."""
    import turbohtml.detect  # noqa: F401 - registers the codecs

    try:
        return data.decode(f"whatwg-{label}")
    except LookupError:
        return None


def _wide(data: bytes) -> Decoded | None:
    """UTF-16 without a mark, told by the zero bytes of its ASCII characters.

    Bytes that are UTF-8 as well are UTF-16 only where most characters have a zero: a few zeros are NUL characters.
    """
    sample = data[:65536]
    eighths = 1 if _is_no_utf8(data) else 4
    for encoding, high in (("utf-16-le", 1), ("utf-16-be", 0)):
        zeros = sample[high::2].count(0)
        if zeros * 8 > eighths * (len(sample) // 2) and sample[1 - high :: 2].count(0) * 8 < zeros:
            return _read(data.decode(encoding, "replace"), encoding, "zero bytes")
    return None


def _is_no_utf8(data: bytes) -> bool:
    """Whether the bytes are no UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _damaged(data: bytes) -> Decoded | None:
    """UTF-8 with some broken bytes."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = len(text) - broken - len(data.translate(None, bytes(range(128, 256))))
    return _read(text, "utf-8", "damaged") if whole >= 4 * broken else None


def _declared(data: bytes, label: str) -> Decoded | None:
    text = _web(data, label.lower()) if label else None
    if text is None or "\ufffd" in text:
        return None
    if label.lower() in _LATIN:
        encoding, _ = _detect(data)
        if encoding in _MULTI_BYTE and len(_NOT_ASCII.findall(data[:_DETECTED])) >= _ENOUGH:
            return None
    return _read(text, label.lower(), "declared")


def _detected(data: bytes) -> Decoded:
    encoding, sure = _detect(data)
    return _read(_web(data, encoding) or "", encoding.lower(), f"detected, {sure:.2f}")


def _detect(data: bytes) -> tuple[str, float]:
    """What the bytes look like from the first one on that is not ASCII, and how sure that is."""
    from turbohtml.detect import Detection, detect

    first = _NOT_ASCII.search(data)
    start = max(first.start() - 1024, 0) if first else 0
    sample = re.sub(rb"(?i)charset", b"", data[start : start + _DETECTED])
    found = detect(sample, Detection(excluded=frozenset({"UTF-8"})))
    return found.encoding or "windows-1252", found.confidence
