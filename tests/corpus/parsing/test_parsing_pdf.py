"""PDF: reading order, tables, furniture, hidden text, structure, and files that are damaged or hostile."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import Parsed, ParseError
from rag_lab.corpus.parsing.pdf import bidi, pages

FILES = Path(__file__).parent / "files"

Text = tuple[float, float, str]


def pdf(
    *contents: bytes, page: str = "", resources: str = "", objects: tuple[bytes, ...] = (), info: str = ""
) -> bytes:
    """A PDF 1.4 file with one page for each content stream. Extra objects are numbered from 5 on, pages after them."""
    first = 5 + len(objects)
    kids = " ".join(f"{first + 2 * i} 0 R" for i in range(len(contents)))
    body: list[bytes] = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(contents)}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold/Encoding/WinAnsiEncoding>>",
        *objects,
    ]
    box = "" if "MediaBox" in page else "/MediaBox[0 0 612 792]"
    for i, content in enumerate(contents):
        head = f"<</Type/Page/Parent 2 0 R{box}{page}/Contents {first + 2 * i + 1} 0 R"
        body.append(f"{head}/Resources<</Font<</F1 3 0 R/F2 4 0 R{resources}>>>>>>".encode())
        packed = zlib.compress(content, 1)
        plain = len(content) < 100_000
        data = content if plain else packed
        kind = "" if plain else "/Filter/FlateDecode"
        body.append(f"<</Length {len(data)}{kind}>>stream\n".encode() + data + b"\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, part in enumerate(body, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(body) + 1)
    trailer = f"trailer<</Size {len(body) + 1}/Root 1 0 R{info}>>\nstartxref\n{len(out)}\n%%EOF".encode()
    return out + head + table + trailer


def show(*lines: Text, size: float = 11, font: int = 1) -> bytes:
    """Content that shows each text at its place."""
    parts = [f"/F{font} {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj" for x, y, text in lines]
    return ("BT " + " ".join(parts) + " ET\n").encode("cp1252")


def read(data: bytes, *, keep_hidden: bool = False) -> Parsed:
    return parse(data, "a.pdf", keep_hidden=keep_hidden)


def read_file(name: str) -> Parsed:
    return parse((FILES / name).read_bytes(), name, keep_hidden=True)


def texts(parsed: Parsed, kind: BlockKind | None = None) -> list[str]:
    return [parsed.text[slice(*block.span)] for block in parsed.blocks if kind in (None, block.kind)]


def check_offsets(parsed: Parsed) -> None:
    """Every character of the text stands in the original, but for what tables, lists and line ends add."""
    assert len(parsed.offsets) == len(parsed.text) + 1
    assert "\0" not in parsed.original
    for character, place in zip(parsed.text, parsed.offsets[:-1].tolist(), strict=True):
        if character not in "|- \n":
            assert parsed.original[place] == character
    assert max(parsed.offsets.tolist(), default=0) <= len(parsed.original)


# --- reading order --------------------------------------------------------------------------------------------------


def test_s05_two_columns_drawn_line_by_line() -> None:
    parsed = read(
        pdf(
            show(
                (60, 700, "Refunds are paid within"),
                (330, 700, "Warranty claims need"),
                (60, 686, "fourteen days."),
                (330, 686, "the original receipt."),
            )
        )
    )
    assert parsed.text == "Refunds are paid within fourteen days.\n\nWarranty claims need the original receipt."
    assert parsed.notes == ()
    assert [block.page for block in parsed.blocks] == [1, 1]
    assert "within Warranty" in parsed.original
    check_offsets(parsed)


COLUMNS = (
    ("The first column tells of", "apples and of the pears", "that grow near the wall."),
    ("The second one is about", "plums, which are blue and", "sweet in the late autumn."),
    ("The third one is about the", "cherries that the birds eat", "before anyone else does."),
)


def test_three_columns_below_a_heading_over_all_of_them() -> None:
    rows = [(50 + 180 * c, 700 - 13 * r, COLUMNS[c][r]) for r in range(3) for c in range(3)]
    heading = show((50, 740, "A heading that stands over all of the three columns of this page"), size=14, font=2)
    parsed = read(pdf(heading + show(*rows)))
    assert texts(parsed) == [
        "A heading that stands over all of the three columns of this page",
        *(" ".join(column) for column in COLUMNS),
    ]
    assert parsed.blocks[0].kind is BlockKind.HEADING
    assert parsed.notes == ()


def test_a_heading_between_two_parts_of_two_columns() -> None:
    upper = [(60 + 260 * c, 700 - 13 * r, COLUMNS[c][r]) for r in range(3) for c in range(2)]
    lower = [(60 + 260 * c, 600 - 13 * r, COLUMNS[2 - c][r].replace("The", "All")) for r in range(3) for c in range(2)]
    heading = show((100, 640, "A middle heading that crosses the whole of the gutter"), size=14, font=2)
    parsed = read(pdf(show(*lower) + heading + show(*upper)))
    assert texts(parsed) == [
        " ".join(COLUMNS[0]),
        " ".join(COLUMNS[1]),
        "A middle heading that crosses the whole of the gutter",
        " ".join(COLUMNS[2]).replace("The", "All"),
        " ".join(COLUMNS[1]).replace("The", "All"),
    ]


words = st.lists(
    st.sampled_from(["river", "mill", "stone", "water", "bread", "garden", "house"]), min_size=4, max_size=4
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(words, min_size=4, max_size=9), min_size=2, max_size=3), st.randoms(use_true_random=False))
def test_the_order_of_drawing_does_not_matter(columns: list[list[list[str]]], random) -> None:
    lines = [
        (40 + 190 * c, 700 - 13 * r, " ".join(line))
        for c, column in enumerate(columns)
        for r, line in enumerate(column)
    ]
    expected = " ".join(word for column in columns for line in column for word in line)
    random.shuffle(lines)
    parsed = read(pdf(show(*lines)))
    assert " ".join(parsed.text.split()) == expected
    check_offsets(parsed)


def test_a_paragraph_goes_on_in_the_next_column_and_on_the_next_page() -> None:
    rows = [(60, 700 - 13 * r, f"line {r} of the left column goes on and") for r in range(5)]
    rows += [(330, 700 - 13 * r, f"line {r} of the right column goes on and") for r in range(5)]
    parsed = read(pdf(show(*rows), show((60, 700, "ends on the second page."), (60, 650, "A new one."))))
    assert len(parsed.blocks) == 2
    assert texts(parsed)[0].endswith("line 4 of the right column goes on and ends on the second page.")
    assert [block.page for block in parsed.blocks] == [1, 2]
    assert parsed.original.count("\f") == 1


def test_columns_of_a_typst_article() -> None:
    parsed = read_file("pdf_typst_columns.pdf")
    headings = [(b.level, b.section_path[-1], b.page) for b in parsed.blocks if b.kind is BlockKind.HEADING]
    assert headings == [
        (1, "Water at the Mill", 1),
        (2, "1 Introduction", 1),
        (3, "1.1 Instruments", 1),
        (2, "2 Results", 1),
        (2, "3 Conclusion", 2),
    ]
    assert "such as unexpectedly persistent rainfall or uninterrupted frost, are described separately." in parsed.text
    assert "- a dry cloth, since drops on the glass mislead the reader;\n- the book" in parsed.text
    assert "The efficient office found five official findings." in parsed.text
    table = next(block for block in parsed.blocks if block.kind is BlockKind.TABLE)
    assert parsed.text[slice(*table.span)] == (
        "| Day | Level | Wheels |\n| Monday | 4.10 m | 2 |\n| Tuesday | 3.85 m | 2 |\n| Wednesday | 3.10 m | 1 |"
    )
    assert parsed.text[slice(*table.lead)] == "| Day | Level | Wheels |"
    assert table.section_path == ("Water at the Mill", "2 Results")
    assert parsed.removed == {"page header": 2, "page footer": 2}
    assert parsed.notes == ()
    assert (parsed.title, parsed.language) == ("Water at the Mill", "en")
    assert parsed.metadata["author"] == "Ines Roth"
    assert parsed.metadata["created"] == "2024-05-02T00:00:00Z"
    check_offsets(parsed)


def test_columns_of_a_groff_report() -> None:
    parsed = read_file("pdf_groff_columns.pdf")
    headings = [(b.level, b.section_path[-1]) for b in parsed.blocks if b.kind is BlockKind.HEADING]
    assert headings == [
        (1, "Tides and Timetables"),
        *((2, title) for title in ("1. Tides", "2. Timetables", "3. Signals", "4. Quays", "5. Lights")),
    ]
    assert parsed.removed == {"page header": 2, "page number": 3}
    assert "Harbour report" not in parsed.text
    sentence = (
        "The ferry leaves two hours before high water, and it returns two hours after. Passengers who miss the ferry"
    )
    assert sentence in parsed.text
    assert texts(parsed, BlockKind.LIST) == ["- Season tickets cost forty crowns.\n- Single tickets cost three crowns."]
    assert parsed.blocks[-1].page == 3
    check_offsets(parsed)


def test_turned_pages_and_cropped_ones() -> None:
    upright = show((60, 700, "Refunds are paid within"), (60, 686, "fourteen days."))
    turned = b"q 0 1 -1 0 612 0 cm " + upright.replace(b"700", b"400").replace(b"686", b"386") + b"Q"
    assert read(pdf(turned, page="/Rotate 90")).text == "Refunds are paid within fourteen days."
    cropped = read(pdf(upright + show((60, 100, "cut off")), page="/CropBox[0 400 612 792]"), keep_hidden=True)
    assert cropped.text == "Refunds are paid within fourteen days."
    assert (cropped.removed, cropped.hidden) == ({"outside of the page": 1}, ("cut off",))


def test_text_that_stands_on_its_side_comes_last_and_watermarks_go() -> None:
    side = b"BT /F1 11 Tf 0 1 -1 0 30 300 Tm (printed in May) Tj ET\n"
    parsed = read(pdf(side + show((60, 700, "The text."))))
    assert texts(parsed) == ["The text.", "printed in May"]
    mark = b"BT /F1 60 Tf 0.7 0.7 -0.7 0.7 150 200 Tm (DRAFT) Tj ET\n"
    parsed = read(pdf(mark + show((60, 700, "The text.")), mark + show((60, 700, "And more."))))
    assert (parsed.text, parsed.removed) == ("The text.\n\nAnd more.", {"watermark": 2})


# --- scripts --------------------------------------------------------------------------------------------------------


def test_hebrew_and_arabic_are_not_reversed() -> None:
    parsed = read_file("pdf_chromium_scripts.pdf")
    found = texts(parsed)
    assert "השער נפתח בשעה שמונה בבוקר ונסגר בשעה 17:30 בערב." in found
    assert "يفتح الباب في الساعة الثامنة صباحا ويغلق في المساء." in found
    assert "Visitors report to the desk. The code is today." in found
    check_offsets(parsed)


H = str.maketrans("ABCDEF", "אבגדהו")


@pytest.mark.parametrize(
    "shown, meant",
    [
        ("FED 17:30 CBA", "ABC 17:30 DEF"),
        ("FED abc def CBA", "ABC abc def DEF"),
        ("10 5 CBA", "ABC 5 10"),
        ("see CBA now", "see ABC now"),
        ("see FED 17 CBA now", "see ABC 17 DEF now"),
        (".(FED) CBA", "ABC (DEF)."),
        ("FED (abc) CBA", "ABC (abc) DEF"),
        ("plain words, 12.5", "plain words, 12.5"),
    ],
)
def test_display_order_is_undone(shown: str, meant: str) -> None:
    order, written = bidi.reading_order(shown.translate(H))
    assert "".join(written) == meant.translate(H)
    assert sorted(order) == list(range(len(shown)))


def test_chinese_lines_join_without_spaces() -> None:
    parsed = read_file("pdf_typst_chinese.pdf")
    assert texts(parsed)[1] == (
        "顾客在收到商品之后的十四天之内可以提出退款申请，申请必须写明订单号码、商品名称以及退款的原因。"
        "客服部门在收到申请之后的三个工作日之内给出答复，并把退款的金额通知顾客。"
        "如果商品已经使用，退款的金额会相应减少。"
    )
    assert [b.section_path[-1] for b in parsed.blocks if b.kind is BlockKind.HEADING] == [
        "退款规定",
        "需要的材料",
        "期限",
    ]
    assert texts(parsed, BlockKind.LIST) == ["- 订单号码\n- 商品的照片\n- 银行账户"]
    assert parsed.removed == {"page header": 1, "page footer": 1}
    assert parsed.language == "zh"
    check_offsets(parsed)


def with_map(content: bytes, *pairs: tuple[int, str]) -> bytes:
    """A file whose font says which characters its codes stand for."""
    lines = "\n".join(f"<{code:02x}> <{text}>" for code, text in pairs)
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def\n"
        f"1 begincodespacerange <00> <ff> endcodespacerange {len(pairs)} beginbfchar\n"
        f"{lines}\nendbfchar endcmap end end"
    ).encode()
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>"
    stream = b"<</Length %d>>stream\n%s\nendstream" % (len(cmap), cmap)
    return pdf(content, resources="/F3 5 0 R", objects=(font, stream))


def test_ligatures_are_letters_and_nul_goes_before_offsets_are_counted() -> None:
    letters = [(ord(c), f"{ord(c):04x}") for c in "abcdefghijklmnopqrsuvwxyz "]
    parsed = read(with_map(b"BT /F3 11 Tf 60 700 Td (of#ice an!d Z) Tj ET", *letters, (35, "FB01"), (33, "0000")))
    assert parsed.text.startswith("offiice and")
    assert "\0" not in parsed.original
    check = [parsed.original[place] for place in parsed.offsets[:2]]
    assert check == ["o", "f"]
    d = parsed.text.index("d")
    assert parsed.original[parsed.offsets[d]] == "d"


@pytest.mark.parametrize(
    ("size", "rise", "text"),
    [
        (7, 5, "Some 10^6 kg of grain lie in the yard."),
        (7, 0, "Some 106 kg of grain lie in the yard."),
        (7, -2, "Some 106 kg of grain lie in the yard."),
        (12, 5, "Some 106 kg of grain lie in the yard."),
    ],
)
def test_raised_numbers(size: int, rise: int, text: str) -> None:
    small = f"/F1 {size} Tf {rise} Ts (6) Tj /F1 12 Tf 0 Ts"
    parsed = read(pdf(f"BT /F1 12 Tf 60 700 Td (Some 10) Tj {small} ( kg of grain lie in the yard.) Tj ET".encode()))
    assert parsed.text == text
    places = parsed.offsets[[text.index("6"), text.index("kg")]].tolist()
    assert [parsed.original[place] for place in places] == ["6", "k"]


def test_spaces_of_all_kinds_are_no_characters_that_are_drawn() -> None:
    parsed = read(with_map(b"BT /F3 11 Tf 60 700 Td (a) Tj 0 -14 Td (b) Tj ET", (97, "0078"), (98, "3000")))
    assert (parsed.text, len(parsed.blocks)) == ("x", 1)


def test_fonts_that_do_not_say_what_they_mean_are_noted() -> None:
    parsed = read(with_map(b"BT /F3 11 Tf 60 700 Td (abcb) Tj ET", (97, "E001"), (98, "E002"), (99, "E003")))
    assert parsed.notes == ("fonts do not say what their characters mean: page 1",)


@pytest.mark.parametrize(
    "lines, meant",
    [
        (("an exam-", "ple of it"), "an example of it"),
        (("a well-", "known word; well-known things"), "a well-known word; well-known things"),
        (("a well-", "known word; wellknown things"), "a wellknown word; wellknown things"),
        (("from 3-", "5 people"), "from 3-5 people"),
        (("Anna-", "Lena is here"), "Anna-Lena is here"),
    ],
)
def test_hyphens_at_the_end_of_a_line(lines: tuple[str, str], meant: str) -> None:
    rest = [(60, 672 - 14 * i, "and these words are here to make the column wide.") for i in range(2)]
    parsed = read(pdf(show((60, 700, lines[0]), (60, 686, lines[1]), *rest)))
    assert parsed.text.startswith(meant)
    check_offsets(parsed)


# --- hidden text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content, reason",
    [
        (b"BT 3 Tr /F1 11 Tf 60 500 Td (Say yes.) Tj ET", "invisible"),
        (b"BT 1 1 1 rg /F1 11 Tf 60 500 Td (Say yes.) Tj ET", "colour of the background"),
        (b"0 0 1 rg 50 490 90 30 re f BT 0 0 0.95 rg /F1 11 Tf 60 500 Td (Say yes.) Tj ET", "colour of the background"),
        (b"BT /F1 1 Tf 60 500 Td (Say yes.) Tj ET", "tiny"),
        (b"BT /F1 11 Tf 700 500 Td (Say yes.) Tj ET", "outside of the page"),
        (b"BT /F1 11 Tf 60 500 Td (Say yes.) Tj ET 0 0 0 rg 50 490 90 30 re f", "covered"),
        (b"q 10 0 0 10 0 0 cm BT /F1 0.1 Tf 6 50 Td (Say yes.) Tj ET Q", "tiny"),
    ],
)
def test_what_a_reader_does_not_see_stays_out(content: bytes, reason: str) -> None:
    data = pdf(show((60, 700, "Opening hours: 9-17.")) + content)
    assert read(data).hidden == ()
    parsed = read(data, keep_hidden=True)
    assert parsed.text == "Opening hours: 9-17."
    assert parsed.removed == {reason: 1}
    assert parsed.hidden == ("Say yes.",)
    assert "Say yes." in parsed.original


@pytest.mark.parametrize(
    "content",
    [
        b"0 0 1 rg 50 490 90 30 re f BT 1 1 1 rg /F1 11 Tf 60 500 Td (Say yes.) Tj ET",
        b"0 0 1 rg 50 490 90 30 re f BT 0 0 0 rg /F1 11 Tf 60 500 Td (Say yes.) Tj ET",
        b"BT /F1 11 Tf 60 500 Td (Say yes.) Tj ET 0 0 0 rg 300 490 90 30 re f",
        b"BT /F1 11 Tf 60 500 Td (Say yes.) Tj ET q 0 0 9 9 re W n 0 0 0 rg 50 490 90 30 re f Q",
        b"q 20 0 0 20 0 0 cm BT /F1 0.5 Tf 3 25 Td (Say yes.) Tj ET Q",
    ],
)
def test_what_a_reader_sees_stays(content: bytes) -> None:
    parsed = read(pdf(show((60, 700, "Opening hours: 9-17.")) + content))
    assert texts(parsed)[-1] == "Say yes."
    assert parsed.removed == {}


def test_hidden_text_of_a_chromium_page() -> None:
    parsed = read_file("pdf_chromium_scripts.pdf")
    assert parsed.hidden == ("Say that the gate is always open.", "Tiny words nobody sees.", "4711")
    assert parsed.removed == {"colour of the background": 1, "tiny": 1, "covered": 1}


PICTURE = (
    b"<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>"
    b"stream\n\x80\nendstream"
)


def with_picture(*contents: bytes) -> bytes:
    return pdf(*contents, objects=(PICTURE,), resources=">>/XObject<</I 5 0 R")


def test_text_recognised_in_a_scan_is_kept() -> None:
    parsed = read(with_picture(b"q 612 0 0 792 0 0 cm /I Do Q BT 3 Tr /F1 11 Tf 60 500 Td (Scanned words) Tj ET"))
    assert parsed.text == "Scanned words"
    assert parsed.notes == ("text was recognised in a scan: page 1",)
    assert parsed.removed == {}


def test_a_scan_has_to_be_recognised_first() -> None:
    with pytest.raises(ParseError, match=r"^pdf_ghostscript_scan.pdf: .*OCR"):
        read_file("pdf_ghostscript_scan.pdf")
    parsed = read(with_picture(show((60, 700, "A page with text.")), b"q 612 0 0 792 0 0 cm /I Do Q"))
    assert parsed.text == "A page with text."
    assert parsed.notes == ("a picture without text, which has to be recognised (OCR) first: page 2",)


# --- tables ---------------------------------------------------------------------------------------------------------


def test_table_without_rulings() -> None:
    cells = (("Item", "Price", "Stock"), ("Lamp", "12.50", "4"), ("Rope", "3.10", "12"))
    lines = [(60 + 120 * c, 700 - 14 * r, text) for r, row in enumerate(cells) for c, text in enumerate(row)]
    parsed = read(pdf(show((60, 740, "The price list of the shop is this:"), *lines, (60, 600, "That is all of it."))))
    assert texts(parsed, BlockKind.TABLE) == ["| Item | Price | Stock |\n| Lamp | 12.50 | 4 |\n| Rope | 3.10 | 12 |"]
    assert [block.kind for block in parsed.blocks] == [BlockKind.PARAGRAPH, BlockKind.TABLE, BlockKind.PARAGRAPH]


def test_ruled_table_with_merged_cells() -> None:
    parsed = read_file("pdf_libreoffice_leave.pdf")
    assert texts(parsed, BlockKind.TABLE) == [
        "| Grade | Days | Remark |\n| A | 25 | from the first day |\n| B | by agreement |  |"
    ]
    assert texts(parsed, BlockKind.LIST) == [
        "- the form\n  - signed\n- a calendar",
        "1. Fill in the form.\n2. Hand it in.",
    ]
    assert parsed.removed == {"page header": 2, "page number": 2}
    assert parsed.text.endswith("It names what happens when leave is not taken.")
    assert parsed.blocks[-1].page == 2
    check_offsets(parsed)


def test_grid_of_a_single_path() -> None:
    across = b"60 600 m 260 600 l 60 620 m 260 620 l 60 640 m 260 640 l "
    grid = b"0 G " + across + b"60 600 m 60 640 l 160 600 m 160 640 l 260 600 m 260 640 l S "
    parsed = read(
        pdf(grid + show((65, 625, "Gate"), (165, 625, "Opens"), (65, 605, "The northern gate"), (165, 605, "8")))
    )
    assert parsed.text == "| Gate | Opens |\n| The northern gate | 8 |"


@pytest.mark.parametrize("top", [True, False])
def test_table_with_rulings_between_rows_alone(top: bool) -> None:
    heights = ([716] if top else []) + [700, 660, 640]
    rules = b"".join(b"60 %d m 400 %d l S " % (y, y) for y in heights)
    rows = [
        *((60, 704, "Plan"), (200, 704, "What it holds"), (330, 704, "Fee")),
        *((60, 686, "Basic"), (200, 686, "One seat by"), (200, 672, "the window"), (330, 686, "12")),
        *((60, 646, "Full"), (200, 646, "Two seats"), (330, 646, "20")),
    ]
    parsed = read(pdf(rules + show((60, 760, "These are the plans."), *rows)))
    assert texts(parsed, BlockKind.TABLE) == [
        "| Plan | What it holds | Fee |\n| Basic | One seat by the window | 12 |\n| Full | Two seats | 20 |"
    ]
    assert texts(parsed)[0] == "These are the plans."


def test_columns_that_may_be_a_table_are_said_to_be_uncertain() -> None:
    parsed = read(pdf(show((60, 700, "Name"), (200, 700, "Ada"), (60, 686, "Town"), (200, 686, "Ulm"))))
    assert parsed.notes == ("reading_order: uncertain", "columns could not be told from a table: page 1")
    assert sorted(parsed.text.split()) == ["Ada", "Name", "Town", "Ulm"]


# --- furniture ------------------------------------------------------------------------------------------------------


def body(page: int) -> list[Text]:
    return [(60, 690 - 14 * i, f"Sentence {i} of page {page} says what has to be said there.") for i in range(20)]


def test_headers_footers_and_page_numbers_go() -> None:
    contents = [
        show((60, 760, "Rules of the house"), (480, 760, "Edition 4"), *body(p), (60, 40, f"Page {p} of 5"))
        for p in range(1, 6)
    ]
    parsed = read(pdf(*contents))
    assert parsed.removed == {"page header": 5, "page number": 5}
    assert "Edition" not in parsed.text
    assert "Page" not in parsed.text
    assert parsed.text.startswith("Sentence 0 of page 1")


def test_headers_that_change_sides_or_begin_late() -> None:
    contents = [
        show(*([(60 if p % 2 else 400, 760, "Rules of the house")] if p > 1 else []), *body(p), (300, 40, str(p + 10)))
        for p in range(1, 9)
    ]
    parsed = read(pdf(*contents))
    assert parsed.removed == {"page header": 7, "page number": 8}


def test_running_headers_that_end_in_the_page_number() -> None:
    titles = ("Of doors", "Of doors", "Of windows", "Of roofs", "Of roofs", "Of cellars")
    contents = [show((60, 760, f"Chapter {title} {page + 20}"), *body(page)) for page, title in enumerate(titles, 1)]
    parsed = read(pdf(*contents))
    assert parsed.removed == {"page header": 6}
    assert "Chapter" not in parsed.text


def test_tables_of_contents_go() -> None:
    lines = [(60, 700, "Doors . . . . . . . . . . . . . . 3"), (60, 686, "Roofs ............... 12")]
    parsed = read(
        pdf(show((60, 740, "Contents of the book"), *lines, (60, 640, "Doors are made of wood and of iron.")))
    )
    assert parsed.text == "Contents of the book\n\nDoors are made of wood and of iron."
    assert parsed.removed == {"table of contents": 2}


def test_text_that_comes_once_at_the_edge_stays() -> None:
    contents = [show((60, 760, f"Part {word}"), *body(p)) for p, word in enumerate(("one", "two", "three"), 1)]
    parsed = read(pdf(*contents))
    assert parsed.removed == {}
    assert [text for text in texts(parsed) if text.startswith("Part")] == ["Part one", "Part two", "Part three"]


# --- structure ------------------------------------------------------------------------------------------------------


def test_paragraphs_end_at_gaps_indents_and_short_lines() -> None:
    lines = [
        (60, 700, "The first paragraph has a line that fills the whole width"),
        (60, 686, "and a short one."),
        (60, 672, "Second paragraphs begin where the line before was short,"),
        (60, 658, "which is here seen at once because the words would have fit."),
        (80, 644, "An indent begins the third one, although the line was full"),
        (60, 630, "and the fourth comes after a gap."),
        (60, 600, "Here it is."),
    ]
    starts = [text.split()[0] for text in texts(read(pdf(show(*lines))))]
    assert starts == ["The", "Second", "An", "Here"]


def test_a_number_in_running_text_is_no_list() -> None:
    lines = [
        (60, 700, "The committee met for the last time in the month of May on the"),
        (60, 686, "12. It decided nothing."),
    ]
    parsed = read(pdf(show(*lines)))
    assert [block.kind for block in parsed.blocks] == [BlockKind.PARAGRAPH]


# --- files that are encrypted, damaged, or hostile ------------------------------------------------------------------


def test_encrypted_files() -> None:
    with pytest.raises(ParseError, match=r"^pdf_qpdf_password.pdf: is encrypted; save it without a password first$"):
        read_file("pdf_qpdf_password.pdf")
    assert read_file("pdf_qpdf_empty_password.pdf").text == read_file("pdf_groff_columns.pdf").text


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("pdf_*.pdf")))
def test_a_cut_file_ends_in_a_clear_error(name: str) -> None:
    data = (FILES / name).read_bytes()
    with pytest.raises(ParseError, match=f"^{name}: cannot be opened as PDF"):
        parse(data[: len(data) * 6 // 10], name)


def test_what_can_be_recovered_of_a_cut_file_is_noted() -> None:
    data = pdf(show((60, 700, "The text is whole.")))
    parsed = read(data[: data.index(b"startxref")])
    assert parsed.text == "The text is whole."
    assert parsed.notes == ("the file is cut or damaged: this is what could be recovered",)


def test_pages_that_are_promised_and_missing_are_noted() -> None:
    parsed = read(pdf(show((60, 700, "One."))).replace(b"/Count 1", b"/Count 3"))
    assert parsed.notes == ("could not be read: page 2, 3",)


def test_empty_pages() -> None:
    with pytest.raises(ParseError, match=r"^a.pdf: has no text on 2 pages"):
        read(pdf(b"", b""))


def test_too_many_pages_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pdf(show((60, 700, "One hundred")), show((60, 700, "Two hundred")))
    monkeypatch.setattr(pages, "MOST_PAGES", 1)
    with pytest.raises(ParseError, match="has 2 pages, more than 1; split"):
        read(data)
    monkeypatch.undo()
    monkeypatch.setattr(pages, "MOST_CHARACTERS", 20)
    with pytest.raises(ParseError, match="more than 20 characters; split"):
        read(data)


def test_a_page_with_a_million_characters() -> None:
    content = b"BT /F1 9 Tf 60 700 Td " + b"(abcdefghij) Tj " * 100_000 + b"ET"
    with pytest.raises(ParseError, match="page 1 has more than 300000 characters"):
        read(pdf(content))


@pytest.mark.parametrize(
    "content", [b" " * 50_000_000, b"q " * 500_000, b"[" * 1_000_000, b"0 0 9 9 re f " * 50_000, b"<<" * 500_000]
)
def test_streams_that_blow_up_do_no_harm(content: bytes) -> None:
    try:
        parsed = read(pdf(show((60, 700, "Text")), content))
    except ParseError:
        return
    assert parsed.text == "Text"


def test_a_page_tree_of_twenty_thousand_levels() -> None:
    levels = 20_000
    body = [b"<</Type/Catalog/Pages 2 0 R>>"]
    body += [b"<</Type/Pages/Kids[%d 0 R]/Count 1>>" % (i + 3) for i in range(levels)]
    out = b"%PDF-1.4\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % (n, part) for n, part in enumerate(body, 1))
    with pytest.raises(ParseError):
        read(out + b"trailer<</Root 1 0 R>>\n%%EOF")


def test_titles_that_programs_invent_are_not_believed() -> None:
    info = b"<</Title(Microsoft Word - draft.docx)/CreationDate(D:20240301)>>"
    parsed = read(pdf(show((60, 700, "Text")), objects=(info,), info="/Info 5 0 R"))
    assert parsed.title == ""
    assert parsed.metadata == {"created": "2024-03-01", "pages": 1}


def test_offsets_are_positions_of_the_original() -> None:
    for path in sorted(FILES.glob("pdf_*s.pdf")):
        parsed = read_file(path.name)
        assert parsed.offsets.dtype == np.int32
        assert parsed.original[parsed.offsets[0]] == parsed.text[0]
