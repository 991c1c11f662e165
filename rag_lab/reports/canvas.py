"""How the report's drawings look: style, colours and markers, panels, whiskers, and the bytes of a finished figure."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rag_lab.reports.fonts import SANS, chinese_sans
from rag_lab.reports.literal import short
from rag_lab.reports.numbers import known
from rag_lab.reports.selection import Selection

WIDTH = 6.9  # inches: the text width of an A4 page, so that print shows the fonts at their own size
# Okabe and Ito's palette, which keeps its colours apart for the common forms of colour blindness.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
INK, SOFT, GRID = "#1f2328", "#6b7280", "#e3e5e8"
BOUND = "#8a8f98"
ACROSS = 3


@contextmanager
def style() -> Iterator[None]:
    """The settings of all drawings; those of the process are as before afterwards."""
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


def saved(figure: Any) -> tuple[bytes, bytes]:
    """SVG and PNG, the same bytes whenever the figure is the same."""
    svg, png = io.BytesIO(), io.BytesIO()
    figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    figure.savefig(png, format="png", metadata={"Software": None})
    return svg.getvalue(), png.getvalue()


def panels(n: int, height: float, widths: list[int] | None = None) -> tuple[Any, list[Any]]:
    """A row of `n` axes with one vertical axis in common; `height` in inches."""
    figure = _figure(height)
    axes = figure.subplots(1, n, sharey=True, squeeze=False, width_ratios=widths)
    return figure, list(axes[0])


def grid(
    n: int, row_height: float, extra: float, across: int = ACROSS, shared: bool = True
) -> tuple[Any, list[Any], int]:
    """Axes in rows of at most `across`, and how many are in a row.

    row_height and `extra`, what the figure needs beside its rows, in inches; shared: one vertical scale for all.
    """
    columns = min(n, across)
    rows = -(-n // columns)
    figure = _figure(extra + row_height * rows)
    axes = list(figure.subplots(rows, columns, sharey=shared, squeeze=False).ravel())
    for unused in axes[n:]:
        unused.axis("off")
    return figure, axes[:n], columns


def _figure(height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def height_of(rows: int) -> float:
    """Inches that a drawing with a row for each variant needs."""
    return 0.72 + rows * min(0.36, 8 / rows)


def look(selection: Selection, variant: str) -> tuple[str, str]:
    """Colour and marker of a variant, the same in all drawings; bounds are grey."""
    if variant in selection.bounds:
        return BOUND, "x" if variant == "no_retrieval" else "*"
    index = selection.contenders.index(variant)
    return PALETTE[index % len(PALETTE)], MARKERS[(index + index // len(PALETTE)) % len(MARKERS)]


def whisker(
    axis: Any, value: float, low: Any, high: Any, y: float, colour: str, marker: str, filled: bool = True
) -> None:
    """A mean with its interval, lying."""
    if known(low) and known(high):
        axis.plot([low, high], [y, y], color=colour, linewidth=1.6, solid_capstyle="round", zorder=2)
    face = colour if filled else "white"
    axis.plot([value], [y], marker, color=colour, markerfacecolor=face, markersize=5.5, markeredgewidth=1.3, zorder=3)


def errors(rows: Sequence[dict[str, Any]]) -> Any:
    """Distances from the means to the ends of their intervals, ``[2, n]``; 0 where there is no interval."""
    value, low, high = (np.array([r[k] for r in rows], dtype=float) for k in ("value", "ci_low", "ci_high"))
    return np.nan_to_num(np.vstack([value - low, high - value])).clip(min=0)


def name_rows(axis: Any, variants: Sequence[str], title: str) -> None:
    """A row for each variant, the first on top."""
    axis.set_yticks(range(len(variants)), [short(v, 24) for v in variants])
    axis.set_ylim(len(variants) - 0.4, -0.75)
    axis.set_title(title, loc="left")
    axis.grid(axis="x", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    axis.locator_params(axis="x", nbins=5)
    axis.spines["left"].set_visible(False)


def legend_above(figure: Any, axes: Sequence[Any]) -> None:
    """One legend for all axes, above them; a label that several have stands once."""
    found: dict[str, Any] = {}
    for axis in axes:
        handles, labels = axis.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(found.values()),
        list(found),
        loc="outside upper left",
        ncols=min(6, len(found)),
        frameon=False,
        handletextpad=0.4,
    )


def plain_number(value: float, _: Any = None) -> str:
    """A tick's label without powers of ten."""
    text = f"{value:,.0f}" if abs(value) >= 1000 else np.format_float_positional(round(value, 12), trim="-")
    return text.replace("-", "\u2212")
