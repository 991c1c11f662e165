"""Results -> the report's content. What is said is decided here; the renderers only set it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rag_lab.reports.ablation import ablation_section
from rag_lab.reports.blocks import Block, Document, Facts, Section
from rag_lab.reports.cautions import cautions
from rag_lab.reports.chunking import chunking_section
from rag_lab.reports.corpus import corpus_section
from rag_lab.reports.losses import funnel_section
from rag_lab.reports.numbers import count, interval, known, plural, score
from rag_lab.reports.placement import placement_section
from rag_lab.reports.reproducing import equal_section, question_of, question_section, reproduce_section
from rag_lab.reports.scoring import comparison_table, differences_section, groups_section, scores_section
from rag_lab.reports.selection import Selection, scores, select
from rag_lab.reports.settings import settings_section
from rag_lab.reports.spending import budget_section, quality_section, timings_table
from rag_lab.reports.sweep import across_section
from rag_lab.reports.verdict import sentences
from rag_lab.reports.worst import worst_section

if TYPE_CHECKING:
    from rag_lab.results import Results


def build(results: Results, selection: Selection | None = None) -> Document:
    """The whole report as data."""
    chosen = selection or select(results)
    return Document(
        title=str(results.experiment.get("name") or results.dataset.get("name") or "Experiment"),
        subtitle=question_of(results, chosen),
        verdict=sentences(results, chosen),
        key_facts=_key_facts(results, chosen),
        cautions=cautions(results, chosen),
        sections=(
            question_section(results, chosen),
            equal_section(results, chosen),
            *corpus_section(results),
            *chunking_section(results),
            scores_section(results, chosen),
            differences_section(results, chosen),
            *ablation_section(results, chosen),
            *placement_section(results, chosen),
            *settings_section(results, chosen),
            *across_section(results, chosen),
            budget_section(results, chosen),
            quality_section(results, chosen),
            groups_section(results, chosen),
            funnel_section(results, chosen),
            worst_section(results, chosen),
            *_appendix(results, chosen),
            reproduce_section(results),
        ),
    )


def _key_facts(results: Results, selection: Selection) -> Facts:
    budget = selection.reference
    rows = scores(results)
    found = [(v, rows.get((v, budget, selection.primary))) for v in selection.contenders]
    measured = [(v, row) for v, row in found if row is not None and known(row["value"])]
    failed = sum(int(f["questions"]) for f in results.failures)
    items = [
        ("Questions", count(results.dataset.get("queries"))),
        ("Failed", plural(failed, "result") if failed else "none"),
        ("Variants", count(len(selection.variants))),
    ]
    if measured:
        name, top = max(measured, key=lambda pair: pair[1]["value"])
        text = f"{name}, {score(top['value'])} {interval(top['ci_low'], top['ci_high'])}"
        items.append((f"Highest {selection.primary}{selection.where(budget)}", text))
    return Facts(tuple(items))


def _appendix(results: Results, selection: Selection) -> tuple[Section, ...]:
    blocks: list[Block] = []
    where = selection.where(selection.reference)
    others = tuple(m for m in selection.metrics if m not in selection.headline)
    if others and not results.comparisons.empty:
        blocks.append(comparison_table(results, selection, others, f"Differences on the other metrics{where}"))
    if not results.timings.empty:
        blocks.append(timings_table(results, selection))
    return (Section("All other comparisons, and the time it took", "appendix", tuple(blocks)),) if blocks else ()
