"""The section on the place of the evidence: the answer score with the gold passages first, in the middle and last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.generation.support import RANK
from rag_lab.reports.blocks import Block, Cell, Column, Figure, Paragraph, Section, Table, cell
from rag_lab.reports.canvas import GRID, INK, MARKERS, PALETTE, errors, grid, legend_above
from rag_lab.reports.numbers import count, known, score
from rag_lab.reports.scoring import score_cell
from rag_lab.reports.selection import FAMILIES, Selection, comparisons, scores
from rag_lab.variants.variant import PLACES

if TYPE_CHECKING:
    from rag_lab.results import Results

TICKS = dict(zip(PLACES, ("start", "middle", "end"), strict=True))
CONTEXT = "GoldInContext"


def placement_variants(results: Results) -> dict[str, tuple[str, ...]]:
    """The variants that place the gold, in the order of the places, by the snapshot that they search ("" for one)."""
    found: dict[str, list[str]] = {}
    for name in sorted(map(str, results.variants), key=lambda name: [*PLACES, ""].index(_place(name))):
        if _place(name):
            found.setdefault(name.partition("@")[2], []).append(name)
    return {snapshot: tuple(names) for snapshot, names in found.items() if len(names) > 1}


def _place(name: str) -> str:
    plain = name.partition("@")[0]
    return plain if plain in PLACES else ""


def placement_metrics(results: Results) -> tuple[str, ...]:
    """The metrics on answers that these variants have."""
    names = {name for several in placement_variants(results).values() for name in several}
    have = {metric for variant, _, metric in scores(results) if variant in names}
    return tuple(metric for metric in FAMILIES["Answers"] if metric in have)


def placement_section(results: Results, selection: Selection) -> tuple[Section, ...]:
    """One section, none for an experiment that does not place the gold or gets no answers."""
    metrics = placement_metrics(results)
    if not metrics:
        return ()
    where = selection.where(selection.reference)
    blocks: list[Block] = [
        Paragraph(
            "The gold passages stand at the start, in the middle and at the end of contexts that are equal otherwise: "
            "the same passages, the same reader. So a difference between places is the reader's, and none of these "
            "figures says how good a retriever is, for the evidence was put there by the judgments."
        ),
        *([Paragraph(_about_the_extractive_reader())] if _extractive(results) else []),
        Figure(
            "placement",
            f"{' and '.join(metrics)} by the place of the gold passages, with {selection.confidence} intervals.",
            f"{metrics[0]} by place{where}: {_in_words(results, selection, metrics[0])}.",
        ),
        _table(results, selection, (*metrics, CONTEXT)),
    ]
    return (Section("The place of the evidence", "placement", tuple(blocks)),)


def _extractive(results: Results) -> bool:
    return str((results.experiment.get("generator") or {}).get("name", "")) == "extractive"


def _about_the_extractive_reader() -> str:
    return (
        "The extractive reader is nearly insensitive to place by construction: it scores each sentence by itself and "
        f"adds {RANK:g}/n for the number n of its passage, so of two sentences that support the question about equally "
        "the earlier one is quoted. What the figures show is that rule. They say nothing about a language model, which "
        "reads a context as a whole; run the study with one to learn that."
    )


def _in_words(results: Results, selection: Selection, metric: str) -> str:
    rows = scores(results)
    return ", ".join(
        f"{variant} {score(row['value'])}"
        for several in placement_variants(results).values()
        for variant in several
        if (row := rows.get((variant, selection.reference, metric))) is not None
    )


def _table(results: Results, selection: Selection, metrics: tuple[str, ...]) -> Table:
    rows, tests = scores(results), comparisons(results, selection.baseline)
    shown = [metric for metric in metrics if any(metric == found for _, _, found in rows)]
    lines: list[tuple[Cell, ...]] = []
    breaks: list[int] = []
    for budget in selection.budgets:
        for several in placement_variants(results).values():
            breaks.append(len(lines))
            for variant in several:
                found = [rows.get((variant, budget, metric)) for metric in shown]
                own = next((row for row in found if row is not None), None)
                if own is None:
                    continue
                cells = [
                    score_cell(row, tests.get((variant, budget, metric)), selection, len(shown) < 4, "")
                    for metric, row in zip(shown, found, strict=True)
                ]
                label = (cell(selection.label(budget)),) if selection.sweep else ()
                lines.append((*label, cell(variant), *cells, cell(count(own["n"])), cell(count(own["n_abstained"]))))
    columns = (
        *([Column("budget", "name")] if selection.sweep else []),
        Column("variant", "name"),
        *(Column(metric) for metric in shown),
        Column("n", "count"),
        Column("abstained", "count"),
    )
    marks = f"▲ and ▼: better or worse than {selection.baseline}, paired by question. " if _tested(selection) else ""
    note = f"{marks}n and abstentions are those of {shown[0]}."
    return Table("Answer scores by place of the gold passages", columns, tuple(lines), note, tuple(breaks[1:]))


def _tested(selection: Selection) -> bool:
    """Whether the places were compared with one another."""
    return bool(_place(selection.baseline))


def draw_placement(results: Results, selection: Selection) -> Any:
    """A panel for each metric on answers, a line for each budget and snapshot, a point with its interval a place."""
    metrics = placement_metrics(results)
    if not metrics:
        return None
    rows, groups = scores(results), placement_variants(results)
    lines = [(snapshot, budget) for snapshot in groups for budget in selection.budgets]
    figure, axes, _ = grid(len(metrics), 2.2, 0.3, shared=False)
    for axis, metric in zip(axes, metrics, strict=True):
        for i, (snapshot, budget) in enumerate(lines):
            found = [(TICKS[_place(v)], rows.get((v, budget, metric))) for v in groups[snapshot]]
            measured = [(tick, row) for tick, row in found if row is not None and known(row["value"])]
            shift = 0.06 * (i - (len(lines) - 1) / 2)
            axis.errorbar(
                [list(TICKS.values()).index(tick) + shift for tick, _ in measured],
                [row["value"] for _, row in measured],
                yerr=errors([row for _, row in measured]),
                color=PALETTE[i % len(PALETTE)] if len(lines) > 1 else INK,
                marker=MARKERS[i % len(MARKERS)],
                label=", ".join(filter(None, [snapshot, selection.label(budget) if selection.sweep else ""])),
                markersize=5,
                linewidth=1,
                capsize=3,
            )
        axis.set_xticks(range(len(TICKS)), list(TICKS.values()))
        axis.set_xlabel("place of the gold passages")
        axis.set_title(metric, loc="left")
        axis.grid(color=GRID, linewidth=0.6)
        axis.margins(x=0.15)
    if len(lines) > 1:
        legend_above(figure, axes)
    return figure
