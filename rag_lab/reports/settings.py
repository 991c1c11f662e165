"""Variants that differ in one number alone, such as the depth of a reranker: what each value of it brings and costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from rag_lab.metrics.ceiling import RECALL, ceiling_name
from rag_lab.reports.blocks import Cell, Column, Figure, Paragraph, Section, Table, cell
from rag_lab.reports.canvas import GRID, MARKERS, PALETTE, errors, grid, legend_above, plain_number
from rag_lab.reports.literal import short
from rag_lab.reports.numbers import amount, known, resource_heading
from rag_lab.reports.scoring import score_cell
from rag_lab.reports.selection import Selection, comparisons, scores

if TYPE_CHECKING:
    from rag_lab.results import Results

LEAST = 3
"""Values that make a row of variants."""
COSTS = ("latency_ms", "usd")
WIDE = 4
"""Values of which the largest is so many times the smallest stand on a logarithmic axis."""

Points = tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class SettingSweep:
    """A setting of a stage, and rows of variants that are alike but for it: each row is values, rising, with names."""

    stage: str
    setting: str
    rows: tuple[Points, ...]

    @property
    def variants(self) -> list[str]:
        """All names, row by row."""
        return [name for points in self.rows for _, name in points]

    @property
    def values(self) -> list[float]:
        """All values, rising."""
        return sorted({value for points in self.rows for value, _ in points})


def setting_sweep(results: Results, selection: Selection) -> SettingSweep | None:
    """The setting in which most variants differ, None where fewer than three differ in nothing but one number."""
    alike: dict[tuple[str, str], dict[str, list[tuple[float, str]]]] = {}
    for variant in selection.contenders:
        for place, value, rest in _numbers(results.variants[variant]):
            snapshot = variant.partition("@")[2]
            alike.setdefault(place, {}).setdefault(f"{rest} {snapshot}", []).append((value, variant))
    found = []
    for (stage, setting), groups in alike.items():
        rows = [tuple(sorted(points)) for points in groups.values() if len({value for value, _ in points}) >= LEAST]
        if rows:
            found.append(SettingSweep(stage, setting, tuple(rows)))
    return max(found, key=lambda sweep: len(sweep.variants), default=None)


def _numbers(stages: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], float, str]]:
    """Every number among the settings of a variant: its stage and name, its value, and all the rest as text."""
    plain = [(stage, dict(settings or {})) for entry in stages for stage, settings in entry.items()]
    for stage, settings in plain:
        for name, value in settings.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                others = [
                    (other, sorted((k, repr(v)) for k, v in own.items() if (other, k) != (stage, name)))
                    for other, own in plain
                ]
                yield (stage, name), float(value), repr(others)


def settings_section(results: Results, selection: Selection) -> tuple[Section, ...]:
    """One section, none where no variants differ in one number alone."""
    sweep = setting_sweep(results, selection)
    if sweep is None:
        return ()
    metrics, costs = _metrics(results, selection, sweep), _costs(results, selection, sweep)
    where = selection.where(selection.reference)
    lead = Paragraph(
        f"{len(sweep.variants)} variants that differ in nothing but the setting {sweep.setting} of the stage "
        f"{sweep.stage}, on the same questions{where}: what each value of it brings, and what it costs."
    )
    shown = [*metrics, *(resource_heading(resource) for resource in costs)]
    figure = Figure(
        "settings",
        f"{', '.join(shown)} against {sweep.stage}.{sweep.setting}{where}, with {selection.confidence} intervals"
        + ("; dashed: what a perfect reranker would reach." if ceiling_name(selection.primary) in metrics else "."),
        f"{', '.join(shown)} for each value of {sweep.setting}; the table gives the same numbers.",
    )
    return (
        Section(f"Across {sweep.stage}.{sweep.setting}", "settings", (lead, figure, _table(results, selection, sweep))),
    )


def _table(results: Results, selection: Selection, sweep: SettingSweep) -> Table:
    metrics, costs = _metrics(results, selection, sweep), _costs(results, selection, sweep)
    rows, tests, use = scores(results), comparisons(results, selection.baseline), _use(results, selection)
    lines: list[tuple[Cell, ...]] = []
    breaks: list[int] = []
    for points in sweep.rows:
        breaks.append(len(lines))
        for value, variant in points:
            at = (variant, selection.reference)
            figures = [
                score_cell(rows.get((*at, m)), tests.get((*at, m)), selection, len(metrics) <= LEAST) for m in metrics
            ]
            spent = [cell(amount(use.get((variant, resource)), resource)) for resource in costs]
            lines.append((cell(plain_number(value)), cell(variant), *figures, *spent))
    columns = (
        Column(sweep.setting, "count"),
        Column("variant", "name"),
        *(Column(metric) for metric in metrics),
        *(Column(resource_heading(resource), "count") for resource in costs),
    )
    caption = f"{sweep.stage}.{sweep.setting}: what it brings and costs{selection.where(selection.reference)}"
    return Table(caption, columns, tuple(lines), breaks=tuple(breaks[1:]))


def draw_settings(results: Results, selection: Selection) -> Any:
    """A panel for each metric and each cost, a line for each row of variants."""
    sweep = setting_sweep(results, selection)
    if sweep is None:
        return None
    most = ceiling_name(selection.primary) or ""
    metrics = [metric for metric in _metrics(results, selection, sweep) if metric != most]
    costs = _costs(results, selection, sweep)
    figure, axes, _ = grid(len(metrics) + len(costs), 1.9, 0.35, across=2, shared=False)
    rows, use = scores(results), _use(results, selection)
    for number, points in enumerate(sweep.rows):
        look = {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}
        label = _label(points)
        for axis, metric in zip(axes, metrics, strict=False):
            _line(axis, points, rows, selection.reference, metric, {**look, "label": label})
            if metric == selection.primary:
                dashed = {**look, "label": f"ceiling of {label}", "linestyle": "--", "markerfacecolor": "white"}
                _line(axis, points, rows, selection.reference, most, dashed)
        for axis, resource in zip(axes[len(metrics) :], costs, strict=True):
            factor = 1000 if resource == "usd" else 1
            spent = [(value, factor * use[name, resource]) for value, name in points if (name, resource) in use]
            axis.plot([x for x, _ in spent], [y for _, y in spent], linewidth=1.3, markersize=4.5, **look)
    for axis, title in zip(axes, [*metrics, *map(resource_heading, costs)], strict=True):
        _finish(axis, sweep, title)
    legend_above(figure, axes)
    return figure


def _line(
    axis: Any, points: Points, rows: dict[tuple[str, str, str], Any], budget: str, metric: str, look: dict[str, Any]
) -> None:
    found = [(value, rows.get((name, budget, metric))) for value, name in points]
    measured = [(value, row) for value, row in found if row is not None and known(row["value"])]
    if measured:
        values = [row["value"] for _, row in measured]
        deviations = errors([row for _, row in measured])
        style = {"markersize": 4.5, "linewidth": 1.3, "elinewidth": 0.8, "capsize": 0}
        axis.errorbar([x for x, _ in measured], values, yerr=deviations, **style, **look)


def _finish(axis: Any, sweep: SettingSweep, title: str) -> None:
    values = sweep.values
    if values[0] > 0 and values[-1] >= WIDE * values[0]:
        axis.set_xscale("log")
        axis.minorticks_off()
    axis.set_xticks(values, [plain_number(value) for value in values])
    axis.set_xlabel(f"{sweep.stage}.{sweep.setting}")
    axis.set_title(title, loc="left")
    axis.yaxis.set_major_formatter(plain_number)
    axis.grid(color=GRID, linewidth=0.6)
    axis.margins(x=0.08)


def _label(points: Points) -> str:
    """What the names of a row have in common, else the first of them."""
    names = [name for _, name in points]
    shared = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return short("".join(letters[0] for letters in shared).rstrip(" -_.+") or names[0], 24)


def _metrics(results: Results, selection: Selection, sweep: SettingSweep) -> list[str]:
    """The recall of a reranker's candidates, the primary metric and its ceiling, as far as they were measured."""
    rows = scores(results)
    wanted = [RECALL, selection.primary, ceiling_name(selection.primary) or ""]
    return [m for m in wanted if any((v, selection.reference, m) in rows for v in sweep.variants)]


def _costs(results: Results, selection: Selection, sweep: SettingSweep) -> list[str]:
    use = _use(results, selection)
    return [r for r in COSTS if any(known(use.get((v, r))) and use[v, r] > 0 for v in sweep.variants)]


def _use(results: Results, selection: Selection) -> dict[tuple[str, str], float]:
    """Mean use at the reference budget, by variant and resource."""
    frame = results.budget_use[results.budget_use["budget"] == selection.reference]
    return {(str(row["variant"]), str(row["resource"])): row["mean"] for row in frame.to_dict("records")}
