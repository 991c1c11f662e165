import html.parser

import pytest
from example_results import CHINESE, HOSTILE_ANSWER, HOSTILE_QUERY, LONG_STRING, TYPST_TEXT

from rag_lab.reports.document import build
from rag_lab.reports.html import render
from rag_lab.results import Results

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


class Page(html.parser.HTMLParser):
    """Tags, attributes and visible text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture
def page(hostile: Results) -> Page:
    return Page(render(build(hostile), {"scores": SVG}))


def test_s24_text_is_literal(page: Page) -> None:
    """S24: scripts and links in answers are text; the page has no script of its own."""
    assert "script" not in page.tags
    assert not any(name == "href" and not (value or "").startswith("#") for name, value in page.attributes)
    assert not any(name.startswith("on") for name, _ in page.attributes)
    for text in (HOSTILE_ANSWER, HOSTILE_QUERY, TYPST_TEXT, LONG_STRING):
        assert text in page.texts


def test_nothing_is_requested(page: Page) -> None:
    sources = [value or "" for name, value in page.attributes if name in ("src", "srcset", "data", "action", "poster")]
    assert sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    policy = next(v or "" for n, v in page.attributes if n == "content" and (v or "").startswith("default-src"))
    assert policy.startswith("default-src 'none'")
    assert "link" not in page.tags
    style = "".join(page.texts)
    assert "@import" not in style
    assert "url(" not in style


def test_tables_can_be_read_aloud(page: Page) -> None:
    assert page.tags.count("caption") == page.tags.count("table")
    assert page.tags.count("th") == sum(name == "scope" for name, _ in page.attributes)
    assert page.tags.count("h1") == 1
    assert ("lang", "en") in page.attributes


def test_controls_do_not_reach_the_page(hostile: Results) -> None:
    made = render(build(hostile), {})
    assert not any(c in made for c in "\x00\x07\u202e\u202c")
    assert "override:\ufffdgnp.exe" in made


def test_chinese_text_is_on_the_page(results: Results) -> None:
    assert CHINESE in render(build(results), {}) or "中文与英文混合数据集" in render(build(results), {})


def test_a_hostile_name_of_experiment_and_variant_stays_text(hostile: Results) -> None:
    hostile.experiment["name"] = "</title><script>alert(2)</script>"
    hostile.warnings.append('"><img src=x onerror=alert(3)>')
    found = Page(render(build(hostile), {}))
    assert "script" not in found.tags
    assert "img" not in found.tags


def test_a_mark_keeps_its_place_in_the_whole_column(results: Results) -> None:
    made = render(build(results), {})
    assert '<span class="mark">▲</span>' in made
    assert '<span class="mark"></span>' in made
