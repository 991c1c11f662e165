"""A variant: a named, validated list of stages that maps one to one to YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rag_lab.contracts import RagLabError
from rag_lab.variants import (
    adaptive,
    answer,
    colbert,
    compress,
    diversify,
    expand,
    fuse,
    long_context,
    place_gold,
    rerank,
    retrieve,
    route,
    transforms,
)
from rag_lab.variants.stage import STAGES, Stage, Step

BASELINES = ("no_retrieval", "gold_context")
PLACES = ("gold_first", "gold_middle", "gold_last")
"""The same passages, the gold ones at another place of the context; they are compared with one another alone."""
NAME = re.compile(r"\w[\w .+-]{0,63}")
STAGE_MODULES = (
    transforms,
    route,
    retrieve,
    colbert,
    adaptive,
    fuse,
    rerank,
    diversify,
    expand,
    long_context,
    place_gold,
    answer,
    compress,
)


def is_bound(name: str, baseline: str = "") -> bool:
    """Whether a variant, on whatever snapshot, is shown for scale beside those that compete with the baseline.

    Baselines bound the others; those of `PLACES` compete with one another where one of them is the baseline.
    """
    return _plain(name) in BASELINES or (_plain(name) in PLACES) != (_plain(baseline) in PLACES)


def _plain(name: str) -> str:
    """The name without the snapshot."""
    return name.partition("@")[0]


@dataclass(frozen=True)
class Variant:
    """Stages in order. ``Variant(v.name, v.stages).to_yaml()`` gives back what `load_variant` read."""

    name: str
    stages: tuple[Stage, ...]

    def to_yaml(self) -> list[dict[str, Any]]:
        """The YAML form: one mapping of one key a stage, all settings spelled out."""
        return [{stage.name: stage.settings()} for stage in self.stages]

    @property
    def retrieves(self) -> bool:
        """True when some stage draws candidates."""
        return any(stage.step is Step.RETRIEVE for stage in self.stages)

    @property
    def reads(self) -> bool:
        """True when some stage reads the snapshot, by retrieving or by assembling."""
        return any(stage.step in (Step.RETRIEVE, Step.ASSEMBLE) for stage in self.stages)

    @property
    def needs(self) -> frozenset[str]:
        """What the snapshot has to have for the stages (see `Stage.needs`)."""
        return frozenset().union(*(stage.needs() for stage in self.stages))

    @property
    def needs_lucene(self) -> bool:
        """True when a stage searches the Lucene index."""
        return "lucene" in self.needs

    @property
    def factories(self) -> tuple[str, ...]:
        """FAISS factory strings that the stages search."""
        return self._needed("faiss:")

    @property
    def late_indexes(self) -> tuple[str, ...]:
        """Kinds of the late-interaction indexes that the stages search."""
        return self._needed("late:")

    @property
    def sparse_models(self) -> tuple[str, ...]:
        """Names of the models whose weighted terms the stages search."""
        return self._needed("impact:")

    def _needed(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(need.removeprefix(prefix) for need in self.needs if need.startswith(prefix)))


@cache
def catalogue() -> dict[str, list[Any]]:
    """The packaged variants in YAML form."""
    import yaml

    found: dict[str, list[Any]] = yaml.safe_load((Path(__file__).parent / "catalogue.yaml").read_text(encoding="utf-8"))
    return found


def load_variant(name: str, stages: Sequence[Any] | None = None) -> Variant:
    """A variant from its YAML stages, or from the catalogue when `stages` is None. Errors name the field."""
    if not NAME.fullmatch(name):
        raise RagLabError(
            f"variants: '{name}' is no name for a variant, whose files are called by it; start with a letter or digit, "
            "go on with letters, digits, spaces and any of _ . + -, 64 characters at most"
        )
    if stages is None:
        if name not in catalogue():
            raise RagLabError(f"variants: '{name}' is unknown; known are {', '.join(catalogue())}, or give its stages")
        stages = catalogue()[name]
    if not isinstance(stages, Sequence) or isinstance(stages, str) or not stages:
        raise RagLabError(f"variants.{name}: must be a list of stages like '- bm25: {{depth: 1000}}'")
    variant = Variant(name, tuple(_load_stage(name, number, entry) for number, entry in enumerate(stages, 1)))
    _check_order(variant)
    return variant


def _load_stage(variant: str, number: int, entry: Any) -> Stage:
    place = f"variants.{variant}[{number}]"
    if isinstance(entry, str):
        entry = {entry: {}}
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise RagLabError(f"{place}: must be one stage with its settings, like 'bm25: {{depth: 1000}}'")
    ((name, settings),) = entry.items()
    if name not in STAGES:
        known = sorted(STAGES, key=lambda stage: (STAGES[stage].step, stage))
        raise RagLabError(f"{place}: stage '{name}' is unknown; known are {', '.join(known)}")
    try:
        return STAGES[name].model_validate(settings or {})
    except ValidationError as error:
        first = error.errors()[0]
        parts = [part for part in map(str, first["loc"]) if "[" not in part]  # no "dict[str,float]" of a union
        field = ".".join([place, name, *parts])
        raise RagLabError(f"{field}: {first['msg']}") from error


def _check_order(variant: Variant) -> None:
    names = [stage.name for stage in variant.stages]
    steps = [stage.step for stage in variant.stages]
    channels = steps.count(Step.RETRIEVE)
    place = f"variants.{variant.name}"
    if repeated := [name for name in names if names.count(name) > 1]:
        raise RagLabError(f"{place}: stage '{repeated[0]}' appears twice")
    if steps != sorted(steps):
        order = ", ".join(step.name.lower() for step in Step)
        raise RagLabError(f"{place}: stages must come as {order}; found {', '.join(names)}")
    if channels > 1 and not any(stage.fuses for stage in variant.stages):
        raise RagLabError(f"{place}: {channels} retrieving stages need a fusing stage such as 'rrf'")
    if channels and Step.GENERATE in steps and Step.ASSEMBLE not in steps:
        raise RagLabError(f"{place}: 'generate' would see nothing of what is retrieved; put 'assemble' before it")
    for number, stage in enumerate(variant.stages):
        stage.check(place, variant.stages[:number])
        if stage.serves and stage.serves not in names:
            raise RagLabError(
                f"{place}: only '{stage.serves}' searches by what '{stage.name}' makes; add it, or remove that one"
            )
    if not channels and (steps[-1] < Step.ASSEMBLE or any(stage.reads_ranking for stage in variant.stages)):
        raise RagLabError(f"{place}: nothing retrieves; add a stage such as 'bm25', or keep 'generate' alone")
