"""The state of a corpus in SQLite: its sources, the versions of its documents, its generations, and what happened when.

A version is a row that is valid from the generation which added it to the one which removed it. So a generation is
known without being copied, an update costs what it changes, and another generation becomes active in one transaction.
Neither text nor titles are in here: they lie in kept parts (`rag_lab.corpus.kept`), which a version points to.
"""

from __future__ import annotations

from rag_lab.corpus.catalogue.generations import Generations
from rag_lab.corpus.catalogue.rows import Changes, Event, GenerationRow, SourceRow, VersionRow, collision, instant

__all__ = ["Catalogue", "Changes", "Event", "GenerationRow", "SourceRow", "VersionRow", "collision", "instant"]


class Catalogue(Generations):
    """An open catalogue. Every method is one transaction, or part of the one that `transaction` holds open."""
