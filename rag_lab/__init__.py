"""rag_lab: compare retrieval-augmented generation pipelines under matched budgets.

>>> import rag_lab
>>> results = rag_lab.run(dataset="handbook", variants=["bm25", "dense", "hybrid"], budget={"context_tokens": 800})
>>> results.table()
>>> rag_lab.write_report(results, "reports/handbook")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_lab.ann.sweep import ann_study as ann_study
    from rag_lab.budgets import Budget as Budget
    from rag_lab.comparison import compare_runs as compare_runs
    from rag_lab.contracts import Principal as Principal
    from rag_lab.contracts import RagLabError as RagLabError
    from rag_lab.corpus.corpus import Corpus as Corpus
    from rag_lab.datasets import load as load_dataset
    from rag_lab.definition import Experiment as Experiment
    from rag_lab.experiment import ablate as ablate
    from rag_lab.experiment import run as run
    from rag_lab.reports import write as write_report
    from rag_lab.results import Results as Results
    from rag_lab.store import Store as Store
    from rag_lab.tracking import log as track

__all__ = [
    "Budget",
    "Corpus",
    "Experiment",
    "Principal",
    "RagLabError",
    "Results",
    "Store",
    "ablate",
    "ann_study",
    "compare_runs",
    "load_dataset",
    "run",
    "track",
    "write_report",
]

_PLACES = {
    "Budget": ("rag_lab.budgets", "Budget"),
    "Corpus": ("rag_lab.corpus.corpus", "Corpus"),
    "Experiment": ("rag_lab.definition", "Experiment"),
    "Principal": ("rag_lab.contracts", "Principal"),
    "RagLabError": ("rag_lab.contracts", "RagLabError"),
    "Results": ("rag_lab.results", "Results"),
    "Store": ("rag_lab.store", "Store"),
    "ablate": ("rag_lab.experiment", "ablate"),
    "ann_study": ("rag_lab.ann.sweep", "ann_study"),
    "compare_runs": ("rag_lab.comparison", "compare_runs"),
    "load_dataset": ("rag_lab.datasets", "load"),
    "run": ("rag_lab.experiment", "run"),
    "track": ("rag_lab.tracking", "log"),
    "write_report": ("rag_lab.reports", "write"),
}


def __getattr__(name: str) -> Any:
    """Import what is asked for only then, so that ``import rag_lab`` stays light."""
    if name not in _PLACES:
        raise AttributeError(f"module 'rag_lab' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
