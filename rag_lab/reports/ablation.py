"""The section on an ablation: which stage earned the gain, as a table and a waterfall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.blocks import Cell, Column, Figure, Paragraph, Section, Table, Tone, cell
from rag_lab.reports.numbers import DASH, count, interval, known, p_value, score, signed
from rag_lab.reports.selection import Selection

if TYPE_CHECKING:
    from rag_lab.results import Results

Row = dict[str, Any]


def ablation_metrics(results: Results, selection: Selection) -> tuple[str, ...]:
    """The headline metrics that the ablation has."""
    have = set(results.ablation["metric"])
    return tuple(metric for metric in selection.headline if metric in have)


def ablation_rows(results: Results, metric: str) -> list[Row]:
    """The steps on one metric, in order."""
    frame = results.ablation
    return [
        {str(key): value for key, value in row.items()} for row in frame[frame["metric"] == metric].to_dict("records")
    ]


def ablation_section(results: Results, selection: Selection) -> tuple[Section, ...]:
    """One section, none for an experiment without an ablation."""
    metrics = ablation_metrics(results, selection)
    if not metrics:
        return ()
    whole = str((results.experiment.get("ablation") or {}).get("variant", ""))
    text = (
        f"The variant {whole} with one stage left out at a time, each against the whole; and built up one stage at a "
        "time, each against the step before. The same questions, seeds and budget throughout; paired by question, "
        "Holm's correction over the steps of one block. A change of the number of queries, the reranker, the context "
        "tokens or the generator is an intervention of its own and named so."
    )
    figure = Figure(
        "ablation",
        f"Steps from the first channel to the whole variant, and what leaving each stage out does, with "
        f"{selection.confidence} intervals of the differences; pale where the difference cannot be told from zero.",
        "A waterfall for each headline metric; the tables give the same numbers.",
    )
    tables = [_table(metric, ablation_rows(results, metric), selection) for metric in metrics]
    return (Section("Which stage earned it", "ablation", (Paragraph(text), figure, *tables)),)


def _table(metric: str, rows: list[Row], selection: Selection) -> Table:
    breaks = tuple(i for i in range(1, len(rows)) if rows[i]["direction"] != rows[i - 1]["direction"])
    columns = (
        Column("step", "name"),
        Column("intervention", "name"),
        Column(metric),
        Column("difference"),
        Column("p (Holm)", "count"),
        Column("n", "count"),
    )
    notes = [note for note in dict.fromkeys(str(row["note"]) for row in rows) if note]
    return Table(
        f"{metric}, step by step", columns, tuple(_line(row, selection) for row in rows), "; ".join(notes), breaks
    )


def _line(row: Row, selection: Selection) -> tuple[Cell, ...]:
    value = cell(score(row["value"]), interval(row["ci_low"], row["ci_high"]))
    step = cell(str(row["step"]), str(row["direction"]))
    if not known(row["delta"]):
        return step, cell(str(row["intervention"]) or DASH), value, cell(DASH), cell(DASH), cell(count(row["n"]))
    tone: Tone = ""
    if row["p_holm"] <= selection.alpha:
        tone = "good" if row["delta"] > 0 else "bad"
    delta = cell(signed(row["delta"]), interval(row["delta_low"], row["delta_high"]), tone=tone)
    p = cell(p_value(row["p_holm"], selection.alpha))
    return step, cell(str(row["intervention"])), value, delta, p, cell(count(row["n"]))
