"""Intervals and tests for scores of questions, for all variants at once.

The unit is the question. Rows are put in the order of their query ids first, and repeats of a question are averaged
first, so that shuffled rows give the same numbers and fifty repeats of two questions stay two questions.

Scores are put on a grid fine enough that every sum below is exact in float64 (`_on_grid`). An exact sum does not depend
on its order, so neither BLAS nor the number of threads can change a figure.

References: Efron and Tibshirani, An Introduction to the Bootstrap, 1993 (percentile interval); Smucker, Allan and
Carterette, A comparison of statistical significance tests for information retrieval evaluation, CIKM 2007 (paired
randomisation); Phipson and Smyth, Permutation p-values should never be zero, 2010; Holm, 1979; Cohen, 1988 (d_z).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BoolArray, FloatArray, RagLabError, batches

RESAMPLES = 10_000
CONFIDENCE = 0.95
POWER = 0.8

# Cells of a resampling matrix that are held at once; a fixed number, so that the draws never depend on the machine.
_CELLS = 2_000_000
_TIE = 1e-10
_BOOTSTRAP_STREAM, _PERMUTATION_STREAM = 1, 2


@dataclass(frozen=True, eq=False)
class Interval:
    """A value per column with its percentile interval, ``[m]`` each; `n` questions; `notes` say what is unusual."""

    value: FloatArray
    low: FloatArray
    high: FloatArray
    n: int
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Each variant against the baseline, ``[m]`` each.

    delta: variant minus baseline, with its percentile interval `low` to `high`; p: two-sided paired randomisation test;
    effect: Cohen's d_z, the mean difference over the standard deviation of the differences, NaN where that deviation is
    zero or undefined; detectable: the smallest true difference that a test at ``1 - confidence`` finds with 80 % power
    given the spread of these differences (normal approximation), NaN where there is no spread.
    """

    delta: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray
    effect: FloatArray
    detectable: FloatArray
    n: int
    notes: tuple[str, ...]


def per_question(values: npt.ArrayLike, query_ids: Sequence[str]) -> tuple[list[str], FloatArray]:
    """Query ids in order, and the mean of each question's rows: ``[rows]`` or ``[rows, m]`` to ``[questions, m]``.

    Raises RagLabError for a value that is not finite and for a length that does not fit.
    """
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if len(table) != len(query_ids):
        raise RagLabError(f"statistics: {len(table)} rows of values but {len(query_ids)} query ids")
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        bad = query_ids[int(np.argmin(finite))]
        raise RagLabError(f"statistics: the value of question {bad!r} is NaN or infinite; a missing result must be 0")
    ids, first, group, repeats = np.unique(
        np.asarray(query_ids, dtype=object), return_index=True, return_inverse=True, return_counts=True
    )
    if len(ids) == len(table):
        return ids.tolist(), table[first]
    sums = np.add.reduceat(table[np.argsort(group, kind="stable")], np.cumsum(repeats) - repeats, axis=0)
    return ids.tolist(), sums / repeats[:, None]


def bootstrap_mean(
    values: npt.ArrayLike,
    query_ids: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Mean and percentile bootstrap interval of each column of ``[rows, m]``; all columns share the resamples."""
    table = per_question(values, query_ids)[1]
    return _interval(table, np.ones_like(table), resamples, confidence, seed)


def bootstrap_ratio(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    query_ids: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Sum of `numerator` over sum of `denominator` per column, ``[rows, m]`` each, with its interval over questions.

    A ratio without denominator is 0 and noted; resamples that lack one say nothing and are left out.
    """
    above = per_question(numerator, query_ids)[1]
    return _interval(above, per_question(denominator, query_ids)[1], resamples, confidence, seed)


def compare(
    baseline: npt.ArrayLike,
    variants: npt.ArrayLike,
    query_ids: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    permutations: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Comparison:
    """Means of `variants` ``[rows, m]`` against the mean of `baseline` ``[rows]``, paired by question.

    Under the null hypothesis the two scores of a question may be exchanged. ``p = (c + 1) / (N + 1)`` with c of N
    random exchanges that are at least as extreme; where there are no more than N in all, they are enumerated and p is
    exact.
    """
    one = np.ones(len(query_ids))
    table = np.asarray(variants, dtype=np.float64)
    return compare_ratio(
        baseline,
        one,
        table,
        np.ones_like(table),
        query_ids,
        resamples=resamples,
        permutations=permutations,
        confidence=confidence,
        seed=seed,
    )


def compare_ratio(
    baseline_numerator: npt.ArrayLike,
    baseline_denominator: npt.ArrayLike,
    variant_numerators: npt.ArrayLike,
    variant_denominators: npt.ArrayLike,
    query_ids: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    permutations: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Comparison:
    """As `compare`, for ratios of sums: numerator and denominator of a question are exchanged together.

    Where one side has no denominator at all there is no difference to speak of: NaN, with p 1 and a note.
    """
    above, below = per_question(variant_numerators, query_ids)[1], per_question(variant_denominators, query_ids)[1]
    base_above = np.broadcast_to(per_question(baseline_numerator, query_ids)[1], above.shape)
    base_below = np.broadcast_to(per_question(baseline_denominator, query_ids)[1], below.shape)
    n = len(above)
    pair = (base_above, base_below, above, below)
    delta = _tidy(_ratio(above.sum(axis=0), below.sum(axis=0)) - _ratio(base_above.sum(axis=0), base_below.sum(axis=0)))
    low, high = _difference_interval(pair, resamples, confidence, seed)
    p, exact = _randomisation(pair, permutations, seed)
    means = (base_below == 1).all(axis=0) & (below == 1).all(axis=0)
    spread = _spread(above - base_above, means)
    factor = NormalDist().inv_cdf((1 + confidence) / 2) + NormalDist().inv_cdf(POWER)
    notes = _comparison_notes(pair, exact, means & np.isnan(spread))
    effect = np.divide(delta, spread, out=np.full_like(delta, np.nan), where=spread > 0)
    lacking = _lacking(base_below, below)
    delta, low, high = (np.where(lacking, np.nan, figure) for figure in (delta, low, high))
    p = np.where(lacking, 1.0, p)
    return Comparison(delta, low, high, p, effect, factor * spread / np.sqrt(max(n, 1)), n, notes)


def holm(p: npt.ArrayLike) -> FloatArray:
    """Holm's step-down adjustment of a family of p values, in the order given."""
    given = np.asarray(p, dtype=np.float64)
    if ((given < 0) | (given > 1) | np.isnan(given)).any():
        raise RagLabError("holm: a p value is not between 0 and 1")
    order = np.argsort(given, kind="stable")
    stepped = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(stepped, 1)
    return adjusted


def _interval(above: FloatArray, below: FloatArray, resamples: int, confidence: float, seed: int) -> Interval:
    n, columns = above.shape
    if n == 0:
        nothing = np.zeros(columns)
        return Interval(nothing, nothing, nothing, 0, ("no questions",) * columns)
    value = _tidy(_ratio(above.sum(axis=0), below.sum(axis=0)))
    sums = _resampled_sums(np.hstack([_on_grid(above), _on_grid(below)]), resamples, seed)
    drawn = _ratio(sums[:, :columns], sums[:, columns:], without=np.nan)
    low, high = _percentiles(drawn, confidence)
    conditions = {
        "no denominator": below.sum(axis=0) == 0,
        "one question": np.full(columns, n == 1),
        "no variance": (above == above[0]).all(axis=0) & (below == below[0]).all(axis=0),
    }
    return Interval(value, low, high, n, _first_that_holds(conditions, columns))


def _difference_interval(
    pair: tuple[FloatArray, ...], resamples: int, confidence: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    n, columns = pair[0].shape
    if n == 0:
        return np.zeros(columns), np.zeros(columns)
    sums = _resampled_sums(np.hstack([_on_grid(side) for side in pair]), resamples, seed)
    base_above, base_below, above, below = np.hsplit(sums, 4)
    drawn = _ratio(above, below, without=np.nan) - _ratio(base_above, base_below, without=np.nan)
    return _percentiles(drawn, confidence)


def _comparison_notes(pair: tuple[FloatArray, ...], exact: BoolArray, flat: BoolArray) -> tuple[str, ...]:
    base_above, base_below, above, below = pair
    n, columns = above.shape
    conditions = {
        "no questions": np.full(columns, n == 0),
        "undefined for lack of a denominator": _lacking(base_below, below),
        "identical runs": ((above == base_above) & (below == base_below)).all(axis=0),
        "one question": np.full(columns, n == 1),
        "constant difference": flat,
        "exact test": exact,
    }
    return _first_that_holds(conditions, columns)


def _lacking(base_below: FloatArray, below: FloatArray) -> BoolArray:
    """Columns in which one side, or both, has no denominator, ``[m]``; none where there are no questions."""
    lacking: BoolArray = (base_below.sum(axis=0) == 0) | (below.sum(axis=0) == 0)
    return lacking & (len(below) > 0)


def _first_that_holds(conditions: Mapping[str, BoolArray], columns: int) -> tuple[str, ...]:
    return tuple(next((note for note, holds in conditions.items() if holds[j]), "") for j in range(columns))


def _resampled_sums(table: FloatArray, resamples: int, seed: int) -> FloatArray:
    """Sums over questions drawn with replacement, ``[n, m]`` to ``[resamples, m]``."""
    sums = np.empty((resamples, table.shape[1]))
    for part, counts in _draw_counts(len(table), resamples, seed):
        sums[part] = counts @ table
    return sums


def _draw_counts(n: int, resamples: int, seed: int) -> Iterator[tuple[slice, FloatArray]]:
    """How often each question is drawn, ``[resamples, n]``, a part at a time."""
    generator = np.random.default_rng([seed, _BOOTSTRAP_STREAM])
    kind = np.uint16 if n <= 1 << 16 else np.uint32
    for part in _parts(n, resamples):
        rows = part.stop - part.start
        drawn = generator.integers(0, n, size=(rows, n), dtype=kind)
        cells = drawn + np.arange(0, rows * n, n, dtype=np.int64)[:, None]
        counts = np.bincount(cells.ravel(), minlength=rows * n)
        yield part, counts.reshape(rows, n).astype(np.float64)


def _randomisation(pair: tuple[FloatArray, ...], permutations: int, seed: int) -> tuple[FloatArray, BoolArray]:
    """Two-sided p of each column ``[m]``, and whether all exchanges were enumerated."""
    base_above, base_below, above, below = pair
    sides = _on_grid(np.vstack([base_above, above])), _on_grid(np.vstack([base_below, below]))
    (above_0, above_1), (below_0, below_1) = (np.vsplit(side, 2) for side in sides)
    change = np.stack([above_1 - above_0, below_1 - below_0])
    totals = np.stack([above_0.sum(axis=0), below_0.sum(axis=0), above_1.sum(axis=0), below_1.sum(axis=0)])
    differs = (change != 0).any(axis=0)
    exact = differs.sum(axis=0) <= np.log2(max(permutations, 1))
    p = np.ones(above.shape[1])
    for column in np.flatnonzero(exact):
        rows = differs[:, column]
        exchanged = _all_choices(int(rows.sum())) @ change[:, rows, column].T
        p[column] = _extreme(exchanged[:, 0, None], exchanged[:, 1, None], totals[:, [column]])[0] / len(exchanged)
    drawn = np.flatnonzero(~exact)
    if len(drawn):
        exchanged = _exchanged_sums(np.hstack(list(change[:, :, drawn])), permutations, seed)
        above_sums, below_sums = np.hsplit(exchanged, 2)
        counted = _extreme(above_sums, below_sums, totals[:, drawn])
        p[drawn] = (counted + 1) / (permutations + 1)
    return p, exact


def _extreme(above: FloatArray, below: FloatArray, totals: FloatArray) -> FloatArray:
    """How many exchanges are at least as extreme as no exchange: sums of exchanged changes ``[exchanges, m]``."""
    base_above, base_below, variant_above, variant_below = totals
    observed = np.abs(_ratio(variant_above, variant_below) - _ratio(base_above, base_below))
    one = _ratio(base_above + above, base_below + below)
    other = _ratio(variant_above - above, variant_below - below)
    statistic = np.abs(one - other)
    tolerance = _TIE * np.maximum(statistic.max(axis=0), observed)
    counted: FloatArray = np.count_nonzero(statistic >= observed - tolerance, axis=0).astype(np.float64)
    return counted


def _exchanged_sums(change: FloatArray, permutations: int, seed: int) -> FloatArray:
    """Sums of `change` ``[n, m]`` over random halves of the questions, ``[permutations, m]``."""
    n = len(change)
    generator = np.random.default_rng([seed, _PERMUTATION_STREAM])
    sums = np.empty((permutations, change.shape[1]))
    for part in _parts(n, permutations):
        packed = generator.integers(0, 256, size=(part.stop - part.start, -(-n // 8)), dtype=np.uint8)
        sums[part] = np.unpackbits(packed, axis=1, count=n).astype(np.float64) @ change
    return sums


def _all_choices(n: int) -> FloatArray:
    """Every subset of n questions as a row of zeros and ones, ``[2 ** n, n]``."""
    return (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(np.float64)


def _parts(n: int, total: int) -> Iterator[slice]:
    """Slices of `total` draws over n questions, each of at most `_CELLS` numbers."""
    return batches(total, max(1, _CELLS // max(n, 1)))


def _on_grid(table: FloatArray) -> FloatArray:
    """Round each column to a power-of-two grid on which any sum of n of its values is exact; error n max 2^-51."""
    largest = len(table) * np.abs(table).max(axis=0, initial=0)
    exponent = 51 - np.frexp(largest)[1]
    rounded: FloatArray = np.ldexp(np.rint(np.ldexp(table, exponent)), -exponent)
    return rounded


def _ratio(above: FloatArray, below: FloatArray, without: float = 0.0) -> FloatArray:
    ratio: FloatArray = np.divide(
        above, below, out=np.full(np.broadcast(above, below).shape, without), where=below != 0
    )
    return ratio


def _percentiles(drawn: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Percentile limits of each column of ``[resamples, m]``; 0 where no resample has a value."""
    tail = (1 - confidence) / 2
    missing = np.isnan(drawn)
    drawn = np.where(missing.all(axis=0), 0.0, drawn)
    quantile = np.nanquantile if missing.any() else np.quantile
    low, high = quantile(drawn, [tail, 1 - tail], axis=0)
    return _tidy(low), _tidy(high)


def _spread(difference: FloatArray, means: BoolArray) -> FloatArray:
    """Standard deviation of the differences per column; NaN where it is zero, undefined or not one of means."""
    if len(difference) < 2:
        return np.full(difference.shape[1], np.nan)
    spread = difference.std(axis=0, ddof=1)
    flat = np.ptp(difference, axis=0) <= _TIE * np.abs(difference).max(axis=0)
    return np.where(means & ~flat, spread, np.nan)


def _tidy(numbers: FloatArray) -> FloatArray:
    """Twelve significant digits: what is left after the grid, and free of the noise below it."""
    return np.array([float(f"{number:.12g}") for number in numbers.tolist()], dtype=np.float64)
