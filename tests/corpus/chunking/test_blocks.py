"""Structure-aware chunks: what is kept together, what is carried along, and what is never mixed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cutting import WORDS, check, pieces, texts
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import Acl, Block, BlockKind, Document, SectionRights
from rag_lab.corpus.chunking import Blocks, crosses, rights_parts

FENCES = """# Setup
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
# unclosed"""


def test_s07_a_hash_inside_code_is_no_heading() -> None:
    by_path: dict[tuple[str, ...], str] = {}
    for piece in pieces(Blocks(30), FENCES):
        by_path[piece.section_path] = by_path.get(piece.section_path, "") + FENCES[slice(*piece.span)]
    assert list(by_path) == [("Setup",), ("Setup", "Usage")]
    assert all(text in by_path["Setup",] for text in ("run it", "still code", "# also code", "#hashtag"))
    assert "# unclosed" in by_path["Setup", "Usage"]
    assert "".join("".join(by_path.values()).split()) == "".join(FENCES.split())


# --- tables, lists and code -----------------------------------------------------------------------------------------


def table(rows: int) -> str:
    return "| city | rate |\n| --- | --- |\n" + "\n".join(f"| town{i} | {i} |" for i in range(rows))


def test_later_parts_of_a_table_carry_its_header_row() -> None:
    text = "Rates:\n\n" + table(12) + "\n\nAfter the table."
    found = pieces(Blocks(30), text)
    check(text, found)
    shown = [text[slice(*piece.span)] for piece in found]
    leads = [piece.lead and text[slice(*piece.lead)] for piece in found]
    assert shown[0].startswith("Rates:\n\n| city | rate |\n| --- | --- |\n| town0 | 0 |")
    assert leads == ["| city | rate |" if one.startswith("| town") else None for one in shown]
    assert len([lead for lead in leads if lead]) == 2
    for one, lead in zip(shown, leads, strict=True):
        assert all(line.startswith("|") and line.endswith("|") for line in one.split("\n") if "town" in line)
        assert sum(WORDS.count_tokens([one, lead or ""])) <= 30
    assert shown[-1].endswith("After the table.")


def test_a_header_of_more_than_half_the_size_is_not_repeated() -> None:
    text = "| a b c d e f | g |\n| - | - |\n" + "| x | y |\n" * 6
    found = pieces(Blocks(16), text)
    check(text, found)
    assert {piece.lead for piece in found} == {None}


def test_a_row_that_is_too_long_is_cut_and_carries_the_header() -> None:
    text = "| h |\n| - |\n| " + "w " * 30 + "|\n| z |"
    found = pieces(Blocks(12), text)
    check(text, found)
    assert all(piece.lead == (0, 5) for piece in found[1:])
    assert all(WORDS.count_tokens([text[slice(*piece.span)]])[0] <= 12 - 3 for piece in found[1:])


@pytest.mark.parametrize(
    "block", [table(3), "```\none\ntwo\n\nthree four\n```", "- one\n- two\n  more\n- three four five six"]
)
def test_a_block_that_fits_is_not_cut(block: str) -> None:
    size = len(WORDS.token_spans(block))
    text = f"Some words before it.\n\n{block}\n\nSome words after it."
    assert any(block in chunk for chunk in texts(Blocks(size), text))


def test_lists_and_code_that_are_too_long_are_cut_at_lines() -> None:
    items = "\n".join(f"- item number {i} of many" for i in range(9))
    assert all(chunk.startswith("- item") and chunk.endswith("many") for chunk in texts(Blocks(20), items))
    code = "```\n" + "\n".join(f"call({i})" for i in range(20)) + "\n```"
    assert all(chunk.count("(") == chunk.count(")") for chunk in texts(Blocks(20), code))


# --- headings, conditions and conclusions ---------------------------------------------------------------------------


def test_a_heading_goes_with_what_follows_it() -> None:
    text = "one two three four five six\n\n# Head\n\nseven eight nine ten"
    assert texts(Blocks(8), text) == ["one two three four five six", "# Head\n\nseven eight nine ten"]
    assert texts(Blocks(60), text) == ["one two three four five six", "# Head\n\nseven eight nine ten"]


def test_a_heading_without_a_text_of_its_own_goes_with_the_next_section() -> None:
    found = pieces(Blocks(30), "# Top\n## Sub\ntext of sub\n## Next\nmore")
    assert [piece.section_path for piece in found] == [("Top", "Sub"), ("Top", "Next")]
    assert found[0].span == (0, 24)


def test_a_block_is_cut_so_that_its_heading_does_not_stand_alone() -> None:
    text = "# A head of five words\n\nOne two three four. Five six seven eight. Nine ten."
    assert texts(Blocks(14), text) == [
        "# A head of five words\n\nOne two three four.",
        "Five six seven eight. Nine ten.",
    ]
    rows = "# A head of five words\n\n- one two\n- three four\n- five six\n- seven"
    assert texts(Blocks(14), rows)[0] == "# A head of five words\n\n- one two\n- three four"


@pytest.mark.parametrize(
    ("before", "condition", "conclusion"),
    [
        ("w " * 12, "You get a refund if:", "- it is late\n- it is lost"),
        ("w " * 12, "These count as travel", "- trains\n- planes"),
        ("w " * 12, "**If the order is late:**", "We pay it back."),
        ("w " * 12, "Unless a manager has agreed", "No leave is paid."),
        ("w " * 12, "Leave is paid.", "Otherwise it is not paid."),
        ("字" * 12, "如果超过三天：", "需要总监批准。"),
        ("字" * 12, "以下情况不予报销", "个人娱乐费用。"),
        ("字" * 12, "除非经理同意", "不得请假。"),
        ("字" * 12, "员工可以请假。", "但须提前申请。"),
        ("w " * 12, "The rates are:", "```\na = 1\n```"),
    ],
)
def test_a_condition_stays_with_its_conclusion(before: str, condition: str, conclusion: str) -> None:
    text = f"{before.strip()}\n\n{condition}\n\n{conclusion}"
    size = 12 + len(WORDS.token_spans(condition))
    assert texts(Blocks(size), text) == [before.strip(), f"{condition}\n\n{conclusion}"]


def test_what_is_no_condition_is_packed_as_it_comes() -> None:
    text = "w w w w w w w w w w w w\n\nThese are words.\n\nMore words here."
    assert texts(Blocks(16), text) == ["w w w w w w w w w w w w\n\nThese are words.", "More words here."]
    assert texts(Blocks(16), "字" * 12 + "\n\n当地政府。\n\n若干规定如下文。")[0].endswith("当地政府。") is False
    assert texts(Blocks(17), "字" * 12 + "\n\n当地政府。\n\n若干规定如下文。")[0].endswith("当地政府。")


def test_sentences_of_a_long_paragraph_keep_condition_and_conclusion_too() -> None:
    text = "One two three four five six. If it rains: stay in. Otherwise go out. Ten words more here."
    assert texts(Blocks(16), text)[0] == "One two three four five six."
    assert texts(Blocks(16), text)[1].startswith("If it rains: stay in. Otherwise go out.")


def test_condition_and_conclusion_that_do_not_fit_together_are_parted() -> None:
    text = "If " + "w " * 9 + ":\n\n" + "v " * 9
    assert [chunk.split()[0] for chunk in texts(Blocks(12), text)] == ["If", "v"]


# --- blocks of a parser ---------------------------------------------------------------------------------------------


def test_blocks_of_the_parser_are_used_with_their_paths_pages_and_leads() -> None:
    text = "Title Intro text. stray a b r1 1 r2 2 r3 3"
    blocks = (
        Block(BlockKind.HEADING, (0, 5), ("Title",), 1, page=1),
        Block(BlockKind.PARAGRAPH, (6, 17), ("Title",), page=1),
        Block(BlockKind.TABLE, (24, 42), ("Title",), page=2, lead=(24, 27)),
    )
    found = pieces(Blocks(8), text, blocks=blocks)
    check(text, found)
    assert [(text[slice(*p.span)], p.section_path, p.page) for p in found] == [
        ("Title Intro text. stray", ("Title",), 1),
        ("a b r1 1 r2 2 r3 3", ("Title",), 2),
    ]
    assert [p.page for p in pieces(Blocks(20), text, blocks=blocks)] == [1]
    assert pieces(Blocks(20), text, blocks=blocks)[0].span == (0, len(text))


def test_a_table_of_the_parser_without_lines_is_cut_within_the_size() -> None:
    text = "a b\nr1 1\nr2 2\nr3 3\nr4 4\nr5 5"
    found = pieces(Blocks(8), text, blocks=(Block(BlockKind.TABLE, (0, len(text)), lead=(0, 3)),))
    assert [text[slice(*p.span)] for p in found] == ["a b\nr1 1\nr2 2\nr3 3", "r4 4\nr5 5"]
    assert [p.lead for p in found] == [None, (0, 3)]


# --- rights ---------------------------------------------------------------------------------------------------------

STAFF, BOARD = Acl(groups=("staff",)), Acl(groups=("board",))


def test_a_chunk_never_reaches_over_a_change_of_rights() -> None:
    text = "Open words here. Secret words here. Open again."
    sections = (SectionRights((17, 35), BOARD),)
    found = pieces(Blocks(50), text, acl=STAFF, sections=sections)
    assert [text[slice(*p.span)] for p in found] == ["Open words here.", "Secret words here.", "Open again."]


def test_a_header_from_a_part_with_other_rights_is_not_carried_along() -> None:
    text = table(8)
    secret = SectionRights((0, text.index("| town0")), BOARD)
    found = pieces(Blocks(20), text, acl=STAFF, sections=(secret,))
    check(text, found)
    assert {piece.lead for piece in found} == {None}


def test_parts_differ_from_their_neighbours() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    sections = (
        SectionRights((5, 10), BOARD),
        SectionRights((10, 15), BOARD),
        SectionRights((15, 20), STAFF),
        SectionRights((22, 24), STAFF, valid_from=begin),
    )
    document = Document("d", "x" * 30, acl=STAFF, sections=sections)
    assert rights_parts(document) == [(0, 5), (5, 15), (15, 22), (22, 24), (24, 30)]
    assert rights_parts(Document("d", "x" * 30)) == [(0, 30)]


def test_a_span_crosses_when_it_holds_text_of_two_parts() -> None:
    document = Document("d", "open   secret", acl=STAFF, sections=(SectionRights((7, 13), BOARD),))
    parts = rights_parts(document)
    assert [crosses(document, parts, span) for span in ((0, 4), (0, 7), (4, 13), (0, 8), (0, 13))] == [
        False,
        False,
        False,
        True,
        True,
    ]


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from(
            ["# Head", "## Sub", "Some words here.", "If so:", "- a\n- b", table(3), "```\nx\n```", "学。"]
        ),
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 60)), max_size=3),
    st.integers(8, 25),
)
def test_any_structure_with_any_rights(parts: list[str], secrets: list[tuple[int, int]], size: int) -> None:
    text = "\n\n".join(parts)
    spans = [(start, min(start + length, len(text))) for start, length in secrets if start < len(text)]
    sections = tuple(SectionRights(span, Acl(groups=(f"g{i}",))) for i, span in enumerate(spans))
    document = Document("d", text, acl=STAFF, sections=sections)
    (found,) = Blocks(size).cut([document], WORDS)
    check(text, found)
    borders = rights_parts(document)
    for piece in found:
        lead = text[slice(*piece.lead)] if piece.lead else ""
        within_a_word = text[: piece.span[0]][-1:].isalnum()
        assert WORDS.count_tokens([lead, text[slice(*piece.span)]]).sum() <= size + within_a_word
        assert not crosses(document, borders, piece.span)
        if piece.lead:
            assert not crosses(document, borders, (piece.lead[0], piece.span[1]))
