"""Variants on snapshots: which variant searches which snapshot, under which name.

An experiment that names several snapshots runs every variant that reads one on each of them, as ``variant@snapshot``;
to all that follows (budgets, scores, comparisons, reports) those are variants like any other. A variant that reads
nothing runs once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rag_lab.variants.variant import Variant, load_variant

AT = "@"


@dataclass(frozen=True, slots=True)
class Placed:
    """A variant, by its full name, and the name of the snapshot that it searches."""

    variant: Variant
    snapshot: str


def place(
    definitions: Mapping[str, Sequence[Any] | None], snapshots: Sequence[str], several: bool
) -> dict[str, Placed]:
    """Load the variants and put them on the snapshots; ``@snapshot`` joins their names where there are `several`."""
    placed: dict[str, Placed] = {}
    for name, stages in definitions.items():
        variant = load_variant(name, stages)
        for snapshot in snapshots if variant.reads else snapshots[:1]:
            full = f"{name}{AT}{snapshot}" if several and variant.reads else name
            placed[full] = Placed(replace(variant, name=full), snapshot)
    return placed
