"""What a reranker reached beside what it could have reached with the candidates that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.metrics.ceiling import RECALL, ceiling_name
from rag_lab.reports.blocks import Block, Cell, Column, Paragraph, Table, cell
from rag_lab.reports.numbers import amount, interval, known, score, share
from rag_lab.reports.selection import Selection, scores

if TYPE_CHECKING:
    from rag_lab.results import Results

Row = dict[str, Any]


def ceiling(rows: dict[tuple[str, str, str], Row], variant: str, budget: str, metric: str) -> str:
    """``ceiling 0.912`` for a metric whose ceiling was measured, else empty."""
    row = rows.get((variant, budget, ceiling_name(metric) or ""))
    return f"ceiling {score(row['value'])}" if row is not None and known(row["value"]) else ""


def ceilings_blocks(results: Results, selection: Selection) -> tuple[Block, ...]:
    """A paragraph and a table for each metric with a ceiling; nothing where no variant reranks."""
    rows, budget = scores(results), selection.reference
    metrics = [
        m for m in selection.metrics if any((v, budget, ceiling_name(m) or "") in rows for v in selection.variants)
    ]
    if not metrics:
        return ()
    text = (
        f"A reranker adds no candidates. {RECALL} is the share of the relevant documents among those that it was "
        "given, and the ceiling is what a perfect order of them would score: what the ceiling lacks is for retrieval "
        "to find, what the result lacks to the ceiling is for the reranker."
    )
    return (Paragraph(text), *(_table(results, selection, metric) for metric in metrics))


def _table(results: Results, selection: Selection, metric: str) -> Table:
    rows, budget, name = scores(results), selection.reference, ceiling_name(metric) or ""
    use = results.budget_use[results.budget_use["resource"] == "rerank_pairs"].to_dict("records")
    pairs = {(str(row["variant"]), str(row["budget"])): row["mean"] for row in use}
    lines: list[tuple[Cell, ...]] = []
    for variant in selection.variants:
        most, result, given = (rows.get((variant, budget, m)) for m in (name, metric, RECALL))
        if most is None or not known(most["value"]):
            continue
        reached = result["value"] / most["value"] if result is not None and most["value"] else None
        read = cell(amount(pairs.get((variant, budget), 0.0), "rerank_pairs"))
        lines.append((cell(variant), _value(result), _value(most), cell(share(reached)), _value(given), read))
    columns = (
        Column("variant", "name"),
        Column(metric),
        Column("ceiling"),
        Column("reached", "count"),
        Column(RECALL),
        Column("pairs", "count", detail="mean"),
    )
    return Table(f"{metric} and its ceiling{selection.where(budget)}", columns, tuple(lines))


def _value(row: Row | None) -> Cell:
    if row is None or not known(row["value"]):
        return cell("–", tone="muted")
    return cell(score(row["value"]), aside=interval(row["ci_low"], row["ci_high"]))
