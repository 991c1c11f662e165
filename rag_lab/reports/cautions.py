"""What a reader must know before believing a number: everything that went wrong, was cut short, or is too thin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.numbers import RESOURCE_LABELS, known, plural
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
    return [
        f"{_place(f, selection)}: {plural(int(f['questions']), 'question')} failed in stage {f['stage']} "
        f"({f['cause']}) and {'counts' if f['questions'] == 1 else 'count'} as 0."
        for f in results.failures
    ]


def _over_budget(results: Results, selection: Selection) -> list[str]:
    use = results.budget_use
    parts = [
        f"{_place(row, selection)} on {plural(int(row['over']), 'question')} "
        f"({RESOURCE_LABELS.get(row['resource'], row['resource'])})"
        for row in use[use["over"] > 0].to_dict("records")
    ]
    if not parts:
        return []
    return [
        f"Went over budget: {'; '.join(parts)}. Where it matters, scores are given twice: as they came, and with these "
        "questions counted as 0 (“within”)."
    ]


def _curtailed(results: Results, selection: Selection) -> list[str]:
    frame = results.curtailments
    rows = frame[frame["questions"] > 0].to_dict("records")
    if not rows:
        return []
    parts = [
        f"{_place(row, selection)} on {plural(int(row['questions']), 'question')} "
        f"({RESOURCE_LABELS.get(row['resource'], row['resource'])} in stage {row['stage']})"
        for row in rows
    ]
    if len(parts) > 4:
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(selection.where(str(row["budget"])), []).append(str(row["variant"]))
        listed = "; ".join(f"{', '.join(dict.fromkeys(names))}{where}" for where, names in found.items())
        return [f"The budget curtailed {listed}; section “Budget use” says where and by how much."]
    return [f"The budget curtailed {'; '.join(parts)}."]


def _small(results: Results, selection: Selection) -> list[str]:
    sizes = [row["n"] for row in scores(results).values() if known(row["n"]) and known(row["value"])]
    found = []
    if sizes and min(sizes) < SMALL_N:
        found.append(
            f"Some means rest on only {plural(int(min(sizes)), 'question')}: their intervals are themselves uncertain."
        )
    sizes_of = {name: size for name, size in dict(results.dataset.get("groups", {})).items() if 0 < size < SMALL_N}
    if sizes_of and selection.groups:
        listed = ", ".join(f"{name} ({size})" for name, size in sizes_of.items())
        if len(sizes_of) > 4:
            low, high = min(sizes_of.values()), max(sizes_of.values())
            listed = f"{len(sizes_of)} groups, of {low if low == high else f'{low} to {high}'} questions"
        found.append(f"Groups of fewer than {SMALL_N} questions, to be read as hints: {listed}.")
    return found


def _place(row: dict[Any, Any], selection: Selection) -> str:
    return f"{row['variant']}{selection.where(str(row['budget']))}"
