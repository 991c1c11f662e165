"""Intervals and paired tests of ten variants over 300 questions, against SciPy one variant at a time.

Run it as ``python experiments/benchmarks/significance.py``; it prints seconds and the ratio. Both sides use 10,000
resamples and 10,000 permutations, and both give a percentile interval of each mean, a percentile interval of each
difference to the baseline, and a two-sided paired p.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# A script finds its own folder first, and this file bears the name of a module that others import.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parent]

import numpy as np  # noqa: E402
from scipy import stats as scipy_stats  # noqa: E402

from rag_lab.metrics import stats  # noqa: E402

VARIANTS, QUESTIONS, RESAMPLES, REPEATS = 10, 300, 10_000, 5


def made_up_scores(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A baseline ``[questions]`` and variants ``[questions, variants]`` that differ from it a little."""
    generator = np.random.default_rng(seed)
    baseline = generator.beta(0.6, 0.4, QUESTIONS)
    noise = generator.normal(0.02, 0.2, (QUESTIONS, VARIANTS))
    return baseline, np.clip(baseline[:, None] + noise, 0, 1)


def ours(baseline: np.ndarray, variants: np.ndarray) -> tuple[np.ndarray, ...]:
    """All variants in two calls."""
    ids = [f"q{i:04}" for i in range(QUESTIONS)]
    interval = stats.bootstrap_mean(variants, ids, resamples=RESAMPLES)
    comparison = stats.compare(baseline, variants, ids, resamples=RESAMPLES, permutations=RESAMPLES)
    return interval.low, interval.high, comparison.low, comparison.high, comparison.p


def scipy_each(baseline: np.ndarray, variants: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same figures from `scipy.stats`, one variant at a time."""
    rows = []
    for column in variants.T:
        mean = scipy_interval(column)
        difference = scipy_interval(column - baseline)
        test = scipy_stats.permutation_test(
            (column - baseline,),
            np.mean,
            permutation_type="samples",
            n_resamples=RESAMPLES,
            vectorized=True,
            rng=np.random.default_rng(1),
        )
        rows.append((*mean, *difference, test.pvalue))
    return tuple(np.array(rows).T)


def scipy_interval(values: np.ndarray) -> tuple[float, float]:
    """Percentile interval of a mean."""
    result = scipy_stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(0),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def seconds(work: Callable[[], Any], repeats: int) -> float:
    """The median of `repeats` runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    """Print both times, their ratio, and how far the figures are apart."""
    baseline, variants = made_up_scores()
    mine, theirs = ours(baseline, variants), scipy_each(baseline, variants)
    apart = [float(np.abs(one - other).max()) for one, other in zip(mine, theirs, strict=True)]
    fast, slow = seconds(lambda: ours(baseline, variants), REPEATS), seconds(lambda: scipy_each(baseline, variants), 1)
    print(f"{VARIANTS} variants x {QUESTIONS} questions x {RESAMPLES:,} resamples, interval and test")
    print(f"  rag_lab                    {fast:8.3f} s   (target: under 1 s)")
    print(f"  scipy, one after another   {slow:8.3f} s   ratio {slow / fast:.1f}")
    print(f"  largest difference: interval limits {max(apart[:4]):.4f}, p {apart[4]:.4f} (random error of both)")


if __name__ == "__main__":
    main()
