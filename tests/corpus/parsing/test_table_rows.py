"""One way to write a table: its rows read back as Markdown have the cells that they were made of."""

from __future__ import annotations

import csv
import io
from html import escape

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing import parse
from rag_lab.corpus.parsing.blocks import Draft, write
from rag_lab.corpus.parsing.layer import LayerBuilder
from rag_lab.corpus.parsing.table_rows import Cell, TableWriter


def cells_of(text: str) -> list[list[str]]:
    """Cells of a table as an independent reader of Markdown finds them; the first row is taken for its header."""
    lines = text.split("\n")
    columns = "|" + " - |" * 9
    rows = []
    for line in lines:
        padded = line + " |" * 9
        tokens = MarkdownIt("commonmark").enable("table").disable("inline").parse(f"{columns}\n{columns}\n{padded}")
        rows.append([token.content for token in tokens if token.type == "inline"][9:])
    return rows


def laid_out(rows: list[list[str]]) -> tuple[str, list[list[Cell]]]:
    """An original in which the texts of the cells follow each other, and cells that take them from it."""
    original = ""
    made: list[list[Cell]] = []
    for row in rows:
        made.append([])
        for text in row:
            made[-1].append(Cell([(len(original), len(original) + len(text), None)]))
            original += text
    return original, made


def written(original: str, rows: list[list[Cell]], headers: int = 0) -> tuple[str, list[int], str | None]:
    builder = LayerBuilder(original)
    lead = TableWriter(builder).write(rows, headers)
    builder.block(BlockKind.TABLE, 0, lead=lead)
    layer = builder.build()
    span = layer.blocks[0].lead
    return layer.text, layer.offsets.tolist(), layer.text[slice(*span)] if span else None


def test_a_bar_in_a_cell_has_a_backslash_and_every_character_its_place() -> None:
    text, offsets, lead = written("a|b c", [[Cell([(0, 3, None)]), Cell([(4, 5, None)])]])
    assert text == "| a\\|b | c |"
    assert offsets[2:8] == [0, 1, 1, 2, 4, 4]
    assert lead is None


def test_bars_that_a_stretch_spells_or_the_parser_adds() -> None:
    text, offsets, _ = written("x&#124;y", [[Cell([(0, 1, None), (1, 7, "|"), (7, 8, None), (8, 8, "|1")])]])
    assert text == "| x\\|y\\|1 |"
    assert offsets[2:6] == [0, 1, 1, 7]


def test_repeated_cells_keep_their_backslash_and_long_ones_are_empty() -> None:
    original = "a|b" + "w" * 101 + "z"
    rows = [
        [Cell([(0, 3, None)], rows=2), Cell([(3, 104, None)], rows=2), Cell([(104, 105, None)])],
        [Cell([(104, 105, None)])],
    ]
    text, _, lead = written(original, rows, headers=1)
    assert text == f"| a\\|b | {'w' * 101} | z |\n| a\\|b | | z |"
    assert lead == text.split("\n")[0]


def test_cells_over_several_columns_and_line_ends_in_cells() -> None:
    text, _, _ = written(
        "one\n two", [[Cell([(0, 8, None)], columns=3), Cell()], [Cell([(0, 3, None), (3, 3, "\n\nx")])]]
    )
    assert text == "| one two | | |  |\n| one x |"


def test_spanned_cells_add_no_more_than_a_document_has_text() -> None:
    builder = LayerBuilder("y" * 50)
    writer = TableWriter(builder)
    for _ in range(400):
        writer.write([[Cell([(0, 1, None)], columns=200, rows=50)], *([Cell([(1, 2, None)])] for _ in range(50))], 0)
    added = 10_000 + 50
    assert builder.position < added + 400 * 51 * len("\n| y |") + 400 * len("| y |")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.text("ab|\\中 &\u00a0", max_size=6), min_size=1, max_size=4), min_size=1, max_size=3))
def test_rows_read_back_have_the_same_cells(rows: list[list[str]]) -> None:
    original, made = laid_out(rows)
    text, offsets, _ = written(original, made)
    said = [[" ".join(cell.split()) for cell in row] for row in rows]
    assert [row[: len(wanted)] for row, wanted in zip(cells_of(text), said, strict=True)] == said
    assert [line.count("|") - line.count("\\|") for line in text.split("\n")] == [len(row) + 1 for row in rows]
    assert offsets == sorted(offsets)


CONTENT = [["h|1", "h2"], ["a | b", "c"], ["\\|", "|"]]
WRITTEN = "| h\\|1 | h2 |\n| a \\| b | c |\n| \\\\| | \\| |"


def test_every_format_writes_bars_in_cells_in_the_same_way() -> None:
    page = "".join("<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) for row in CONTENT)
    assert parse(f"<table>{page}</table>".encode(), "a.html").text == WRITTEN
    assert parse(f"<table>{page.replace('|', '&#124;')}</table>".encode(), "a.html").text == WRITTEN
    out = io.StringIO()
    csv.writer(out).writerows(CONTENT)
    assert parse(out.getvalue().encode(), "a.csv").text == WRITTEN
    original, rows = laid_out(CONTENT)
    assert write(original, [Draft(BlockKind.TABLE, rows=rows)]).text == WRITTEN
