"""Which stage earned the gain: each step of an ablation compared with what it was switched in, question by question.

Five things are kept apart, as *interventions*: a stage, how many queries a question is searched by, the reranker, the
context tokens (the same variant under the other caps of the sweep), and the generator (the same variant with another).
Holm's correction is over the steps of one direction on one metric; the first of a chain is compared with nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rag_lab.comparison import RATIOS
from rag_lab.definition import MAIN, Experiment
from rag_lab.metrics.stats import compare, holm
from rag_lab.results import Results, frame

if TYPE_CHECKING:
    import pandas as pd

CONTEXT = "context_tokens"


@dataclass(frozen=True, slots=True)
class _Step:
    """What is compared: a variant under a budget, in one of the results, with another of this run."""

    direction: str
    step: str
    intervention: str
    variant: str
    budget: str
    against: str
    of: str = ""


def steps(definition: Experiment, results: Results, others: Mapping[str, Results]) -> pd.DataFrame:
    """The frame `ablation`. `others` are the same experiment with other generators, by the generator's name."""
    rows: list[dict[str, Any]] = []
    found = _steps(definition, others)
    for metric in dict.fromkeys(results.questions["metric"]):
        if metric not in RATIOS:
            for direction in dict.fromkeys(step.direction for step in found):
                rows += _rows([step for step in found if step.direction == direction], metric, results, others)
    return frame("ablation", rows)


def _steps(definition: Experiment, others: Mapping[str, Results]) -> list[_Step]:
    if definition.ablation is None:
        return []
    whole = definition.ablation.variant
    defined = {
        name: stages
        for entry in definition.variants
        for name, stages in ([(entry, None)] if isinstance(entry, str) else entry.items())
    }
    found = [_Step("leave one out", "whole", "", whole, MAIN, "")]
    found += [
        _Step(switch.direction, switch.step, switch.intervention, switch.variant.name, MAIN, switch.against)
        for switch in definition.switches(defined)
    ]
    found += [
        _Step("other interventions", f"{budget.caps()[CONTEXT]:g} context tokens", "context tokens", whole, name, whole)
        for name, budget in definition.budgets().items()
        if name.startswith(f"{CONTEXT}=")
    ]
    found += [_Step("other interventions", f"generator {of}", "generator", whole, MAIN, whole, of) for of in others]
    return found


def _rows(found: Sequence[_Step], metric: str, results: Results, others: Mapping[str, Results]) -> list[dict[str, Any]]:
    rows, tested = [], []
    for step in found:
        table = others[step.of] if step.of else results
        own = _values(table, step.variant, step.budget, metric)
        if not own:
            continue
        row = {
            "direction": step.direction,
            "step": step.step,
            "intervention": step.intervention,
            "variant": step.variant,
            "against": step.against,
            "metric": metric,
            **_mean(table, step, metric),
            "n": len(own),
            "note": "",
        }
        base = _values(results, step.against, MAIN, metric) if step.against else {}
        if base:
            row |= _difference(base, own, results)
            tested.append(row)
        rows.append(row)
    for row, p in zip(tested, holm([row["p"] for row in tested]), strict=True):
        row["p_holm"] = float(p)
    return rows


def _values(results: Results, variant: str, budget: str, metric: str) -> dict[str, float]:
    table = results.questions
    mine = table[(table["variant"] == variant) & (table["budget"] == budget) & (table["metric"] == metric)]
    return dict(zip(mine["query_id"], mine["value"], strict=True))


def _mean(results: Results, step: _Step, metric: str) -> dict[str, Any]:
    """The variant's mean and its interval, as in the table of scores."""
    table = results.metrics
    mine = table[
        (table["variant"] == step.variant)
        & (table["budget"] == step.budget)
        & (table["metric"] == metric)
        & (table["group"] == "all")
    ].iloc[0]
    return {name: float(mine[name]) for name in ("value", "ci_low", "ci_high")}


def _difference(base: Mapping[str, float], own: Mapping[str, float], results: Results) -> dict[str, Any]:
    ids = sorted(base.keys() & own.keys())
    settings = {name: results.provenance[name] for name in ("resamples", "permutations", "confidence")}
    one, other = (np.array([values[i] for i in ids]) for values in (base, own))
    found = compare(one, other[:, None], ids, seed=results.seed, **settings)
    return {
        "delta": float(found.delta[0]),
        "delta_low": float(found.low[0]),
        "delta_high": float(found.high[0]),
        "p": float(found.p[0]),
        "n": found.n,
        "note": found.notes[0],
    }
