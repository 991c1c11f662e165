"""The sections with scores: the tables with intervals, the differences, and the results by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, Tone, cell
from rag_lab.reports.notes import score_notes
from rag_lab.reports.numbers import count, interval, known, p_value, score, signed
from rag_lab.reports.reranking import ceiling, ceilings_blocks
from rag_lab.reports.selection import Selection, comparisons, decided, families, scores, within_budget
from rag_lab.reports.verdict import SMALL_N

if TYPE_CHECKING:
    from rag_lab.results import Results

Row = dict[str, Any]
MARKS = {1: "▲", 0: "", -1: "▼"}
VERDICTS = {1: "better", 0: "not distinguishable", -1: "worse"}
GROUP_COLUMNS = 6
ROOMY = 3  # metrics that leave room for the interval on the value's own line


def scores_section(results: Results, selection: Selection) -> Section:
    """The main tables at the reference budget, one for each family of metrics."""
    percent, where = selection.confidence, selection.where(selection.reference)
    blocks: list[Block] = [
        Paragraph(
            f"Means over questions{where}; in brackets the {percent} bootstrap interval. ▲ and ▼ mark variants that "
            f"are better or worse than {selection.baseline}: the interval of the paired difference excludes zero and "
            f"the Holm-corrected p is below {selection.alpha:g}. No mark means not distinguishable, which is not the "
            "same as equal."
        ),
        Figure(
            "scores",
            f"Scores{where} with {percent} intervals. Whiskers that overlap do not decide: the test is on paired "
            "differences.",
            _in_words(results, selection),
        ),
    ]
    blocks.extend(
        _family_table(results, selection, name, metrics) for name, metrics in families(selection.metrics).items()
    )
    blocks.extend(ceilings_blocks(results, selection))
    blocks.extend(Paragraph(note, "note") for note in score_notes(results))
    blocks.extend(_not_measured(results))
    return Section("Scores", "scores", tuple(blocks))


def _in_words(results: Results, selection: Selection) -> str:
    rows = scores(results)
    parts = [
        f"{variant} {score(row['value'])}"
        for variant in selection.variants
        if (row := rows.get((variant, selection.reference, selection.primary))) is not None
    ]
    return f"{selection.primary}{selection.where(selection.reference)}: " + ", ".join(parts)


def _family_table(results: Results, selection: Selection, name: str, metrics: tuple[str, ...]) -> Table:
    rows, tests = scores(results), comparisons(results, selection.baseline)
    budget, roomy = selection.reference, len(metrics) <= ROOMY
    table: list[tuple[Cell, ...]] = []
    for variant in selection.variants:
        found = [rows.get((variant, budget, m)) for m in metrics]
        counts = next((_counts(r) for r in found if r is not None and known(r["value"])), None)
        if counts is None:
            continue
        cells = [
            score_cell(
                row,
                tests.get((variant, budget, m)),
                selection,
                roomy,
                ", ".join(filter(None, (_other_counts(row, counts), ceiling(rows, variant, budget, m)))),
            )
            for m, row in zip(metrics, found, strict=True)
        ]
        table.append((cell(variant), *cells, *_count_cells(counts)))
    columns = (
        Column("variant", "name"),
        *(Column(m) for m in metrics),
        Column("n", "count"),
        Column("failed", "count"),
        Column("abstained", "count"),
    )
    notes = ["Failed questions count as 0."] if any(r[-2].lines != ("0",) for r in table) else []
    if any(line.startswith("within ") for r in table for c in r for line in c.lines):
        notes.append("within: the score with questions that went over budget counted as 0.")
    return Table(name, columns, tuple(table), " ".join(notes))


def _counts(row: Row) -> tuple[float, float, float]:
    return row["n"], row["n_failed"], row["n_abstained"]


def _count_cells(counts: tuple[float, float, float]) -> tuple[Cell, ...]:
    n, failed, abstained = counts
    return cell(count(n)), cell(count(failed), tone="bad" if failed else ""), cell(count(abstained))


def _other_counts(row: Row | None, usual: tuple[float, float, float]) -> str:
    """The counts of a metric that are not those of its row."""
    if row is None:
        return ""
    pairs = zip(("n", "failed", "abstained"), _counts(row), usual, strict=True)
    return ", ".join(f"{label} {count(own)}" for label, own, other in pairs if own != other)


def score_cell(row: Row | None, test: Row | None, selection: Selection, roomy: bool, remark: str = "") -> Cell:
    """A mean with its mark and interval, and its value within budget where that differs.

    roomy: interval and remark stand on the value's line.
    """
    if row is None or not known(row["value"]):
        return cell("–", tone="muted")
    sense = decided(test, selection.alpha) if test is not None else 0
    between, within = interval(row["ci_low"], row["ci_high"]), row["value_within_budget"]
    aside = ", ".join(filter(None, (between, remark))) if roomy else ""
    lines = [score(row["value"]), *(() if roomy else (between, remark))]
    if known(within) and abs(within - row["value"]) > 1e-12:
        lines.append(f"within {score(within)}")
    tone: Tone = "good" if sense > 0 else "bad" if sense < 0 else ""
    return cell(*lines, tone=tone, mark=MARKS[sense], aside=aside)


def _not_measured(results: Results) -> list[Block]:
    reasons: dict[str, list[str]] = {}
    for name, why in dict(results.dataset.get("not_measured", {})).items():
        reasons.setdefault(str(why), []).append(str(name))
    if not reasons:
        return []
    rows = tuple((cell(", ".join(names)), cell(why)) for why, names in reasons.items())
    return [Table("Not measured, and why", (Column("metric", "text"), Column("reason", "text")), rows)]


def differences_section(results: Results, selection: Selection) -> Section:
    """Paired differences to the baseline on the headline metrics."""
    intro = Paragraph(
        "Each question is answered by both variants, so differences are taken question by question. p comes from a "
        "paired randomisation test; p_holm corrects it by Holm over the variants compared on one metric under one "
        "budget; the effect is the mean difference in standard deviations of the differences. A variant is called "
        f"better or worse when the {selection.confidence} interval excludes zero and p_holm is below "
        f"{selection.alpha:g}."
    )
    if results.comparisons.empty:
        return Section("Differences", "differences", (Paragraph("Only one variant was run: nothing to compare."),))
    where = selection.where(selection.reference)
    figure = Figure(
        "differences",
        f"Differences to {selection.baseline}{where}, with {selection.confidence} intervals. Filled: distinguishable "
        "from zero after correction. Hollow: not distinguishable.",
        f"Differences of each variant to {selection.baseline}; the table gives the same numbers.",
    )
    table = comparison_table(results, selection, selection.headline, f"Differences on the headline metrics{where}")
    return Section("Differences to the baseline", "differences", (intro, figure, table))


def comparison_table(results: Results, selection: Selection, metrics: tuple[str, ...], caption: str) -> Table:
    """The comparisons on some metrics at the reference budget, in the order of the metrics."""
    frame = results.comparisons
    frame = frame[frame["budget"] == selection.reference]
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
        Column("difference", "count"),
        Column(f"{selection.confidence} interval", "count"),
        Column("p", "count"),
        Column("p_holm", "count"),
        Column("effect", "count"),
        Column("n", "count"),
        Column("verdict", "text"),
    ]
    kept = tuple(b for i, b in enumerate(breaks) if 0 < b < len(table) and b not in breaks[:i])
    return Table(caption, tuple(columns), tuple(table), breaks=kept)


def _comparison(row: dict[Any, Any], metric: str, several: bool, selection: Selection) -> tuple[Cell, ...]:
    row = {str(k): v for k, v in row.items()}
    sense = decided(row, selection.alpha)
    verdict = VERDICTS[sense] if known(row["delta"]) else "not comparable"
    remarks = ["a bound"] if row["variant"] in selection.bounds else []
    remarks += [str(row["note"])] if row["note"] else []
    inside = within_budget(row)
    if known(inside["delta"]) and decided(inside, selection.alpha) != sense:
        remarks.append(f"within the budget {VERDICTS[decided(inside, selection.alpha)]}")
    tone: Tone = "good" if sense > 0 else "bad" if sense < 0 else "muted"
    return (
        cell(metric),
        *([cell(str(row["baseline"]))] if several else []),
        cell(str(row["variant"])),
        cell(signed(row["delta"])),
        cell(interval(row["ci_low"], row["ci_high"], sign=True)),
        cell(p_value(row["p"], selection.alpha)),
        cell(p_value(row["p_holm"], selection.alpha)),
        cell(signed(row["effect"])),
        cell(count(row["n"])),
        cell(verdict, tone=tone, mark=MARKS[sense], aside=f"({', '.join(remarks)})" if remarks else ""),
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
                shown = (_group_cell(c, max(sizes), selection, len(part) < GROUP_COLUMNS) for c in cells)
                rows.append((cell(group), cell(count(max(sizes))), *shown))
        columns = (Column("group", "name"), Column("n", "count"), *(Column(v) for v in part))
        if rows:
            tables.append(Table(f"{metric} by group{selection.where(budget)}", columns, tuple(rows)))
    return tables


def _group_cell(row: Row | None, n: float, selection: Selection, roomy: bool) -> Cell:
    remarks = []
    if row is not None and row["n_failed"]:
        remarks.append(f"{count(row['n_failed'])} failed")
    if row is not None and row["n"] != n:
        remarks.append(f"n {count(row['n'])}")
    return score_cell(row, None, selection, roomy, ", ".join(remarks))
