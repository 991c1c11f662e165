"""The dataset that comes with the project: a company handbook in English and Chinese, with rights and validity."""

from __future__ import annotations

from pathlib import Path

from rag_lab.datasets.beir_folder import missing_files, read_folder
from rag_lab.datasets.collection import Collection
from rag_lab.datasets.options import Options

KIND = "embedded"
NAME = "handbook"

_PACKAGE = Path(__file__).resolve().parents[1]
PLACES = (_PACKAGE.parent / "data" / NAME, _PACKAGE / "embedded" / NAME)


def read(name: str, options: Options, tried: list[str]) -> Collection | None:
    """The handbook, from the repository or from an installed package; None for any other name."""
    if name == NAME:
        for folder in PLACES:
            if not missing_files(folder):
                return read_folder(folder, options, NAME)
            tried.append(f"{folder} (absent or incomplete)")
    else:
        tried.append(f"the embedded dataset (its name is {NAME})")
    return None


def names(options: Options) -> dict[str, str]:  # noqa: ARG001 - every source has this signature
    """The embedded dataset, when it is there, with its folder."""
    folders = [folder for folder in PLACES if not missing_files(folder)]
    return {NAME: str(folders[0])} if folders else {}
