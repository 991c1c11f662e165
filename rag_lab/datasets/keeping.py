"""Putting a downloaded dataset in its place, whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rag_lab.contracts import RagLabError
from rag_lab.datasets.beir_folder import missing_files


@contextmanager
def working_folder(target: Path) -> Iterator[Path]:
    """A hidden temporary folder beside `target`, gone afterwards; a download that breaks off leaves nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(finished: Path, target: Path) -> None:
    """Rename a finished folder to `target`. Where another process was first, its copy stays."""
    try:
        finished.rename(target)
    except OSError as error:
        if missing_files(target):
            raise RagLabError(f"{target}: it is in the way and holds no dataset; remove it and try again") from error


def by_hand(name: str, target: Path) -> str:
    """What to do when a download is not possible."""
    return f"or put the BEIR folder of {name} at {target} by hand, or name its parent folder in RAG_LAB_DATA"
