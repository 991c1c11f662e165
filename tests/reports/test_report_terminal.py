import io

import pytest
from example_results import example
from rich.console import Console

from rag_lab.reports.terminal import print_summary
from rag_lab.results import Results


def printed(results: Results, width: int = 120) -> str:
    out = io.StringIO()
    print_summary(results, Console(file=out, width=width, no_color=True))
    return out.getvalue()


def test_it_fits_in_a_hundred_columns_and_says_all(sweep: Results) -> None:
    text = printed(sweep)
    assert max(map(len, text.splitlines())) <= 100
    for part in (
        "hybrid beats bm25", "0.739 ▲", "[0.708, 0.770]", "within 0.718", "failed", "abstained", "over",
        "Read this first", "Also run at 300 context tokens", "at 600 context tokens", "not distinguishable",
    ):  # fmt: skip
        assert part in " ".join(text.split())


def test_no_word_of_the_table_is_broken(sweep: Results) -> None:
    text = printed(sweep)
    header = next(line for line in text.splitlines() if line.startswith("variant"))
    assert header.split()[-4:] == ["n", "failed", "abstained", "over"]
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith(("bm25 ", "no_retrieval "))}
    assert rows["bm25"][-4:] == ["216", "0", "18", "0"]
    assert "no_retrieval" in rows
    assert "…" not in text


@pytest.mark.parametrize("width", [60, 72, 100])
def test_metrics_are_dropped_where_they_do_not_fit(width: int) -> None:
    results = example(n=40, variants=("bm25", "no_retrieval", "a_variant_of_long_name"))
    text = printed(results, width)
    header = next(line for line in text.splitlines() if line.startswith("variant"))
    assert len(header) <= width
    assert header.split()[-4:] == ["n", "failed", "abstained", "over"]
    assert "nDCG@10" in header
    assert ("a_variant_of_long_name" if width > 60 else "a_variant_of_long_n…") in text


def test_piped_output_is_a_hundred_columns_wide(sweep: Results, capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(sweep)
    assert max(map(len, capsys.readouterr().out.splitlines())) in range(90, 101)


@pytest.mark.parametrize("name", ["a_variant_with_a_rather_long_name_indeed", "[bold]x[/bold]", "\x1b[31mred"])
def test_names_are_literal_and_long_ones_fit(name: str) -> None:
    text = printed(example(n=40, variants=("bm25", name), generation=False))
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert name[:8].replace("\x1b", "\ufffd") in text
