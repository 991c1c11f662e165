"""What every parser promises, as one check, and the files that other programs made."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import Parsed

FILES = Path(__file__).parent / "files"
INVISIBLE = re.compile("[\x00\ufeff\u00ad\u200b\u2060\r\u2028\u2029\u00a0\u2003\u202f\u3000]")
_REFERENCE = re.compile(r"&#?\w+;?")


def check(parsed: Parsed, *, inserted: str = " \n") -> Parsed:
    """Fail if text, blocks or offsets break what `Parsed` says; `inserted`: characters that the parser may add."""
    text, offsets, original = parsed.text, parsed.offsets, parsed.original
    assert unicodedata.is_normalized("NFC", text)
    assert not INVISIBLE.search(text)
    assert offsets.dtype == np.int32
    assert offsets.shape == (len(text) + 1,)
    assert (np.diff(offsets) >= 0).all()
    assert offsets[0] >= 0
    assert offsets[-1] <= len(original)
    for character, place in zip(text, offsets.tolist(), strict=False):
        assert _spells(original, place, character) or character in inserted, (character, original[place : place + 20])
    at = 0
    for block in parsed.blocks:
        start, end = block.span
        assert not text[at:start].strip()
        assert at <= start < end
        assert text[start:end] == text[start:end].strip()
        if block.lead:
            assert start <= block.lead[0] < block.lead[1] <= end
        at = end
    assert not text[at:].strip()
    return parsed


def _spells(original: str, place: int, character: str) -> bool:
    """Whether the original has the character at a place, in whatever form."""
    here = original[place : place + 40]
    if not here:
        return False
    if here[0] == "&" and (reference := _REFERENCE.match(here)) and character in html.unescape(reference.group()):
        return True
    if character == " " and here[0].isspace():
        return True
    if character == "\n" and here[0] in "\r\n\f\v\x85\u2028\u2029":
        return True
    if character == "\ufffd" and "\ud800" <= here[0] <= "\udfff":
        return True
    return unicodedata.normalize("NFD", character)[0] in unicodedata.normalize("NFD", here[:2])


@pytest.fixture(name="check")
def check_fixture() -> Callable[..., Parsed]:
    """The check of one result."""
    return check


@pytest.fixture
def parse_file(check: Callable[..., Parsed]) -> Callable[..., Parsed]:
    """Parse a file of the tests by name, and check what holds for every result."""

    def parsed(name: str, *, inserted: str = " \n", **options: bool) -> Parsed:
        return check(parse((FILES / name).read_bytes(), name, **options), inserted=inserted)

    return parsed
