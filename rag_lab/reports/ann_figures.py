"""The drawings of a study of indexes: recall against time at each size, and what an index weighs and takes to build."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.ann import EXACT, Row, largest_k, rows_of
from rag_lab.reports.canvas import (
    GRID,
    MARKERS,
    PALETTE,
    SOFT,
    errors,
    grid,
    height_of,
    legend_above,
    name_rows,
    panels,
    plain_number,
    saved,
    style,
)
from rag_lab.reports.literal import short

if TYPE_CHECKING:
    from rag_lab.ann.results import AnnResults

VECTORS = "the vectors"


def draw(results: AnnResults) -> dict[str, tuple[bytes, bytes]]:
    """Both figures: name -> (SVG, PNG)."""
    with style():
        return {"recall": saved(_recall(results)), "costs": saved(_costs(results))}


def _recall(results: AnnResults) -> Any:
    """A panel for each size, a line for each index over its breadths."""
    sizes, k = results.study["sizes"], largest_k(results)
    figure, axes, columns = grid(len(sizes), 2.5, 0.45)
    for number, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        rows = rows_of(results, k, size)
        for index in results.study["indexes"]:
            mine = [row for row in rows if row["index"] == index]
            colour, marker = _look(results, index)
            axis.errorbar(
                [row["latency_ms_p50"] for row in mine],
                [row["recall"] for row in mine],
                yerr=errors([{**row, "value": row["recall"]} for row in mine]),
                color=colour,
                marker=marker,
                markersize=4.5,
                linewidth=1.3,
                elinewidth=0.8,
                label=short(index, 24),
            )
        axis.set_title(f"{size:,} vectors", loc="left")
        axis.set_xlabel("ms a question (median)")
        axis.set_ylabel(f"recall@{k}" if number % columns == 0 else "")
        _logarithmic(axis, [row["latency_ms_p50"] for row in rows])
        axis.grid(color=GRID, linewidth=0.6)
    legend_above(figure, axes)
    return figure


def _costs(results: AnnResults) -> Any:
    """Bars of memory and of build time: a row for each index, in it a bar for each size."""
    sizes = results.study["sizes"]
    indexes = [name for name in results.study["indexes"] if name != EXACT]
    first = {(row["index"], row["size"]): row for row in rows_of(results)}
    vectors = {size: next(row for (_, at), row in first.items() if at == size) for size in sizes}
    figure, (memory, building) = panels(2, height_of(len(indexes) + 1) + 0.45)
    step = 0.8 / len(sizes)
    drawn: dict[str, list[float]] = {"memory": [], "building": []}
    for number, size in enumerate(sizes):
        shift = (number - (len(sizes) - 1) / 2) * step
        shade = {"height": step, "color": _shade(number, len(sizes)), "label": f"{size:,} vectors"}
        places = [y + shift for y in range(len(indexes) + 1)]
        rows: list[Row] = [first[index, size] for index in indexes]
        megabytes = [vectors[size]["vector_bytes"] / 1e6, *(row["ram_bytes"] / 1e6 for row in rows)]
        seconds = [0.0, *(row["build_s"] for row in rows)]
        memory.barh(places, megabytes, **shade)
        building.barh(places, seconds, **shade)
        drawn["memory"] += megabytes
        drawn["building"] += seconds
    for axis, title, values in ((memory, "memory (MB)", "memory"), (building, "time to build (s)", "building")):
        name_rows(axis, [VECTORS, *indexes], title)
        _logarithmic(axis, drawn[values], room=2.0)
    legend_above(figure, [memory])
    return figure


def _look(results: AnnResults, index: str) -> tuple[str, str]:
    """Colour and marker of an index; exact search is grey."""
    if index == EXACT:
        return SOFT, "*"
    number = [name for name in results.study["indexes"] if name != EXACT].index(index)
    return PALETTE[number % len(PALETTE)], MARKERS[(number + number // len(PALETTE)) % len(MARKERS)]


def _shade(number: int, total: int) -> Any:
    """From light to dark with the size."""
    from matplotlib.colors import to_rgb

    light = 0.65 * (1 - (number + 1) / total)
    return tuple(light + (1 - light) * part for part in to_rgb(PALETTE[0]))


def _logarithmic(axis: Any, values: list[float], room: float = 1.4) -> None:
    """A logarithmic horizontal axis around the values that are above 0, with its numbers written out."""
    from matplotlib.ticker import LogLocator, NullFormatter

    found = [value for value in values if value > 0] or [1.0]
    low, high = min(found) / room, max(found) * room
    axis.set_xscale("log")
    axis.set_xlim(low, high)
    axis.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter(plain_number)
    axis.xaxis.set_minor_formatter(NullFormatter())
