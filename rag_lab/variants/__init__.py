"""Variants: short lists of stages, by name or as YAML."""

from __future__ import annotations

from rag_lab.variants.variant import BASELINES, Variant, catalogue, load_variant

__all__ = ["BASELINES", "Variant", "catalogue", "load_variant"]
