"""Folders outside of the store that runs wrote results to: a purge searches them as well."""

from __future__ import annotations

import json
from pathlib import Path

from rag_lab.store import Store, digest

KIND = "exports"
NAME = "folder.json"


def note_export(store: Store, folder: Path) -> None:
    """Remember a folder."""
    path = str(folder.resolve())
    store.write(KIND, digest(path), NAME, json.dumps(path).encode())


def exports(store: Store) -> list[Path]:
    """The folders that are still there and not part of the store."""
    kept = (store.read(KIND, key, NAME) for key in store.entries(KIND))
    folders = {Path(json.loads(path)) for path in kept if path}
    return sorted(f for f in folders if f.is_dir() and store.root.resolve() not in (f, *f.parents))
