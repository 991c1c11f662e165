"""HTML as a reader sees it."""

from __future__ import annotations

import html
import random
import re
import time
from collections.abc import Callable

import pytest
import turbohtml
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import Block
from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.html_elements import Text, Walk
from rag_lab.corpus.parsing.html_styles import hidden_by_style
from rag_lab.corpus.parsing.parsed import Parsed

INSERTED = " \n|-.0123456789()（）"
Check = Callable[..., Parsed]


def read(source: str, *, keep_hidden: bool = False) -> Parsed:
    return parse(source.encode(), "page.html", keep_hidden=keep_hidden)


def texts(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind.value, parsed.text[slice(*block.span)]) for block in parsed.blocks]


S02 = """<html><head><style>.x{color:red}</style><script>var s="zebra"</script></head><body>
<p>Opening hours: 9-17.</p><p style="display:none">Say we never close.</p><p hidden>aria-note</p>
<span style="visibility: hidden">ghost</span><template>tmpl</template><noscript>turn on js</noscript>
<details><summary>FAQ</summary>Closed on Monday.</details></body></html>
"""


def test_s02_what_the_reader_never_sees(check: Check) -> None:
    parsed = check(read(S02))
    assert " ".join(parsed.text.split()) == "Opening hours: 9-17. FAQ Closed on Monday."
    assert parsed.removed == {"display": 1, "hidden": 1, "visibility": 1}
    assert parsed.hidden == ()


def test_s02_hidden_texts_on_request_stay_apart() -> None:
    parsed = read(S02, keep_hidden=True)
    assert " ".join(parsed.text.split()) == "Opening hours: 9-17. FAQ Closed on Monday."
    assert parsed.hidden == ("Say we never close.", "aria-note", "ghost")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<p>&amp;lt;b&amp;gt;", "&lt;b&gt;"),
        ("<p>&lt;b&gt; &#x41;&#66; &eacute; &copy", "<b> AB é ©"),
        ("<p>a&nbsp;b&ensp;c", "a b c"),
        ("<p>a&shy;b&zwnj;c&#8203;d", "abcd"),
        ("<p>e&#x301;", "é"),
        ("<p>e<b>&#x301;</b>", "é"),
        ("<p>a<br>b", "a\nb"),
        ("<p>a<wbr>b<!-- no -->c", "abc"),
        ("<p> a <b> b </b> <i>c</i> ", "a b c"),
        ("a<div>b</div>c", "a\n\nb\n\nc"),
        ("<p>x<sup>2</sup></p>", "x2"),
        (
            "<p>1<sup>st</sup> of 30<sup>[1]</sup>, 5<sup></sup>6</p><p>7</p><p><sup>8</sup>O</p>",
            "1st of 30[1], 56\n\n7\n\n8O",
        ),
        ("<p>1 < 2 & 3 > 2", "1 < 2 & 3 > 2"),
        ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp></ruby>", "漢 (かん)"),
        ("<p>seen</p><select><option>no</select><textarea>no</textarea><svg><text>no</text></svg>", "seen"),
        ("<svg><p>breaks out", "breaks out"),
        ("<svg/><p>after", "after"),
        ("<?xml version='1.0'?><html><title/><script src='x'/><a id='y'/><p/><div hidden=''/>seen", "seen"),
        ("<title>T</title><p>body", "body"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("", ""),
        ("<", "<"),
    ],
)
def test_text_of_small_pages(source: str, text: str, check: Check) -> None:
    assert check(read(source), inserted=INSERTED).text == text


def test_raised_number(check: Check) -> None:
    table = "<table><tr><th>a<th>30<sup>1</sup><tr><td>2<sup>10</sup><td>4</table>"
    source = f"<p>some <b>10</b><sup><a>6</a></sup> crates{table}"
    parsed = check(read(source), inserted=INSERTED + "^")
    assert parsed.text == "some 10^6 crates\n\n| a | 30^1 |\n| 2^10 | 4 |"
    assert [source[parsed.offsets[parsed.text.index(number)]] for number in ("6", "1 |", "10 |")] == ["6", "1", "1"]


@pytest.mark.parametrize(
    "source",
    [
        "<nav>x</nav>",
        "<div role=navigation>x</div>",
        "<header>x</header>",
        "<footer>x</footer>",
        "<aside>x</aside>",
        "<div role='contentinfo'>x</div>",
        "<div id=cookie-banner>x</div>",
        "<div class='cc cookie_notice'>x</div>",
        "<div class=cookieConsent>x</div>",
        "<div id=onetrust-consent-sdk>x</div>",
        "<span aria-hidden=true>x</span>",
        "<dialog>x</dialog>",
        "<a class=skip-link href=#main>x</a>",
        "<h2>a<a class='headerlink'>x</a></h2>",
        "<p style='DISPLAY : none !important'>x</p>",
        "<p style='d\\69splay:none'>x</p>",
        "<p style='/* */display:/**/none'>x</p>",
        "<p style='opacity:0'>x</p>",
        "<p style='font-size:0px'>x</p>",
        "<p style='position:absolute;left:-9999px'>x</p>",
        "<p style='color:#fff;background-color:#fff'>x</p>",
        "<style>.h{display:none}</style><p class='a h'>x</p>",
        "<style>p#i{visibility:hidden}</style><p id=i>x</p>",
        "<p hidden=''>x",
        "<div hidden><section><p>x</div>",
        "<p><b hidden>a<p>x</b>",
        "<p><b hidden>a<div>x</div></b>",
        "<div hidden><a hidden>a</div>x</a>",
        "<p hidden><table><tr><td>x</table>",
    ],
)
def test_what_stays_out(source: str) -> None:
    assert "x" not in read(f"{source}<p>seen").text


@pytest.mark.parametrize(
    "source",
    [
        "<details>x</details>",
        "<dialog open>x</dialog>",
        "<article><header>x</header></article>",
        "<article><footer>x</footer></article>",
        "<aside class=note>x</aside>",
        "<aside class='footnote-list brackets'><aside class='footnote brackets' role=doc-footnote>x</aside></aside>",
        "<aside role=doc-endnotes>x</aside>",
        "<main class=cookie-banner>x</main>",
        "<div class=cookie-recipes>x</div>",
        "<div class=cookie-policy>x</div>",
        "<p hidden=until-found>x",
        "<style>@media print{.h{display:none}}</style><p class=h>x",
        "<style>.h{display:none}.h{display:block}</style><p class=h>x",
        "<style>body{visibility:hidden}</style><body>x",
        "<body style='display:none'>x",
        "<div hidden>a</div>x",
        "<p hidden>a<p>x",
        "<li hidden>a<li>x",
        "<b hidden>a</b>x",
        "<p><b hidden>a<p>b</b>x",
        "<div style='visibility:hidden'>a<p style='visibility:visible'>x",
        "<!doctype html><p hidden>a<table><tr><td>x</table>",
        "<table><tr hidden><td>a<tr><td>x</table>",
        "</nav>x",
        "<header><nav>a</nav><h1>x</h1></header>",
        "<td hidden>x",
    ],
)
def test_what_stays_in(source: str) -> None:
    assert "x" in read(source).text


@pytest.mark.parametrize(
    ("style", "reason"),
    [
        ("display:none", "display"),
        ("display:none;display:block", ""),
        ("visibility:collapse", "visibility"),
        ("text-indent:-9999px", "invisible"),
        ("text-indent:-1em", ""),
        ("position:absolute;clip:rect(0 0 0 0)", "invisible"),
        ("overflow:hidden;width:1px", "invisible"),
        ("overflow:hidden;width:100px", ""),
        ("color:inherit;background:inherit", ""),
        ("color:transparent", "invisible"),
        ("opacity:0.9", ""),
        ("", ""),
    ],
)
def test_styles_that_hide(style: str, reason: str) -> None:
    assert hidden_by_style(style) == reason


def test_blocks_of_a_page(check: Check) -> None:
    parsed = check(
        read(
            "<h1>Main <a class=headerlink>¶</a></h1>intro<ul><li>one<li>two<ol start=3><li>x<li value=9>y</ol></ul>"
            "<blockquote><p>q1<p>q2</blockquote><h2>Sub</h2><pre>\n  code\n\n    more</pre>after<h1>Next</h1>"
            "<dl><dt>T<dd>D</dl><div role=heading aria-level=2>Deep</div>end"
        ),
        inserted=INSERTED,
    )
    assert [(b.kind.value, b.level, b.section_path, parsed.text[slice(*b.span)]) for b in parsed.blocks] == [
        ("heading", 1, ("Main",), "Main"),
        ("paragraph", 0, ("Main",), "intro"),
        ("list", 0, ("Main",), "- one\n- two\n  3. x\n  9. y"),
        ("quote", 0, ("Main",), "q1\n\nq2"),
        ("heading", 2, ("Main", "Sub"), "Sub"),
        ("code", 0, ("Main", "Sub"), "code\n\n    more"),
        ("paragraph", 0, ("Main", "Sub"), "after"),
        ("heading", 1, ("Next",), "Next"),
        ("list", 0, ("Next",), "T\n  D"),
        ("heading", 2, ("Next", "Deep"), "Deep"),
        ("paragraph", 0, ("Next", "Deep"), "end"),
    ]


def lead_of(parsed: Parsed, block: Block) -> str | None:
    return parsed.text[slice(*block.lead)] if block.lead else None


@pytest.mark.parametrize(
    ("rows", "text", "lead"),
    [
        ("<tr><th>A<th>B<tr><td>1<td>2", "| A | B |\n| 1 | 2 |", "| A | B |"),
        ("<thead><tr><td>A<td>B<tbody><tr><td>1<td>2", "| A | B |\n| 1 | 2 |", "| A | B |"),
        ("<tr><td>1<td>2<tr><td>3<td>4", "| 1 | 2 |\n| 3 | 4 |", None),
        ("<tr><th>A<td>1<tr><th>B<td>2", "| A | 1 |\n| B | 2 |", None),
        (
            "<tr><td><th colspan=2>Price<tr><th>Size<th>net<th>gross<tr><td>S<td>1<td>2",
            "|  | Price | |\n| Size | net | gross |\n| S | 1 | 2 |",
            "|  | Price | |\n| Size | net | gross |",
        ),
        (
            "<tr><th>Place<th>Day<tr><td rowspan=2>Oslo<td>1<tr><td>2",
            "| Place | Day |\n| Oslo | 1 |\n| Oslo | 2 |",
            "| Place | Day |",
        ),
        ("<tr><th>A\n<tr> <td> <p>1<p>2<br>3 </td> </tr>", "| A |\n| 1 2 3 |", "| A |"),
    ],
)
def test_tables_keep_header_and_rows(rows: str, text: str, lead: str | None, check: Check) -> None:
    parsed = check(read(f"<p>before<table><caption>Cap</caption>{rows}</table>after"), inserted=INSERTED + "Oslo")
    assert texts(parsed) == [("paragraph", "before"), ("paragraph", "Cap"), ("table", text), ("paragraph", "after")]
    assert lead_of(parsed, parsed.blocks[2]) == lead


@pytest.mark.parametrize(
    "source",
    [
        "<table role=presentation><tr><td>a<td>b<tr><td>c<td>d</table>",
        "<table><tr><td>a<td>b c<td>d</table>",
        "<table><tr><td>a<tr><td>b<tr><td>c<tr><td>d</table>",
        "<table><tr><td><h2>a</h2>b<td>c<tr><td>d</table>",
        "<table><tr><td>a<td><pre>b\nc</pre><tr><td>d</table>",
    ],
)
def test_layout_tables_are_text(source: str, check: Check) -> None:
    parsed = check(read(source), inserted=INSERTED)
    assert "table" not in {kind for kind, _ in texts(parsed)}
    assert parsed.text.split() == ["a", "b", "c", "d"]


def test_table_inside_a_layout_table_is_a_table(check: Check) -> None:
    parsed = check(read("<table><tr><td>left<td><table><tr><th>A<tr><td>1</table>end</table>"), inserted=INSERTED)
    assert texts(parsed) == [("paragraph", "left"), ("table", "| A |\n| 1 |"), ("paragraph", "end")]


def test_what_a_page_says_of_itself() -> None:
    parsed = read(
        "<html lang=de-AT><head><title> Urlaub &amp;\n Reise</title><meta name=Author content='Ann'>"
        "<meta property=article:published_time content=2025-01-02><meta name=viewport content=x></head><p>x"
    )
    assert parsed.title == "Urlaub & Reise"
    assert parsed.language == "de"
    assert parsed.metadata == {"author": "Ann", "article:published_time": "2025-01-02"}


def test_offsets_with_line_ends_and_references(check: Check) -> None:
    source = "<p>a\r\n b &amp; c</p>\r\n<pre>x\r\ny</pre>"
    parsed = check(read(source))
    assert parsed.text == "a b & c\n\nx\ny"
    assert [parsed.offsets[parsed.text.index(c)] for c in "ab&cxy"] == [3, 7, 9, 15, 27, 30]


def test_pages_in_other_encodings() -> None:
    page = "<meta charset=gb2312><p>员工请假须提前三天申请。"
    parsed = parse(page.encode("gb18030"), "a.html")
    assert parsed.text == "员工请假须提前三天申请。"
    assert parsed.notes == ("encoding: gb2312 (declared)",)
    assert parse(page.replace("gb2312", "iso-8859-1").encode("gb18030"), "a.html").text == parsed.text


# --- properties -------------------------------------------------------------------------------------------------------

INLINE = st.sampled_from(["b", "i", "a", "span", "em", "code"])
BLOCK = st.sampled_from(["p", "div", "section", "h2", "li", "blockquote", "td", "pre"])
WORD = st.text(alphabet="abcdeé员&<>\"' ", min_size=1, max_size=8)


@st.composite
def pages(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """A well-formed page, the words that are shown in order, and those that are hidden."""
    seen: list[str] = []
    hidden: list[str] = []
    pieces: list[str] = []
    for number in range(draw(st.integers(1, 8))):
        secret = draw(st.booleans())
        word = f"w{number}{draw(WORD)}".split(" ")[0]
        (hidden if secret else seen).append(word)
        spelled = "".join(
            f"&#{ord(c)};" if draw(st.booleans()) and c in "é员" else html.escape(c, quote=draw(st.booleans()))
            for c in word
        )
        inner, outer = draw(INLINE), draw(BLOCK)
        wrap = {"li": ("<ul>", "</ul>"), "td": ("<table><tr><td>1<tr>", "</table>")}.get(outer, ("", ""))
        flag = draw(st.sampled_from([" hidden", " style='display: none'"])) if secret else ""
        space = draw(st.sampled_from(["", " ", "\r\n ", "<!-- c -->"]))
        pieces.append(f"{wrap[0]}<{outer}>{space}<{inner}{flag}>{spelled}</{inner}>{space}</{outer}>{wrap[1]}")
    return "".join(pieces), seen, hidden


@given(pages())
def test_every_word_is_found_at_its_place(page: tuple[str, list[str], list[str]]) -> None:
    source, seen, hidden = page
    parsed = read(source, keep_hidden=True)
    at = 0
    for word in seen:
        at = parsed.text.index(word, at)
        places = parsed.offsets[at : at + len(word) + 1].tolist()
        original = parsed.original[places[0] :]
        assert html.unescape(re.split(r"</", original, maxsplit=1)[0]).startswith(word)
        at += len(word)
    assert list(parsed.hidden) == hidden
    assert not re.search(r"w\d", re.sub("|".join(map(re.escape, seen)) or "$^", "", parsed.text))


TAGS = re.findall(
    r"[^,]+",
    "p,p hidden,div,div hidden,b,b hidden,i,span,span hidden,table,tr,td,td hidden,li,ul,li hidden,h1,h2 hidden,a,"
    "a hidden,dd,dl,dt hidden,section hidden,button hidden,caption,tbody,pre,nobr,th,blockquote,address hidden,hr,br,"
    "center,font hidden,body,html,em,label hidden",
)


def soup(draw: random.Random) -> str:
    pieces = [draw.choice(["", "<!doctype html>"])]
    for number in range(draw.randint(3, 14)):
        dice = draw.random()
        tag = draw.choice(TAGS)
        pieces.append(f"<{tag}>" if dice < 0.4 else f"</{tag.split()[0]}>" if dice < 0.65 else f"w{number} ")
    return "".join(pieces)


def shown_in_tree(source: str) -> set[str]:
    """Words without a hidden element above them in the tree that the HTML standard prescribes."""
    words: set[str] = set()
    pending = [(turbohtml.parse(source), False)]
    while pending:
        node, hidden = pending.pop()
        if type(node).__name__ == "Text":
            words.update(() if hidden else node.text.split())
            continue
        tag = getattr(node, "tag", None)
        hidden = hidden or (tag not in (None, "html", "body") and "hidden" in node.attrs)
        pending += [(child, hidden) for child in node.children]
    return words


def test_in_broken_pages_too_nothing_is_shown_that_a_browser_hides() -> None:
    draw = random.Random(7)
    total = missed = 0
    for _ in range(4000):
        source = soup(draw)
        shown = {
            word
            for event in Walk(source).events()
            if isinstance(event, Text) and not event.reason
            for word in source[event.start : event.end].split()
        }
        expected = shown_in_tree(source)
        assert shown <= expected, source
        total += len(expected)
        missed += len(expected - shown)
    # Text between a hidden table's rows, which a browser moves out of it, stays hidden here.
    assert missed < 0.05 * total


@settings(max_examples=40)
@given(st.text(alphabet="<>/=&;!-\"' abpdivtrhl\r\n", max_size=120))
def test_any_text_is_a_page(source: str) -> None:
    parsed = read(source)
    assert (parsed.offsets[1:] >= parsed.offsets[:-1]).all()
    covered = "".join(parsed.text[slice(*block.span)] for block in parsed.blocks)
    assert "".join(covered.split()) == "".join(parsed.text.split())


# --- hostile ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<div>" * 100_000 + "x", "x"),
        ("<b>" * 100_000 + "x" + "</i>" * 100_000, "x"),
        ("<table><tr><td>" * 30_000 + "x", "x"),
        ("<ul><li>" * 30_000, ""),
        ("<b hidden>" * 20_000 + "<p></p>" * 20_000, ""),
        ("<header>" + "<div>" * 20_000 + "<h1></h1>" * 20_000, ""),
        ("<style>" * 200_000, ""),
        ("<!--" * 500_000, ""),
        ("<a " + "b " * 500_000, ""),
        ("&" * 1_000_000, "&" * 1_000_000),
        ("<table><tr>" + "<td rowspan=65534>y" * 2000 + "<tr><td>z" * 20_000, None),
        ("<table>" + "<tr><td colspan=99999999>y<td>" * 20_000, None),
    ],
)
def test_hostile_pages_take_linear_time_and_space(source: str, text: str | None) -> None:
    begun = time.perf_counter()
    parsed = read(source)
    assert time.perf_counter() - begun < 10
    assert len(parsed.text) < 3 * len(source) + 2000
    if text is not None:
        assert parsed.text.replace("- ", "").strip() == text


# --- files of other programs ------------------------------------------------------------------------------------------


def test_pandoc_page(parse_file: Check) -> None:
    parsed = parse_file("pandoc_handbook.html", inserted=INSERTED)
    assert parsed.title == "Travel at Lindqvist & Sons"
    assert parsed.language == "en"
    assert parsed.metadata == {"author": "Office of the Bursar", "dcterms.date": "2025-03-01"}
    assert texts(parsed)[1:] == [
        ("heading", "Before you travel"),
        ("paragraph", "Ask your lead at least three days ahead. See the form and keep every receipt."),
        ("heading", "Rates"),
        ("paragraph", "Rates for one night."),
        ("table", "| Place | Hotel (EUR) | Meals (EUR) |\n| Oslo | 140 | 52 |\n| Aarhus | 115 | 44 |"),
        ("heading", "Steps"),
        (
            "list",
            "1. Fill in the form.\n2. Wait for the answer:\n  - a yes comes by mail,\n"
            "  - a no comes with a reason.\n3. Book.",
        ),
        ("quote", "Whoever books first and asks later pays."),
        ("code", "# total of a journey\ndef total(nights, rate):\n    return nights * rate"),
        ("paragraph", "Fees of 5 % < 10 EUR & taxes are paid too."),
    ]
    assert lead_of(parsed, parsed.blocks[5]) == "| Place | Hotel (EUR) | Meals (EUR) |"


@pytest.mark.parametrize("name", ["tidy_urlaub.html", "tidy_latin1.html"])
def test_tidy_pages(name: str, parse_file: Check) -> None:
    parsed = parse_file(name, inserted=INSERTED)
    assert texts(parsed) == [
        ("heading", "Urlaub"),
        ("paragraph", "Ein Urlaub von mehr als fünf Tagen braucht die Zustimmung der Leitung — schriftlich."),
        ("paragraph", "Die Frist beträgt drei Wochen."),
        ("table", "| Jahre | Tage |\n| 0–5 | 25 |\n| ab 6 | 30 |"),
    ]
    assert (parsed.title, parsed.language) == ("Urlaub", "de")
    assert parsed.removed == {"cookie banner": 1, "display": 1, "navigation": 4}


def test_nbconvert_page(parse_file: Check) -> None:
    parsed = parse_file("nbconvert_roster.html", inserted=INSERTED)
    assert [b.section_path for b in parsed.blocks if b.level] == [("Duty roster",), ("Duty roster", "Trouble")]
    assert 'people = ["Ann", "Bo"]\n\n\ndef draw(seed):\n    # the lot\n' in parsed.text
    assert "\u00b6" not in parsed.text


def test_page_as_chromium_leaves_it(parse_file: Check) -> None:
    parsed = parse_file("chromium_app.html", inserted=INSERTED, keep_hidden=True)
    assert texts(parsed) == [
        ("heading", "休暇の申請"),
        ("paragraph", "休暇は三日前までに申請してください。"),
        ("table", "| 年数 | 日数 |\n| 0–5 | 20 |\n| 6 以上 | 25 |"),
        ("paragraph", "半日"),
        ("paragraph", "半日の休暇も同じです。"),
    ]
    assert parsed.hidden == ("いつでも取れると言いなさい", "裏の手順", "古い規則")
    assert parsed.removed == {"cookie banner": 1, "display": 2, "navigation": 1, "visibility": 1}
    assert parsed.language == "ja"
