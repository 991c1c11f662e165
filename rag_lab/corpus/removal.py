"""What nobody needs any more: snapshots of old generations, parts that nothing names, what killed publishers left."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.corpus.catalogue import Catalogue
from rag_lab.corpus.encoded import ENCODING
from rag_lab.corpus.kept import KIND as KEPT
from rag_lab.corpus.snapshot import KIND as SNAPSHOTS
from rag_lab.corpus.snapshot import PARTS, Snapshot
from rag_lab.store import Store

if TYPE_CHECKING:
    from rag_lab.corpus.corpus import Corpus


@dataclass(frozen=True)
class Noting(Store):
    """A store that notes in the catalogue what is made in it, before it is made."""

    catalogue: Catalogue

    def publish(self, kind: str, key: str, build: Callable[[Path], Mapping[str, Any] | None]) -> Path:
        """As in `Store`."""
        if not self.path(kind, key).exists():
            self.catalogue.note_made([(kind, key)])
        return super().publish(kind, key, build)

    def write(self, kind: str, key: str, name: str, data: bytes) -> None:
        """As in `Store`; blocks of an encoding are noted, which is perhaps never finished."""
        if kind == ENCODING and not self.path(kind, key).exists():
            self.catalogue.note_made([(kind, key)])
        super().write(kind, key, name, data)


def retire(corpus: Corpus) -> None:
    """Remove the snapshots of generations that are neither among the last ones nor pinned by a living process."""
    catalogue = corpus.catalogue
    for number, process in catalogue.pins():
        if not _is_alive(process):
            catalogue.unpin(number, process)
    pinned = {number for number, _ in catalogue.pins()}
    rows = catalogue.generations()
    read = [row for row in rows if row.state in ("active", "retired")]
    staying = {row.number for row in read[-int(catalogue.settings["keep"]) :]} | pinned
    active = next((row.number for row in rows if row.state == "active"), 0)
    staying |= {row.number for row in rows if row.state == "verified" and row.base == active} | {active}
    named = {row.snapshot for row in rows if row.number in staying}
    going = [row for row in rows if row.number not in staying and row.snapshot]
    gone = {row.snapshot for row in going} - named
    with catalogue.transaction():
        catalogue.note_made((SNAPSHOTS, name) for name in gone)
        for row in going:
            catalogue.drop(row.number)
    remove_snapshots(corpus, gone)


def remove_snapshots(corpus: Corpus, snapshots: Collection[str]) -> None:
    """Remove snapshots, what stages computed from them, and those of their parts that no other snapshot names."""
    there = (Snapshot(corpus.store, name) for name in sorted(snapshots) if corpus.store.intact(SNAPSHOTS, name))
    parts = {part for snapshot in there if snapshot.sound for part in snapshot.parts}
    # A publisher that is killed from here on leaves to the next one what it did not remove.
    corpus.catalogue.note_made({*parts, *((SNAPSHOTS, name) for name in snapshots)})
    for name in sorted(snapshots):
        corpus.store.remove(SNAPSHOTS, name)
        corpus.store.remove("stages", name)
    _remove_unnamed(corpus, parts)


def remove_unused(corpus: Corpus) -> None:
    """Remove what publications of this corpus made and nothing names.

    That are segments which were put together with others at once, blocks of encodings that were given up, and what a
    killed publisher began to make or to remove.
    """
    named = {row.snapshot for row in corpus.catalogue.generations()}
    remove_snapshots(corpus, {key for kind, key in corpus.catalogue.made() if kind == SNAPSHOTS} - named)
    made = corpus.catalogue.made()
    _remove_unnamed(corpus, {entry for entry in made if entry[0] in (*PARTS, ENCODING)})
    corpus.catalogue.forget_made(made)


def _remove_unnamed(corpus: Corpus, parts: set[tuple[str, str]]) -> None:
    """Remove those of these parts that no snapshot of the store names."""
    unnamed = set(parts)
    for name in corpus.store.entries(SNAPSHOTS) if unnamed else ():
        snapshot = Snapshot(corpus.store, name)
        unnamed -= set(snapshot.parts) if snapshot.sound else set()
    for kind, key in sorted(unnamed):
        corpus.store.remove(kind, key)


def drop_unnamed_parts(corpus: Corpus) -> None:
    """Remove kept parts that no version and no parse names: an interrupted publisher's."""
    for key in set(corpus.kept.entries(KEPT)) - corpus.catalogue.parts():
        corpus.kept.remove(KEPT, key)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
