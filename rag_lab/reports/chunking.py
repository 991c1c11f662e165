"""The section on what each chunker made of the documents, in an experiment on several snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.blocks import Block, Cell, Column, Paragraph, Section, Table, cell
from rag_lab.reports.numbers import DASH, count, interval, known, score

if TYPE_CHECKING:
    from rag_lab.results import Results

COLUMNS = {
    "chunks": "chunks",
    "tokens_mean": "tokens, mean",
    "tokens_p95": "tokens, 95th percentile",
    "shown_characters_mean": "characters shown, mean",
    "gold_whole": "gold spans whole in one chunk",
    "gold_whole_shown": "gold spans whole in what is shown",
    "boundary_chunks": "chunks across a change of rights",
}


def chunking_section(results: Results) -> tuple[Section, ...]:
    """One section, none for an experiment on a single snapshot."""
    frame = results.snapshots
    if frame.empty:
        return ()
    records = [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
    rows = {(str(r["snapshot"]), str(r["measure"])): r for r in records}
    chunkers = dict(zip(frame["snapshot"].astype(str), frame["chunker"].astype(str), strict=True))
    measures = [name for name in COLUMNS if any((snapshot, name) in rows for snapshot in chunkers)]
    table = Table(
        "Chunks of each snapshot",
        (Column("snapshot", "name"), *(Column(COLUMNS[name]) for name in measures)),
        tuple(
            (cell(snapshot, chunker), *(_cell(rows.get((snapshot, name))) for name in measures))
            for snapshot, chunker in chunkers.items()
        ),
    )
    text = (
        "Each variant ran on each snapshot, as variant@snapshot. Tokens are the encoder's. A gold span that no chunk "
        "holds whole can only be found in parts."
    )
    reasons = dict.fromkeys(str(r["note"]) for r in rows.values() if not known(r["value"]) and r["note"])
    blocks: list[Block] = [Paragraph(text), table, *(Paragraph(f"None: {why}.", "note") for why in reasons)]
    return (Section("What the chunkers made", "chunking", tuple(blocks)),)


def _cell(row: dict[str, Any] | None) -> Cell:
    if row is None:
        return cell(DASH)
    if not known(row["value"]):
        return cell("none", tone="muted")
    if row["measure"] in ("chunks", "boundary_chunks"):
        return cell(count(row["value"]))
    if str(row["measure"]).startswith("gold"):
        return cell(score(row["value"]), interval(row["ci_low"], row["ci_high"]))
    return cell(f"{row['value']:,.0f}")
