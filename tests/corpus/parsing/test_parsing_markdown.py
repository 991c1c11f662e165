"""Markdown keeps its source, without what a reader never sees."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.parsed import Parsed

Check = Callable[..., Parsed]


def read(source: str, *, keep_hidden: bool = False) -> Parsed:
    return parse(source.encode(), "page.md", keep_hidden=keep_hidden)


def texts(parsed: Parsed) -> list[tuple[str, str]]:
    return [(block.kind.value, parsed.text[slice(*block.span)]) for block in parsed.blocks]


def test_s03_front_matter_and_offsets_into_the_file(check: Check) -> None:
    source = "---\r\ntitle: Leave policy\r\nvalid_until: 2025-12-31\r\n---\r\n# Scope\r\nStaff only.\r\n"
    parsed = check(read(source))
    assert parsed.metadata == {"title": "Leave policy", "valid_until": "2025-12-31"}
    assert parsed.title == "Leave policy"
    assert parsed.text == "# Scope\nStaff only.\n"
    places = [int(parsed.offsets[block.span[0]]) for block in parsed.blocks]
    assert places == [56, 65]
    assert [block.section_path for block in parsed.blocks if block.level] == [("Scope",)]
    assert source[65:76] == "Staff only."


@pytest.mark.parametrize(
    "source",
    [
        "# Notes\n\nfirst\n\n---\n\nsecond\n\n---\n\nthird\n",
        "---\n\ntest: true\n",
        "---\n\ntest: true\n\n---\nrest\n",
        "---\n---\nrest\n",
        "---\njust a sentence between rules\n---\nrest\n",
        "---\n- a\n- b\n---\nrest\n",
        "text\n---\na: b\n---\n",
        " ---\na: b\n---\n",
        "----\na: b\n----\n",
        "---\na: b\n",
        "+++\nnot toml\n+++\n",
    ],
)
def test_s03_rules_are_not_front_matter(source: str, check: Check) -> None:
    parsed = check(read(source))
    assert parsed.metadata == {}
    assert parsed.text == source


@pytest.mark.parametrize(
    ("source", "metadata"),
    [
        ("---\na: 1.10\nb: no\nc: [x, 2]\n---\n", {"a": "1.10", "b": "no", "c": ["x", "2"]}),
        ("---\nd:\n  e: f\n---\n", {"d": {"e": "f"}}),
        ('---\na: true\nb: [false, trueish]\nc: "true"\n---\n', {"a": True, "b": [False, "trueish"], "c": "true"}),
        ("---\na: b\n...\nrest", {"a": "b"}),
        ("\ufeff---\na: b\n---", {"a": "b"}),
        ("---\rtitle: x\r---\rrest", {"title": "x"}),
        ("---  \na: b\n---  \n", {"a": "b"}),
        ("---\ntitle: Leave: the policy\n---\n", {"title": "Leave: the policy"}),
        ("---\na: *nowhere\n---\n", {"a": "*nowhere"}),
        ('+++\ntitle = "T"\ntags = ["x"]\n+++\n# H', {"title": "T", "tags": ["x"]}),
        ("---\na:\n---\n", {"a": ""}),
    ],
)
def test_front_matter_in_its_forms(source: str, metadata: dict[str, object]) -> None:
    parsed = read(source)
    assert parsed.metadata == metadata
    assert "a:" not in parsed.text


@pytest.mark.parametrize("inner", ["a: " + "[" * 20_000, "a: " + "{b: " * 20_000, "a: &x [*x, *x]"])
def test_hostile_front_matter_is_harmless(inner: str) -> None:
    begun = time.perf_counter()
    parsed = read(f"---\n{inner}\n---\nrest\n")
    assert time.perf_counter() - begun < 5
    assert "rest" in parsed.text


def test_declared_language_wins() -> None:
    assert read("---\nlang: de-AT\n---\nThe text is written in English after all.").language == "de"


S07 = """# Setup
```bash
# install
run it
```
~~~~text
## not a heading
~~~
still code
~~~~
   ```
# also code
   ```
#hashtag
## Usage ##
text
```python
# unclosed
"""


def test_s07_hash_in_code(check: Check) -> None:
    parsed = check(read(S07))
    assert parsed.text == S07
    assert [(b.level, b.section_path[-1]) for b in parsed.blocks if b.level] == [(1, "Setup"), (2, "Usage")]
    paths = {line: b.section_path for b in parsed.blocks for line in parsed.text[slice(*b.span)].split("\n")}
    assert paths["run it"] == paths["still code"] == paths["#hashtag"] == ("Setup",)
    assert paths["# unclosed"] == ("Setup", "Usage")


def test_blocks_of_a_file(check: Check) -> None:
    source = (
        "Intro\n\nSetext *head*\n===\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
        "- one\n  - two\n\n    ```\n    # code\n    ```\n"
        "\n1. x\n\n> # quoted\n> text\n\n    indented\n\n### Deep `x` [y](z)\n***\n[ref]: http://x\n"
    )
    parsed = check(read(source))
    assert parsed.text == source
    head = ("Setext head",)
    deep = ("Setext head", "Deep x y")
    assert [(b.kind.value, b.level, b.section_path) for b in parsed.blocks] == [
        ("paragraph", 0, ()),
        ("heading", 1, head),
        ("table", 0, head),
        ("list", 0, head),
        ("list", 0, head),
        ("quote", 0, head),
        ("code", 0, head),
        ("heading", 3, deep),
        ("paragraph", 0, deep),
        ("paragraph", 0, deep),
    ]
    lead = parsed.blocks[2].lead
    assert lead is not None
    assert source[slice(*lead)] == "| a | b |"
    assert texts(parsed)[-1] == ("paragraph", "[ref]: http://x")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a <!-- gone --> b", "a  b"),
        ("a `<!-- kept -->` b", "a `<!-- kept -->` b"),
        ("a ``<!-- ` kept -->`` b", "a ``<!-- ` kept -->`` b"),
        ("```\n<!-- kept -->\n```", "```\n<!-- kept -->\n```"),
        ("- x\n  ```\n  <!-- kept -->\n  ```", "- x\n  ```\n  <!-- kept -->\n  ```"),
        ("<!-- a\n\n# no heading\n-->\nb", "\nb"),
        ("a <!-- unclosed", "a <!-- unclosed"),
        ("<script>\nalert(1)\n</script>\n\nb", "\n\nb"),
        ("say <script> in prose", "say <script> in prose"),
        ("a <span hidden>ghost</span> b", "a  b"),
        ("<div style='display:none'>\n\n# ghost\n\n</div>\n\nb", "\n\nb"),
        ("<div><p hidden>a</div>b", "<div><p hidden>a</div>b"),
        ("a <br hidden> b", "a <br hidden> b"),
        ("a <b>bold</b> [l](u) &amp; `x`", "a <b>bold</b> [l](u) &amp; `x`"),
        ("1 < 2 and Vec<Option<T>>", "1 < 2 and Vec<Option<T>>"),
    ],
)
def test_what_a_reader_never_sees_is_cut_out(source: str, text: str, check: Check) -> None:
    assert check(read(source)).text == text


def test_hidden_texts_of_markdown_are_counted_and_kept_apart() -> None:
    parsed = read("a <span hidden>one</span> <p style='display:none'>two &amp; three</p>", keep_hidden=True)
    assert parsed.removed == {"display": 1, "hidden": 1}
    assert parsed.hidden == ("one", "two & three")


def test_a_hidden_heading_is_no_section() -> None:
    assert read("<div hidden>\n\n# Ghost\n\n</div>\n\ntext").blocks[-1].section_path == ()


@given(st.text(alphabet="#-*>`~|ab 1.\n\r<!-[]():=", max_size=120))
def test_source_is_kept_and_covered(source: str) -> None:
    parsed = read(source)
    if not parsed.metadata and "<!--" not in source:
        assert parsed.text == source.replace("\r\n", "\n").replace("\r", "\n")
    covered = "".join(parsed.text[slice(*block.span)] for block in parsed.blocks)
    assert "".join(covered.split()) == "".join(parsed.text.split())


@given(st.lists(st.sampled_from(["# a\n", "## b\n", "p\n", "\n", "```\n", "- x\n", "    c\n", "> q\n", "===\n"])))
def test_headings_are_those_of_commonmark(lines: list[str]) -> None:
    source = "".join(lines)
    tokens = MarkdownIt("commonmark").parse(source)
    expected = [
        (int(token.tag[1]), " ".join(tokens[i + 1].content.split()))
        for i, token in enumerate(tokens)
        if token.type == "heading_open" and not token.level and tokens[i + 1].content
    ]
    parsed = read(source)
    assert [(block.level, block.section_path[-1]) for block in parsed.blocks if block.level] == expected


@pytest.mark.parametrize(
    "source",
    [
        ">" * 50_000,
        "> " * 50_000 + "x",
        "- " * 50_000 + "x",
        "1. " * 50_000,
        "[" * 100_000,
        "![" * 50_000 + "](" * 50_000,
        "*a " * 100_000,
        "`" * 100_000 + "a",
        "`a" * 50_000 + " <b>",
        "# " + "a*" * 100_000,
        "\n".join(" " * i + "- x" for i in range(500)),
        "|" * 50_000 + "\n" + "|-" * 25_000,
        "<!--" * 100_000,
        "<b><i>" * 20_000,
    ],
)
def test_hostile_markdown_takes_linear_time(source: str) -> None:
    begun = time.perf_counter()
    parsed = read(source)
    assert time.perf_counter() - begun < 8
    assert parsed.text == source


def test_pandoc_file(parse_file: Check) -> None:
    parsed = parse_file("pandoc_handbook.md")
    assert (parsed.title, parsed.language) == ("Travel at Lindqvist & Sons", "en")
    assert parsed.metadata["date"] == "2025-03-01"
    assert [(b.kind.value, b.section_path[-1]) for b in parsed.blocks] == [
        ("heading", "Before you travel"),
        ("paragraph", "Before you travel"),
        ("heading", "Rates"),
        ("table", "Rates"),
        ("paragraph", "Rates"),
        ("heading", "Steps"),
        ("list", "Steps"),
        ("quote", "Steps"),
        ("code", "Steps"),
        ("paragraph", "Steps"),
    ]
    assert parsed.text.startswith("\n# Before you travel\n")
