"""The report's drawings: SVG for print and page, PNG for slides. One colour and marker for a variant in all of them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.reports.fonts import SANS, chinese_sans
from rag_lab.reports.literal import short
from rag_lab.reports.losses import STAGES
from rag_lab.reports.numbers import RESOURCE_LABELS, known, p_value, score, signed
from rag_lab.reports.selection import Selection, comparisons, decided, scores
from rag_lab.reports.spending import costs
from rag_lab.reports.verdict import SMALL_N

if TYPE_CHECKING:
    from rag_lab.results import Results

WIDTH = 6.9  # inches: the text width of an A4 page, so that print shows the fonts at their own size
# Okabe and Ito's palette, which keeps its colours apart for the common forms of colour blindness.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, SOFT, GRID = "#1f2328", "#6b7280", "#e3e5e8"
BOUND = "#8a8f98"
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
DARK_STAGES = ("ingest", "scope", "candidates", "cut", "assembly")

Place = tuple[str, str]


def draw(results: Results, selection: Selection) -> dict[str, tuple[bytes, bytes]]:
    """All figures for which there are data: name -> (SVG, PNG)."""
    painters: dict[str, Callable[[Results, Selection], Any]] = {
        "scores": draw_scores,
        "differences": draw_differences,
        "cost": draw_cost,
        "groups": draw_groups,
        "funnel": draw_funnel,
    }
    drawn: dict[str, tuple[bytes, bytes]] = {}
    with _style():
        for name, paint in painters.items():
            figure = paint(results, selection)
            if figure is not None:
                drawn[name] = _save(figure)
    return drawn


def draw_scores(results: Results, selection: Selection) -> Any:
    """A forest plot: a panel for each headline metric, a row for each variant (at each budget)."""
    rows = scores(results)
    places = _places(selection, rows)
    if not places:
        return None
    figure, axes = _panels(len(selection.headline), _height(len(places)))
    for axis, metric in zip(axes, selection.headline, strict=True):
        found = [
            (y, p, rows[(*p, metric)]) for y, p in enumerate(places) if known(rows.get((*p, metric), {}).get("value"))
        ]
        for y, (variant, _), row in found:
            _whisker(axis, row["value"], row["ci_low"], row["ci_high"], y, *_look(selection, variant))
            axis.text(row["value"], y - 0.2, score(row["value"]), ha="center", va="bottom", fontsize=7.5, color=INK)
        _forest_axis(axis, places, selection, metric)
        high = max((row["ci_high"] for _, _, row in found if known(row["ci_high"])), default=1.0)
        low = min((row["ci_low"] for _, _, row in found if known(row["ci_low"])), default=0.0)
        margin = max(0.08 * (high - low), 0.02)
        axis.set_xlim(low - margin, high + margin)
    return figure


def draw_differences(results: Results, selection: Selection) -> Any:
    """Differences to the baseline; hollow where they cannot be told from zero."""
    rows = comparisons(results, selection.baseline)
    places = [p for p in _places(selection, rows) if p[0] != selection.baseline and p[0] in selection.contenders]
    metrics = [m for m in selection.headline if any(known(rows.get((*p, m), {}).get("delta")) for p in places)]
    if not metrics:
        return None
    figure, axes = _panels(len(metrics), _height(len(places)))
    for axis, metric in zip(axes, metrics, strict=True):
        axis.axvline(0, color=INK, linewidth=0.8, zorder=1)
        reach = 0.02
        for y, (variant, budget) in enumerate(places):
            row = rows.get((variant, budget, metric))
            if row is None or not known(row["delta"]):
                continue
            colour, marker = _look(selection, variant)
            filled = decided(row, selection.alpha) != 0
            _whisker(axis, row["delta"], row["ci_low"], row["ci_high"], y, colour, marker, filled)
            label = f"{signed(row['delta'])}   p_holm {p_value(row['p_holm'], selection.alpha)}"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
            axis.text(row["delta"], y - 0.22, label, ha="center", va="bottom", fontsize=7.5, color=INK, bbox=box)
            reach = max([reach] + [abs(row[k]) for k in ("delta", "ci_low", "ci_high") if known(row[k])])
        _forest_axis(axis, places, selection, metric)
        axis.set_xlabel(f"difference to {short(selection.baseline, 20)}")
        axis.set_xlim(-1.35 * reach, 1.35 * reach)
    return figure


def draw_cost(results: Results, selection: Selection) -> Any:
    """The last headline metric against mean use, a panel for each resource; lines join the budgets of a variant."""
    metric, shown = selection.headline[-1], costs(results, selection)
    rows = scores(results)
    use = {
        (str(r["variant"]), str(r["budget"]), str(r["resource"])): r["mean"]
        for r in results.budget_use.to_dict("records")
    }
    if not shown or not any(known(rows.get((v, b, metric), {}).get("value")) for v, b in _places(selection, rows)):
        return None
    figure, axes = _grid(len(shown))
    for index, (axis, resource) in enumerate(zip(axes, shown, strict=True)):
        for variant in selection.variants:
            points = [
                (use[(variant, b, resource)], rows[(variant, b, metric)])
                for b in selection.budgets
                if known(use.get((variant, b, resource))) and known(rows.get((variant, b, metric), {}).get("value"))
            ]
            if points:
                _frontier(axis, points, variant, selection, label=short(variant, 24) if index == 0 else None)
        axis.set_xlabel(_resource_axis(resource))
        axis.grid(color=GRID, linewidth=0.6)
        axis.margins(0.12)
        axis.locator_params(axis="x", nbins=4)
        axis.set_ylabel(metric if index % 3 == 0 else "")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper left", ncols=min(6, len(labels)), frameon=False, handletextpad=0.4
    )
    return figure


def _frontier(
    axis: Any, points: list[tuple[float, dict[str, Any]]], variant: str, selection: Selection, label: Any
) -> None:
    points = sorted(points, key=lambda pair: pair[0])
    colour, marker = _look(selection, variant)
    x = [p[0] for p in points]
    y = np.array([p[1]["value"] for p in points], dtype=float)
    low = np.array([p[1]["ci_low"] for p in points], dtype=float)
    high = np.array([p[1]["ci_high"] for p in points], dtype=float)
    error = np.nan_to_num(np.vstack([y - low, high - y])).clip(min=0)
    axis.errorbar(
        x,
        y,
        yerr=error,
        color=colour,
        marker=marker,
        markersize=5,
        linewidth=1.4,
        elinewidth=0.9,
        capsize=0,
        label=label,
    )


def draw_groups(results: Results, selection: Selection) -> Any:
    """A table of shaded means, groups by variants, a panel for each headline metric, at one budget."""
    if not selection.groups:
        return None
    budget = selection.reference
    by_group = {g: scores(results, group=g) for g in selection.groups}
    panels = []
    groups = [
        g
        for g in selection.groups
        if any(known(r["value"]) for (_, b, m), r in by_group[g].items() if b == budget and m in selection.headline)
    ]
    for metric in selection.headline:
        variants = [v for v in selection.variants if any((v, budget, metric) in rows for rows in by_group.values())]
        if variants:
            panels.append((metric, variants))
    if not panels:
        return None
    widths = [len(variants) for _, variants in panels]
    figure, axes = _panels(len(panels), 0.62 + 0.27 * len(groups) + 0.75, widths)
    sizes = dict(results.dataset.get("groups", {}))
    for axis, (metric, variants) in zip(axes, panels, strict=True):
        values = np.array(
            [[_value(by_group[g].get((v, budget, metric))) for v in variants] for g in groups], dtype=float
        )
        axis.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0, vmax=1.15, aspect="auto")
        for (i, j), value in np.ndenumerate(values):
            text, colour = ("–", SOFT) if np.isnan(value) else (f"{value:.2f}", "white" if value > 0.68 else INK)
            axis.text(j, i, text, ha="center", va="center", fontsize=7.5, color=colour)
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
    """Stacked bars of the share of questions by the first stage that lost their evidence."""
    frame = results.funnel
    shares = {
        (str(r["variant"]), str(r["budget"]), str(r["stage"])): float(r["share"])
        for r in frame.to_dict("records")
        if known(r["share"])
    }
    places = _places(selection, shares)
    stages = [s for s in STAGES if any(shares.get((*p, s), 0) > 0 for p in places)]
    if not stages:
        return None
    figure, axes = _panels(1, _height(len(places)) + 0.35)
    axis = axes[0]
    for y, place in enumerate(places):
        left = 0.0
        for stage in stages:
            width = shares.get((*place, stage), 0.0)
            axis.barh(y, width, left=left, height=0.66, color=STAGE_COLOURS[stage], edgecolor="white", linewidth=0.8)
            if width >= 0.045:
                colour = "white" if stage in DARK_STAGES else INK
                axis.text(
                    left + width / 2, y, f"{100 * width:.0f} %", ha="center", va="center", fontsize=7.5, color=colour
                )
            left += width
    _forest_axis(axis, places, selection, "")
    axis.set_ylim(len(places) - 0.5, -0.5)
    axis.set_xlim(0, 1)
    axis.set_xticks(np.linspace(0, 1, 6), [f"{t} %" for t in range(0, 101, 20)])
    axis.set_xlabel("share of the questions with gold evidence")
    axis.grid(visible=False)
    patches = [_patch(STAGE_COLOURS[s], f"{s}: {STAGES[s]}" if s != "answered" else s) for s in stages]
    figure.legend(handles=patches, loc="outside upper left", ncols=3, frameon=False, handlelength=1.0, handleheight=1.0)
    return figure


# --- parts ------------------------------------------------------------------------------------------------------------


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib
    from matplotlib import font_manager

    families = ["DejaVu Sans"]
    chinese = chinese_sans()
    if chinese is not None:
        if SANS not in font_manager.fontManager.get_font_names():
            font_manager.fontManager.addfont(str(chinese))
        families = [SANS, *families]
    settings = {
        "font.family": families,
        "font.size": 8.5,
        "axes.titlesize": 9.5,
        "axes.labelsize": 8.5,
        "axes.labelcolor": SOFT,
        "axes.edgecolor": GRID,
        "axes.titlecolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": SOFT,
        "ytick.color": INK,
        "xtick.labelsize": 8,
        "ytick.labelsize": 8.5,
        "legend.fontsize": 8,
        "text.parse_math": False,
        "axes.unicode_minus": True,
        "svg.hashsalt": "rag-lab",
        "svg.fonttype": "path",
        "savefig.dpi": 160,
    }
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Glyph.*missing.*")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(settings)
        yield


def _save(figure: Any) -> tuple[bytes, bytes]:
    svg, png = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", metadata={"Software": None})
    return svg.getvalue(), png.getvalue()


def _panels(n: int, height: float, widths: list[int] | None = None) -> tuple[Any, list[Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, n, sharey=True, squeeze=False, width_ratios=widths)
    return figure, list(axes[0])


def _grid(n: int) -> tuple[Any, list[Any]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns, rows = min(n, 3), -(-n // 3)
    figure = Figure(figsize=(WIDTH, 0.35 + 2.1 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for spare in axes[n:]:
        spare.set_visible(False)
    return figure, list(axes[:n])


def _height(rows: int) -> float:
    return 0.85 + rows * min(0.36, 8 / rows)


def _places(selection: Selection, rows: dict[tuple[str, str, str], Any]) -> list[Place]:
    have = {(variant, budget) for variant, budget, _ in rows}
    return [(v, b) for v in selection.variants for b in selection.budgets if (v, b) in have]


def _look(selection: Selection, variant: str) -> tuple[str, str]:
    if variant in selection.bounds:
        return BOUND, "x" if variant == "no_retrieval" else "*"
    index = selection.contenders.index(variant)
    return PALETTE[index % len(PALETTE)], MARKERS[(index + index // len(PALETTE)) % len(MARKERS)]


def _whisker(
    axis: Any, value: float, low: Any, high: Any, y: float, colour: str, marker: str, filled: bool = True
) -> None:
    if known(low) and known(high):
        axis.plot([low, high], [y, y], color=colour, linewidth=1.6, solid_capstyle="round", zorder=2)
    face = colour if filled else "white"
    axis.plot([value], [y], marker, color=colour, markerfacecolor=face, markersize=5.5, markeredgewidth=1.3, zorder=3)


def _forest_axis(axis: Any, places: list[Place], selection: Selection, title: str) -> None:
    labels = [
        f"{short(v, 22)} @ {short(selection.label(b), 24)}" if selection.sweep else short(v, 22) for v, b in places
    ]
    axis.set_yticks(range(len(places)), labels)
    axis.set_ylim(len(places) - 0.4, -0.75)
    axis.set_title(title, loc="left")
    axis.grid(axis="x", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    axis.locator_params(axis="x", nbins=5)
    axis.spines["left"].set_visible(False)


def _group_label(group: str, size: Any) -> str:
    n = f" ({size}{'*' if size < SMALL_N else ''})" if isinstance(size, int) else ""
    return short(group, 26) + n


def _value(row: dict[str, Any] | None) -> float:
    return float(row["value"]) if row is not None and known(row["value"]) else float("nan")


def _resource_axis(resource: str) -> str:
    label = RESOURCE_LABELS[resource]
    return label if resource == "latency_ms" else f"{label} per question"


def _patch(colour: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, label=label)
