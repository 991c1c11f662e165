"""Questions, judgments and documents, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.datasets.collection import build
from rag_lab.datasets.dataset import Dataset, Integrity
from rag_lab.datasets.options import Options, dataset_cache
from rag_lab.datasets.registry import Listing, find, listings

__all__ = ["Dataset", "Integrity", "Listing", "available", "load"]


def load(
    name_or_folder: str | Path,
    split: str = "test",
    limit: int | None = None,
    seed: int = 0,
    *,
    calibration: int = 0,
    zone: str | None = None,
    remove_identical_ids: bool | None = None,
    skip_broken: bool = False,
    columns: Mapping[str, Any] | None = None,
    mirror: str | None = None,
    cache: Path | str | None = None,
) -> Dataset:
    """Load a dataset by folder or name.

    A name is looked up under ``RAG_LAB_DATA``, in the user's cache, among the embedded datasets, and then at its public
    source, from which it is downloaded, checked and kept.

    split: whose judgments and questions to take; limit: draw that many questions by `seed`; calibration: how many
    questions to set apart for calibration where the dataset has no split "dev"; zone: where dates without an offset
    are meant; remove_identical_ids: overrides the collection's own setting; skip_broken: count broken lines instead of
    failing at the first; columns: tables and columns of a hub dataset (see `rag_lab.datasets.hub`); mirror: another
    address for BEIR's archives; cache: another place than the user's cache.
    """
    overrides = {"zone": zone, "remove_identical_ids": remove_identical_ids}
    options = Options(
        cache=Path(cache) if cache else dataset_cache(),
        split=split,
        mirror=mirror,
        columns=columns or {},
        overrides=overrides,
        skip_broken=skip_broken,
    )
    if not str(name_or_folder).strip():
        raise RagLabError("dataset: the name is empty; give a folder or a name")
    return build(find(str(name_or_folder), options), split, limit, seed, calibration)


def available(cache: Path | None = None) -> list[Listing]:
    """Datasets that a name leads to, those on disk first."""
    return listings(Options(cache=cache or dataset_cache()))
