"""The channels of an adaptive stage, as they stand in YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, InstanceOf, PlainSerializer

from rag_lab.variants.retrieve import Channel
from rag_lab.variants.stage import STAGES


def _read_channels(given: Any) -> tuple[Channel, ...]:
    """Channels as they stand in YAML: names, or mappings of one name to its settings."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ValueError("must be a list of channels, such as [bm25, dense]")
    return tuple(entry if isinstance(entry, Channel) else _read_channel(entry) for entry in given)


def _read_channel(entry: Any) -> Channel:
    name = entry
    settings: Any = {}
    if isinstance(entry, Mapping) and len(entry) == 1:
        ((name, settings),) = entry.items()
    kind = STAGES.get(name) if isinstance(name, str) else None
    if kind is None or not issubclass(kind, Channel) or name == "gold":
        known = ", ".join(sorted(n for n, stage in STAGES.items() if issubclass(stage, Channel) and n != "gold"))
        raise ValueError(f"{name!r} is no channel; use {known}")
    if "depth" in (settings or {}):
        raise ValueError(f"{name}.depth: candidates are shared out by adaptive.depth; remove it")
    return kind.model_validate(settings or {})


def _plain_channels(channels: Sequence[Channel]) -> list[dict[str, Any]]:
    return [{c.name: {n: v for n, v in c.settings().items() if n != "depth"}} for c in channels]


Channels: TypeAlias = Annotated[
    tuple[InstanceOf[Channel], ...], BeforeValidator(_read_channels), PlainSerializer(_plain_channels)
]
