"""The sections with scores: the tables with intervals, the differences, and the results by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, cell
from rag_lab.reports.numbers import count, interval, known, p_value, score, signed
from rag_lab.reports.selection import Selection, comparisons, decided, families, scores
from rag_lab.reports.verdict import SMALL_N

if TYPE_CHECKING:
    from rag_lab.results import Results

Row = dict[str, Any]
MARKS = {1: " ▲", 0: "", -1: " ▼"}
VERDICTS = {1: "better", 0: "not distinguishable", -1: "worse"}
GROUP_COLUMNS = 6


def scores_section(results: Results, selection: Selection) -> Section:
    """The main tables, one for each family of metrics."""
    percent = selection.confidence
    blocks: list[Block] = [
        Paragraph(
            f"Means over questions; in brackets the {percent} bootstrap interval. ▲ and ▼ mark variants that are "
            f"better or worse than {selection.baseline}: the interval of the paired difference excludes zero and the "
            f"Holm-corrected p is below {selection.alpha:g}. No mark means not distinguishable, which is not the same "
            "as equal."
        ),
        Figure(
            "scores",
            f"Scores with {percent} intervals. Whiskers that overlap do not decide: the test is on paired differences.",
            _in_words(results, selection),
        ),
    ]
    blocks.extend(
        _family_table(results, selection, name, metrics) for name, metrics in families(selection.metrics).items()
    )
    blocks.extend(_not_measured(results))
    return Section("Scores", "scores", tuple(blocks))


def _in_words(results: Results, selection: Selection) -> str:
    rows = scores(results)
    parts = [
        f"{variant}{selection.where(budget)} {score(row['value'])}"
        for budget in selection.budgets
        for variant in selection.variants
        if (row := rows.get((variant, budget, selection.primary))) is not None
    ]
    return f"{selection.primary}: " + ", ".join(parts)


def _family_table(results: Results, selection: Selection, name: str, metrics: tuple[str, ...]) -> Table:
    rows, tests = scores(results), comparisons(results, selection.baseline)
    table: list[tuple[Cell, ...]] = []
    breaks: list[int] = []
    for budget in selection.budgets:
        breaks.append(len(table))
        for variant in selection.variants:
            found = [rows.get((variant, budget, m)) for m in metrics]
            counts = next((_counts(r) for r in found if r is not None and known(r["value"])), None)
            if counts is None:
                continue
            cells = [
                _score_cell(row, tests.get((variant, budget, m)), selection, counts)
                for m, row in zip(metrics, found, strict=True)
            ]
            names = [cell(variant)] + ([cell(selection.label(budget))] if selection.sweep else [])
            table.append(
                (*names, *cells, *(cell(count(c), tone="bad" if i and c else "") for i, c in _flagged(counts)))
            )
    columns = [
        Column("variant", "name"),
        *([Column("budget", "name")] if selection.sweep else []),
        *(Column(m) for m in metrics),
        Column("n", "count"),
        Column("failed", "count"),
        Column("abstained", "count"),
    ]
    notes = ["Failed questions count as 0."] if any(r[-2].lines != ("0",) for r in table) else []
    if any(line.startswith("within ") for r in table for c in r for line in c.lines):
        notes.append("within: the score with questions that went over budget counted as 0.")
    return Table(name, tuple(columns), tuple(table), " ".join(notes), tuple(breaks[1:]))


def _counts(row: Row) -> tuple[float, float, float]:
    return row["n"], row["n_failed"], row["n_abstained"]


def _flagged(counts: tuple[float, float, float]) -> list[tuple[bool, float]]:
    """Each count with whether a value above zero is bad news: failures are, abstentions need not be."""
    return [(False, counts[0]), (True, counts[1]), (False, counts[2])]


def _score_cell(row: Row | None, test: Row | None, selection: Selection, counts: tuple[float, float, float]) -> Cell:
    if row is None or not known(row["value"]):
        return cell("–", tone="muted")
    sense = decided(test, selection.alpha) if test is not None else 0
    lines = [score(row["value"]) + MARKS[sense], interval(row["ci_low"], row["ci_high"])]
    within = row["value_within_budget"]
    if known(within) and abs(within - row["value"]) > 1e-12:
        lines.append(f"within {score(within)}")
    for label, own, usual in zip(("n", "failed", "abstained"), _counts(row), counts, strict=True):
        if own != usual:
            lines.append(f"{label} {count(own)}")
    return cell(*lines, tone="good" if sense > 0 else "bad" if sense < 0 else "")


def _not_measured(results: Results) -> list[Block]:
    reasons = dict(results.dataset.get("not_measured", {}))
    if not reasons:
        return []
    rows = tuple((cell(str(name)), cell(str(why))) for name, why in reasons.items())
    return [Table("Not measured, and why", (Column("metric", "name"), Column("reason", "text")), rows)]


def differences_section(results: Results, selection: Selection) -> Section:
    """Paired differences to the baseline on the headline metrics."""
    intro = Paragraph(
        "Each question is answered by both variants, so differences are taken question by question. p comes from a "
        "paired randomisation test, p_holm corrects it for the number of variants compared on that metric (Holm), and "
        "the effect is the mean difference in standard deviations of the differences. Both conditions must hold before "
        f"a variant is called better or worse: the {selection.confidence} interval excludes zero, and p_holm is below "
        f"{selection.alpha:g}."
    )
    if results.comparisons.empty:
        return Section("Differences", "differences", (Paragraph("Only one variant was run: nothing to compare."),))
    figure = Figure(
        "differences",
        f"Differences to {selection.baseline}, with {selection.confidence} intervals. Filled: distinguishable from "
        "zero after correction. Hollow: not distinguishable.",
        f"Differences of each variant to {selection.baseline}; the table gives the same numbers.",
    )
    table = comparison_table(results, selection, selection.headline, "Differences on the headline metrics")
    return Section("Differences to the baseline", "differences", (intro, figure, table))


def comparison_table(results: Results, selection: Selection, metrics: tuple[str, ...], caption: str) -> Table:
    """All comparisons on some metrics, in the order of the metrics."""
    frame = results.comparisons
    table: list[tuple[Cell, ...]] = []
    breaks: list[int] = []
    several = frame["baseline"].nunique() > 1
    for metric in metrics:
        breaks.append(len(table))
        for row in frame[frame["metric"] == metric].to_dict("records"):
            if not known(row["delta"]) and not row["note"]:
                continue
            table.append(_comparison(row, metric, several, selection))
    columns = [
        Column("metric", "name"),
        *([Column("baseline", "name")] if several else []),
        Column("variant", "name"),
        *([Column("budget", "name")] if selection.sweep else []),
        Column("difference", detail=f"{selection.confidence} interval"),
        Column("p"),
        Column("p_holm"),
        Column("effect"),
        Column("n", "count"),
        Column("verdict", "text"),
    ]
    kept = tuple(b for i, b in enumerate(breaks) if 0 < b < len(table) and b not in breaks[:i])
    return Table(caption, tuple(columns), tuple(table), breaks=kept)


def _comparison(row: dict[Any, Any], metric: str, several: bool, selection: Selection) -> tuple[Cell, ...]:
    row = {str(k): v for k, v in row.items()}
    sense = decided(row, selection.alpha)
    verdict = VERDICTS[sense] + MARKS[sense] if known(row["delta"]) else "not comparable"
    if row["variant"] in selection.bounds:
        verdict += ", a bound"
    return (
        cell(metric),
        *([cell(str(row["baseline"]))] if several else []),
        cell(str(row["variant"])),
        *([cell(selection.label(str(row["budget"])))] if selection.sweep else []),
        cell(signed(row["delta"]), interval(row["ci_low"], row["ci_high"], sign=True)),
        cell(p_value(row["p"], selection.alpha)),
        cell(p_value(row["p_holm"], selection.alpha)),
        cell(signed(row["effect"]).rstrip() if known(row["effect"]) else "–"),
        cell(count(row["n"])),
        cell(verdict, str(row["note"] or ""), tone="good" if sense > 0 else "bad" if sense < 0 else "muted"),
    )


def groups_section(results: Results, selection: Selection) -> Section:
    """The headline metrics by question group."""
    if not selection.groups:
        text = "The dataset does not sort its questions into groups."
        return Section("Results by group", "groups", (Paragraph(text),))
    place = selection.where(selection.reference)
    blocks: list[Block] = [
        Paragraph(
            "Where a variant is strong and where it is weak. Groups are parts of the questions, so their intervals are "
            "wider than that of the whole, and no test is made on them: read differences between groups as hints."
        ),
        Figure(
            "groups",
            f"Means by question group{place}; darker is higher. An asterisk marks fewer than {SMALL_N} questions.",
            f"{selection.primary} by question group and variant; the table gives the same numbers with intervals.",
        ),
    ]
    for metric in selection.headline:
        blocks.extend(_group_tables(results, selection, metric, selection.reference))
    if selection.sweep:
        blocks.append(Paragraph("The groups at the other budgets are in tables/metrics.parquet.", "note"))
    return Section("Results by group", "groups", tuple(blocks))


def _group_tables(results: Results, selection: Selection, metric: str, budget: str) -> list[Block]:
    by_group = {group: scores(results, group=group) for group in selection.groups}
    variants = [v for v in selection.variants if any((v, budget, metric) in rows for rows in by_group.values())]
    tables: list[Block] = []
    for start in range(0, len(variants), GROUP_COLUMNS):
        part = variants[start : start + GROUP_COLUMNS]
        rows = []
        for group, found in by_group.items():
            cells = [found.get((v, budget, metric)) for v in part]
            sizes = [c["n"] for c in cells if c is not None and known(c["value"])]
            if sizes:
                rows.append((cell(group), cell(count(max(sizes))), *(_group_cell(c, max(sizes)) for c in cells)))
        columns = (Column("group", "name"), Column("n", "count"), *(Column(v) for v in part))
        if rows:
            tables.append(Table(f"{metric} by group{selection.where(budget)}", columns, tuple(rows)))
    return tables


def _group_cell(row: Row | None, n: float) -> Cell:
    if row is None or not known(row["value"]):
        return cell("–", tone="muted")
    within = row["value_within_budget"]
    lines = [score(row["value"]), interval(row["ci_low"], row["ci_high"])]
    if known(within) and abs(within - row["value"]) > 1e-12:
        lines.append(f"within {score(within)}")
    if row["n_failed"]:
        lines.append(f"{count(row['n_failed'])} failed")
    if row["n"] != n:
        lines.append(f"n {count(row['n'])}")
    return cell(*lines)
