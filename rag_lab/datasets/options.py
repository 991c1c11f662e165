"""What a caller may tell a source, and where datasets are kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_lab.datasets.settings import Settings, known_settings, override
from rag_lab.store import home

DATA_ROOT = "RAG_LAB_DATA"


@dataclass(frozen=True)
class Options:
    """How to read a dataset.

    `cache` keeps what is downloaded; `mirror` replaces the address that BEIR archives come from; `columns` says which
    tables and columns of a hub dataset hold what; `overrides` are settings that outrank the collection's own.
    """

    cache: Path
    split: str = "test"
    mirror: str | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Any] = field(default_factory=dict)
    skip_broken: bool = False

    def settings(self, name: str, stated: Mapping[str, Any] | None = None, place: str = "") -> Settings:
        """Settings of a collection: what is known of its name, then what it states, then what the caller states."""
        return override(override(known_settings(name), stated or {}, place), self.overrides, "load")


def dataset_cache() -> Path:
    """The folder that keeps downloaded datasets, in the user's cache or below `RAG_LAB_HOME`."""
    return home() / "datasets"


def data_root() -> Path | None:
    """The folder that `RAG_LAB_DATA` names, if any."""
    value = os.environ.get(DATA_ROOT)
    return Path(value).expanduser() if value else None
