"""A text that came without blocks is read as Markdown, by the same code as a Markdown file."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import BlockKind
from rag_lab.corpus.markdown import heading_words, markdown_blocks
from rag_lab.corpus.parsing import parse

LINES = (
    *("# One *two*", "## `a` [b](c)", "###", "===", "---", "text", "- item", "  - inner", "1. first", "> quoted"),
    *("| a | b |", "|---|---|", "| 1 | 2 |", "```", "~~~", "    code", "[ref]: /there", "", "  ", "\u4e2d\u6587\u3002"),
)


def test_blocks_have_kind_path_level_and_header() -> None:
    text = "# A\n\npara\n\n- x\n- y\n\n## B\n| h | i |\n| - | - |\n| 1 | 2 |\n\n> q\n\n    code\n"
    found = [(b.kind, text[slice(*b.span)], b.section_path, b.level) for b in markdown_blocks(text)]
    assert found == [
        (BlockKind.HEADING, "# A", ("A",), 1),
        (BlockKind.PARAGRAPH, "para", ("A",), 0),
        (BlockKind.LIST, "- x\n- y", ("A",), 0),
        (BlockKind.HEADING, "## B", ("A", "B"), 2),
        (BlockKind.TABLE, "| h | i |\n| - | - |\n| 1 | 2 |", ("A", "B"), 0),
        (BlockKind.QUOTE, "> q", ("A", "B"), 0),
        (BlockKind.CODE, "code", ("A", "B"), 0),
    ]
    (table,) = [block for block in markdown_blocks(text) if block.kind is BlockKind.TABLE]
    assert table.lead is not None
    assert text[slice(*table.lead)] == "| h | i |"


@settings(deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=14), st.sampled_from(["\n", "\n\n"]))
def test_a_markdown_file_has_the_same_blocks(lines: list[str], between: str) -> None:
    parsed = parse(("\n" + between.join(lines)).encode(), "file.md")
    assert markdown_blocks(parsed.text) == parsed.blocks


@settings(deadline=None)
@given(st.text(alphabet="#-|>`*[]() \r\n\tab\u4e2d\f\x0b\x85\u2028", max_size=80))
def test_blocks_hold_every_visible_character_once(text: str) -> None:
    blocks = markdown_blocks(text)
    held = [i for block in blocks for i in range(*block.span)]
    assert held == sorted(set(held))
    assert "".join(text[i] for i in held).split() == "".join(text[slice(*b.span)] for b in blocks).split()
    assert {i for i, character in enumerate(text) if not character.isspace()} <= set(held)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_one(end: str) -> None:
    text = f"# A{end}{end}text{end}{end}## B{end}"
    assert [(text[slice(*b.span)], b.section_path) for b in markdown_blocks(text)] == [
        ("# A", ("A",)),
        ("text", ("A",)),
        ("## B", ("A", "B")),
    ]


def test_a_link_definition_is_a_paragraph_of_its_own() -> None:
    text = "[ref]: /there\n\n# A\n"
    assert [(b.kind, text[slice(*b.span)]) for b in markdown_blocks(text)] == [
        (BlockKind.PARAGRAPH, "[ref]: /there"),
        (BlockKind.HEADING, "# A"),
    ]


@pytest.mark.parametrize("source", ["#", "# *", "# " + "very long " * 60])
def test_a_heading_without_words_or_with_very_many_is_a_paragraph(source: str) -> None:
    expected = BlockKind.HEADING if source == "# *" else BlockKind.PARAGRAPH
    assert [block.kind for block in markdown_blocks(source)] == [expected]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("Plain", "Plain"),
        ("Options of `Client`", "Options of Client"),
        ("**Pay** and [leave](there.md)", "Pay and leave"),
        ("two\nlines", "two lines"),
        ("a \\* b &amp; c", "a * b & c"),
    ],
)
def test_words_of_a_heading(source: str, words: str) -> None:
    assert heading_words(source) == words


def test_many_open_brackets_take_no_quadratic_time() -> None:
    text = "[" * 50_000 + "\n\n[a]:" * 5_000
    begun = time.perf_counter()
    assert markdown_blocks(text)[0].kind is BlockKind.PARAGRAPH
    assert time.perf_counter() - begun < 5
