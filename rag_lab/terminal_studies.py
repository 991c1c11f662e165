"""What studies print: at most 100 columns, readable without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_lab.reports.ann import largest_k, rows_of, verdict
from rag_lab.reports.console import WIDTH, stdout
from rag_lab.reports.literal import on_one_line, short
from rag_lab.reports.numbers import DASH, MINUS, NBSP, count, data_size, duration, interval, score

if TYPE_CHECKING:
    from rag_lab.ann.results import AnnResults
    from rag_lab.reproduction import Cell

STATUS_STYLES = {"met": "green", "missed": "bold red", "not runnable": "yellow"}


def print_ann(results: AnnResults, console: Console | None = None) -> None:
    """Recall, times, memory and build time of every search at the largest k, and what they come to."""
    target = console or stdout()
    k = largest_k(results)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("vectors", "index", "breadth", f"recall@{k}", "ms p50", "ms p95", "batch/s", "memory", "built in"):
        table.add_column(name, justify="left" if name == "index" else "right", no_wrap=name != "index")
    before = None
    for row in rows_of(results, k):
        table.add_row(
            Text(count(row["size"]) if row["size"] != before else ""),
            Text(short(str(row["built"]), 24)),
            Text(count(row["breadth"]) if row["breadth"] else DASH),
            Text(f"{score(row['recall'])} {interval(row['ci_low'], row['ci_high'])}".replace(NBSP, " ")),
            Text(duration(row["latency_ms_p50"])),
            Text(duration(row["latency_ms_p95"])),
            Text(count(row["queries_per_s"])),
            Text(data_size(row["ram_bytes"])),
            Text(f"{duration(row['build_s'])} s"),
        )
        before = row["size"]
    target.print(table, width=min(WIDTH, target.width))
    target.print()
    for sentence in (*verdict(results), *results.warnings):
        target.print(Text(on_one_line(sentence.replace(NBSP, " "))), width=min(WIDTH, target.width))


def print_cells(cells: Sequence[Cell], console: Console | None = None) -> None:
    """Each expected score with what came out, then the reasons of those that did not, and how many there are."""
    target = console or stdout()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("entry", "metric"):
        table.add_column(name, overflow="fold", max_width=24)
    for name in ("expected", "±", "found", "difference"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("source", no_wrap=True)
    table.add_column("", no_wrap=True)
    before = None
    for one in cells:
        difference = DASH if one.found is None else _four(one.found - one.expected.value, sign=True)
        table.add_row(
            Text(one.entry if one.entry != before else ""),
            Text(one.expected.metric),
            Text(_four(one.expected.value)),
            Text(f"{one.expected.tolerance:g}"),
            Text(DASH if one.found is None else _four(one.found)),
            Text(difference),
            Text(one.expected.source),
            Text(one.status, style=STATUS_STYLES[one.status]),
        )
        before = one.entry
    target.print(table, width=min(WIDTH, target.width))
    target.print()
    for line in _reasons(cells):
        target.print(Text(line), width=min(WIDTH, target.width))
    counts = [f"{sum(one.status == status for one in cells)} {status}" for status in STATUS_STYLES]
    target.print(Text(f"{', '.join(counts)}."), style="bold")


def _reasons(cells: Sequence[Cell]) -> Iterator[str]:
    """Why scores of an entry are missing, and what differs from the source where one is missed."""
    entries: dict[tuple[str, str], list[str]] = {}
    for one in cells:
        if one.note:
            entries.setdefault((one.status, one.note), []).append(one.entry)
    for (status, note), names in entries.items():
        yield on_one_line(f"{', '.join(dict.fromkeys(names))}, {status}: {note}")
    for one in cells:
        if one.status == "missed" and one.found is not None:
            differs = f"; differs: {one.expected.differs}" if one.expected.differs else ""
            yield on_one_line(f"{one.entry}, {one.expected.metric}: expected by {one.expected.where}{differs}")


def _four(value: float, sign: bool = False) -> str:
    """A score in the four decimals that are published; what rounds to 0 has no minus."""
    return f"{round(value, 4) + 0.0:{'+' if sign else ''}.4f}".replace("-", MINUS)
