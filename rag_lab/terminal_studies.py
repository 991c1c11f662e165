"""What studies print: at most 100 columns, readable without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rag_lab.reports.ann import largest_k, rows_of, verdict
from rag_lab.reports.console import WIDTH, stdout
from rag_lab.reports.literal import on_one_line, short
from rag_lab.reports.numbers import DASH, NBSP, count, data_size, duration, interval, score

if TYPE_CHECKING:
    from rag_lab.ann.results import AnnResults


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
