"""One generation of a corpus, held for an experiment that runs on it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import Document, RagLabError
from rag_lab.corpus.catalogue import Catalogue, GenerationRow
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.ingestion import documents_of, text_digest
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.corpus.status import drift_of, timed
from rag_lab.metrics.freshness import Targets, age_s, check, summary
from rag_lab.store import Store

if TYPE_CHECKING:
    from rag_lab.datasets import Dataset


@dataclass(frozen=True, eq=False)
class Held:
    """A generation and its snapshot, which stay as long as this object does."""

    corpus: Corpus
    row: GenerationRow

    @classmethod
    def hold(cls, store: Store, name: str, generation: int | None = None) -> Held:
        """The active generation of a corpus, or another that is still kept. Raises RagLabError for one that is not."""
        corpus = Corpus.open(store, name)
        catalogue = corpus.catalogue
        with catalogue.transaction():
            corpus.snapshot(generation)  # says what is wrong
            row = catalogue.active if generation is None else catalogue.generation(generation)
            assert row is not None
            catalogue.pin(row.number, os.getpid())
        held = cls(corpus, row)
        weakref.finalize(held, _release, catalogue.path, row.number, os.getpid())
        return held

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot of the generation."""
        return Snapshot(self.corpus.store, self.row.snapshot)

    @cached_property
    def documents(self) -> list[Document]:
        """The documents of the generation, also those that are denied."""
        return documents_of(self.corpus.catalogue.versions_at(self.row.number).values(), self.corpus.kept)

    @property
    def known(self) -> set[str]:
        """Ids of the documents of the generation, and of all that the corpus ever had a source of."""
        return {*self.snapshot.documents, *(row.document_id for row in self.corpus.catalogue.sources())}

    def check_indexes(
        self, lucene: bool, factories: Sequence[str], late_indexes: Sequence[str], sparse: Sequence[str]
    ) -> None:
        """Raise RagLabError unless the snapshot has the indexes that an experiment searches."""
        facts = self.snapshot.facts
        place = f"corpus {self.corpus.name}, generation {self.row.number}"
        if lucene and facts["analyzer"] is None:
            raise RagLabError(f"{place}: has no Lucene index, which a variant searches; leave that variant out")
        for factory in factories:
            if factory not in facts["factories"]:
                known = ", ".join(facts["factories"]) or "none"
                raise RagLabError(f"{place}: has no FAISS index '{factory}', which a variant searches; it has {known}")
        for kind in late_indexes:
            if facts["late"] is None:
                raise RagLabError(
                    f"{place}: has no token vectors, which a colbert variant searches; make a new corpus with the "
                    "setting 'colbert: auto', or leave that variant out"
                )
            if kind not in facts["late_indexes"]:
                known = ", ".join(facts["late_indexes"])
                raise RagLabError(f"{place}: has no colbert index '{kind}', which a variant searches; it has {known}")
        for model in sparse:
            if model not in facts["sparse"]:
                raise RagLabError(
                    f"{place}: has no weighted terms of '{model}', which a splade variant searches; make a new corpus "
                    f"with the setting 'splade: [{model}]', or leave that variant out"
                )

    def check_texts(self, dataset: Dataset) -> list[str]:
        """Warnings on gold evidence that the corpus lacks.

        Raises RagLabError when a document with gold spans has another text in the corpus: the spans would not fit.
        """
        gold = {piece.document_id for question in dataset.questions for piece in question.gold if piece.span}
        versions = self.corpus.catalogue.versions_at(self.row.number)
        for document in dataset.documents:
            version = versions.get(document.document_id)
            if document.document_id in gold and version and version.text_digest != text_digest(document.text):
                raise RagLabError(
                    f"corpus {self.corpus.name}: the text of '{document.document_id}' is not that of dataset "
                    f"{dataset.name}, whose gold spans then do not fit; add dataset:{dataset.name} instead"
                )
        judged = {document for judgments in dataset.qrels.values() for document in judgments} | gold
        missing = len(judged - versions.keys())
        share = f"{missing} of {len(judged)} documents with judgments or evidence"
        return [f"corpus {self.corpus.name} lacks {share}"] if missing else []

    def facts(self, targets: Mapping[str, Any] | None) -> dict[str, Any]:
        """What results say about the corpus; freshness is held to `targets`, or to the corpus's own for None."""
        corpus, now = self.corpus, datetime.now(UTC)
        frame = timed(corpus, now, drift_of(corpus, now))
        age = age_s(self.row.activated_at, now)
        wanted = Targets.read(corpus.catalogue.settings["freshness"] if targets is None else targets)
        active = corpus.catalogue.active
        return {
            "name": corpus.name,
            "generation": self.row.number,
            "active": active is not None and active.number == self.row.number,
            "activated": self.row.activated_at,
            "documents": self.row.documents,
            "built_with": {**self.row.settings},
            "index_age_s": age,
            "denied": len(self.snapshot.denied()),
            "policies": corpus.policies.version,
            "delays": summary(frame),
            "targets": [one.to_dict() for one in check(wanted, frame, age)],
        }


def _release(path: Path, number: int, process: int) -> None:
    if path.is_file():
        catalogue = Catalogue(path)
        catalogue.unpin(number, process)
        catalogue.close()
