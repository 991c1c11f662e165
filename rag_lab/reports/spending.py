"""The sections on means: budget use and curtailments, quality against cost, where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.contracts import RESOURCES
from rag_lab.reports.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, cell, texts
from rag_lab.reports.numbers import RESOURCE_LABELS, amount, count, duration, known
from rag_lab.reports.selection import Selection

if TYPE_CHECKING:
    from rag_lab.results import Results


def used_resources(results: Results) -> tuple[str, ...]:
    """Resources that some variant used or that were capped, in the order of the contract."""
    use = results.budget_use
    touched = set(use.loc[(use["mean"].fillna(0) != 0) | use["cap"].notna(), "resource"])
    return tuple(r for r in RESOURCES if r in touched)


def costs(results: Results, selection: Selection) -> tuple[str, ...]:
    """Resources of which the contenders used different amounts: those that quality can be plotted against."""
    use = results.budget_use
    own = use[use["variant"].isin(selection.contenders)]
    return tuple(r for r in used_resources(results) if own.loc[own["resource"] == r, "mean"].round(9).nunique() > 1)


def budget_section(results: Results, selection: Selection) -> Section:
    """What each variant was allowed, what it used, and where it was cut short."""
    blocks: list[Block] = [
        Paragraph(
            "Use per question. At a cap a stage does less and the question is “curtailed”; what cannot be stopped in "
            "time is “over” and its score is given a second time with such questions counted as 0."
        )
    ]
    resources = used_resources(results)
    blocks.extend(_use_table(results, selection, budget, resources) for budget in selection.budgets)
    unused = [RESOURCE_LABELS[r] for r in RESOURCES if r not in resources]
    if unused:
        blocks.append(Paragraph(f"Open and not used by any variant: {texts(unused)}.", "note"))
    blocks.append(_curtailments(results, selection))
    return Section("Budget use and curtailments", "budget", tuple(blocks))


def _use_table(results: Results, selection: Selection, budget: str, resources: tuple[str, ...]) -> Table:
    use = results.budget_use
    rows = {(str(r["variant"]), str(r["resource"])): r for r in use[use["budget"] == budget].to_dict("records")}
    caps = {r: next((row["cap"] for (_, name), row in rows.items() if name == r), None) for r in resources}
    columns = [Column("variant", "name")] + [
        Column(RESOURCE_LABELS[r], detail=f"cap {amount(caps[r], r)}" if known(caps[r]) else "open") for r in resources
    ]
    table = tuple(
        (cell(v), *(_use_cell(rows.get((v, r)), r) for r in resources))
        for v in selection.variants
        if any((v, r) in rows for r in resources)
    )
    caption = "Mean use per question" + selection.where(budget)
    return Table(caption, tuple(columns), table)


def _use_cell(row: dict[Any, Any] | None, resource: str) -> Cell:
    if row is None or not known(row["mean"]):
        return cell("–", tone="muted")
    lines = [amount(row["mean"], resource)]
    if row["max"] != row["mean"]:
        lines.append(f"max {amount(row['max'], resource)}")
    if row["curtailed"] > 0:
        lines.append(f"curtailed {count(row['curtailed'])}")
    if row["over"] > 0:
        lines.append(f"over {count(row['over'])}")
    return cell(*lines, tone="bad" if row["over"] > 0 else "caution" if row["curtailed"] > 0 else "")


def _curtailments(results: Results, selection: Selection) -> Block:
    frame = results.curtailments
    rows = frame[frame["questions"] > 0].to_dict("records")
    if not rows:
        return Paragraph("No stage was cut short by the budget.")
    columns = [
        Column("variant", "name"),
        *([Column("budget", "name")] if selection.sweep else []),
        Column("stage", "name"),
        Column("resource", "name"),
        Column("questions"),
        Column("wanted", detail="mean"),
        Column("granted", detail="mean"),
    ]
    table = tuple(
        (
            cell(str(r["variant"])),
            *([cell(selection.label(str(r["budget"])))] if selection.sweep else []),
            cell(str(r["stage"])),
            cell(RESOURCE_LABELS.get(r["resource"], str(r["resource"]))),
            cell(count(r["questions"])),
            cell(amount(r["wanted"], r["resource"])),
            cell(amount(r["granted"], r["resource"])),
        )
        for r in rows
    )
    return Table("Where the budget cut a stage short", tuple(columns), table)


def quality_section(results: Results, selection: Selection) -> Section:
    """Quality against what it cost."""
    shown = costs(results, selection)
    if not shown:
        text = "All variants used the same amount of every resource, so there is nothing to trade off."
        return Section("Quality against cost", "cost", (Paragraph(text),))
    metric = selection.headline[-1]
    joined = " A line joins the budgets of one variant." if selection.sweep else ""
    figure = Figure(
        "cost",
        f"{metric} against mean use per question, with {selection.confidence} intervals. Up and to the left is "
        f"better.{joined}",
        f"{metric} against {texts([RESOURCE_LABELS[r] for r in shown])}.",
    )
    lead = Paragraph(f"What {metric} costs, for each resource of which the variants used different amounts.")
    return Section("Quality against cost", "cost", (lead, figure))


def timings_table(results: Results, selection: Selection) -> Table:
    """Latency by stage."""
    columns = [
        Column("variant", "name"),
        *([Column("budget", "name")] if selection.sweep else []),
        Column("stage", "name"),
        Column("mean", detail="ms"),
        Column("p50", detail="ms"),
        Column("p95", detail="ms"),
        Column("p99", detail="ms"),
        Column("total", detail="s"),
        Column("remark", "text"),
    ]
    rows: list[tuple[Cell, ...]] = []
    breaks: list[int] = []
    place = None
    for r in results.timings.to_dict("records"):
        if (r["variant"], r["budget"]) != place and rows:
            breaks.append(len(rows))
        place = (r["variant"], r["budget"])
        shared = [str(v) for v in r["shared_with"]]
        remarks = ["read from the cache"] if r["cached"] else []
        remarks += [f"run once, shared with {', '.join(shared)}"] if shared else []
        rows.append(
            (
                cell(str(r["variant"])),
                *([cell(selection.label(str(r["budget"])))] if selection.sweep else []),
                cell(str(r["stage"])),
                *(cell(duration(r[name])) for name in ("ms_mean", "ms_p50", "ms_p95", "ms_p99", "total_s")),
                Cell(("; ".join(remarks),), "muted"),
            )
        )
    note = "Times of a stage that was read from the cache are those of its first run."
    return Table("Time per question by stage", tuple(columns), tuple(rows), note, tuple(breaks))
