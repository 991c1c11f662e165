"""What a reader must know before believing a number: everything that went wrong, was cut short, or is too thin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.numbers import RESOURCE_LABELS, known, listed, plural
from rag_lab.reports.selection import Selection, scores
from rag_lab.reports.verdict import SMALL_N

if TYPE_CHECKING:
    from rag_lab.results import Results


def cautions(results: Results, selection: Selection) -> tuple[str, ...]:
    """Sentences, the gravest first."""
    return (
        *_failures(results, selection),
        *(w if w.endswith((".", "。")) else f"{w}." for w in map(str, results.warnings)),
        *_over_budget(results, selection),
        *_curtailed(results, selection),
        *_small(results, selection),
    )


def _failures(results: Results, selection: Selection) -> list[str]:
    """One sentence for a failure, however many budgets it happened at."""
    places: dict[tuple[str, str, str, int], list[str]] = {}
    for f in results.failures:
        key = (str(f["variant"]), str(f["stage"]), str(f["cause"]), int(f["questions"]))
        places.setdefault(key, []).append(str(f["budget"]))
    return [
        f"{variant}{_at(budgets, selection)}: {plural(n, 'question')} failed in stage {stage} ({cause}) and "
        f"{'counts' if n == 1 else 'count'} as 0."
        for (variant, stage, cause, n), budgets in places.items()
    ]


def _at(budgets: list[str], selection: Selection) -> str:
    if not selection.sweep:
        return ""
    if set(budgets) >= set(selection.budgets):
        return " at every budget"
    return f" at {selection.at([b for b in selection.budgets if b in budgets])}"


def _over_budget(results: Results, selection: Selection) -> list[str]:
    use = results.budget_use
    rows = use[use["over"] > 0].to_dict("records")
    parts = [
        f"{row['variant']} on {plural(int(row['over']), 'question')} ({_resource(row)})"
        for row in rows
        if row["budget"] == selection.reference
    ]
    elsewhere = [b for b in selection.others if any(row["budget"] == b for row in rows)]
    if elsewhere:
        parts.append(f"some variants{_at(elsewhere, selection)}")
    if not parts:
        return []
    return [
        f"Went over budget: {'; '.join(parts)}. Where it matters, scores are given twice: as they came, and with these "
        "questions counted as 0 (“within”)."
    ]


def _curtailed(results: Results, selection: Selection) -> list[str]:
    """What the reference budget kept the contenders from doing, by resource; bounds are no contenders."""
    use = results.budget_use
    chosen = use["variant"].isin(selection.contenders) & (use["budget"] == selection.reference) & (use["curtailed"] > 0)
    found: dict[str, dict[int, list[str]]] = {}
    for row in use[chosen].to_dict("records"):
        found.setdefault(_resource(row), {}).setdefault(int(row["curtailed"]), []).append(str(row["variant"]))
    if not found:
        return []
    every = results.dataset.get("queries")
    parts = [
        f"{resource} ({', '.join(_share(i, n, every, names) for i, (n, names) in enumerate(counts.items()))})"
        for resource, counts in found.items()
    ]
    return [f"The budget made variants do less{selection.where(selection.reference)}: {', '.join(parts)}."]


def _share(position: int, n: int, every: Any, variants: list[str]) -> str:
    """``all questions of bm25 and dense``, ``3 questions each of bm25 and dense``, ``25 of dense`` behind another."""
    if n == every:
        return f"all questions of {listed(variants)}"
    questions = f"{n:,}" if position else plural(n, "question")
    return f"{questions}{' each' if len(variants) > 1 else ''} of {listed(variants)}"


def _small(results: Results, selection: Selection) -> list[str]:
    sizes = [row["n"] for row in scores(results).values() if known(row["n"]) and known(row["value"])]
    found = []
    if sizes and min(sizes) < SMALL_N:
        found.append(
            f"Some means rest on only {plural(int(min(sizes)), 'question')}: their intervals are themselves uncertain."
        )
    sizes_of = {name: size for name, size in dict(results.dataset.get("groups", {})).items() if 0 < size < SMALL_N}
    if sizes_of and selection.groups:
        named = ", ".join(f"{name} ({size})" for name, size in sizes_of.items())
        if len(sizes_of) > 4:
            low, high = min(sizes_of.values()), max(sizes_of.values())
            named = f"{len(sizes_of)} groups, of {low if low == high else f'{low} to {high}'} questions"
        found.append(f"Groups of fewer than {SMALL_N} questions, to be read as hints: {named}.")
    return found


def _resource(row: dict[Any, Any]) -> str:
    return RESOURCE_LABELS.get(row["resource"], str(row["resource"]))
