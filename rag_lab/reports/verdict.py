"""What the numbers allow to be said, in sentences.

"Beats" and "falls short of" need an interval that excludes zero and a Holm-corrected p below the level. Everything else
is "not distinguishable": a difference that was not shown is not a difference that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.numbers import interval, known, p_clause, plural, score, signed
from rag_lab.reports.selection import Selection, comparisons, decided, scores

if TYPE_CHECKING:
    from rag_lab.results import Results

SMALL_N = 30

Rows = dict[tuple[str, str, str], dict[str, Any]]


def sentences(results: Results, selection: Selection) -> tuple[str, ...]:
    """The verdict on the primary metric, then on the other headline metrics, then the bounds.

    In a sweep the primary metric is judged at every budget, or the last headline metric where the primary one does not
    feel the budget (a ranking is the same however much context follows); the others at the reference budget.
    """
    rows, values = comparisons(results, selection.baseline), scores(results)
    found: list[str] = []
    swept = ""
    for metric in selection.headline:
        judged = _by_clause(rows, values, selection, metric)
        if not swept and (len(judged) > 1 or metric == selection.headline[-1]):
            swept = metric
        for text, budgets in judged.items():
            if metric == swept or selection.reference in budgets:
                found.append(_placed(text, budgets, selection))
    if not found:
        found.append(_alone(values, selection))
    found.extend(_bounds(values, selection))
    return tuple(found)


def _by_clause(rows: Rows, values: Rows, selection: Selection, metric: str) -> dict[str, list[str]]:
    """What can be said of a metric, with the budgets at which it holds."""
    judged: dict[str, list[str]] = {}
    for budget in selection.budgets:
        clauses = _clauses(rows, values, selection, metric, budget)
        if clauses:
            judged.setdefault("; ".join(clauses), []).append(budget)
    return judged


def _placed(text: str, budgets: list[str], selection: Selection) -> str:
    if not selection.sweep:
        return f"{text}."
    if len(budgets) == len(selection.budgets):
        return f"At every budget: {text}."
    return f"At {' and '.join(selection.label(b) for b in budgets)}: {text}."


def _clauses(rows: Rows, values: Rows, selection: Selection, metric: str, budget: str) -> list[str]:
    better: list[tuple[float, str]] = []
    worse: list[tuple[float, str]] = []
    undecided: list[tuple[float, str]] = []
    missing: list[str] = []
    for variant in selection.contenders:
        if variant == selection.baseline:
            continue
        row = rows.get((variant, budget, metric))
        if row is None or not known(row["delta"]):
            missing.append(f"{variant} cannot be compared with {selection.baseline} on {metric}")
            continue
        sense = decided(row, selection.alpha)
        text = _clause(variant, row, sense, selection, metric)
        if sense:
            text += _reservation(values, selection, variant, budget, metric)
        (better if sense > 0 else worse if sense < 0 else undecided).append((row["delta"], text))
    best_first = [text for _, text in sorted(better, key=lambda pair: -pair[0])]
    return best_first + [text for _, text in worse] + [text for _, text in undecided] + missing


def _clause(variant: str, row: dict[str, Any], sense: int, selection: Selection, metric: str) -> str:
    p = p_clause(row["p_holm"], selection.alpha)
    if sense > 0:
        size = f"{score(row['delta'])} {metric} {interval(row['ci_low'], row['ci_high'])}, {p}"
        text = f"{variant} beats {selection.baseline} by {size}"
    elif sense < 0:
        size = f"{score(-row['delta'])} {metric} {interval(-row['ci_high'], -row['ci_low'])}, {p}"
        text = f"{variant} falls short of {selection.baseline} by {size}"
    else:
        size = f"{signed(row['delta'])} {interval(row['ci_low'], row['ci_high'], sign=True)}, {p}"
        text = f"{variant} is not distinguishable from {selection.baseline} on {metric} (difference {size})"
    return text + (f", on only {plural(int(row['n']), 'question')}" if row["n"] < SMALL_N else "")


def _reservation(values: Rows, selection: Selection, variant: str, budget: str, metric: str) -> str:
    """Say so when the order of the two turns over once questions beyond the budget count as 0."""
    one, other = values.get((variant, budget, metric)), values.get((selection.baseline, budget, metric))
    if one is None or other is None:
        return ""
    as_it_came = one["value"] - other["value"]
    within = one["value_within_budget"] - other["value_within_budget"]
    if not known(within) or as_it_came * within > 0 or as_it_came == within:
        return ""
    pair = f"{score(one['value_within_budget'])} against {score(other['value_within_budget'])}"
    return f" as it came, but with questions beyond the budget counted as 0 it is {pair}"


def _alone(values: Rows, selection: Selection) -> str:
    row = values.get((selection.baseline, selection.reference, selection.primary))
    if row is None or not known(row["value"]):
        return "Nothing was measured that could be compared."
    size = f"{selection.primary} {score(row['value'])} {interval(row['ci_low'], row['ci_high'])}"
    return f"{selection.baseline}: {size}. There is no other variant to compare it with."


def _bounds(values: Rows, selection: Selection) -> list[str]:
    metric, budget = selection.headline[-1], selection.reference
    parts = []
    for variant, phrase in (
        ("no_retrieval", "without retrieval"),
        ("gold_context", "with the gold evidence as context"),
    ):
        row = values.get((variant, budget, metric))
        if row is not None and known(row["value"]):
            parts.append(f"{score(row['value'])} {phrase}")
    if not parts:
        return []
    return [f"For scale: the same generator reaches {metric} " + " and ".join(parts) + selection.where(budget) + "."]
