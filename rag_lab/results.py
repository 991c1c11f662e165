"""What an experiment found, as tidy frames, and the folder that keeps it.

The folder holds ``results.json`` (figures and everything needed to reproduce them), ``tables/*.parquet`` (one file a
frame, with the questions and answers) and ``runs/*.trec`` (the rankings). Reports and MLflow read nothing else.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import RESOURCES, RagLabError
from rag_lab.store import write_atomically

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 3
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "metrics": (
        "variant",
        "budget",
        "group",
        "metric",
        "value",
        "ci_low",
        "ci_high",
        "n",
        "n_failed",
        "n_abstained",
        "value_within_budget",
    ),
    "comparisons": (
        "baseline",
        "variant",
        "budget",
        "metric",
        "delta",
        "ci_low",
        "ci_high",
        "p",
        "p_holm",
        "effect",
        "n",
        "note",
        "delta_within",
        "ci_low_within",
        "ci_high_within",
        "p_holm_within",
    ),
    "budget_use": ("variant", "budget", "resource", "cap", "mean", "max", "curtailed", "over"),
    "curtailments": ("variant", "budget", "stage", "resource", "questions", "wanted", "granted"),
    "funnel": ("variant", "budget", "stage", "lost", "share"),
    "questions": ("variant", "budget", "query_id", "group", "metric", "value"),
    "outcomes": (
        "variant",
        "budget",
        "query_id",
        "group",
        "language",
        "question",
        "state",
        "reason",
        "answer",
        "gold_answers",
        "answerable",
        "correct",
        "cited",
        "quotes",
        "gold_documents",
        "context_documents",
        "context_texts",
        "lost_at",
        "over_budget",
        *RESOURCES,
    ),
    "events": ("variant", "budget", "query_id", "stage", "kind", "round", "text", "value"),
    "ablation": (
        "direction",
        "step",
        "intervention",
        "variant",
        "against",
        "metric",
        "value",
        "ci_low",
        "ci_high",
        "delta",
        "delta_low",
        "delta_high",
        "p",
        "p_holm",
        "n",
        "note",
    ),
    "snapshots": ("snapshot", "chunker", "measure", "unit", "value", "ci_low", "ci_high", "n", "note"),
    "timings": (
        "variant",
        "budget",
        "stage",
        "ms_mean",
        "ms_p50",
        "ms_p95",
        "ms_p99",
        "total_s",
        "cached",
        "shared_with",
    ),
}
NEEDED = ("key", "finished", "confidence")
IN_JSON = {
    "metrics": "metrics",
    "comparisons": "comparisons",
    "budget_use": "budget",
    "funnel": "funnel",
    "ablation": "ablation",
    "snapshots": "snapshots",
}


@dataclass(eq=False)
class Results:
    """Frames by name (see `COLUMNS`) and the facts around them. `failures` is empty when every stage ran through.

    runs: ranked documents with scores, by run and query id; results that were read from `folder` leave them there.
    """

    metrics: pd.DataFrame
    comparisons: pd.DataFrame
    budget_use: pd.DataFrame
    curtailments: pd.DataFrame
    funnel: pd.DataFrame
    questions: pd.DataFrame
    outcomes: pd.DataFrame
    events: pd.DataFrame
    ablation: pd.DataFrame
    snapshots: pd.DataFrame
    timings: pd.DataFrame
    dataset: dict[str, Any]
    snapshot: str
    seed: int
    experiment: dict[str, Any]
    variants: dict[str, list[dict[str, Any]]]
    budgets: dict[str, dict[str, float]]
    warnings: list[str]
    calibration: dict[str, Any] | None
    failures: list[dict[str, Any]]
    provenance: dict[str, Any]
    runs: dict[str, dict[str, list[tuple[str, float]]]] = field(default_factory=dict)
    folder: Path | None = None

    def table(self, budget: str = "main", group: str = "all") -> pd.DataFrame:
        """Variants by metrics, the form that a notebook prints."""
        chosen = self.metrics[(self.metrics["budget"] == budget) & (self.metrics["group"] == group)]
        table = chosen.pivot_table(index="variant", columns="metric", values="value", sort=False)
        return table.reindex(columns=list(dict.fromkeys(chosen["metric"])))

    def save(self, folder: Path | str) -> Path:
        """Write everything; ``results.json`` last, so that its presence means the folder is complete."""
        from rag_lab.metrics.trec import write_trec

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").unlink(missing_ok=True)
        (folder / "tables").mkdir(exist_ok=True)
        (folder / "runs").mkdir(exist_ok=True)
        if self.folder is None or self.folder.resolve() != folder.resolve():
            for stale in (*(folder / "runs").glob("*.trec"), *(folder / "tables").glob("*.parquet")):
                stale.unlink()
            for kept in sorted((self.folder / "runs").glob("*.trec")) if self.folder else ():
                shutil.copyfile(kept, folder / "runs" / kept.name)
        for name in COLUMNS:
            getattr(self, name).to_parquet(folder / "tables" / f"{name}.parquet", index=False)
        for name, run in self.runs.items():
            write_trec(folder / "runs" / f"{name}.trec", name, run)
        write_atomically(
            folder / "results.json", json.dumps(self.to_json(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
        )
        return folder

    def to_json(self) -> dict[str, Any]:
        """The figures and facts as JSON values; a figure that does not exist is null."""
        facts = {
            "format": FORMAT,
            "dataset": self.dataset,
            "snapshot": self.snapshot,
            "seed": self.seed,
            "experiment": self.experiment,
            "variants": self.variants,
            "budgets": self.budgets,
            "warnings": self.warnings,
            "calibration": self.calibration,
            "failures": self.failures,
            "provenance": self.provenance,
        }
        tables = {key: _rows(getattr(self, name)) for name, key in IN_JSON.items()}
        return facts | tables

    @classmethod
    def load(cls, folder: Path | str) -> Results:
        """Read a folder that `save` wrote."""
        import pandas as pd

        path = Path(folder) / "results.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            tables = Path(folder) / "tables"
            frames: dict[str, Any] = {name: pd.read_parquet(tables / f"{name}.parquet") for name in COLUMNS}
        except (OSError, ValueError) as error:
            raise RagLabError(f"{path}: no complete results ({error}); run the experiment again") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise RagLabError(f"{path}: written by another version of rag_lab; run the experiment again")
        names = (
            "dataset",
            "snapshot",
            "seed",
            "experiment",
            "variants",
            "budgets",
            "warnings",
            "calibration",
            "failures",
            "provenance",
        )
        missing = [name for name in names if name not in data]
        missing += [f"provenance.{name}" for name in NEEDED if name not in (data.get("provenance") or {})]
        missing += [f"{name}.{column}" for name in COLUMNS for column in COLUMNS[name] if column not in frames[name]]
        if missing:
            raise RagLabError(f"{path}: lacks '{missing[0]}'; run the experiment again")
        return cls(**frames, **{name: data[name] for name in names}, folder=Path(folder))


def frame(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A frame with the columns that `COLUMNS` lists, in that order."""
    import pandas as pd

    return pd.DataFrame(rows, columns=list(COLUMNS[name]))


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): _plain(value) for key, value in row.items()} for row in table.to_dict("records")]


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
