"""Variants that differ in one number, and the ceilings of rerankers, in figure, table, report and terminal."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from typing import Any

import pandas as pd
import pytest
from example_results import example
from rich.console import Console

from rag_lab import reports
from rag_lab.reports.blocks import Figure, Section, Table
from rag_lab.reports.document import build
from rag_lab.reports.figures import draw
from rag_lab.reports.reranking import ceilings_blocks
from rag_lab.reports.selection import families, select
from rag_lab.reports.settings import draw_settings, setting_sweep, settings_section
from rag_lab.reports.terminal import print_summary
from rag_lab.results import Results

DEPTHS = (10, 20, 50, 100, 200)


def stages(depth: Any, scorer: str = "late", k: int = 60) -> list[dict[str, Any]]:
    return [{"bm25": {"depth": 1000}}, {"dense": {"depth": 1000, "index": "Flat"}}, {"rrf": {"k": k, "weights": {}}},
            {"rerank": {"scorer": scorer, "depth": depth, "window": None}}]  # fmt: skip


def depths(*scorers: str, budgets: tuple[str, ...] = ("main",)) -> Results:
    """Two baselines and a reranker at five depths for each scorer, with the ceilings that rise by the depth."""
    names = {f"{scorer}-{depth}": (scorer, depth) for scorer in scorers for depth in DEPTHS}
    found = example(variants=("bm25", "hybrid", *names), generation=False, budgets=budgets, n=60)
    rows = []
    for name, (scorer, depth) in names.items():
        found.variants[name] = stages(depth, scorer)
        place = DEPTHS.index(depth)
        for budget in budgets:
            for metric, value in (("CeilingNDCG@10", 0.8 + 0.03 * place), ("CandidateRecall", 0.7 + 0.05 * place)):
                rows.append((name, budget, "all", metric, value, value - 0.02, value + 0.02, 54, 0, 0, value))
        mine = (found.budget_use["variant"] == name) & (found.budget_use["resource"] == "rerank_pairs")
        found.budget_use.loc[mine, "mean"] = float(depth)
    found.metrics = pd.concat([found.metrics, pd.DataFrame(rows, columns=found.metrics.columns)], ignore_index=True)
    return found


def only(sections: tuple[Section, ...], kind: type) -> list[Any]:
    return [block for section in sections for block in section.blocks if isinstance(block, kind)]


def test_variants_that_differ_in_one_number_are_found_in_order() -> None:
    results = depths("late")
    shuffled = ["bm25", "late-100", "late-10", "hybrid", "late-200", "late-50", "late-20"]
    results.variants = {name: results.variants[name] for name in shuffled}
    sweep = setting_sweep(results, select(results))
    assert (sweep.stage, sweep.setting) == ("rerank", "depth")
    assert sweep.rows == (tuple((float(depth), f"late-{depth}") for depth in DEPTHS),)
    assert sweep.values == [10, 20, 50, 100, 200]


def test_each_scorer_is_a_row_of_its_own_and_a_variant_that_differs_twice_is_in_none() -> None:
    results = depths("late", "a/cross-encoder")
    results.variants["late-200"] = stages(200, k=10)
    sweep = setting_sweep(results, select(results))
    assert [[name for _, name in points] for points in sweep.rows] == [
        ["late-10", "late-20", "late-50", "late-100"],
        [f"a/cross-encoder-{depth}" for depth in DEPTHS],
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"a": stages(10), "b": stages(20)},
        {"a": stages(10), "b": stages(20, "x"), "c": stages(30, "y")},
        {"a": stages(True), "b": stages("50"), "c": stages(None)},
        {"a@one": stages(10), "b@two": stages(20), "c@three": stages(30)},
        {"a": stages(10), "b": stages(10), "c": stages(10)},
        {"a": stages(10), "b": stages(20)[1:], "c": stages(30)[2:]},
        {"a": [], "b": [{"bm25": None}], "c": [{"dense": {}}]},
    ],
)
def test_what_differs_otherwise_is_no_row(given: dict[str, Any]) -> None:
    results = example(variants=tuple(given), n=30, generation=False)
    results.variants = given
    assert setting_sweep(results, select(results)) is None
    assert settings_section(results, select(results)) == ()
    assert draw_settings(results, select(results)) is None


def test_one_figure_shows_recall_result_with_ceiling_latency_and_money() -> None:
    results = depths("late", "cross")
    figure = draw_settings(results, select(results))
    panels = [axis for axis in figure.axes if axis.get_title(loc="left")]
    titles = [axis.get_title(loc="left") for axis in panels]
    assert titles == ["CandidateRecall", "nDCG@10", "latency (ms)", "USD per 1,000 questions"]
    assert [len(axis.get_lines()) for axis in panels] == [2, 4, 2, 2]
    assert panels[0].get_lines()[0].get_xdata().tolist() == list(DEPTHS)
    assert panels[0].get_lines()[0].get_ydata() == pytest.approx([0.7, 0.75, 0.8, 0.85, 0.9])
    assert panels[1].get_lines()[1].get_linestyle() == "--"
    assert panels[1].get_lines()[1].get_ydata() == pytest.approx([0.8, 0.83, 0.86, 0.89, 0.92])
    use = results.budget_use
    latency = use[(use["variant"] == "cross-50") & (use["resource"] == "latency_ms")]["mean"].item()
    assert panels[2].get_lines()[1].get_ydata()[2] == latency
    assert panels[3].get_xscale() == "log"
    assert [label.get_text() for label in figure.legends[0].get_texts()] == [
        "late", "cross", "ceiling of late", "ceiling of cross",
    ]  # fmt: skip


def test_the_figure_stands_in_the_report_and_is_the_same_twice() -> None:
    results = depths("late")
    selection = select(results)
    first, second = draw(results, selection), draw(results, selection)
    assert first["settings"] == second["settings"]
    assert ElementTree.fromstring(first["settings"][0]).tag.endswith("svg")
    sections = build(results, selection).sections
    assert [section.title for section in sections].index("Across rerank.depth") == 4
    assert "settings" in [figure.name for figure in only(sections, Figure)]


def test_the_table_gives_the_numbers_of_the_figure() -> None:
    results = depths("late")
    (table,) = only(settings_section(results, select(results)), Table)
    assert [column.label for column in table.columns] == [
        "depth", "variant", "CandidateRecall", "nDCG@10", "CeilingNDCG@10", "latency (ms)", "USD per 1,000 questions",
    ]  # fmt: skip
    assert [row[0].lines[0] for row in table.rows] == ["10", "20", "50", "100", "200"]
    assert [row[2].lines[0] for row in table.rows] == ["0.700", "0.750", "0.800", "0.850", "0.900"]
    assert table.rows[2][4].aside == "[0.840,\u00a00.880]"


def test_a_setting_without_a_reranker_has_the_metric_and_its_costs() -> None:
    results = example(variants=("bm25", "k1", "k2", "k3"), n=30, generation=False)
    for number, name in enumerate(("k1", "k2", "k3"), 1):
        results.variants[name] = [{"bm25": {}}, {"dense": {}}, {"rrf": {"k": number}}]
    figure = draw_settings(results, select(results))
    assert [axis.get_title(loc="left") for axis in figure.axes][:3] == [
        "nDCG@10", "latency (ms)", "USD per 1,000 questions",
    ]  # fmt: skip
    assert figure.axes[0].get_xscale() == "linear"


def test_at_one_budget_of_a_sweep_the_reference_is_shown() -> None:
    results = depths("late", budgets=("main", "tight"))
    results.budgets = {"main": {"context_tokens": 800}, "tight": {"context_tokens": 200}}
    (section,) = settings_section(results, select(results))
    assert "at 800 context tokens" in section.blocks[0].text


def test_the_ceiling_stands_beside_the_result() -> None:
    results = depths("late")
    selection = select(results)
    _, table = ceilings_blocks(results, selection)
    assert [row[0].lines[0] for row in table.rows] == [f"late-{depth}" for depth in DEPTHS]
    value = results.table().loc["late-50", "nDCG@10"]
    texts = [cell.lines[0] for cell in table.rows[2]]
    assert texts == ["late-50", f"{value:.3f}", "0.860", f"{100 * value / 0.86:.1f} %", "0.800", "50"]
    retrieval = next(t for t in only(build(results, selection).sections, Table) if t.caption == "Retrieval")
    remarks = {row[0].lines[0]: row[1].lines[-1] for row in retrieval.rows}
    assert remarks["late-200"] == "ceiling 0.920"
    assert "ceiling" not in remarks["hybrid"]
    assert "Other" not in families(selection.metrics)
    assert ceilings_blocks(example(n=20), select(example(n=20))) == ()


def test_the_terminal_tells_the_ceiling() -> None:
    def printed(results: Results) -> str:
        out = io.StringIO()
        print_summary(results, Console(file=out, width=100))
        return out.getvalue()

    said = printed(depths("late"))
    assert "ceiling 0.860" in said
    assert "ceiling: what a perfect reranker would reach." in " ".join(said.split())
    assert max(map(len, said.split("\n"))) <= 100
    assert "Candidate" in said
    assert "CeilingNDCG" not in said
    assert "ceiling" not in printed(example(n=20))


def test_the_whole_report_is_written(tmp_path: Any) -> None:
    written = reports.write(depths("late", "cross"), tmp_path)
    assert {"html", "pdf", "figures/settings"} <= set(written)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "nDCG@10 and its ceiling" in page
    assert "Across rerank.depth" in page
