"""Variants: short lists of stages, by name or as YAML."""

from __future__ import annotations

from rag_lab.variants.placing import Placed, place
from rag_lab.variants.variant import Variant, catalogue, is_bound, load_variant

__all__ = ["Placed", "Variant", "catalogue", "is_bound", "load_variant", "place"]
