"""The text layer: normalisation with offsets, decoding, languages, the registry."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing import FORMATS, ParseError, format_of, parse, parser_version
from rag_lab.corpus.parsing.decoding import declared_in, decode
from rag_lab.corpus.parsing.language import identify, normal
from rag_lab.corpus.parsing.layer import Layer, LayerBuilder, clean


def layer_of(text: str, *, collapse: bool = False) -> Layer:
    builder = LayerBuilder(text)
    builder.take(0, len(text), collapse=collapse)
    builder.block(BlockKind.PARAGRAPH, 0)
    return builder.build()


@pytest.mark.parametrize(
    ("original", "text", "offsets"),
    [
        ("plain", "plain", [0, 1, 2, 3, 4, 5]),
        ("Cafe\u0301!", "Café!", [0, 1, 2, 3, 5, 6]),
        ("\ufeffa\x00b", "ab", [1, 3, 4]),
        ("ex\u00adtra", "extra", [0, 1, 3, 4, 5, 6]),
        ("e\u00ad\u0301", "é", [0, 3]),
        ("a\u200bb\u2060c", "abc", [0, 2, 4, 5]),
        ("a\u00a0b\u3000c\u2009d", "a b c d", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("a\r\nb\rc\u2028d\fe", "a\nb\nc\nd\ne", [0, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ("a\r\rb\n\r\nc", "a\n\nb\n\nc", [0, 1, 2, 3, 4, 6, 7, 8]),
        ("\u1112\u1161\u11ab\u1100", "한\u1100", [0, 3, 4]),
        ("a\u0316\u0301b", "á\u0316b", [0, 1, 3, 4]),
        ("\u212bx", "Åx", [0, 1, 2]),
        ("x\ud800y", "x\ufffdy", [0, 1, 2, 3]),
        ("a\x1b\x07\x9fb", "ab", [0, 4, 5]),
        ("a\u202eb\u2066c", "abc", [0, 2, 4, 5]),
        ("a\U000e0041b", "ab", [0, 2, 3]),
        ("", "", [0]),
    ],
)
def test_normal_text_and_the_place_of_each_character(original: str, text: str, offsets: list[int]) -> None:
    layer = layer_of(original)
    assert layer.text == text
    assert layer.offsets.tolist() == offsets


@pytest.mark.parametrize(
    ("original", "text"),
    [
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क\u094d\u200dष", "क\u094d\u200dष"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("a\u200db", "ab"),
        ("a\u200cb", "ab"),
        ("👩\u200d", "👩"),
        ("👩\u200d\u200d💻", "👩💻"),
    ],
)
def test_joiners_stay_only_where_they_spell_something(original: str, text: str) -> None:
    assert layer_of(original).text == text


@pytest.mark.parametrize(
    ("original", "text"),
    [
        ("  a \n\t b  ", "a b"),
        ("a\xa0 \u3000b", "a b"),
        (" \n ", ""),
        ("a b", "a b"),
        ("员工\n  请假", "员工请假"),
        ("员工 请假", "员工 请假"),
        ("员工\nabc\n请假", "员工 abc 请假"),
        ("말\n말", "말 말"),
    ],
)
def test_white_space_collapses_as_in_html(original: str, text: str) -> None:
    assert layer_of(original, collapse=True).text == text


ODD = st.text(
    alphabet=st.one_of(
        st.sampled_from(
            "ab \n\r\t\x00\u00ad\u200b\u200c\u200d\ufeff\u00a0\u2028é\u0301\u0316\u0308가\u1100\u1161\u11a8"
        ),
        st.characters(),
    ),
    max_size=60,
)


@given(ODD, st.booleans())
def test_layer_is_normal_and_points_at_what_it_is_made_from(original: str, collapse: bool) -> None:
    layer = layer_of(original, collapse=collapse)
    assert unicodedata.is_normalized("NFC", layer.text)
    assert layer_of(layer.text, collapse=collapse).text.strip() == layer.text.strip()
    places = layer.offsets.tolist()
    assert places == sorted(places)
    assert places[0] >= 0
    assert places[-1] <= len(original)
    for i, character in enumerate(layer.text):
        own = original[places[i] : max(places[i + 1], places[i] + 1)]
        if unicodedata.combining(character):
            # Marks that Unicode puts into another order share the places of their letter.
            own = original[max(places[i] - 60, 0) : places[i] + 60]
        if character not in " \n":
            whole = unicodedata.normalize("NFD", own).encode("utf-8", "replace")
            first = unicodedata.normalize("NFD", character)[0].encode("utf-8", "replace")
            assert first in whole or character == "\ufffd"
    covered = "".join(layer.text[slice(*block.span)] for block in layer.blocks)
    assert covered == layer.text.strip()


@given(ODD)
def test_composition_is_that_of_unicode(original: str) -> None:
    visible = "".join(c for c in original if c.isalpha() or unicodedata.combining(c))
    kept = "".join(c for c in visible if c not in "\u034f")
    assert layer_of(kept).text == unicodedata.normalize("NFC", kept)


def test_very_many_marks_on_one_letter_are_put_in_order_quickly() -> None:
    original = "a" + "\u0301\u0316" * 50_000
    begun = time.perf_counter()
    layer = layer_of(original)
    assert time.perf_counter() - begun < 5
    assert layer.text == "á" + "\u0316" * 50_000 + "\u0301" * 49_999


def test_inserted_text_has_the_place_of_what_follows_and_a_substitute_that_of_its_source() -> None:
    builder = LayerBuilder("one&amp;two")
    builder.take(0, 3)
    builder.put("&", 3, 8)
    builder.insert("--")
    builder.take(8, 11)
    builder.insert("!")
    layer = builder.build()
    assert layer.text == "one&--two!"
    assert layer.offsets.tolist() == [0, 1, 2, 3, 8, 8, 8, 9, 10, 11, 11]


def test_blocks_keep_to_their_text_when_characters_go() -> None:
    builder = LayerBuilder("\ufeff x\u00ad\n|y e\u0301 ")
    builder.take(0, 4)
    builder.block(BlockKind.PARAGRAPH, 0)
    builder.take(4, 11)
    builder.block(BlockKind.TABLE, 4, lead=(5, 8), section_path=("s",), level=0, page=3)
    builder.block(BlockKind.CODE, 11)
    layer = builder.build()
    assert [(block.kind.value, layer.text[slice(*block.span)], block.page) for block in layer.blocks] == [
        ("paragraph", "x", 0),
        ("table", "|y é", 3),
    ]
    lead = layer.blocks[1].lead
    assert lead is not None
    assert layer.text[slice(*lead)] == "|y"


def test_clean_makes_one_line() -> None:
    assert clean(" a\u00a0\n b\u200b ") == "a b"


# --- decoding ---------------------------------------------------------------------------------------------------------

WORDS = {
    "gb18030": "员工请假须提前三天申请。",
    "big5": "員工請假須提前三天向主管提出申請",
    "shift_jis": "休暇は三日前までに申請してください。",
    "euc_jp": "休暇は三日前までに申請してください。",
    "euc_kr": "휴가는 사흘 전에 신청해야 합니다.",
    "cp1251": "Отпуск нужно согласовать за три дня.",
    "cp1252": "Die Übergröße – für Angestellte – kostet 3 €.",
    "utf-16": "员工请假须提前三天申请。",
    "utf-32": "Grüße",
    "utf-8-sig": "Grüße",
    "iso2022_jp": "休暇の申請",
    "utf-16-le": "Leave is asked for early: Grüße",
    "utf-16-be": "Leave is asked for early: Grüße",
}


@pytest.mark.parametrize("encoding", WORDS)
def test_text_in_its_own_encoding_is_read(encoding: str) -> None:
    decoded = decode(WORDS[encoding].encode(encoding))
    assert decoded.text == WORDS[encoding]
    assert bool(decoded.notes) == (encoding != "utf-8-sig")


@pytest.mark.parametrize("text", ["请假制度", "标题,金额\n差旅费,300\n", "员工"])
def test_short_gbk_is_not_read_as_latin(text: str) -> None:
    assert decode(text.encode("gbk")).text == text


@pytest.mark.parametrize(
    ("data", "declared", "text", "note"),
    [
        ("员工请假".encode("gbk"), "gb2312", "员工请假", "encoding: gb2312 (declared)"),
        ("员工请假制度".encode("gbk"), "iso-8859-1", "员工请假制度", "encoding: gbk (detected"),
        ("Café".encode("latin-1"), "iso-8859-1", "Café", "encoding: iso-8859-1 (declared)"),
        ("Отпуск".encode("cp1251"), "no-such-thing", "Отпуск", "encoding: windows-1251 (detected"),
        (("Grüße " * 20).encode() + b"\xff", "", "Grüße " * 20 + "\ufffd", "encoding: utf-8 (damaged)"),
    ],
)
def test_declarations_and_damage(data: bytes, declared: str, text: str, note: str) -> None:
    decoded = decode(data, declared)
    assert decoded.text == text
    assert decoded.notes[0].startswith(note)


def test_utf8_is_believed_before_a_declaration() -> None:
    assert decode("Grüße".encode(), "iso-8859-1").text == "Grüße"


def test_unreadable_characters_are_counted() -> None:
    assert decode(("Grüße " * 20).encode() + b"\xff\xfe\xff").notes[1] == "encoding: 3 characters cannot be read"


@pytest.mark.parametrize(
    ("head", "declared"),
    [
        (b'<meta charset="gb2312">', "gb2312"),
        (b"<META http-equiv=Content-Type content='text/html; charset=Shift_JIS'>", "Shift_JIS"),
        (b"<?xml version='1.0' encoding='iso-8859-1'?>", "iso-8859-1"),
        (b"<p>charset=x</p>", ""),
    ],
)
def test_declared_encodings(head: bytes, declared: str) -> None:
    assert declared_in(head) == declared


# --- languages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The employee must ask three days ahead and keep every receipt."),
        ("de", "Die Angestellten müssen drei Tage vorher fragen und alles aufheben."),
        ("fr", "Les salariés doivent demander trois jours avant leur départ."),
        ("es", "Los empleados deben pedirlo con tres días de antelación."),
        ("it", "I dipendenti devono chiedere tre giorni prima della partenza."),
        ("pt", "Os funcionários devem pedir com três dias de antecedência."),
        ("ru", "Сотрудники должны просить об отпуске за три дня."),
        ("ar", "يجب على الموظفين الطلب قبل ثلاثة أيام من السفر."),
        ("zh", "员工须提前三天申请"),
        ("zh", "員工須提前三天申請"),
        ("ja", "休暇は三日前までに申請してください"),
        ("ko", "휴가는 사흘 전에 신청해야 합니다"),
        ("en", "Refunds"),
        ("", "12345"),
    ],
)
def test_languages_are_told_apart(language: str, text: str) -> None:
    assert identify(text) == language


@pytest.mark.parametrize(
    ("tag", "code"), [("zh-Hant-TW", "zh"), ("DE_at", "de"), ("nb", "no"), ("und", ""), ("English", ""), ("", "")]
)
def test_declared_language_tags(tag: str, code: str) -> None:
    assert normal(tag) == code


def test_language_of_a_source_is_declared_or_that_of_its_prose() -> None:
    german = "Die Angestellten müssen drei Tage vorher fragen und alles aufheben."
    assert parse(german.encode(), "a.txt").language == "de"
    assert parse(f"<html lang=fr><p>{german}".encode(), "a.html").language == "fr"
    code = "```\nthe code of the programme is not what the prose is written in\n```\n" * 5
    assert parse(f"{german}\n\n{code}".encode(), "a.md").language == "de"


# --- registry ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.md", b"x", "markdown"),
        ("A.HTML", b"x", "html"),
        ("a.txt", b"x", "text"),
        ("a.txt", b"%PDF-1.7\n", "pdf"),
        ("a.md", b"An article about %PDF-1.7 files.", "markdown"),
        ("a", b"<!DOCTYPE html><p>x", "html"),
        ("a", b"\xef\xbb\xbf<html>", "html"),
        ("README", b"x", "text"),
        ("a.unknown", b"x", "text"),
        ("run", b"#!/bin/sh\n", "code"),
        ("a.bin", b"PK\x03\x04 word/document.xml", "docx"),
        ("a.txt", "text".encode("utf-16-le"), "text"),
        ("a.txt", "文本文件".encode("utf-16"), "text"),
        ("https://host/page.html", b"x", "html"),
    ],
)
def test_format_of_a_source(name: str, data: bytes, expected: str) -> None:
    assert format_of(data, name) == expected


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n", b"\x00\x01\x02\x03" * 50, b"\x7fELF\x02", b"PK\x03\x04zip"])
def test_unknown_binary_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(ParseError, match=r"^photo\.txt: is binary and of no known format; give one of pdf, docx"):
        parse(data, "photo.txt")


def test_every_format_has_a_version() -> None:
    versions = {parser_version(name) for name in FORMATS}
    assert len(versions) == len(FORMATS)


def test_title_is_the_first_heading_of_level_one() -> None:
    assert parse(b"## Small\n\n# Big\n\n# Other\n", "a.md").title == "Big"


@settings(max_examples=30)
@given(st.binary(max_size=300), st.sampled_from(["a.txt", "a.md", "a.html", "a.py", "a.ipynb", "a"]))
def test_no_bytes_lead_to_anything_but_text_or_a_parse_error(data: bytes, name: str) -> None:
    try:
        parsed = parse(data, name)
    except ParseError as error:
        message = str(error)
    else:
        message = f"{name}: read"
        assert len(parsed.offsets) == len(parsed.text) + 1
    assert message.startswith(f"{name}: ")
