"""The loss funnel: for each variant, the first stage that lost the evidence of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, cell
from rag_lab.reports.notes import funnel_notes
from rag_lab.reports.numbers import count, known, plural, share
from rag_lab.reports.selection import Selection

if TYPE_CHECKING:
    from rag_lab.results import Results

STAGES = {
    "ingest": "in no chunk",
    "scope": "not allowed or not in force",
    "candidates": "not retrieved",
    "cut": "retrieved, ranked too low",
    "assembly": "left out of the context",
    "generation": "in context, not answered right",
    "citation": "answer right, not cited",
    "answered": "answered",
}
SEEKS_NOTHING = "no_retrieval"


def funnel_variants(results: Results, selection: Selection) -> tuple[str, ...]:
    """Variants that look for evidence, and so can lose it."""
    have = set(results.funnel["variant"])
    return tuple(v for v in selection.variants if v in have and v != SEEKS_NOTHING)


def funnel_budgets(results: Results, selection: Selection) -> tuple[str, ...]:
    """All budgets when the funnel is not the same at each, else the reference alone."""
    frame = results.funnel[results.funnel["variant"].isin(funnel_variants(results, selection))]
    lost = {
        budget: {(r["variant"], r["stage"]): r["lost"] for r in part.to_dict("records")}
        for budget, part in frame.groupby("budget")
    }
    own = lost.get(selection.reference)
    same = all(lost.get(budget) == own for budget in selection.budgets)
    return (selection.reference,) if same else selection.budgets


def funnel_section(results: Results, selection: Selection) -> Section:
    """The figure, and the table at the reference budget."""
    title = "Where the evidence was lost"
    frame = results.funnel
    if frame.empty or not known(frame["lost"].sum()) or frame["lost"].sum() == 0:
        text = "No question has gold evidence, so the place where evidence was lost cannot be told."
        return Section(title, "funnel", (Paragraph(text),))
    variants, budgets = funnel_variants(results, selection), funnel_budgets(results, selection)
    where = selection.where(selection.reference)
    rows = {
        (str(r["variant"]), str(r["stage"])): r
        for r in frame[frame["budget"] == selection.reference].to_dict("records")
    }
    stages = [s for s in STAGES if s in set(frame["stage"])]
    table = tuple(
        (cell(variant), *(_funnel_cell(rows.get((variant, s))) for s in stages))
        for variant in variants
        if any((variant, s) in rows for s in stages)
    )
    columns = (
        Column("variant", "name"),
        *(Column(s, detail=STAGES[s] if s != STAGES[s] else "") for s in stages),
    )
    panels = ", a panel for each budget" if len(budgets) > 1 else where
    blocks: list[Block] = [
        Paragraph(_lead(results)),
        Figure(
            "funnel",
            f"Per cent of questions by the first stage that lost their evidence{panels}.",
            "Stacked bars of the loss funnel; the table gives the same numbers.",
        ),
        Table(f"Questions lost at each stage, and their share{where}", columns, table),
    ]
    return Section(title, "funnel", (*blocks, *(Paragraph(note, "note") for note in _notes(results))))


def _lead(results: Results) -> str:
    totals = results.funnel.groupby(["variant", "budget"], sort=False)["lost"].sum()
    text = (
        f"Each of the {plural(int(totals.max()), 'question')} with gold evidence is counted once, at the first stage "
        "that lost it, so the shares of a variant add up to 100 %. Questions without gold evidence are in the "
        "abstention scores instead."
    )
    if SEEKS_NOTHING in set(results.funnel["variant"]):
        text += f" {SEEKS_NOTHING} looks for no evidence and has no place here."
    return text


def _notes(results: Results) -> tuple[str, ...]:
    noted = funnel_notes(results)
    outcomes = results.outcomes
    generated = outcomes.empty or (outcomes["state"] != "not_generated").any()
    if noted or generated:
        return noted
    return ("No answers were generated: “answered” means that the evidence reached the end.",)


def _funnel_cell(row: dict[Any, Any] | None) -> Cell:
    if row is None or not known(row["lost"]):
        return cell("–", tone="muted")
    if row["lost"] == 0:
        return cell("0", tone="muted")
    return cell(count(row["lost"]), share(row["share"]))
