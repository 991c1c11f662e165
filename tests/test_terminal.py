"""What the commands print: 100 columns, readable without colour, commands and paths in one piece."""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from rag_lab import datasets
from rag_lab.datasets import Listing
from rag_lab.doctor import Check
from rag_lab.results import frame
from rag_lab.terminal import (
    WIDTH,
    print_checks,
    print_comparisons,
    print_dataset,
    print_datasets,
    print_written,
    stdout,
)

LONG = "/a/very/long/place" * 10


@pytest.fixture
def console() -> Console:
    """A console that keeps what it is given, as wide as when the output is piped."""
    return Console(file=io.StringIO(), width=WIDTH, highlight=False)


def shown(console: Console) -> str:
    """What was printed, without the blanks at the ends of lines."""
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().split("\n"))


def comparison(**changes: Any) -> dict[str, Any]:
    row = {"baseline": "bm25", "variant": "dense", "budget": "main", "metric": "RR", "delta": 0.25, "ci_low": 0.1}
    return row | {"ci_high": 0.4, "p": 0.0004, "p_holm": 0.0008, "effect": 0.5, "n": 1234, "note": ""} | changes


def test_what_is_missing_comes_with_a_command_in_one_piece(console: Console) -> None:
    fix = f"{LONG}/bin/python -m pip install 'torch>=2.13'"
    print_checks(
        [
            Check("Python", True, True, "3.11 [bold]", ""),
            Check("torch", False, True, "not installed", fix),
            Check("ragas", False, False, "not installed", "pip install ragas"),
        ],
        console,
    )
    text = shown(console)
    lines = text.split("\n")
    assert lines[:3] == [
        "ok        Python  3.11 [bold]",
        "MISSING   torch   not installed",
        "optional  ragas   not installed",
    ]
    assert f"  torch: {fix}" in lines
    assert text.endswith("Not ready: torch.\n")


@pytest.mark.parametrize(
    "checks, last",
    [
        ([Check("Python", True, True, "3.11", "")], "Ready. Nothing is missing."),
        ([Check("ragas", False, False, "no", "get it")], "Ready. Optional and missing: ragas."),
    ],
)
def test_the_last_line_is_the_verdict(checks: list[Check], last: str, console: Console) -> None:
    print_checks(checks, console)
    assert shown(console).strip().split("\n")[-1] == last


def test_datasets_are_listed_by_kind_and_name(console: Console) -> None:
    print_datasets([Listing("b", "folder", LONG), Listing("x", "beir", "[url]"), Listing("a", "folder", "/p")], console)
    text = shown(console)
    assert [line.split()[0] for line in text.split("\n")[1:4]] == ["x", "a", "b"]
    assert "[url]" in text
    assert "3 datasets" in text
    assert max(len(line) for line in text.split("\n")) <= WIDTH


def test_a_dataset_says_what_can_and_cannot_be_measured(console: Console) -> None:
    print_dataset(datasets.load("handbook", calibration=5), console)
    text = shown(console)
    for word in (
        "handbook",
        "test (of ",
        "documents",
        "languages",
        "en, zh",
        "identifier",
        "declared: ",
        "fingerprint",
    ):
        assert word in text
    assert "Findings" in text
    assert "Can be measured" in text
    assert max(len(line) for line in text.split("\n")) <= WIDTH


def test_a_dataset_without_judgments_says_why_metrics_are_missing(console: Console, tmp_path: Any) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "text": "x \\u001b[31m"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "x?"}\n')
    print_dataset(datasets.load(tmp_path), console)
    text = " ".join(shown(console).split())
    assert "Cannot be measured" in text
    assert "nDCG@10, Recall@100, RR, AP, P@5, Hit@5: the dataset has no relevance judgments" in text
    assert "EM, F1, Correct: the dataset has no answers" in text
    assert "open: everyone may read" in text


def test_comparisons_show_difference_interval_and_both_p(console: Console) -> None:
    rows = [
        comparison(),
        comparison(variant="hybrid", delta=-0.1, ci_low=-0.2, ci_high=-0.01, p=0.02, p_holm=0.04, note="exact test"),
        comparison(metric="AP", delta=0.0, ci_low=-0.1, ci_high=0.1, p=1.0, p_holm=1.0),
    ]
    print_comparisons(frame("comparisons", rows), console=console)
    text = shown(console)
    lines = [line.split() for line in text.split("\n")]
    assert "minus bm25, budget main" in text
    assert ["RR", "dense", "▲", "+0.250", "[+0.100,", "+0.400]", "<0.001", "<0.001", "1,234"] in lines
    assert ["hybrid", "▼", "−0.100", "[−0.200,", "−0.010]", "0.020", "0.040", "1,234", "exact", "test"] in lines
    assert ["AP", "dense", "0.000", "[−0.100,", "+0.100]", "1", "1", "1,234"] in lines
    assert "the variant minus the baseline" in text
    assert max(len(line) for line in text.split("\n")) <= WIDTH


def test_a_mark_needs_holm_and_the_interval(console: Console) -> None:
    rows = [comparison(p_holm=0.06), comparison(metric="AP", ci_low=-0.1)]
    print_comparisons(frame("comparisons", rows), console=console)
    table = shown(console).split("Each difference")[0]
    assert "▲" not in table
    assert "▼" not in table


def test_each_budget_has_a_table(console: Console) -> None:
    rows = [comparison(), comparison(budget="context_tokens=200")]
    print_comparisons(frame("comparisons", rows), console=console)
    assert "minus bm25, budget main" in shown(console)
    assert "minus bm25, budget context_tokens=200" in shown(console)


def test_two_runs_say_what_differs_and_the_direction(console: Console) -> None:
    table = frame("comparisons", [comparison(baseline="runs/a", variant="bm25")])
    print_comparisons(table, ["seed: 1 against 2"], second="runs/b", console=console)
    text = " ".join(shown(console).split())
    assert "Not equal between the two runs - seed: 1 against 2" in text
    assert "runs/b minus runs/a, budget main" in text
    assert "the second run minus the first" in text


def test_nothing_to_compare_is_said(console: Console) -> None:
    print_comparisons(frame("comparisons", []), console=console)
    assert "nothing to compare" in shown(console)


def test_long_and_hostile_names_stay_within_the_width(console: Console) -> None:
    rows = [comparison(variant="x" * 300, metric="y" * 60, note="[red]\x1b[31m" * 30, delta=float("nan"))]
    print_comparisons(pd.DataFrame(rows), console=console)
    text = shown(console)
    assert "\x1b" not in text
    assert max(len(line) for line in text.split("\n")) <= WIDTH


def test_places_are_in_one_piece_and_empty_ones_left_out(console: Console) -> None:
    print_written({"report": LONG, "MLflow": "", "results": "r.json"}, console)
    assert shown(console) == f"\nreport   {LONG}\nresults  r.json\n"


def test_piped_output_is_100_columns_wide_without_colour(capsys: pytest.CaptureFixture[str]) -> None:
    target = stdout()
    assert target.width == WIDTH
    target.print("plain", style="bold red")
    assert capsys.readouterr().out == "plain\n"
