"""The sources of datasets, in the order in which a name is looked up. A new source is one file and one line here."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from rag_lab.contracts import Unavailable
from rag_lab.datasets import beir_folder, beir_hub, embedded, hub
from rag_lab.datasets.collection import Collection
from rag_lab.datasets.options import DATA_ROOT, Options

SOURCES: tuple[ModuleType, ...] = (
    beir_folder,
    embedded,
    beir_hub,
    hub,
)


class Listing(NamedTuple):
    """A dataset that can be loaded by name, the kind of its source, and where it is."""

    name: str
    kind: str
    place: str


def find(name: str, options: Options) -> Collection:
    """The collection of that name or folder, from the first source that has it."""
    tried: list[str] = []
    for source in SOURCES:
        collection: Collection | None = source.read(name, options, tried)
        if collection is not None:
            return collection
    looked = "; ".join(tried)
    raise Unavailable(
        f"dataset {name!r}: not found; looked in: {looked}. Give a folder, or put one named {name} under "
        f"{DATA_ROOT} or {options.cache}"
    )


def listings(options: Options) -> list[Listing]:
    """Every dataset that a name leads to; what is on disk hides a download of the same name."""
    found: dict[str, Listing] = {}
    for source in SOURCES:
        for name, place in source.names(options).items():
            found.setdefault(name, Listing(name, source.KIND, place))
    return list(found.values())
