"""How numbers are written: as many digits as they can carry, and a real minus sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

MINUS = "\u2212"
DASH = "–"
NBSP = "\u00a0"

RESOURCE_LABELS = {
    "candidates": "candidates",
    "rerank_pairs": "rerank pairs",
    "context_tokens": "context tokens",
    "output_tokens": "output tokens",
    "llm_calls": "LLM calls",
    "rounds": "rounds",
    "usd": "money",
    "latency_ms": "latency",
}
LEAST_USD = 1e-6
UNITS = {"usd": "USD per 1,000 questions", "latency_ms": "latency (ms)"}


def known(value: Any) -> bool:
    """Whether there is a finite number."""
    return value is not None and not isinstance(value, str) and math.isfinite(value)


def score(value: Any) -> str:
    """Three decimals; a value that would round to zero, and is not, keeps its first digit."""
    if not known(value):
        return DASH
    text = f"{abs(value):.3f}"
    if float(text) == 0 and value != 0:
        text = _first_digit(abs(value))
    return (MINUS if value < 0 else "") + text


def signed(value: Any) -> str:
    """A difference, with its sign."""
    return ("+" if known(value) and value > 0 else "") + score(value)


def interval(low: Any, high: Any, sign: bool = False) -> str:
    """``[low, high]``, kept on one line by a no-break space."""
    write = signed if sign else score
    return f"[{write(low)},{NBSP}{write(high)}]" if known(low) and known(high) else ""


def p_value(p: Any, alpha: float = 0.05) -> str:
    """Three decimals, four where three would hide on which side of `alpha` the value lies, ``<0.001`` below that."""
    if not known(p):
        return DASH
    if p < 0.001:
        return "<0.001"
    text = f"{p:.3f}"
    if float(text) >= 1:
        return "1"
    return f"{p:.4f}" if float(text) == alpha and p != alpha else text


def p_clause(p: Any, alpha: float = 0.05) -> str:
    """The p-value in a sentence, kept on one line: ``p_holm 0.003`` or ``p_holm < 0.001``."""
    return f"p_holm {p_value(p, alpha)}".replace(" <", " < ").replace(" ", NBSP)


def count(value: Any) -> str:
    """A whole number with thousands separated."""
    return f"{round(value):,}" if known(value) else DASH


def share(value: Any) -> str:
    """A part of the whole in per cent."""
    return f"{100 * value:.1f} %" if known(value) else DASH


def resource_heading(resource: str) -> str:
    """A resource over a column of `amount`s: its name, and its unit where the name alone does not tell."""
    return UNITS.get(resource, RESOURCE_LABELS[resource])


def amount(value: Any, resource: str) -> str:
    """What a question used of a resource, in three significant digits; money in two, for a thousand questions."""
    if not known(value):
        return DASH
    shown = 1000 * value if resource == "usd" else value
    if shown == 0:
        return "0"
    if resource == "usd" and shown < 1:
        return _significant(shown, 2) if shown >= LEAST_USD else f"<{LEAST_USD:.6f}"
    return f"{shown:,.0f}" if abs(shown) >= 100 or float(shown).is_integer() else _significant(shown)


def quantity(value: Any, resource: str) -> str:
    """An amount with what it is an amount of: ``200 context tokens``, ``1,000 ms``."""
    unit = "ms" if resource == "latency_ms" else resource_heading(resource)
    return f"{amount(value, resource)} {unit}"


def duration(value: Any) -> str:
    """A duration with two decimals below 1, one below 100, none above."""
    if not known(value):
        return DASH
    if value < 1:
        return "0" if value == 0 else "<0.01" if value < 0.005 else f"{value:.2f}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def data_size(value: Any) -> str:
    """Bytes in three significant digits, in units of a thousand: ``1.54 GB``, ``181 MB``, ``0``."""
    if not known(value):
        return DASH
    size, units = float(f"{value:.3g}"), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:,.0f} {units[0]}" if size >= 100 or units[0] == "bytes" else f"{_significant(size)} {units[0]}"


def plural(n: int, noun: str) -> str:
    """``1 question``, ``2 questions``."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def listed(names: Sequence[str]) -> str:
    """``bm25``, ``bm25 and dense``, ``bm25, dense and hybrid``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _significant(value: float, digits: int = 3) -> str:
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{decimals}f}"


def _first_digit(value: float) -> str:
    return f"{value:.{min(12, -math.floor(math.log10(value)))}f}"
