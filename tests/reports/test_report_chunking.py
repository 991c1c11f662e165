from __future__ import annotations

from example_results import example

from rag_lab.reports.blocks import Paragraph, Table
from rag_lab.reports.chunking import chunking_section
from rag_lab.reports.document import build
from rag_lab.results import frame


def row(snapshot: str, measure: str, value: float | None, **more: object) -> dict[str, object]:
    plain = {"chunker": f"{snapshot}-1", "unit": "", "ci_low": None, "ci_high": None, "n": 3, "note": ""}
    return {"snapshot": snapshot, "measure": measure, "value": value, **plain, **more}


def test_one_snapshot_has_no_section() -> None:
    assert chunking_section(example(n=24)) == ()


def test_each_snapshot_has_a_row_and_what_cannot_be_measured_says_none() -> None:
    results = example(n=24)
    results.snapshots = frame(
        "snapshots",
        [
            row("window", "chunks", 1234.0),
            row("window", "tokens_mean", 99.6),
            row("window", "gold_whole", 0.5, ci_low=0.25, ci_high=0.75),
            row("window", "boundary_chunks", None, note="no document has sections with rights of their own"),
            row("blocks", "chunks", 7.0),
            row("blocks", "boundary_chunks", 2.0),
        ],
    )
    (section,) = chunking_section(results)
    (table,) = [block for block in section.blocks if isinstance(block, Table)]
    assert [[c.lines[0] for c in line] for line in table.rows] == [
        ["window", "1,234", "100", "0.500", "none"],
        ["blocks", "7", "–", "–", "2"],
    ]
    assert table.rows[0][3].lines[1].split() == ["[0.250,", "0.750]"]
    notes = [block.text for block in section.blocks if isinstance(block, Paragraph) and block.role == "note"]
    assert notes == ["None: no document has sections with rights of their own."]
    assert "chunking" in [s.anchor for s in build(results).sections]
