"""One stage of a variant switched at a time: the variants of an ablation.

*Leave one out* takes each stage away from the whole variant, and with a channel what serves that channel alone. *Add
one* begins with the first channel and adds, one by one and each to all before, the other channels, the stages that work
on queries, those that work on the ranking, and those that work on the context. Fusion comes and goes with the second
channel: with one there is nothing to fuse.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rag_lab.contracts import RagLabError
from rag_lab.variants.stage import Stage, Step
from rag_lab.variants.variant import Variant, load_variant

Direction: TypeAlias = Literal["leave one out", "add one"]


@dataclass(frozen=True, slots=True)
class Switch:
    """A variant that differs from the variant `against`, if any, by one stage; `intervention`: see `Stage`."""

    direction: Direction
    step: str
    intervention: str
    variant: Variant
    against: str


def switches(variant: Variant) -> list[Switch]:
    """All that can be switched in a variant. Raises RagLabError when that is nothing."""
    found = [*_leave_one_out(variant), *_add_one(variant)]
    if not found:
        raise RagLabError(
            f"ablation.variant: '{variant.name}' has no stage that can be switched; name one with several channels, or "
            "with a stage between retrieving and generating"
        )
    return found


def _leave_one_out(variant: Variant) -> list[Switch]:
    found = []
    for stage in variant.stages:
        if _is_frame(stage) or stage.fuses:
            continue
        out = [stage.name, *(served.name for served in variant.stages if served.serves == stage.name)]
        rest = _loaded(f"{variant.name} - {stage.name}", variant, {s.name for s in variant.stages} - set(out))
        if rest is not None:
            step = f"without {' and '.join(out)}"
            found.append(Switch("leave one out", step, stage.intervention, rest, variant.name))
    return found


def _add_one(variant: Variant) -> list[Switch]:
    """The steps from the first channel to the whole variant, each against the one before; the first has none."""
    switched = [stage for stage in variant.stages if not (_is_frame(stage) or stage.fuses)]
    order = sorted(switched, key=lambda stage: (stage.step is not Step.RETRIEVE, stage.step))
    found: list[Switch] = []
    held = {stage.name for stage in variant.stages if _is_frame(stage) or stage.fuses}
    before, waiting = "", []
    for number, stage in enumerate(order, 1):
        held.add(stage.name)
        waiting.append(stage)
        whole = number == len(order)
        made = variant if whole else _loaded(f"{variant.name} {number} {stage.name}", variant, held)
        if made is None:
            continue
        step = " + ".join(added.name for added in waiting)
        found.append(Switch("add one", f"+ {step}" if before else step, waiting[-1].intervention, made, before))
        before, waiting = made.name, []
    return found if len(found) > 1 else []


def _is_frame(stage: Stage) -> bool:
    """Whether it is what every variant needs, so that nothing could be compared without it."""
    return stage.name == "assemble" or stage.step is Step.GENERATE


def _loaded(name: str, variant: Variant, kept: Collection[str]) -> Variant | None:
    """The variant with these stages alone, None if they make none."""
    try:
        return load_variant(name, [{s.name: s.settings()} for s in _mended(variant.stages, kept)])
    except RagLabError:
        return None


def _mended(stages: Sequence[Stage], kept: Collection[str]) -> list[Stage]:
    """Some of the stages, without a fusion that has one channel, and without weights of channels that are gone."""
    channels = {stage.name for stage in stages if stage.step is Step.RETRIEVE and stage.name in kept}
    made = []
    for stage in stages:
        if stage.name not in kept or (stage.fuses and len(channels) < 2):
            continue
        weights = getattr(stage, "weights", None)
        if isinstance(weights, dict):
            stage = stage.model_copy(update={"weights": {name: w for name, w in weights.items() if name in channels}})
        made.append(stage)
    return made
