import pandas as pd
import pytest
from example_results import HOSTILE_ANSWER
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from rag_lab.reports.markdown import markdown_table


def _rendered(frame: pd.DataFrame) -> str:
    return MarkdownIt("commonmark").enable("table").render(markdown_table(frame))


def test_s24_every_row_has_the_same_number_of_cells_and_nothing_is_bold() -> None:
    """S24: pipe, newline, back-tick and asterisk stay text."""
    frame = pd.DataFrame({"query": ["=1+1", "q2"], "answer": [HOSTILE_ANSWER, "plain"]})
    lines = markdown_table(frame).splitlines()
    assert len(lines) == 4
    assert {line.count("|") for line in lines} == {3}
    html = _rendered(frame)
    assert html.count("<tr>") == 3
    assert html.count("<td") == 4
    assert "<strong>" not in html
    assert "<code>" not in html
    assert "href" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; a|b \\| c" in html


@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_text_keeps_the_shape_of_the_table(values: list[str]) -> None:
    html = _rendered(pd.DataFrame({"a": values, "b|": values}))
    assert html.count("<td") == 2 * len(values)
    assert html.count("<tr>") == 1 + len(values)


def test_numbers_are_short_and_missing_values_are_a_dash() -> None:
    text = markdown_table(pd.DataFrame({"metric": ["nDCG@10", None], "value": [0.123456789, float("nan")]}))
    assert text.splitlines() == ["| metric | value |", "| --- | ---: |", "| nDCG@10 | 0.123457 |", "| – | – |"]


@pytest.mark.parametrize("text", ["a\\|b", "a\\\\|b", "|", "\\"])
def test_backslash_before_a_pipe(text: str) -> None:
    assert _rendered(pd.DataFrame({"a": [text], "b": ["x"]})).count("<td") == 2
