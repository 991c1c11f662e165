"""The report's drawings: SVG for print and page, PNG for slides. One colour and marker for a variant in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.reports.ablation import ablation_metrics, ablation_rows
from rag_lab.reports.canvas import (
    GRID,
    INK,
    SOFT,
    errors,
    grid,
    height_of,
    legend_above,
    look,
    name_rows,
    panels,
    plain_number,
    saved,
    style,
    whisker,
)
from rag_lab.reports.literal import short
from rag_lab.reports.losses import SEEKS_NOTHING, STAGES, funnel_budgets, funnel_variants
from rag_lab.reports.numbers import amount, known, p_value, resource_heading, score, signed
from rag_lab.reports.placement import draw_placement
from rag_lab.reports.selection import Selection, cap_of, comparisons, decided, scores
from rag_lab.reports.settings import draw_settings
from rag_lab.reports.spending import costs
from rag_lab.reports.sweep import changing
from rag_lab.reports.verdict import SMALL_N

if TYPE_CHECKING:
    from rag_lab.results import Results

STAGE_COLOURS = {
    "ingest": "#3b0f70",
    "scope": "#641a80",
    "candidates": "#8c2981",
    "cut": "#b73779",
    "assembly": "#de4968",
    "generation": "#f7705c",
    "citation": "#fec287",
    "answered": "#9fd3c7",
}
UP, DOWN = "#009E73", "#D55E00"
ROOMY = 18
"""Shaded cells in a row that leave room for a whole number each; more of them are written smaller, as .79."""
DARK_STAGES = ("ingest", "scope", "candidates", "cut", "assembly")


def draw(results: Results, selection: Selection) -> dict[str, tuple[bytes, bytes]]:
    """All figures for which there are data: name -> (SVG, PNG)."""
    painters: dict[str, Callable[[Results, Selection], Any]] = {
        "scores": draw_scores,
        "differences": draw_differences,
        "ablation": draw_ablation,
        "placement": draw_placement,
        "settings": draw_settings,
        "budgets": draw_budgets,
        "cost": draw_cost,
        "groups": draw_groups,
        "funnel": draw_funnel,
    }
    drawn: dict[str, tuple[bytes, bytes]] = {}
    with style():
        for name, paint in painters.items():
            figure = paint(results, selection)
            if figure is not None:
                drawn[name] = saved(figure)
    return drawn


def draw_scores(results: Results, selection: Selection) -> Any:
    """A forest plot at the reference budget: a panel for each headline metric, a row for each variant."""
    rows, budget = scores(results), selection.reference
    variants = _variants(selection, rows)
    if not variants:
        return None
    figure, axes = panels(len(selection.headline), height_of(len(variants)))
    for axis, metric in zip(axes, selection.headline, strict=True):
        found = [
            (y, v, rows[(v, budget, metric)])
            for y, v in enumerate(variants)
            if known(rows.get((v, budget, metric), {}).get("value"))
        ]
        for y, variant, row in found:
            whisker(axis, row["value"], row["ci_low"], row["ci_high"], y, *look(selection, variant))
            axis.text(row["value"], y - 0.2, score(row["value"]), ha="center", va="bottom", fontsize=7.5, color=INK)
        name_rows(axis, variants, metric)
        high = max((row["ci_high"] for _, _, row in found if known(row["ci_high"])), default=1.0)
        low = min((row["ci_low"] for _, _, row in found if known(row["ci_low"])), default=0.0)
        margin = max(0.08 * (high - low), 0.02)
        axis.set_xlim(low - margin, high + margin)
    return figure


def draw_differences(results: Results, selection: Selection) -> Any:
    """Differences to the baseline at the reference budget; hollow where they cannot be told from zero."""
    rows, budget = comparisons(results, selection.baseline), selection.reference
    variants = [v for v in _variants(selection, rows) if v != selection.baseline and v in selection.contenders]
    metrics = [m for m in selection.headline if any(known(rows.get((v, budget, m), {}).get("delta")) for v in variants)]
    if not metrics:
        return None
    figure, axes = panels(len(metrics), height_of(len(variants)) + 0.25)
    for axis, metric in zip(axes, metrics, strict=True):
        axis.axvline(0, color=INK, linewidth=0.8, zorder=1)
        reach = 0.02
        for y, variant in enumerate(variants):
            row = rows.get((variant, budget, metric))
            if row is None or not known(row["delta"]):
                continue
            colour, marker = look(selection, variant)
            filled = decided(row, selection.alpha) != 0
            whisker(axis, row["delta"], row["ci_low"], row["ci_high"], y, colour, marker, filled)
            label = f"{signed(row['delta'])}   p_holm {p_value(row['p_holm'], selection.alpha)}"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            axis.text(row["delta"], y - 0.22, label, ha="center", va="bottom", fontsize=7.5, color=INK, bbox=box)
            reach = max([reach] + [abs(row[k]) for k in ("delta", "ci_low", "ci_high") if known(row[k])])
        name_rows(axis, variants, metric)
        axis.set_xlabel(f"difference to {short(selection.baseline, 20)}")
        axis.set_xlim(-1.35 * reach, 1.35 * reach)
    return figure


def draw_ablation(results: Results, selection: Selection) -> Any:
    """For each headline metric a waterfall: the chain from one stage to all, then each stage left out of the whole."""
    metrics = ablation_metrics(results, selection)
    if not metrics:
        return None
    rows = {metric: ablation_rows(results, metric) for metric in metrics}
    figure, axes = panels(len(metrics), height_of(max(map(len, rows.values()))) + 0.2)
    for axis, metric in zip(axes, metrics, strict=True):
        found = sorted(rows[metric], key=lambda row: row["direction"] != "add one")
        for y, row in enumerate(found):
            _step(axis, y, row, selection)
        name_rows(axis, [str(row["step"]) for row in found], metric)
        low = min(row["value"] - max(row["delta"] if known(row["delta"]) else 0, 0) for row in found)
        high = max(row["value"] - min(row["delta"] if known(row["delta"]) else 0, 0) for row in found)
        margin = max(0.15 * (high - low), 0.02)
        axis.set_xlim(max(0, low - 2 * margin), high + 3 * margin)
        axis.grid(axis="x", color=GRID, linewidth=0.6)
    return figure


def _step(axis: Any, y: int, row: dict[str, Any], selection: Selection) -> None:
    """A bar from the value before to the value after, or a tick where there is nothing before."""
    value = row["value"]
    if not known(row["delta"]):
        axis.plot([value, value], [y - 0.3, y + 0.3], color=INK, linewidth=2)
        axis.text(value, y, f"  {score(value)}", va="center", fontsize=7.5, color=INK)
        return
    sure = row["p_holm"] <= selection.alpha
    colour = (UP if row["delta"] > 0 else DOWN) if sure else SOFT
    start = value - row["delta"]
    axis.barh(y, row["delta"], left=start, height=0.6, color=colour, alpha=1.0 if sure else 0.35)
    axis.plot([start + row["delta_low"], start + row["delta_high"]], [y, y], color=INK, linewidth=0.9)
    right = max(value, start, start + row["delta_high"])
    axis.text(right, y, f"  {signed(row['delta'])}", va="center", fontsize=7.5, color=INK)


def draw_budgets(results: Results, selection: Selection) -> Any:
    """The frontier of a sweep: metrics that feel the budget against the swept cap, a line for each variant."""
    metrics = changing(results, selection)
    if not metrics:
        return None
    rows = scores(results)
    positions, ticks = _cap_axis(results, selection)
    step = 0.018 * (max(positions) - min(positions))
    figure, axes, _ = grid(len(metrics), 2.2, 0.3, shared=False)
    for axis, metric in zip(axes, metrics, strict=True):
        variants = _variants(selection, {key: row for key, row in rows.items() if key[2] == metric})
        for variant in (v for v in variants if v != SEEKS_NOTHING):
            points = [(x, rows.get((variant, b, metric))) for x, b in zip(positions, selection.budgets, strict=True)]
            measured = [(x, row) for x, row in points if row is not None and known(row["value"])]
            shift = step * (selection.variants.index(variant) - (len(selection.variants) - 1) / 2)
            _line(axis, [x + shift for x, _ in measured], [row for _, row in measured], variant, selection)
        axis.set_xticks(positions, ticks)
        axis.set_xlabel(f"cap: {resource_heading(selection.swept)}" if selection.swept else "budget")
        axis.set_title(metric, loc="left")
        axis.grid(color=GRID, linewidth=0.6)
        axis.margins(x=0.08)
    legend_above(figure, axes)
    return figure


def _cap_axis(results: Results, selection: Selection) -> tuple[list[float], list[str]]:
    """Where each budget stands: at its cap, at the cap's logarithm in a wide sweep, in equal steps without one cap."""
    if not selection.swept:
        return [float(i) for i in range(len(selection.budgets))], [short(b, 24) for b in selection.budgets]
    caps = [cap_of(results, b, selection.swept) for b in selection.budgets]
    ticks = ["open" if math.isinf(cap) else amount(cap, selection.swept) for cap in caps]
    if any(math.isinf(cap) or cap <= 0 for cap in caps):
        return [float(i) for i in range(len(caps))], ticks
    return ([math.log(cap) for cap in caps] if max(caps) >= 4 * min(caps) else caps), ticks


def draw_cost(results: Results, selection: Selection) -> Any:
    """The outcome against mean use, a panel for each resource; lines join the budgets of a variant."""
    metric, shown = selection.outcome, costs(results, selection)
    rows = scores(results)
    use = {
        (str(r["variant"]), str(r["budget"]), str(r["resource"])): r["mean"]
        for r in results.budget_use.to_dict("records")
    }
    variants = _variants(selection, {key: row for key, row in rows.items() if key[2] == metric and known(row["value"])})
    if not shown or not variants:
        return None
    figure, axes, columns = grid(len(shown), 1.85, 0.25, across=5 if len(shown) <= 5 else 4)
    for index, (axis, resource) in enumerate(zip(axes, shown, strict=True)):
        factor = 1000 if resource == "usd" else 1
        for variant in variants:
            points = [
                (factor * use[(variant, b, resource)], rows[(variant, b, metric)])
                for b in selection.budgets
                if known(use.get((variant, b, resource))) and known(rows.get((variant, b, metric), {}).get("value"))
            ]
            points.sort(key=lambda pair: pair[0])
            _line(axis, [x for x, _ in points], [row for _, row in points], variant, selection)
        axis.set_xlabel(resource_heading(resource).replace("USD per ", "USD per\n"))
        axis.grid(color=GRID, linewidth=0.6)
        axis.margins(0.12)
        axis.locator_params(axis="x", nbins=3)
        axis.xaxis.set_major_formatter(plain_number)
        axis.set_ylabel(metric if index % columns == 0 else "")
    legend_above(figure, axes)
    return figure


def _line(axis: Any, x: Sequence[float], rows: Sequence[dict[str, Any]], variant: str, selection: Selection) -> None:
    """The means of one variant, with their intervals standing, joined by a line."""
    if not rows:
        return
    colour, marker = look(selection, variant)
    axis.errorbar(
        list(x),
        [row["value"] for row in rows],
        yerr=errors(rows),
        color=colour,
        marker=marker,
        markersize=4.5,
        linewidth=1.3,
        elinewidth=0.8,
        capsize=0,
        label=short(variant, 24),
    )


def draw_groups(results: Results, selection: Selection) -> Any:
    """A table of shaded means, groups by variants, a panel for each headline metric, at one budget."""
    if not selection.groups:
        return None
    budget = selection.reference
    by_group = {g: scores(results, group=g) for g in selection.groups}
    drawn = []
    groups = [
        g
        for g in selection.groups
        if any(known(r["value"]) for (_, b, m), r in by_group[g].items() if b == budget and m in selection.headline)
    ]
    for metric in selection.headline:
        variants = [v for v in selection.variants if any((v, budget, metric) in rows for rows in by_group.values())]
        if variants:
            drawn.append((metric, variants))
    if not drawn:
        return None
    figure, axes = panels(len(drawn), 0.62 + 0.23 * len(groups) + 0.6, [len(variants) for _, variants in drawn])
    sizes = dict(results.dataset.get("groups", {}))
    crowded = sum(len(variants) for _, variants in drawn) > ROOMY
    for axis, (metric, variants) in zip(axes, drawn, strict=True):
        values = np.array(
            [[_value(by_group[g].get((v, budget, metric))) for v in variants] for g in groups], dtype=float
        )
        axis.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0, vmax=1.15, aspect="auto")
        for (i, j), value in np.ndenumerate(values):
            text, colour = ("–", SOFT) if np.isnan(value) else (f"{value:.2f}", "white" if value > 0.68 else INK)
            text, size = (text.removeprefix("0"), 6) if crowded else (text, 7.5)
            axis.text(j, i, text, ha="center", va="center", fontsize=size, color=colour)
        axis.set_xticks(
            range(len(variants)), [short(v, 18) for v in variants], rotation=40, ha="right", rotation_mode="anchor"
        )
        axis.set_yticks(range(len(groups)), [_group_label(g, sizes.get(g)) for g in groups])
        axis.set_title(metric, loc="left")
        axis.tick_params(length=0)
        for spine in axis.spines.values():
            spine.set_visible(False)
        axis.set_xticks(np.arange(-0.5, len(variants)), minor=True)
        axis.set_yticks(np.arange(-0.5, len(groups)), minor=True)
        axis.grid(which="minor", color="white", linewidth=1.5)
        axis.tick_params(which="minor", length=0)
    return figure


def draw_funnel(results: Results, selection: Selection) -> Any:
    """Stacked bars of the first stage that lost the evidence; a panel for each budget when they differ."""
    shares = {
        (str(r["variant"]), str(r["budget"]), str(r["stage"])): float(r["share"])
        for r in results.funnel.to_dict("records")
        if known(r["share"])
    }
    variants, budgets = funnel_variants(results, selection), funnel_budgets(results, selection)
    stages = [s for s in STAGES if any(shares.get((v, b, s), 0) > 0 for v in variants for b in budgets)]
    if not stages:
        return None
    figure, axes, _ = grid(len(budgets), height_of(len(variants)), 0.3)
    least = 0.045 * min(len(budgets), 3)
    for index, (axis, budget) in enumerate(zip(axes, budgets, strict=True)):
        for y, variant in enumerate(variants):
            left = 0.0
            for stage in stages:
                width = shares.get((variant, budget, stage), 0.0)
                colour = STAGE_COLOURS[stage]
                axis.barh(y, width, left=left, height=0.66, color=colour, edgecolor="white", linewidth=0.8)
                if width >= least:
                    ink = "white" if stage in DARK_STAGES else INK
                    axis.text(
                        left + width / 2, y, f"{100 * width:.0f}", ha="center", va="center", fontsize=7.5, color=ink
                    )
                left += width
        name_rows(axis, variants, selection.label(budget) if len(budgets) > 1 else "")
        axis.set_ylim(len(variants) - 0.5, -0.5)
        axis.set_xlim(0, 1)
        axis.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
        if index == 0:
            axis.set_xlabel("per cent of the questions with gold evidence", loc="left")
        axis.grid(visible=False)
    patches = [_patch(STAGE_COLOURS[s], f"{s}: {STAGES[s]}" if s != STAGES[s] else s) for s in stages]
    figure.legend(handles=patches, loc="outside upper left", ncols=3, frameon=False, handlelength=1.0, handleheight=1.0)
    return figure


def _variants(selection: Selection, rows: dict[tuple[str, str, str], Any]) -> list[str]:
    """Variants that have a row at the reference budget."""
    have = {variant for variant, budget, _ in rows if budget == selection.reference}
    return [v for v in selection.variants if v in have]


def _group_label(group: str, size: Any) -> str:
    n = f" ({size}{'*' if size < SMALL_N else ''})" if isinstance(size, int) else ""
    return short(group, 26) + n


def _value(row: dict[str, Any] | None) -> float:
    return float(row["value"]) if row is not None and known(row["value"]) else float("nan")


def _patch(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, label=label)
