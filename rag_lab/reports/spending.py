"""The sections on means: budget use and curtailments, quality against cost, where the time went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.contracts import RESOURCES
from rag_lab.reports.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, Tone, cell, texts
from rag_lab.reports.numbers import RESOURCE_LABELS, amount, count, duration, known, resource_heading
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
    blocks += [_use_table(results, selection, selection.reference, resources), _curtailments(results, selection)]
    return Section("Budget use and curtailments", "budget", tuple(blocks))


def _use_table(results: Results, selection: Selection, budget: str, resources: tuple[str, ...]) -> Table:
    use = results.budget_use
    rows = {(str(r["variant"]), str(r["resource"])): r for r in use[use["budget"] == budget].to_dict("records")}
    caps = {r: next((row["cap"] for (_, name), row in rows.items() if name == r), None) for r in resources}
    columns = [Column("variant", "name")] + [
        Column(resource_heading(r), detail=f"cap {amount(caps[r], r)}" if known(caps[r]) else "open") for r in resources
    ]
    table = tuple(
        (cell(v), *(_use_cell(rows.get((v, r)), r) for r in resources))
        for v in selection.variants
        if any((v, r) in rows for r in resources)
    )
    caption = "Mean use per question" + selection.where(budget)
    unused = [RESOURCE_LABELS[r] for r in RESOURCES if r not in resources]
    note = f"Open and not used by any variant: {texts(unused)}." if unused else ""
    return Table(caption, tuple(columns), table, note)


def _use_cell(row: dict[Any, Any] | None, resource: str) -> Cell:
    if row is None or not known(row["mean"]):
        return cell("–", tone="muted")
    lines = [amount(row["mean"], resource)]
    most = f"max {amount(row['max'], resource)}" if row["max"] != row["mean"] else ""
    if row["curtailed"] > 0:
        lines.append(f"curtailed {count(row['curtailed'])}")
    if row["over"] > 0:
        lines.append(f"over {count(row['over'])}")
    tone: Tone = "bad" if row["over"] > 0 else "caution" if row["curtailed"] > 0 else ""
    return cell(*lines, tone=tone, aside=most)


def _curtailments(results: Results, selection: Selection) -> Block:
    frame = results.curtailments
    where = selection.where(selection.reference)
    rows = frame[(frame["questions"] > 0) & (frame["budget"] == selection.reference)].to_dict("records")
    if not rows:
        return Paragraph(f"No stage was cut short by the budget{where}.")
    columns = (
        Column("variant", "name"),
        Column("stage", "name"),
        Column("resource", "name"),
        Column("questions", "count"),
        Column("wanted", "count", detail="mean"),
        Column("granted", "count", detail="mean"),
    )
    table = tuple(
        (
            cell(str(r["variant"])),
            cell(str(r["stage"])),
            cell(RESOURCE_LABELS.get(r["resource"], str(r["resource"]))),
            cell(count(r["questions"])),
            cell(amount(r["wanted"], r["resource"])),
            cell(amount(r["granted"], r["resource"])),
        )
        for r in rows
    )
    return Table(f"Where the budget cut a stage short{where}", columns, table)


def quality_section(results: Results, selection: Selection) -> Section:
    """Quality against what it cost."""
    shown = costs(results, selection)
    if not shown:
        text = "All variants used the same amount of every resource, so there is nothing to trade off."
        return Section("Quality against cost", "cost", (Paragraph(text),))
    metric = selection.outcome
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
    """Latency by stage at the reference budget."""
    frame = results.timings[results.timings["budget"] == selection.reference]
    remarked = bool(frame["cached"].any() or (frame["shared_with"].map(len) > 0).any())
    columns = [
        Column("variant", "name"),
        Column("stage", "name"),
        *(Column(name, "count", detail="ms") for name in ("mean", "p50", "p95", "p99")),
        Column("total", "count", detail="s"),
        *([Column("remark", "text")] if remarked else []),
    ]
    rows: list[tuple[Cell, ...]] = []
    breaks: list[int] = []
    variant = None
    for r in frame.to_dict("records"):
        if r["variant"] != variant and rows:
            breaks.append(len(rows))
        variant = r["variant"]
        shared = [str(v) for v in r["shared_with"]]
        remarks = ["read from the cache"] if r["cached"] else []
        remarks += [f"run once, shared with {', '.join(shared)}"] if shared else []
        rows.append(
            (
                cell(str(r["variant"])),
                cell(str(r["stage"])),
                *(cell(duration(r[name])) for name in ("ms_mean", "ms_p50", "ms_p95", "ms_p99", "total_s")),
                *([Cell(("; ".join(remarks),), "muted")] if remarked else []),
            )
        )
    note = "Times of a stage that was read from the cache are those of its first run." if frame["cached"].any() else ""
    return Table(
        f"Time per question by stage{selection.where(selection.reference)}",
        tuple(columns),
        tuple(rows),
        note,
        tuple(breaks),
    )
