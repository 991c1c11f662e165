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
        "hybrid beats bm25", "0.710 ▲", "[0.678, 0.743]", "within 0.689", "failed", "abst.", "Read this first",
        "at 300 context tokens", "at 600 context tokens", "not distinguishable",
    ):  # fmt: skip
        assert part in " ".join(text.split())


@pytest.mark.parametrize("name", ["a_variant_with_a_rather_long_name_indeed", "[bold]x[/bold]", "\x1b[31mred"])
def test_names_are_literal_and_long_ones_fit(name: str) -> None:
    text = printed(example(n=40, variants=("bm25", name), generation=False))
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert name[:8].replace("\x1b", "\ufffd") in text
