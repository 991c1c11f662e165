"""The summary that a run prints: at most 100 columns, readable without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rag_lab.metrics.ceiling import RECALL, ceiling_name
from rag_lab.reports.cautions import cautions
from rag_lab.reports.console import WIDTH, stdout
from rag_lab.reports.literal import heading_pieces, short, visible
from rag_lab.reports.numbers import NBSP, count, interval, known, score
from rag_lab.reports.reranking import ceiling
from rag_lab.reports.scoring import MARKS
from rag_lab.reports.selection import Selection, comparisons, decided, scores, select
from rag_lab.reports.verdict import sentences

if TYPE_CHECKING:
    from rag_lab.results import Results

NAME = 24
VALUE = 14
METRICS = 4
COUNTS = ("n", "failed", "abstained", "over")


def summary(results: Results, width: int = WIDTH) -> RenderableType:
    """Verdict, the table of the reference budget, and warnings, as something rich can print. All texts are literal."""
    selection = select(results)
    verdict, *others = sentences(results, selection)
    parts: list[RenderableType] = [Text(_plain(verdict), style="bold"), *(Text(_plain(s)) for s in others), Text()]
    parts.append(_table(results, selection, width))
    parts.append(Text())
    if selection.sweep:
        others_at = selection.at(selection.others)
        parts.append(
            Text(_plain(f"Also run at {others_at}: “Across budgets” in the report compares them."), style="dim")
        )
    legend = (
        f"▲ better, ▼ worse than {selection.baseline} (Holm-corrected p < {selection.alpha:g}); no mark: not "
        f"distinguishable. In brackets: {selection.confidence} intervals. within: with questions over budget as 0."
    )
    if any(ceiling_name(metric) in selection.metrics for metric in selection.metrics):
        legend += " ceiling: what a perfect reranker would reach."
    parts.append(Text(_plain(legend), style="dim"))
    warnings = cautions(results, selection)
    if warnings:
        parts += [Text(), Text("Read this first", style="bold yellow")]
        parts += [Text(f"- {_plain(warning)}") for warning in warnings]
    return Group(*parts)


def print_summary(results: Results, console: Console | None = None) -> None:
    """Print the summary, no wider than 100 columns."""
    target = console or stdout()
    width = min(WIDTH, target.width)
    target.print(summary(results, width), width=width, soft_wrap=False)


def shown_metrics(results: Results, selection: Selection, width: int = WIDTH) -> tuple[str, ...]:
    """The headline metrics and then others, as many as leave room for the names and the counts, at least one."""
    favoured = ("Recall@100", RECALL, "F1", "CitationPrecision", "AbstentionRecall", *selection.metrics)
    beside = {ceiling_name(metric) for metric in selection.metrics}
    extra = [m for m in favoured if m in selection.metrics and m not in selection.headline and m not in beside]
    room = width - _name_width(results, selection, width) - _counts_room(results)
    shown: list[str] = []
    for metric in (*selection.headline, *dict.fromkeys(extra)):
        room -= _value_width(metric) + 1
        if shown and (room < 0 or len(shown) == METRICS):
            break
        shown.append(metric)
    return tuple(shown)


def _name_width(results: Results, selection: Selection, width: int) -> int:
    """The longest name, but not more than counts and one metric leave."""
    longest = max(len("variant"), *(len(short(v, NAME)) for v in selection.variants))
    return max(len("variant"), min(longest, width - VALUE - 1 - _counts_room(results)))


def _counts_room(results: Results) -> int:
    return sum(size + 1 for size in _count_widths(results).values())


def _count_widths(results: Results) -> dict[str, int]:
    digits = len(count(results.dataset.get("queries")))
    return {name: max(len(name), digits) for name in COUNTS}


def _heading(metric: str) -> str:
    return "\n".join(heading_pieces(visible(metric))) if len(metric) > VALUE else visible(metric)


def _value_width(metric: str) -> int:
    return max(VALUE, *map(len, _heading(metric).split("\n")))


def _table(results: Results, selection: Selection, width: int) -> Table:
    rows, tests = scores(results), comparisons(results, selection.baseline)
    budget, metrics = selection.reference, shown_metrics(results, selection, width)
    title = visible(selection.where(budget)).strip() or None
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    name_width = _name_width(results, selection, width)
    table.add_column("variant", no_wrap=True, width=name_width)
    for metric in metrics:
        table.add_column(Text(_heading(metric)), justify="right", width=_value_width(metric), no_wrap=True)
    for name, size in _count_widths(results).items():
        table.add_column(name, justify="right", no_wrap=True, width=size)
    for variant in selection.variants:
        found = {m: rows.get((variant, budget, m)) for m in (*selection.headline, *metrics)}
        measured = [row for row in found.values() if row is not None and known(row["value"])]
        if not measured:
            continue
        n = max(row["n"] for row in measured)
        table.add_row(
            Text(short(variant, name_width)),
            *(
                _cell(found[m], tests.get((variant, budget, m)), selection, n, ceiling(rows, variant, budget, m))
                for m in metrics
            ),
            _count(n),
            _count(max(row["n_failed"] for row in measured), "bold red"),
            _count(max(row["n_abstained"] for row in measured)),
            _count(_over(results, variant, budget), "bold yellow"),
        )
    return table


def _cell(row: dict[str, Any] | None, test: dict[str, Any] | None, selection: Selection, n: float, remark: str) -> Text:
    if row is None or not known(row["value"]):
        return Text("–", style="dim")
    sense = decided(test, selection.alpha) if test is not None else 0
    text = Text(f"{score(row['value'])} {MARKS[sense]}".strip(), style={1: "green", -1: "red"}.get(sense, ""))
    details = [interval(row["ci_low"], row["ci_high"])]
    within = row["value_within_budget"]
    if known(within) and abs(within - row["value"]) > 1e-12:
        details.append(f"within {score(within)}")
    if row["n"] != n:
        details.append(f"n {count(row['n'])}")
    for detail in filter(None, (*details, remark)):
        text.append(f"\n{detail.replace(NBSP, ' ')}", style="dim")
    return text


def _count(value: float, style: str = "") -> Text:
    return Text(count(value), style=style if value else "")


def _over(results: Results, variant: str, budget: str) -> int:
    use = results.budget_use
    return max(use.loc[(use["variant"] == variant) & (use["budget"] == budget), "over"].tolist(), default=0)


def _plain(text: str) -> str:
    return visible(text).replace(NBSP, " ")
