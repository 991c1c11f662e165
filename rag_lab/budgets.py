"""Matched budgets: caps per question, the ledger that stages ask before they spend, and what money things cost.

What a stage can stop in time it stops: it is granted less, does less, and the ledger keeps the curtailment. What cannot
be stopped in time (latency, and money that follows from it) is marked over budget, and every score is shown twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RESOURCES, BoolArray, Curtailment, FloatArray, RagLabError, Usage

UNITS = {
    "candidates": "chunks",
    "rerank_pairs": "pairs",
    "context_tokens": "tokens",
    "output_tokens": "tokens",
    "llm_calls": "calls",
    "rounds": "rounds",
    "usd": "USD",
    "latency_ms": "ms",
}
LARGEST_CAP = 1e15  # amounts stay exact in float64 and fit 64-bit counts
LATE = ("usd", "latency_ms")


@dataclass(frozen=True)
class Budget:
    """Caps per question in the units of `UNITS`; None leaves a resource open."""

    candidates: int | None = None
    rerank_pairs: int | None = None
    context_tokens: int | None = None
    output_tokens: int | None = None
    llm_calls: int | None = None
    rounds: int | None = None
    usd: float | None = None
    latency_ms: float | None = None

    def __post_init__(self) -> None:
        for resource, cap in self.caps().items():
            if isinstance(cap, bool) or not isinstance(cap, int | float) or not 0 <= cap <= LARGEST_CAP:
                raise RagLabError(
                    f"budget.{resource}: {cap!r} is not a cap; "
                    f"use a number of at least 0 and at most {LARGEST_CAP:g}, or leave it out"
                )
            if resource not in LATE and cap != int(cap):
                raise RagLabError(f"budget.{resource}: {cap!r} must be a whole number of {UNITS[resource]}")

    def caps(self) -> dict[str, float]:
        """The caps that are set, in the order of `RESOURCES`."""
        return {name: getattr(self, name) for name in RESOURCES if getattr(self, name) is not None}

    @classmethod
    def from_mapping(cls, caps: Mapping[str, Any], place: str = "budget") -> Budget:
        """A budget from YAML; an unknown resource is an error that names it."""
        for name in caps:
            if name not in RESOURCES:
                raise RagLabError(f"{place}.{name}: unknown resource; use one of {', '.join(RESOURCES)}")
        return cls(**caps)


@dataclass(eq=False)
class Ledger:
    """What each of `size` questions has spent of one budget, and where a stage had to do less."""

    budget: Budget
    size: int
    spent: dict[str, FloatArray] = field(default_factory=dict)
    curtailments: list[list[Curtailment]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spent = {name: np.zeros(self.size) for name in RESOURCES}
        self.curtailments = [[] for _ in range(self.size)]

    def room(self, resource: str) -> FloatArray:
        """What is left for each question, ``[size]``; infinite when the resource is open."""
        cap: float | None = getattr(self.budget, resource)
        if cap is None:
            return np.full(self.size, np.inf)
        return np.maximum(0.0, cap - self.spent[resource]).astype(np.float64)

    def grant(self, resource: str, wanted: npt.ArrayLike, share: float = 1.0) -> npt.NDArray[np.int64]:
        """Whole units that a stage may spend, at most `wanted` and at most `share` of the room, ``[size]``."""
        want = np.broadcast_to(np.asarray(wanted, dtype=np.int64), (self.size,))
        return np.minimum(want, np.floor(np.minimum(self.room(resource) * share, 2**62))).astype(np.int64)

    def curtail(self, stage: str, resource: str, wanted: npt.ArrayLike, granted: npt.NDArray[Any]) -> None:
        """Record each question for which the stage did less than it wanted, for want of the resource."""
        want = np.broadcast_to(np.asarray(wanted), granted.shape)
        for i in np.flatnonzero(granted < want).tolist():
            self.curtailments[i].append(Curtailment(stage, resource, float(want[i]), float(granted[i])))

    def spend(self, resource: str, amount: npt.NDArray[Any]) -> None:
        """Book what was used; spending a stoppable resource above its cap is a fault of the stage and raises."""
        self.spent[resource] = self.spent[resource] + amount
        cap = getattr(self.budget, resource)
        if cap is not None and resource not in LATE and (self.spent[resource] > cap).any():
            worst = float(self.spent[resource].max())
            raise RagLabError(f"budget.{resource}: a stage spent {worst:g}, above the cap of {cap}")

    def over(self) -> dict[str, BoolArray]:
        """For each late resource with a cap, which questions went above it, ``[size]``."""
        caps = self.budget.caps()
        return {name: self.spent[name] > caps[name] for name in LATE if name in caps}

    def usage(self, question: int) -> Usage:
        """What one question cost."""
        return Usage(**{name: float(self.spent[name][question]) for name in RESOURCES})


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens; `cached_input` is for prompt tokens that the provider read from its cache."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None


@dataclass(frozen=True)
class Prices:
    """Token prices by generator name, and what an hour of local compute costs."""

    path: str
    compute_usd_per_hour: float
    models: Mapping[str, Price]

    @classmethod
    def load(cls, path: Path | None = None) -> Prices:
        """Read a price file (YAML); the packaged one by default."""
        import yaml

        path = path or Path(__file__).parent / "prices.yaml"
        try:
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
            models = {name: Price(**price) for name, price in (data.get("models") or {}).items()}
            hourly = float(data["compute_usd_per_hour"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
            raise RagLabError(f"{path}: not a price file ({error}); see rag_lab/prices.yaml for the form") from error
        values = [hourly] + [v for p in models.values() for v in (p.input, p.output, p.cached_input or 0.0)]
        if not all(math.isfinite(value) and value >= 0 for value in values):
            raise RagLabError(f"{path}: every price must be a number of at least 0")
        return cls(str(path.name), hourly, models)

    def tokens(
        self, model: str, prompt: FloatArray, output: FloatArray, cached: FloatArray | float = 0.0
    ) -> FloatArray:
        """USD for prompt tokens (of which `cached` came from the provider's cache) and output tokens, ``[n]``."""
        price = self.models.get(model, Price())
        cached_price = price.input if price.cached_input is None else price.cached_input
        return ((prompt - cached) * price.input + cached * cached_price + output * price.output) / 1e6

    def compute(self, milliseconds: FloatArray) -> FloatArray:
        """USD for local compute time, ``[n]``."""
        return milliseconds / 3.6e6 * self.compute_usd_per_hour


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens of one call, each counted once: `cached` is part of `prompt`, and reasoning is part of `output`."""

    prompt: int
    output: int
    cached: int = 0


def token_count(usage: Mapping[str, Any]) -> TokenCount:
    """Read a provider's usage record in either of the two styles in use.

    Either the prompt total holds the cached tokens (``prompt_tokens``, ``completion_tokens``, with details apart), or
    cached tokens are reported beside the input (``input_tokens``, ``cache_read_input_tokens``, ``output_tokens``).
    """
    if "prompt_tokens" in usage:
        details = usage.get("prompt_tokens_details") or {}
        return TokenCount(usage["prompt_tokens"], usage["completion_tokens"], details.get("cached_tokens", 0))
    cached = usage.get("cache_read_input_tokens", 0)
    return TokenCount(usage["input_tokens"] + cached, usage["output_tokens"], cached)
