"""Compare two finished runs question by question, and say what was not held equal between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rag_lab.contracts import RagLabError
from rag_lab.definition import MAIN
from rag_lab.metrics.stats import compare, holm
from rag_lab.results import Results, frame

if TYPE_CHECKING:
    import pandas as pd

RATIOS = ("AbstentionPrecision",)


@dataclass(frozen=True, eq=False)
class RunComparison:
    """`table` has the columns of `Results.comparisons`, second run minus first; `differs` says what was not equal."""

    table: pd.DataFrame
    differs: tuple[str, ...]


def compare_runs(first: Results, second: Results, names: Sequence[str] = ("first", "second")) -> RunComparison:
    """Compare each variant that both runs have, under the main budget, with the first run's seed and statistics.

    Raises RagLabError when the runs are not about the same questions (their difference would mean nothing) and when
    they share no variant.
    """
    if first.dataset["fingerprint"] != second.dataset["fingerprint"]:
        raise RagLabError(
            f"compare: {names[0]} is on {first.dataset['name']} {first.dataset['fingerprint'][:12]} and {names[1]} on "
            f"{second.dataset['name']} {second.dataset['fingerprint'][:12]}; run both on the same questions"
        )
    shared = [name for name in first.variants if name in second.variants]
    if not shared:
        raise RagLabError(
            f"compare: no variant is in both runs; {names[0]} has {', '.join(first.variants)} and {names[1]} has "
            f"{', '.join(second.variants)}"
        )
    rows = []
    for variant in shared:
        for metric in dict.fromkeys(first.questions["metric"]):
            row = _pair(first, second, variant, metric)
            if row is not None:
                rows.append({"baseline": names[0], "variant": variant, "budget": MAIN, "metric": metric, **row})
    table = frame("comparisons", rows)
    for metric in dict.fromkeys(table["metric"]):
        mine = table["metric"] == metric
        table.loc[mine, "p_holm"] = holm(table.loc[mine, "p"].to_numpy())
    return RunComparison(table, tuple(_differences(first, second)))


def _pair(first: Results, second: Results, variant: str, metric: str) -> dict[str, object] | None:
    """The difference on one metric; None for a ratio over the collection and where a run lacks it."""
    columns = [_values(results, variant, metric) for results in (first, second)]
    ids = sorted(set(columns[0]) & set(columns[1]))
    if metric in RATIOS or not ids:
        return None
    base, other = (np.array([column[i] for i in ids]) for column in columns)
    settings = {name: first.provenance[name] for name in ("resamples", "permutations", "confidence")}
    found = compare(base, other[:, None], ids, seed=first.seed, **settings)
    return {
        "delta": float(found.delta[0]),
        "ci_low": float(found.low[0]),
        "ci_high": float(found.high[0]),
        "p": float(found.p[0]),
        "p_holm": 1.0,
        "effect": float(found.effect[0]),
        "n": found.n,
        "note": found.notes[0],
    }


def _values(results: Results, variant: str, metric: str) -> dict[str, float]:
    table = results.questions
    mine = table[(table["variant"] == variant) & (table["metric"] == metric) & (table["budget"] == MAIN)]
    return dict(zip(mine["query_id"], mine["value"], strict=True))


def _differences(first: Results, second: Results) -> list[str]:
    found = []
    for name, one, other in (
        ("snapshot", first.snapshot, second.snapshot),
        ("seed", first.seed, second.seed),
        ("budget", first.budgets[MAIN], second.budgets[MAIN]),
        ("generator", first.provenance["models"].get("generator"), second.provenance["models"].get("generator")),
        ("code", first.provenance["code_version"], second.provenance["code_version"]),
    ):
        if one != other:
            found.append(f"{name}: {one} against {other}")
    changed = [n for n in first.variants if n in second.variants and first.variants[n] != second.variants[n]]
    found += [f"stages of {name} differ" for name in changed]
    for what, one, other in (
        ("variant", list(first.variants), list(second.variants)),
        ("metric", *(list(dict.fromkeys(results.questions["metric"])) for results in (first, second))),
    ):
        found += [f"{what} {name} is only in the first" for name in one if name not in other]
        found += [f"{what} {name} is only in the second" for name in other if name not in one]
    return found
