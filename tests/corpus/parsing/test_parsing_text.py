"""Plain text: paragraphs and pages."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import Parsed

Check = Callable[..., Parsed]


@pytest.mark.parametrize(
    ("source", "blocks"),
    [
        ("a\nb\n\nc", [("a\nb", 0), ("c", 0)]),
        ("a\r\n\r\nb\r\n \t\r\nc\r\rd", [("a", 0), ("b", 0), ("c", 0), ("d", 0)]),
        ("a\u2029b\u2028c\u2028\u2028d", [("a", 0), ("b\nc", 0), ("d", 0)]),
        ("one\n\ntwo\fthree\n\f\ffour", [("one", 1), ("two", 1), ("three", 2), ("four", 4)]),
        ("\n\n  a  \n\n", [("a", 0)]),
        ("", []),
        (" \n \n", []),
    ],
)
def test_paragraphs_and_pages(source: str, blocks: list[tuple[str, int]], check: Check) -> None:
    parsed = check(parse(source.encode(), "a.txt"))
    assert [(parsed.text[slice(*b.span)], b.page) for b in parsed.blocks] == blocks


@given(st.text(alphabet="ab \n\r\f\t\u2028\u2029é\u0301\u00a0", max_size=80))
def test_any_text_keeps_its_words(source: str) -> None:
    parsed = parse(source.encode(), "a.txt")
    covered = "".join(parsed.text[slice(*block.span)] for block in parsed.blocks)
    assert "".join(covered.split()) == "".join(parsed.text.split())
    assert parsed.original == source


def test_pages_of_pr(parse_file: Check) -> None:
    parsed = parse_file("pr_pages.txt")
    assert [b.page for b in parsed.blocks] == [1, 1, 2, 2, 3, 3]
    assert parsed.text[slice(*parsed.blocks[-1].span)] == "Line 9 of the duty roster."


@pytest.mark.parametrize(
    ("name", "language", "note"),
    [
        ("iconv_gb18030.txt", "zh", "encoding: gbk (detected"),
        ("iconv_utf16.txt", "zh", "encoding: utf-16-le (byte-order mark)"),
        ("iconv_shift_jis.txt", "ja", "encoding: shift_jis (detected"),
    ],
)
def test_other_encodings(name: str, language: str, note: str, parse_file: Check) -> None:
    parsed = parse_file(name)
    assert parsed.language == language
    assert parsed.notes[0].startswith(note)
    if language == "zh":
        assert parsed.text[slice(*parsed.blocks[1].span)] == (
            "员工出差须提前三天向主管提出申请，并保留全部发票。住宿标准为每晚四百元。"
        )
    else:
        assert parsed.text.startswith("休暇の申請\n\n休暇は三日前までに申請してください。")


def test_a_few_nul_characters_make_no_utf_16() -> None:
    parsed = parse("a,b\nx,\u200by\x00\u00ad\n".encode(), "short.txt")
    assert (parsed.text.split(), parsed.notes) == (["a,b", "x,y"], ())
    wide = parse("Rates\n中文内容 500".encode("utf-16-le"), "wide.txt")
    assert (wide.text, wide.notes) == ("Rates\n中文内容 500", ("encoding: utf-16-le (zero bytes)",))
