"""The summary that a run prints: at most 100 columns, readable without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_lab.reports.cautions import cautions
from rag_lab.reports.literal import heading_pieces, short, visible
from rag_lab.reports.numbers import NBSP, count, interval, known, score
from rag_lab.reports.scoring import MARKS
from rag_lab.reports.selection import Selection, comparisons, decided, scores, select
from rag_lab.reports.verdict import sentences

if TYPE_CHECKING:
    from rag_lab.results import Results

WIDTH = 100
NAME = 12
VALUE = 14


def summary(results: Results) -> RenderableType:
    """Verdict, one table for each budget, and warnings, as something rich can print. All texts are literal."""
    selection = select(results)
    verdict, *others = sentences(results, selection)
    parts: list[RenderableType] = [Text(_plain(verdict), style="bold"), *(Text(_plain(s)) for s in others), Text()]
    parts += [_table(results, selection, budget) for budget in selection.budgets]
    legend = (
        f"▲ better, ▼ worse than {selection.baseline} (Holm-corrected p < {selection.alpha:g}); no mark: not "
        f"distinguishable. In brackets: {selection.confidence} intervals. within: with questions over budget as 0."
    )
    parts.append(Text(_plain(legend), style="dim"))
    warnings = cautions(results, selection)
    if warnings:
        parts += [Text(), Text("Read this first", style="bold yellow")]
        parts += [Text(f"- {_plain(warning)}") for warning in warnings]
    return Group(*parts)


def print_summary(results: Results, console: Console | None = None) -> None:
    """Print the summary, no wider than 100 columns."""
    target = console or Console()
    target.print(summary(results), width=min(WIDTH, target.width), soft_wrap=False)


def shown_metrics(selection: Selection) -> tuple[str, ...]:
    """The headline metrics and, where the variants' names leave room, one more."""
    room = 4 if max(map(len, selection.variants), default=0) <= NAME else 3
    favoured = ("Recall@100", "F1", "CitationPrecision", "AbstentionRecall", *selection.metrics)
    extra = [m for m in favoured if m in selection.metrics and m not in selection.headline]
    return (*selection.headline, *dict.fromkeys(extra))[:room]


def _table(results: Results, selection: Selection, budget: str) -> Table:
    rows, tests = scores(results), comparisons(results, selection.baseline)
    metrics = shown_metrics(selection)
    title = visible(selection.where(budget)).strip() or None
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False)
    longest = max(len(short(v, 2 * NAME)) for v in selection.variants)
    table.add_column("variant", overflow="fold", width=max(longest, len("variant")))
    for metric in metrics:
        label = "\n".join(heading_pieces(visible(metric))) if len(metric) > VALUE else visible(metric)
        table.add_column(Text(label), justify="right", width=VALUE, overflow="fold")
    for name in (" n", " failed", " abst.", " over"):
        table.add_column(name, justify="right", no_wrap=True)
    for variant in selection.variants:
        found = [rows.get((variant, budget, m)) for m in metrics]
        measured = [row for row in found if row is not None and known(row["value"])]
        if not measured:
            continue
        n = max(row["n"] for row in measured)
        pairs = zip(metrics, found, strict=True)
        table.add_row(
            Text(short(variant, 2 * NAME)),
            *(_cell(row, tests.get((variant, budget, metric)), selection, n) for metric, row in pairs),
            _count(n),
            _count(max(row["n_failed"] for row in measured), "bold red"),
            _count(max(row["n_abstained"] for row in measured)),
            _count(_over(results, variant, budget), "bold yellow"),
        )
    return table


def _cell(row: dict[str, Any] | None, test: dict[str, Any] | None, selection: Selection, n: float) -> Text:
    if row is None or not known(row["value"]):
        return Text("–", style="dim")
    sense = decided(test, selection.alpha) if test is not None else 0
    text = Text(score(row["value"]) + MARKS[sense], style={1: "green", -1: "red"}.get(sense, ""))
    details = [interval(row["ci_low"], row["ci_high"])]
    within = row["value_within_budget"]
    if known(within) and abs(within - row["value"]) > 1e-12:
        details.append(f"within {score(within)}")
    if row["n"] != n:
        details.append(f"n {count(row['n'])}")
    for detail in details:
        text.append(f"\n{detail.replace(NBSP, ' ')}", style="dim")
    return text


def _count(value: float, style: str = "") -> Text:
    return Text(count(value), style=style if value else "")


def _over(results: Results, variant: str, budget: str) -> int:
    use = results.budget_use
    return int(use.loc[(use["variant"] == variant) & (use["budget"] == budget), "over"].max() or 0)


def _plain(text: str) -> str:
    return visible(text).replace(NBSP, " ")
