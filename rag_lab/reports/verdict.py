"""What the numbers allow to be said, in sentences.

"Beats" and "falls short of" need an interval that excludes zero and a Holm-corrected p below the level. Everything else
is "not distinguishable": a difference that was not shown is not a difference that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rag_lab.reports.numbers import interval, known, listed, p_clause, plural, score, signed
from rag_lab.reports.selection import FAMILIES, Selection, comparisons, decided, scores, within_budget

if TYPE_CHECKING:
    from rag_lab.results import Results

SMALL_N = 30
HEADLINE = 118  # characters that two lines of the report's largest type hold
ANSWERS = FAMILIES["Answers"]
BY_THE_GENERATOR = (*ANSWERS, *FAMILIES["Citations"], *FAMILIES["Abstention"])

Rows = dict[tuple[str, str, str], dict[str, Any]]
Senses = dict[str, int | None]


def sentences(results: Results, selection: Selection) -> tuple[str, ...]:
    """The verdict on the primary metric, then on the other headline metrics, then the bounds.

    The first sentence is short enough for a headline: the verdict without numbers where those do not fit, and with
    the metric on answers where the primary metric is not about them. Each metric is judged at the reference budget;
    what a sweep changes is said behind it in few words.
    """
    rows, values = comparisons(results, selection.baseline), scores(results)
    judged = [
        (metric, _detail(clauses, rows, selection, metric))
        for metric in _order(selection)
        if any((v, selection.reference, metric) in rows for v in selection.contenders)
        and (clauses := _clauses(rows, values, selection, metric))
    ]
    if not judged:
        return (_alone(values, selection), *_bounds(values, selection))
    found = [text for _, text in judged]
    headline = _headline(rows, selection, [metric for metric, _ in judged], len(found[0]))
    if headline:
        found.insert(0, headline)
    return (*found, *_bounds(values, selection))


def _order(selection: Selection) -> tuple[str, ...]:
    rest = [m for m in selection.headline if m != selection.primary]
    return (selection.primary, *sorted(rest, key=lambda metric: metric not in ANSWERS))


# --- in short -------------------------------------------------------------------------------------------------------


def _headline(rows: Rows, selection: Selection, metrics: list[str], length: int) -> str:
    """The verdict in two lines, with answers if there is room; empty when a first sentence of `length` will do."""
    first, reserved = metrics[0], _reserved(rows, selection, metrics[0])
    primary = f"{_in_short(rows, selection, first)} on {first}{reserved}"
    if len(metrics) > 1 and metrics[1] in ANSWERS:
        answers = _in_short(rows, selection, metrics[1]) + _reserved(rows, selection, metrics[1])
        text = f"{primary}; on {metrics[1]}, {answers}{_here(rows, selection, metrics[:2])}."
        if len(text) <= HEADLINE:
            return _capital(text)
    return "" if length <= HEADLINE else _capital(_on_primary(rows, selection, primary, first))


def _reserved(rows: Rows, selection: Selection, metric: str, budget: str = "") -> str:
    """The variants whose verdict is another one once questions beyond the budget count as 0."""
    turned = _turned(rows, selection, metric, budget)
    return f", but not within the budget ({listed(turned)})" if turned else ""


def _turned(rows: Rows, selection: Selection, metric: str, budget: str = "") -> list[str]:
    place = budget or selection.reference
    return [
        variant
        for variant, sense in _senses(rows, selection, metric, place).items()
        if sense is not None
        and known((inside := within_budget(rows[(variant, place, metric)]))["delta"])
        and decided(inside, selection.alpha) != sense
    ]


def _on_primary(rows: Rows, selection: Selection, primary: str, metric: str) -> str:
    """The verdict on the primary metric; counts in the place of names when there are too many of those."""
    text = f"{primary}{_here(rows, selection, [metric])}."
    if len(text) <= HEADLINE:
        return text
    senses = _senses(rows, selection, metric, selection.reference).values()
    better, worse = (sum(sense == s for sense in senses) for s in (1, -1))
    turned = len(_turned(rows, selection, metric))
    return (
        f"Of {len(senses)} variants, {better} {'beats' if better == 1 else 'beat'} {selection.baseline} on {metric}, "
        f"{worse} {'falls' if worse == 1 else 'fall'} short of it"
        f"{f'; within the budget, {turned} of these verdicts differ' if turned else ''}."
    )


def _here(rows: Rows, selection: Selection, metrics: list[str]) -> str:
    """The reference budget, where the verdict is another one at some other budget."""
    own = [_senses(rows, selection, m, selection.reference) for m in metrics]
    differs = any([_senses(rows, selection, m, b) for m in metrics] != own for b in selection.others)
    return f",{selection.where(selection.reference)}" if differs else ""


def _capital(text: str) -> str:
    """A capital for a sentence that begins with words of ours: names of variants keep their case."""
    return text[0].upper() + text[1:] if text.startswith("no variant ") else text


def _senses(rows: Rows, selection: Selection, metric: str, budget: str) -> Senses:
    """1, 0 or -1 for each contender but the baseline; None where it cannot be compared."""
    senses: Senses = {}
    for variant in selection.contenders:
        if variant != selection.baseline:
            row = rows.get((variant, budget, metric))
            senses[variant] = None if row is None or not known(row["delta"]) else decided(row, selection.alpha)
    return senses


def _in_short(rows: Rows, selection: Selection, metric: str, budget: str = "") -> str:
    """Names by sense: ``dense and hybrid beat bm25, late is not distinguishable from bm25``."""
    senses = _senses(rows, selection, metric, budget or selection.reference)
    if len(senses) > 1 and set(senses.values()) == {0}:
        return f"no variant is distinguishable from {selection.baseline}"
    parts: list[str] = []
    for sense, one, several in (
        (1, "beats", "beat"),
        (-1, "falls short of", "fall short of"),
        (0, "is not distinguishable from", "are not distinguishable from"),
        (None, "cannot be compared with", "cannot be compared with"),
    ):
        names = [variant for variant, found in senses.items() if found == sense]
        if names:
            verb = one if len(names) == 1 else several
            parts.append(f"{listed(names)} {verb} {selection.baseline}")
    return ", ".join(parts)


# --- with numbers ---------------------------------------------------------------------------------------------------


def _detail(clauses: list[str], rows: Rows, selection: Selection, metric: str) -> str:
    """The clauses at the reference budget, and how far they hold in the rest of a sweep."""
    text = "; ".join(clauses)
    if not selection.sweep:
        return f"{text}."
    if all(_figures(rows, selection, metric, b) == _figures(rows, selection, metric) for b in selection.others):
        return f"At every budget, {text}."
    own = _senses(rows, selection, metric, selection.reference), _turned(rows, selection, metric)
    others: dict[str, list[str]] = {}
    for budget in selection.others:
        same = (_senses(rows, selection, metric, budget), _turned(rows, selection, metric, budget)) == own
        short = _in_short(rows, selection, metric, budget) + _reserved(rows, selection, metric, budget)
        said = "the same verdict" if same else short
        others.setdefault(said, []).append(_without_unit(selection, budget))
    rest = "; ".join(f"at {listed(labels)}, {said}" for said, labels in others.items())
    return f"A{selection.where(selection.reference).removeprefix(' a')}, {text}; {rest}."


def _without_unit(selection: Selection, budget: str) -> str:
    """A label without the unit that the label of the reference budget has named already."""
    unit = selection.label(selection.reference).partition(" ")[2]
    label = selection.label(budget)
    return label.removesuffix(f" {unit}") if selection.swept and unit else label


def _figures(rows: Rows, selection: Selection, metric: str, budget: str = "") -> list[str]:
    found = [rows.get((v, budget or selection.reference, metric), {}) for v in selection.contenders]
    names = ("delta", "ci_low", "ci_high", "p_holm")
    return [repr([side.get(name) for side in (row, within_budget(row)) for name in names]) for row in found]


def _clauses(rows: Rows, values: Rows, selection: Selection, metric: str) -> list[str]:
    """What can be said of each contender at the reference budget, the best first; the first clause names the metric."""
    senses = _senses(rows, selection, metric, selection.reference)
    found = {v: rows[(v, selection.reference, metric)] for v, sense in senses.items() if sense is not None}
    better = sorted((v for v in found if senses[v] == 1), key=lambda v: -found[v]["delta"])
    worse = [v for v in found if senses[v] == -1]
    told: list[str] = []
    for variant in (*better, *worse):
        unit = "" if told else f" {metric}"
        told.append(_decided(variant, found[variant], selection, unit))
    undecided = {v: row for v, row in found.items() if senses[v] == 0}
    if undecided:
        told.append(_undecided(undecided, selection, metric))
    missing = [v for v, sense in senses.items() if sense is None]
    if missing:
        told.append(f"{listed(missing)} cannot be compared with {selection.baseline} on {metric}")
    if turned := _turned(rows, selection, metric):
        inside = ", ".join(_within(v, found[v], values, selection, metric) for v in turned)
        told.append(f"but with questions beyond the budget counted as 0, on {metric} {inside}")
    return told


def _decided(variant: str, row: dict[str, Any], selection: Selection, unit: str) -> str:
    above = row["delta"] > 0
    low, high = (row["ci_low"], row["ci_high"]) if above else (-row["ci_high"], -row["ci_low"])
    size = f"{score(abs(row['delta']))}{unit} {interval(low, high)}, {_certainty(row, selection)}"
    return f"{variant} {'beats' if above else 'falls short of'} {selection.baseline} by {size}"


def _undecided(found: dict[str, dict[str, Any]], selection: Selection, metric: str) -> str:
    sizes = [
        f"{signed(row['delta'])} {interval(row['ci_low'], row['ci_high'], sign=True)}, {_certainty(row, selection)}"
        for row in found.values()
    ]
    verb, noun = ("is", "difference") if len(found) == 1 else ("are", "differences")
    told = f"{listed(list(found))} {verb} not distinguishable from {selection.baseline} on {metric}"
    return f"{told} ({noun} {'; '.join(sizes)})"


def _certainty(row: dict[str, Any], selection: Selection) -> str:
    few = f", on only {plural(int(row['n']), 'question')}" if row["n"] < SMALL_N else ""
    return p_clause(row["p_holm"], selection.alpha) + few


def _within(variant: str, row: dict[str, Any], values: Rows, selection: Selection, metric: str) -> str:
    """The other verdict on a variant when questions beyond the budget count as 0."""
    inside = within_budget(row)
    verb = {1: "beats", -1: "falls short of", 0: "is not distinguishable from"}[decided(inside, selection.alpha)]
    pair = (values.get((v, selection.reference, metric), {}) for v in (variant, selection.baseline))
    means = " against ".join(score(found.get("value_within_budget")) for found in pair)
    return f"{variant} {verb} {selection.baseline} ({means}, {_certainty(inside, selection)})"


def _alone(values: Rows, selection: Selection) -> str:
    row = values.get((selection.baseline, selection.reference, selection.primary))
    if row is None or not known(row["value"]):
        return "Nothing was measured that could be compared."
    size = f"{selection.primary} {score(row['value'])} {interval(row['ci_low'], row['ci_high'])}"
    if len(selection.contenders) > 1:
        return f"{selection.baseline}: {size}. No other variant could be compared with it."
    return f"{selection.baseline}: {size}. There is no other variant to compare it with."


def _bounds(values: Rows, selection: Selection) -> list[str]:
    metric, budget = selection.outcome, selection.reference
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
    reaches = f"the same generator reaches {metric}" if metric in BY_THE_GENERATOR else f"{metric} is"
    return [f"For scale: {reaches} {' and '.join(parts)}{selection.where(budget)}."]
