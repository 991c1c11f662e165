"""What studies print: 100 columns, readable without colour."""

from __future__ import annotations

import io

from example_ann import results
from rich.console import Console

from rag_lab.reports.console import WIDTH
from rag_lab.terminal_studies import print_ann


def test_a_study_of_indexes_is_one_table_and_its_verdict() -> None:
    console = Console(file=io.StringIO(), width=WIDTH, highlight=False)
    found = results(warnings=["the machine was busy"])
    print_ann(found, console)
    assert isinstance(console.file, io.StringIO)
    lines = [line.rstrip() for line in console.file.getvalue().split("\n")]
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].split() == [
        "vectors", "index", "breadth", "recall@10", "ms", "p50", "ms", "p95", "batch/s", "memory", "built", "in",
    ]  # fmt: skip
    assert " ".join(lines[3].split()) == "HNSW32 128 0.970 [0.960, 0.980] 1.2 2.4 833 90.0 MB 3.0 s"
    assert [line.split()[0] for line in lines[1:11] if line[:7].strip()] == ["1,000", "50,000"]
    text = " ".join(lines)
    assert "Among 50,000 vectors, HNSW32 at efSearch 128 is the fastest" in text
    assert "the machine was busy" in text
