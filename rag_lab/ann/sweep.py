"""Run a study of indexes: sizes x indexes x breadths over the vectors of one dataset, to `AnnResults`.

It compares geometry: nobody asks, so no rights are applied but the deny list, and what comes out are figures without a
text or an id. What was measured is kept in the store, each index at each size by itself; vectors that were made and
indexes are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.ann.definition import AnnStudy
from rag_lab.ann.enlarging import RECIPE
from rag_lab.ann.likeness import POINTS, Shape, shapes
from rag_lab.ann.measuring import Cell, Task, measure
from rag_lab.ann.results import AnnResults, frame
from rag_lab.ann.tables import likeness_rows, search_rows, waiting_warnings
from rag_lab.ann.vectors import Collection, Vectors
from rag_lab.contracts import RagLabError
from rag_lab.corpus.snapshot import FLAT
from rag_lab.preparation import Preparation
from rag_lab.progress import Progress
from rag_lab.provenance import code_digest, environment, processor
from rag_lab.retrieval import ann
from rag_lab.store import Store, digest, sweep

KIND = "ann"
FORMAT = "cell-1"
CODE = ("ann", "retrieval", "metrics")
# How many of the real vectors are compared with as many made ones.
MOST_COMPARED = 20_000
# Fewer parents than this say nothing of what more would give.
FEWEST_PARENTS = 100


def ann_study(
    study: AnnStudy | Mapping[str, Any] | str | Path | None = None,
    *,
    store: Store | None = None,
    progress: bool = True,
    **fields: Any,
) -> AnnResults:
    """Run a study of indexes and return what it found.

    `study` is a definition, a mapping, or the path of a file; `fields` override or replace its fields. What was
    measured is kept in `store` (the user's by default), so a second run reads and an interrupted one goes on.

    Raises:
        RagLabError: a factory string that FAISS does not know, a breadth for an index without one, or more vectors than
            the memory holds.
    """
    with Progress(progress) as bars:
        return _Sweep(_definition(study, fields), store or Store.default(), bars).results()


def _definition(study: AnnStudy | Mapping[str, Any] | str | Path | None, fields: Mapping[str, Any]) -> AnnStudy:
    if isinstance(study, str | Path):
        study = AnnStudy.load(study)
    if not isinstance(study, AnnStudy | Mapping | None):
        raise RagLabError(f"study: must be an AnnStudy, a mapping or a path, not {type(study).__name__}")
    base = study.model_dump() if isinstance(study, AnnStudy) else dict(study or {})
    return AnnStudy.read({**base, **fields})


class _Sweep:
    """One run of a study."""

    def __init__(self, study: AnnStudy, store: Store, bars: Progress) -> None:
        self.study, self.store, self.bars = study, store, bars
        self.started = datetime.now(UTC)
        self.work = Preparation(study.experiment(), store, bars)
        self.vectors = Vectors(self.work, study.seed)
        self.kinds = {factory: ann.breadth_of(factory, self.vectors.encoder.dimension) for factory in study.indexes}
        self.largest = max(study.sizes)
        self._task: tuple[Collection, Task] | None = None

    def results(self) -> AnnResults:
        """Measure what is not known yet, and put the figures together."""
        self._check()
        study, vectors = self.study, self.vectors
        real, dimension = vectors.real.shape
        rows: list[dict[str, Any]] = []
        for size in study.sizes:
            cells = self._cells(Collection(size, real), list(study.indexes), f"{size:,} vectors", timed=True)
            for factory, cell in cells.items():
                rows += search_rows(size, dimension, factory, cell, vectors.query_ids, study.seed)
        likeness = self._likeness() if self.largest > real else []
        return AnnResults(
            searches=frame("searches", rows),
            likeness=frame("likeness", likeness),
            study=study.model_dump(mode="json"),
            dataset=self.work.dataset.summary(),
            collection={
                "real": real,
                "dimension": dimension,
                "queries": len(vectors.query_ids),
                "encoder": f"{vectors.encoder.name} {vectors.encoder.version}",
                "snapshot": vectors.snapshot.id,
                "recipe": RECIPE,
                "breadth_of": self.kinds,
            },
            warnings=[*dict.fromkeys(self.work.warnings), *waiting_warnings(rows)],
            provenance=self._provenance(),
        )

    def _check(self) -> None:
        """Refuse what would fail in the middle of the work."""
        for factory, breadths in self.study.indexes.items():
            if breadths and not self.kinds[factory]:
                raise RagLabError(f"indexes.{factory}: visits every row, so it has no breadth; remove {breadths}")
        if not len(self.vectors.real):
            raise RagLabError(f"dataset {self.work.dataset.name}: has no passage to index; name another dataset")
        self.vectors.check_memory(self.largest)

    def _cells(self, collection: Collection, factories: Sequence[str], label: str, *, timed: bool) -> dict[str, Cell]:
        """What is known of each index on a collection, measured where it is not in the store."""
        found: dict[str, Cell] = {}
        for done, factory in enumerate(factories):

            def step(what: str, done: int = done, name: str = f"{label}, {factory}") -> None:
                self.bars.update(f"{name}: {what}", done, len(factories))

            key = self._key("cell", collection, factory, self.study.indexes[factory], self.study.threads, timed)
            cell = self._kept(key)
            if cell is None:
                task = self._task_of(collection, step)
                cell = measure(task, factory, self.study.indexes[factory], step, timed)
                self.store.write(KIND, key, "measured.json", json.dumps(cell.plain()).encode())
            found[factory] = cell
        return found

    def _kept(self, key: str) -> Cell | None:
        data = self.store.read(KIND, key, "measured.json")
        return None if data is None else Cell.read(json.loads(data))

    def _key(self, *parts: Any) -> str:
        return digest(FORMAT, self.vectors.key, self.study.k, code_digest(CODE), environment()["packages"], *parts)

    def _task_of(self, collection: Collection, step: Callable[[str], object]) -> Task:
        """Vectors and true neighbours of a collection; those of one are held at a time."""
        if self._task is None or self._task[0] != collection:
            self._task = None
            study, folder = self.study, self.store.root / KIND
            folder.mkdir(parents=True, exist_ok=True)
            sweep(folder)
            step("vectors")
            passages = self.vectors.of(collection, self.largest)
            step("true neighbours")
            task = Task.of(passages, self.vectors.queries, study.k, study.threads, study.seed, folder)
            self._task = (collection, task)
        return self._task[1]

    def _likeness(self) -> list[dict[str, Any]]:
        """Rows on real vectors, and on as many of which the same share is made as of the largest size."""
        real, study = len(self.vectors.real), self.study
        size = min(real, MOST_COMPARED)
        parents = max(FEWEST_PARENTS, round(size * real / self.largest))
        if parents >= size:
            self.work.warnings.append(
                f"whether made vectors are like real ones is not known: {real} real ones are too few to compare with"
            )
            return []
        rows: list[dict[str, Any]] = []
        for name, collection in {"real": Collection(size, size), "made": Collection(size, parents)}.items():
            approximate = [factory for factory in study.indexes if factory != FLAT]
            cells = self._cells(collection, approximate, f"{name} vectors", timed=False)
            measured = self._shapes(collection, f"{name} vectors")
            rows += likeness_rows(name, size, measured, cells, self.vectors.query_ids, study.seed)
        return rows

    def _shapes(self, collection: Collection, label: str) -> list[Shape]:
        key = self._key("shapes", collection)
        kept = self.store.read(KIND, key, "shapes.json")
        if kept is not None:
            return [Shape(**one) for one in json.loads(kept)]
        task = self._task_of(collection, lambda what: self.bars.update(f"{label}: {what}", 0, 1))
        self.bars.update(f"{label}: distances", 0, 1)
        rows = np.random.default_rng(self.study.seed).permutation(collection.size)[:POINTS]
        found = shapes(task.passages.vectors, self.vectors.queries.vectors, rows, self.study.seed)
        self.store.write(KIND, key, "shapes.json", json.dumps([asdict(one) for one in found]).encode())
        return found

    def _provenance(self) -> dict[str, Any]:
        finished = datetime.now(UTC)
        return {
            **environment(),
            "processor": processor(),
            "threads": self.study.threads,
            "started": self.started.isoformat(timespec="seconds"),
            "finished": finished.isoformat(timespec="seconds"),
            "seconds": round((finished - self.started).total_seconds(), 1),
        }
