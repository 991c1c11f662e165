"""What a report is about: which variants compete, on which metric, at which budgets, and which one is looked into."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import RESOURCES
from rag_lab.definition import MAIN
from rag_lab.metrics.ceiling import ceilings
from rag_lab.reports.numbers import NBSP, RESOURCE_LABELS, known, listed, quantity
from rag_lab.variants import is_bound

if TYPE_CHECKING:
    from rag_lab.results import Results

FAMILIES: dict[str, tuple[str, ...]] = {
    "Retrieval": ("nDCG@10", "Recall@100", "RR", "AP", "P@5", "Hit@5"),
    "Spans": ("SpanNDCG@10", "SpanRecall@10", "RelevantText@10"),
    "Context": ("AssembledRecall", "GoldInContext", "RelevantTokens"),
    "Answers": ("Correct", "F1", "EM"),
    "Citations": ("CitationPrecision", "CitationRecall"),
    "Abstention": ("AbstentionPrecision", "AbstentionRecall"),
}
HEADLINE_ORDER = (("nDCG@10", "Recall@100", "RR", "AP"), ("AssembledRecall",), ("Correct", "F1", "EM"))


@dataclass(frozen=True)
class Selection:
    """The choices that a reader must know, made once for all parts of the report.

    primary: the metric of the verdict and of the worst questions, the first that the experiment lists; headline: the
    primary metric and one each of the other boundaries (ranking, context, answer); contenders: variants but for the
    bounds; focal: the variant whose worst questions are shown; budgets: from small to large where one resource is
    swept; `budget_labels` says what each is called; swept: the one resource in which they differ, else empty.
    """

    variants: tuple[str, ...]
    budgets: tuple[str, ...]
    budget_labels: dict[str, str]
    swept: str
    baseline: str
    primary: str
    headline: tuple[str, ...]
    metrics: tuple[str, ...]
    groups: tuple[str, ...]
    alpha: float

    @property
    def contenders(self) -> tuple[str, ...]:
        return tuple(v for v in self.variants if not is_bound(v, self.baseline))

    @property
    def bounds(self) -> tuple[str, ...]:
        return tuple(v for v in self.variants if is_bound(v, self.baseline))

    @property
    def focal(self) -> str:
        """The last contender that is not the baseline, in the experiment's order."""
        others = [v for v in self.contenders if v != self.baseline]
        return others[-1] if others else self.baseline

    @property
    def outcome(self) -> str:
        """The headline metric furthest down the pipeline, the primary one first: what cost is set against."""
        place = {metric: i for i, family in enumerate(FAMILIES.values()) for metric in family}
        return max(self.headline, key=lambda metric: place.get(metric, -1))

    @property
    def reference(self) -> str:
        """The budget of all that is shown at one budget only: the main one, else the largest."""
        return MAIN if MAIN in self.budgets else self.budgets[-1]

    @property
    def others(self) -> tuple[str, ...]:
        """The budgets of a sweep but for the reference."""
        return tuple(b for b in self.budgets if b != self.reference)

    @property
    def sweep(self) -> bool:
        return len(self.budgets) > 1

    def label(self, budget: str) -> str:
        """What a budget is called: ``200 context tokens`` in a sweep over those."""
        return self.budget_labels.get(budget, budget)

    def at(self, budgets: Sequence[str]) -> str:
        """Several budgets: ``200 and 400 context tokens``."""
        labels = [self.label(budget) for budget in budgets]
        unit = labels[-1].partition(" ")[2] if self.swept else ""
        return f"{listed([label.removesuffix(f' {unit}') for label in labels])} {unit}".strip()

    def where(self, budget: str) -> str:
        """Where a statement holds, to be put behind it: `` at 200 context tokens``, empty when there is one budget."""
        label = self.label(budget)
        return "" if not self.sweep else f" at budget {label}" if label == budget else f" at {label}"

    @property
    def confidence(self) -> str:
        return f"{100 * (1 - self.alpha):.3g}{NBSP}%"


def select(results: Results) -> Selection:
    """Read the choices off the results: the experiment's own where it makes them, else the documented order."""
    metrics = results.metrics
    measured = list(dict.fromkeys(metrics.loc[metrics["value"].notna(), "metric"].astype(str)))
    known_order = [name for family in FAMILIES.values() for name in family]
    ordered = [m for m in known_order if m in measured] + [m for m in measured if m not in known_order]
    variants = tuple(str(v) for v in results.variants) or tuple(dict.fromkeys(metrics["variant"].astype(str)))
    primary = _primary(results, ordered)
    budgets = tuple(dict.fromkeys(metrics["budget"].astype(str))) or (MAIN,)
    swept = _swept(results, budgets)
    labels = _budget_labels(results, budgets, swept)
    return Selection(
        variants=variants,
        budgets=tuple(labels),
        budget_labels=labels,
        swept=swept,
        baseline=_baseline(results, variants),
        primary=primary,
        headline=_headline(primary, ordered),
        metrics=tuple(ordered),
        groups=tuple(g for g in dict.fromkeys(metrics["group"].astype(str)) if g != "all"),
        alpha=round(1 - float(results.provenance.get("confidence", 0.95)), 6),
    )


def cap_of(results: Results, budget: str, resource: str) -> float:
    """The cap on a resource, infinite where it is open."""
    cap = dict(results.budgets.get(budget, {})).get(resource)
    return float(cap) if cap is not None and known(cap) else math.inf


def _swept(results: Results, budgets: tuple[str, ...]) -> str:
    differing = [r for r in RESOURCES if len({cap_of(results, name, r) for name in budgets}) > 1]
    return differing[0] if len(differing) == 1 else ""


def _budget_labels(results: Results, budgets: tuple[str, ...], resource: str) -> dict[str, str]:
    """Names as they are; by the cap, and in its order, where the budgets differ in one resource only."""
    if not resource:
        return {name: name for name in budgets}
    values = {name: cap_of(results, name, resource) for name in budgets}
    return {
        name: f"open {RESOURCE_LABELS[resource]}" if math.isinf(values[name]) else quantity(values[name], resource)
        for name in sorted(budgets, key=lambda name: values[name])
    }


def families(metrics: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The metrics that were measured, by the boundary they belong to; ceilings stand beside what they bound."""
    found = {name: tuple(m for m in members if m in metrics) for name, members in FAMILIES.items()}
    listed = {m for members in FAMILIES.values() for m in members} | set(ceilings(metrics))
    found["Other"] = tuple(m for m in metrics if m not in listed)
    return {name: members for name, members in found.items() if members}


def scores(results: Results, *, group: str = "all") -> dict[tuple[str, str, str], dict[str, Any]]:
    """Rows of the metrics frame of one group, by (variant, budget, metric)."""
    frame = results.metrics
    rows = frame[frame["group"] == group].to_dict("records")
    return {(str(r["variant"]), str(r["budget"]), str(r["metric"])): {str(k): v for k, v in r.items()} for r in rows}


def comparisons(results: Results, baseline: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Rows of the comparisons with one baseline, by (variant, budget, metric)."""
    frame = results.comparisons
    rows = frame[frame["baseline"] == baseline].to_dict("records")
    return {(str(r["variant"]), str(r["budget"]), str(r["metric"])): {str(k): v for k, v in r.items()} for r in rows}


def decided(row: dict[str, Any], alpha: float) -> int:
    """1 when the variant is above the baseline, -1 when below, 0 when the data do not tell.

    A difference counts only when its interval excludes zero *and* the Holm-corrected p is below `alpha`.
    """
    if not all(known(row.get(name)) for name in ("delta", "ci_low", "ci_high", "p_holm")) or row["p_holm"] >= alpha:
        return 0
    return 1 if row["ci_low"] > 0 else -1 if row["ci_high"] < 0 else 0


def within_budget(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the comparisons as it is with the questions over budget counted as 0."""
    return row | {name: row.get(f"{name}_within") for name in ("delta", "ci_low", "ci_high", "p_holm")}


def _primary(results: Results, ordered: list[str]) -> str:
    asked = [m for m in results.experiment.get("metrics") or [] if m in ordered]
    if asked:
        return str(asked[0])
    compared = [m for m in ordered if m in set(results.comparisons["metric"])]
    return (compared or ordered or ["–"])[0]


def _headline(primary: str, ordered: list[str]) -> tuple[str, ...]:
    chosen = [primary]
    for members in HEADLINE_ORDER:
        found = [m for m in members if m in ordered]
        if found and primary not in members:
            chosen.append(found[0])
    return tuple(chosen[:3])


def _baseline(results: Results, variants: tuple[str, ...]) -> str:
    named = list(dict.fromkeys(results.comparisons["baseline"].astype(str)))
    asked = results.experiment.get("baseline")
    if asked in variants and (asked in named or not named):
        return str(asked)
    return named[0] if named else variants[0]
