"""PPTX: slides, reading order, tables, groups, notes, and what the audience does not see."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import Parsed, ParseError

FILES = Path(__file__).parent / "files"
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
P = 'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def links(**targets: str) -> str:
    inner = "".join(
        f'<Relationship Id="{key}" Type="{TYPES}/{value.split(":")[0]}" Target="{value.split(":")[1]}"/>'
        for key, value in targets.items()
    )
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{inner}</Relationships>'
    )


def deck(*slides: str, **parts: str) -> bytes:
    """A PPTX of shape trees; the first slide may be related to further parts, named kind__path."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        listed = "".join(f'<p:sldId id="{256 + i}" r:id="s{i}"/>' for i in range(len(slides)))
        size = '<p:sldSz cx="9000" cy="6000"/>'
        target.writestr(
            "ppt/presentation.xml", f"<p:presentation {P} {R}><p:sldIdLst>{listed}</p:sldIdLst>{size}</p:presentation>"
        )
        target.writestr(
            "ppt/_rels/presentation.xml.rels", links(**{f"s{i}": f"slide:slides/{i}.xml" for i in range(len(slides))})
        )
        for i, tree in enumerate(slides):
            content = f"<p:sld {P} {A} {R}><p:cSld><p:spTree>{tree}</p:spTree></p:cSld></p:sld>"
            target.writestr(f"ppt/slides/{i}.xml", content)
        related = {}
        for key, content in parts.items():
            kind, _, name = key.partition("__")
            related[name] = f"{kind}:../{name}.xml"
            target.writestr(f"ppt/{name}.xml", content)
        target.writestr("ppt/slides/_rels/0.xml.rels", links(**related))
    return out.getvalue()


def shape(
    text: str, x: int = -1, y: int = 0, w: int = 1000, h: int = 500, holder: str = "", properties: str = ""
) -> str:
    place = f'<a:xfrm><a:off x="{x}" y="{y}"/><a:ext cx="{w}" cy="{h}"/></a:xfrm>' if x >= 0 else ""
    paragraphs = "".join(f"<a:p>{properties}<a:r><a:t>{part}</a:t></a:r></a:p>" for part in text.split("/"))
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="1" name="n"/><p:nvPr>{holder}</p:nvPr></p:nvSpPr><p:spPr>{place}</p:spPr>'
        f"<p:txBody>{paragraphs}</p:txBody></p:sp>"
    )


def read(data: bytes) -> Parsed:
    parsed = parse(data, "a.pptx", keep_hidden=True)
    assert len(parsed.offsets) == len(parsed.text) + 1
    return parsed


def outline(parsed: Parsed) -> list[tuple[str, int, tuple[str, ...], str]]:
    return [(b.kind.value, b.page, b.section_path, parsed.text[slice(*b.span)]) for b in parsed.blocks]


@pytest.mark.parametrize("name", ["pptx_pandoc_deck.pptx", "pptx_libreoffice_deck.pptx"])
def test_pandoc_and_libreoffice(name: str) -> None:
    parsed = read((FILES / name).read_bytes())
    assert outline(parsed) == [
        ("heading", 1, ("Harvest plan",), "Harvest plan"),
        ("paragraph", 1, ("Harvest plan",), "Jo Field"),
        ("heading", 2, ("Weather",), "Weather"),
        ("heading", 3, ("Forecast",), "Forecast"),
        ("list", 3, ("Forecast",), "- Dry until Thursday\n- Rain from Friday\n  - heavy in the west"),
        ("heading", 3, ("Forecast", "Notes"), "Notes"),
        ("paragraph", 3, ("Forecast", "Notes"), "Tell them that the forecast is two days old."),
        ("heading", 4, ("Machines",), "Machines"),
        ("table", 4, ("Machines",), "| Machine | State |\n| Baler | ready |\n| Combine | in repair |"),
        ("heading", 5, ("人手",), "人手"),
        ("list", 5, ("人手",), "1. 周一需要八人\n2. 周二需要十二人"),
    ]
    assert (parsed.title, parsed.metadata["author"], parsed.removed) == ("Harvest plan", "Jo Field", {})


def test_python_pptx() -> None:
    parsed = read((FILES / "pptx_python_yard.pptx").read_bytes())
    assert outline(parsed) == [
        ("heading", 1, ("Yard plan",), "Yard plan"),
        *(
            ("paragraph", 1, ("Yard plan",), text)
            for text in ("top left", "top right", "bottom left", "bottom right", "group first", "group second")
        ),
        ("heading", 1, ("Yard plan", "Notes"), "Notes"),
        ("paragraph", 1, ("Yard plan", "Notes"), "Say who holds the keys."),
        ("paragraph", 1, ("Yard plan", "Notes"), "Say it twice."),
        ("table", 3, (), "| Gate | Opens | Closes |\n| North | 8:00 | 17:30 |\n| South | closed | |"),
        ("heading", 4, ("Two columns",), "Two columns"),
        ("list", 4, ("Two columns",), "- Left one\n- Left two"),
        ("list", 4, ("Two columns",), "- Right one\n- Right two"),
    ]
    lead = parsed.blocks[10].lead
    assert lead is not None
    assert parsed.text[slice(*lead)] == "| Gate | Opens | Closes |"
    assert parsed.removed == {"hidden": 1, "outside of the slide": 1, "hidden slide": 1}
    assert parsed.hidden == ("invisible shape", "beyond the slide", "Secret slide Nobody sees this.")
    assert parse((FILES / "pptx_python_yard.pptx").read_bytes(), "a.pptx").hidden == ()
    for i, character in enumerate(parsed.text):
        if character.isdigit() or (character.isalpha() and "Notes" not in parsed.text[max(0, i - 4) : i + 5]):
            assert parsed.original[parsed.offsets[i]] == character


def test_shapes_in_a_group_stand_where_the_slide_shows_them() -> None:
    group = (
        '<p:grpSp><p:grpSpPr><a:xfrm><a:off x="5000" y="1000"/><a:ext cx="2000" cy="500"/><a:chOff x="0" y="0"/>'
        '<a:chExt cx="200" cy="50"/></a:xfrm></p:grpSpPr>' + shape("second", 0, 0, 100, 50) + "</p:grpSp>"
    )
    assert read(deck(group + shape("third", 0, 3000) + shape("first", 1000, 1000))).text == "first\n\nsecond\n\nthird"


def test_placeholders_stand_where_their_layout_says() -> None:
    layout = (
        f"<p:sldLayout {P} {A}>"
        + shape("", 0, 3000, holder='<p:ph type="body" idx="1"/>')
        + shape("", 0, 1000, holder='<p:ph type="body" idx="2"/>')
        + "</p:sldLayout>"
    )
    tree = (
        shape("lower", holder='<p:ph type="body" idx="1"/>')
        + shape("upper", holder='<p:ph type="body" idx="2"/>')
        + shape("middle", 0, 2000)
        + shape("Title", holder='<p:ph type="title"/>')
    )
    assert read(deck(tree, slideLayout__layout=layout)).text == "Title\n\nupper\n\nmiddle\n\nlower"


def test_footers_dates_and_numbers_go() -> None:
    tree = shape("Text", 0, 0) + "".join(
        shape("x", 0, 5000, holder=f'<p:ph type="{kind}"/>') for kind in ("ftr", "sldNum", "dt")
    )
    parsed = read(deck(tree))
    assert (parsed.text, parsed.removed) == ("Text", {"page footer": 1, "page number": 1, "date": 1})


def test_bullets_and_numbers() -> None:
    assert read(deck(shape("one/two", 0, 0))).text == "one\n\ntwo"
    assert read(deck(shape("one/two", 0, 0, properties='<a:pPr><a:buChar char="•"/></a:pPr>'))).text == "- one\n- two"
    numbers = '<a:pPr><a:buAutoNum type="alphaLcParenR" startAt="2"/></a:pPr>'
    assert read(deck(shape("one/two", 0, 0, properties=numbers))).text == "b) one\nc) two"
    body = '<p:ph type="body" idx="1"/>'
    assert read(deck(shape("one/two", 0, 0, holder=body, properties="<a:pPr><a:buNone/></a:pPr>"))).text == "one\n\ntwo"
    assert read(deck(shape("alone", 0, 0, holder=body))).text == "alone"


def test_raised_numbers() -> None:
    def moved(before: str, baseline: str, text: str) -> str:
        end = f'{before}</a:t></a:r><a:r><a:rPr baseline="{baseline}"/><a:t>{text}</a:t></a:r>'
        return read(deck(shape(before, 0, 0).replace(f"{before}</a:t></a:r>", end))).text

    assert moved("10", "30000", "6") == "10^6"
    assert moved("10", "-25000", "6") == "106"
    assert moved("m", "30000", "2") == "m2"


def test_diagrams() -> None:
    frame = (
        '<p:graphicFrame><a:graphic><a:graphicData><dgm:relIds xmlns:dgm="http://schemas.openxmlformats.org/drawingml/'
        '2006/diagram" r:dm="data"/></a:graphicData></a:graphic></p:graphicFrame>'
    )
    data = f"<x {A}><a:p><a:r><a:t>plan</a:t></a:r></a:p><a:p/><a:p><a:r><a:t>do</a:t></a:r></a:p></x>"
    parsed = read(deck(frame, diagramData__data=data))
    assert [(block.kind, parsed.text[slice(*block.span)]) for block in parsed.blocks] == [
        (BlockKind.LIST, "- plan\n- do")
    ]


def test_a_slide_without_title_is_in_no_section() -> None:
    parsed = read(deck(shape("Title", 0, 0, holder='<p:ph type="title"/>'), shape("Text", 0, 0)))
    assert [block.section_path for block in parsed.blocks] == [("Title",), ()]


@pytest.mark.parametrize("name", sorted(path.name for path in FILES.glob("*.pptx")))
def test_cut_files(name: str) -> None:
    data = (FILES / name).read_bytes()
    with pytest.raises(ParseError, match=f"^{name}: is no office file, or cut"):
        parse(data[: len(data) * 6 // 10], name)


def test_a_missing_slide() -> None:
    data = deck(shape("Text", 0, 0)).replace(b"ppt/slides/0.xml", b"ppt/slides/9.xml")
    with pytest.raises(ParseError, match=r"^a\.pptx: slide 1 is missing"):
        read(data)


def test_groups_in_groups_without_end() -> None:
    tree = "<p:grpSp>" * 300 + shape("deep", 0, 0) + "</p:grpSp>" * 300
    with pytest.raises(ParseError, match=r"levels deep|damaged XML"):
        read(deck(tree))
