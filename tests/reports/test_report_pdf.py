import re

import pypdfium2
import pytest
from example_results import (
    CHINESE,
    EMOJI,
    HOSTILE_ANSWER,
    HOSTILE_QUERY,
    LONG_STRING,
    PASSAGE_ZH,
    TYPST_TEXT,
)

from rag_lab.contracts import RagLabError
from rag_lab.reports import fonts, pdf
from rag_lab.reports.document import build
from rag_lab.results import Results


def bare(text: str) -> str:
    """Text without white space: where lines end is up to the page."""
    return re.sub(r"\s+", "", text)


def extracted(content: bytes) -> str:
    document = pypdfium2.PdfDocument(content)
    return "\n".join(document[i].get_textpage().get_text_range() for i in range(len(document)))


@pytest.fixture
def hostile_pdf(hostile: Results) -> bytes:
    return pdf.render(build(hostile), {})


def test_s24_extraction_gives_the_answer_text_back(hostile_pdf: bytes) -> None:
    """S24: and typst code in it is inert."""
    found = bare(extracted(hostile_pdf))
    for text in (HOSTILE_ANSWER, HOSTILE_QUERY, TYPST_TEXT, LONG_STRING, EMOJI):
        assert bare(text) in found
    assert "first300of9,999characters" in found


def test_nothing_runs_off_the_page(hostile_pdf: bytes) -> None:
    document = pypdfium2.PdfDocument(hostile_pdf)
    for i in range(len(document)):
        page = document[i]
        assert page.get_size() == pytest.approx((595.28, 841.89), abs=0.1)
        text = page.get_textpage()
        for rect in range(text.count_rects()):
            left, bottom, right, top = text.get_rect(rect)
            assert left > 40
            assert right < 595.28 - 40
            assert bottom > 20
            assert top < 841.89 - 20


def test_chinese_text_prints(results: Results) -> None:
    content = pdf.render(build(results), {})
    found = bare(extracted(content))
    assert bare(CHINESE) in found
    assert PASSAGE_ZH[:30] in found
    assert "每日500元。" in found
    assert b"NotoSansSC" in content


def test_pages_are_numbered_and_the_same_twice(results: Results) -> None:
    document = build(results)
    content = pdf.render(document, {})
    assert content == pdf.render(document, {})
    pages = pypdfium2.PdfDocument(content)
    assert f"1 / {len(pages)}" in pages[0].get_textpage().get_text_range()
    assert results.experiment["name"] in pages[1].get_textpage().get_text_range()


def test_without_the_chinese_font_the_pdf_is_made_and_says_so(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdf, "chinese_sans", lambda: None)
    monkeypatch.setattr(fonts, "chinese_sans", lambda: None)
    assert "pylopdf-fonts-zh-cn is missing" in " ".join(extracted(pdf.render(build(results), {})).split())


def test_characters_without_a_glyph_are_named(results: Results) -> None:
    results.warnings.append("한")
    said = " ".join(pdf.remarks(build(results)))
    assert "U+D55C" in said
    assert fonts.missing_glyphs("plain, 中文, العربية") == ""


def test_a_page_that_cannot_be_set_is_an_error_of_one_line(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "remarks", lambda document: [])
    monkeypatch.setattr(pdf, "_text", lambda text, run=24: 1)
    with pytest.raises(RagLabError, match=r"report.pdf: typst could not set the report"):
        pdf.render(build(results), {})


def test_code_is_set_in_two_columns_when_its_lines_are_many_and_short() -> None:
    assert pdf._code_columns("a\nb\n") == [["a", "b"]]
    assert pdf._code_columns("\n".join("abcdefghijklm")) == [list("abcdefg"), list("hijklm")]
    assert len(pdf._code_columns("\n".join(["x" * 60] * 20))) == 1
