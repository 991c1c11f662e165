"""The section on a sweep: the headline metrics that feel the budget, at each budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, cell
from rag_lab.reports.numbers import RESOURCE_LABELS, count, known
from rag_lab.reports.scoring import score_cell
from rag_lab.reports.selection import Selection, comparisons, scores

if TYPE_CHECKING:
    from rag_lab.results import Results

COLUMNS = 6
ROOMY = 4  # budgets that leave room for the interval on the value's own line

Line = tuple[Cell, ...]


def changing(results: Results, selection: Selection) -> tuple[str, ...]:
    """Headline metrics that some variant does not score equally at all budgets; none when there is one budget."""
    rows = scores(results)

    def differs(metric: str) -> bool:
        for variant in selection.variants:
            found = [rows[(variant, b, metric)] for b in selection.budgets if (variant, b, metric) in rows]
            pairs = {(row["value"], row["value_within_budget"]) for row in found if known(row["value"])}
            if len(pairs) > 1:
                return True
        return False

    return tuple(metric for metric in selection.headline if differs(metric)) if selection.sweep else ()


def across_section(results: Results, selection: Selection) -> tuple[Section, ...]:
    """What the budget does to the headline metrics; no section without a sweep."""
    if not selection.sweep:
        return ()
    metrics = changing(results, selection)
    constant = [m for m in selection.headline if m not in metrics]
    what = f"cap on {RESOURCE_LABELS[selection.swept]}" if selection.swept else "budget"
    lead = (
        f"The same variants and questions under {len(selection.budgets)} budgets. All other sections are about one of "
        f"them, {selection.label(selection.reference)}; every number at the others is in tables/*.parquet."
    )
    if constant:
        verb = "does" if len(constant) == 1 else "do"
        lead += f" {' and '.join(constant)} {verb} not change with the {what} and {verb} not appear here."
    blocks: list[Block] = [Paragraph(lead)]
    if metrics:
        figure = Figure(
            "budgets",
            f"{' and '.join(metrics)} against the {what}, with {selection.confidence} intervals; points are moved "
            "aside a little so that intervals do not cover each other.",
            f"{' and '.join(metrics)} of each variant at each budget; the table gives the same numbers.",
        )
        blocks.append(figure)
    for start in range(0, len(selection.budgets), COLUMNS):
        blocks.append(_table(results, selection, metrics, selection.budgets[start : start + COLUMNS], what))
    return (Section("Across budgets", "budgets", tuple(blocks)),)


def _table(
    results: Results, selection: Selection, metrics: tuple[str, ...], budgets: tuple[str, ...], what: str
) -> Table:
    groups = [_metric_lines(results, selection, metric, budgets) for metric in metrics]
    groups.append(_curtailed_lines(results, selection, budgets))
    groups.append(_state_lines(results, selection, "abstained", "n_abstained", budgets))
    groups.append(_state_lines(results, selection, "failed", "n_failed", budgets))
    lines: list[Line] = []
    breaks: list[int] = []
    for group in filter(None, groups):
        breaks.append(len(lines))
        lines.extend(group)
    columns = (
        Column("what", "name"),
        Column("variant", "name"),
        *(Column(selection.label(budget)) for budget in budgets),
    )
    note = f"▲ and ▼: better or worse than {selection.baseline} at the same budget."
    sizes = {row["n"] for (_, _, metric), row in scores(results).items() if metric in metrics and known(row["value"])}
    if len(sizes) == 1:
        note += f" Each mean is over {count(sizes.pop())} questions."
    return Table(f"Headline metrics by {what}", columns, tuple(lines), note, tuple(breaks[1:]))


def _metric_lines(results: Results, selection: Selection, metric: str, budgets: tuple[str, ...]) -> list[Line]:
    rows, tests = scores(results), comparisons(results, selection.baseline)
    sizes = {r["n"] for (_, _, m), r in rows.items() if m == metric and known(r["value"])}
    lines: list[Line] = []
    for variant in selection.variants:
        found = [(rows.get((variant, b, metric)), tests.get((variant, b, metric))) for b in budgets]
        if any(row is not None and known(row["value"]) for row, _ in found):
            cells = (
                score_cell(row, test, selection, len(budgets) <= ROOMY, _size(row) if len(sizes) > 1 else "")
                for row, test in found
            )
            lines.append((cell(metric), cell(variant), *cells))
    return lines


def _size(row: dict[str, Any] | None) -> str:
    return f"n {count(row['n'])}" if row is not None else ""


def _curtailed_lines(results: Results, selection: Selection, budgets: tuple[str, ...]) -> list[Line]:
    """Questions for which a variant got less of the swept resource than it wanted."""
    if not selection.swept:
        return []
    use = results.budget_use
    use = use[use["resource"] == selection.swept]
    found = {(str(r["variant"]), str(r["budget"])): r["curtailed"] for r in use.to_dict("records")}
    return _count_lines(selection, "questions curtailed", found, budgets)


def _state_lines(
    results: Results, selection: Selection, what: str, column: str, budgets: tuple[str, ...]
) -> list[Line]:
    """Questions that were abstained from or failed, as the headline metric on answers counts them."""
    rows = scores(results)
    metric = selection.outcome
    found = {(v, b): row[column] for (v, b, m), row in rows.items() if m == metric}
    return _count_lines(selection, f"questions {what}", found, budgets)


def _count_lines(
    selection: Selection, what: str, found: dict[tuple[str, str], Any], budgets: tuple[str, ...]
) -> list[Line]:
    lines: list[Line] = []
    for variant in selection.variants:
        counts = [found.get((variant, b)) for b in budgets]
        if any(known(c) and c > 0 for c in counts if c is not None):
            lines.append((cell(what), cell(variant), *(cell(count(c)) for c in counts)))
    return lines
