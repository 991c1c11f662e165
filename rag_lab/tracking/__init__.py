"""Results into MLflow: one parent run an experiment, one child run a variant and budget.

The store is SQLite in ``mlruns`` below the current folder, unless ``MLFLOW_TRACKING_URI`` names another. Numbers go to
metrics, settings to parameters; the texts of questions and answers only ever go to artifacts. Nothing is sent anywhere
else: MLflow's own telemetry is switched off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.definition import MAIN
from rag_lab.tracking.run import LONGEST_NAME, Run
from rag_lab.tracking.store import (
    PRIVACY,
    database_of,
    end_abandoned,
    experiment_id_of,
    open_client,
    own_folder,
    public_address,
    readable_errors,
    store_exists,
    tracking_uri,
    ui_command,
)

if TYPE_CHECKING:
    import pandas as pd

    from rag_lab.results import Results

__all__ = ["PRIVACY", "log", "own_folder", "public_address", "store_exists", "tracking_uri", "ui_command"]

DIGEST_LENGTH = 36
NOTE = "mlflow.note.content"
IN_FOLDER = ("results.json", "tables", "runs", "figures")

_SECRET = re.compile(r"(?:^|_)(?:key|token|secret|password|authorization|credentials?)$", re.IGNORECASE)


def log(results: Results, folder: Path, reports: Sequence[Path] = ()) -> str:
    """Log results, with the folder that they were saved in and the reports on them; return the parent run's id.

    A run whose variant has failures ends FAILED, any other FINISHED. When logging itself breaks off, the runs it began
    end FAILED (KILLED on an interrupt) and the cause is raised as `RagLabError`.
    """
    uri = tracking_uri()
    with ExitStack() as stack:
        stack.enter_context(readable_errors(uri))
        client = stack.enter_context(open_client(uri))
        experiment_id = experiment_id_of(client, str(results.experiment.get("name") or "experiment"), uri)
        if database_of(uri) is not None:
            end_abandoned(client, experiment_id)
        run = stack.enter_context(Run.opened(client, experiment_id, _run_name(results), results))
        _log_parent(run, results, Path(folder), reports)
        for variant in results.variants:
            for budget in results.budgets:
                name = variant if len(results.budgets) == 1 else f"{variant} @ {budget}"
                with Run.opened(client, experiment_id, name, results, run.run_id) as child:
                    _log_variant(child, results, variant, budget, Path(folder))
        return run.run_id


def _log_parent(run: Run, results: Results, folder: Path, reports: Sequence[Path]) -> None:
    """Settings, provenance, the dataset and every file of the experiment."""
    for name, value in _flat(results.experiment):
        run.param(value, name)
    _log_held_equal(run, results)
    _log_corpus(run, results)
    run.param(", ".join(results.variants), "variants")
    run.param(", ".join(results.budgets), "budgets")
    run.tag(str(len(results.warnings)), "warnings")
    for package, version in (results.provenance.get("packages") or {}).items():
        run.tag(str(version), "package", package)
    if results.experiment.get("question"):
        run.tag(str(results.experiment["question"]), NOTE)
    if results.failures:
        run.status = "FAILED"
        run.tag(_failures(results.failures), "failures")
    _log_dataset(run, results)
    for name in IN_FOLDER:
        run.file(folder / name)
    for report in reports:
        run.file(Path(report))


def _log_variant(run: Run, results: Results, variant: str, budget: str, folder: Path) -> None:
    """Everything that concerns one variant under one budget."""
    _log_held_equal(run, results)
    run.param(variant, "variant")
    run.param(budget, "budget")
    for resource, cap in results.budgets[budget].items():
        run.param("open" if cap is None else cap, "cap", resource)
    for position, stage in enumerate(results.variants[variant], start=1):
        run.param(_without_secrets(stage), "stage", str(position))

    def of_this(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[(frame["variant"] == variant) & (frame["budget"] == budget)]

    failures = [f for f in results.failures if f.get("variant") == variant and f.get("budget", budget) == budget]
    if failures:
        run.status = "FAILED"
        run.tag(_failures(failures), "failures")
    _log_metrics(run, of_this(results.metrics), results.dataset.get("not_measured") or {})
    _log_comparisons(run, of_this(results.comparisons))
    for row in of_this(results.budget_use).to_dict("records"):
        for name in ("mean", "max", "curtailed", "over"):
            run.number(row[name], "spent", row["resource"], name)
    for row in of_this(results.funnel).to_dict("records"):
        run.number(row["share"], "lost", row["stage"], why="no question has gold evidence")
    for row in of_this(results.timings).to_dict("records"):
        for name in ("ms_mean", "ms_p50", "ms_p95", "ms_p99"):
            run.number(row[name], "time", row["stage"], name)
    run.table("questions", of_this(results.questions))
    run.table("outcomes", of_this(results.outcomes))
    if not (events := of_this(results.events)).empty:
        run.table("events", events)
    ranking = variant if budget == MAIN else f"{variant}@{budget}"
    run.file(folder / "runs" / f"{ranking}.trec", "runs")


def _log_metrics(run: Run, frame: pd.DataFrame, not_measured: Mapping[str, str]) -> None:
    """``nDCG_x40_10`` with its interval and counts for all questions; the same below ``group/NAME`` for each group."""
    for row in frame.to_dict("records"):
        is_whole = row["group"] == "all"
        if not is_whole and not row["n"]:
            continue
        prefix = () if is_whole else ("group", row["group"])
        metric = row["metric"]
        why = f"{not_measured.get(metric, 'no figure')}; n {row['n']}, n_failed {row['n_failed']}"
        run.number(row["value"], *prefix, metric, why=why)
        run.number(row["ci_low"], *prefix, "ci_low", metric, why=why)
        run.number(row["ci_high"], *prefix, "ci_high", metric, why=why)
        run.number(row["n"], *prefix, "n", metric)
        if is_whole:
            run.number(row["n_failed"], "n_failed", metric)
            run.number(row["n_abstained"], "n_abstained", metric)
            run.number(row["value_within_budget"], "within_budget", metric, why=why)


def _log_comparisons(run: Run, frame: pd.DataFrame) -> None:
    """The difference from the baseline, its interval, and p before and after Holm's correction."""
    for row in frame.to_dict("records"):
        run.tag(str(row["baseline"]), "baseline")
        for name in ("delta", "ci_low", "ci_high", "p", "p_holm", "effect"):
            run.number(row[name], "against_baseline", name, row["metric"], why=str(row["note"] or ""))


def _log_held_equal(run: Run, results: Results) -> None:
    """What every variant of an experiment shares."""
    run.param(results.seed, "seed")
    run.param(results.snapshot, "snapshot")
    run.param(results.dataset.get("fingerprint", ""), "dataset_fingerprint")
    run.param(results.provenance.get("code_version", ""), "code_version")


def _log_corpus(run: Run, results: Results) -> None:
    """Which generation of a corpus was searched, what it was built with, and whether freshness targets were met."""
    corpus = results.provenance.get("corpus")
    if not corpus:
        return
    for name in ("generation", "activated", "policies", "denied"):
        run.param(corpus[name], "corpus", name)
    for name, value in _flat(corpus["built_with"]):
        run.param(value, "corpus", "built_with", name)
    for target in corpus["targets"]:
        verdict = {True: "met", False: "missed", None: "open"}[target["met"]]
        run.tag(f"{verdict}: {target['measured']}, wanted {target['wanted']}", "freshness", target["name"])


def _log_dataset(run: Run, results: Results) -> None:
    """The dataset as an MLflow dataset whose digest is the beginning of its fingerprint."""
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.entities import Dataset, DatasetInput, InputTag

    dataset = results.dataset
    source = CodeDatasetSource({"source": str(dataset.get("source") or dataset.get("name", ""))})
    profile = {key: dataset[key] for key in ("split", "documents", "queries", "languages", "groups") if key in dataset}
    entity = Dataset(
        name=str(dataset.get("name") or "dataset")[:LONGEST_NAME],
        digest=str(dataset.get("fingerprint", ""))[:DIGEST_LENGTH],
        source_type=CodeDatasetSource._get_source_type(),
        source=source.to_json(),
        profile=json.dumps(profile, ensure_ascii=False),
    )
    run.client.log_inputs(run.run_id, [DatasetInput(entity, [InputTag("mlflow.data.context", "evaluation")])])


def _run_name(results: Results) -> str:
    return f"{results.experiment.get('name') or 'experiment'} on {results.dataset.get('name', '')}"


def _failures(failures: Sequence[Mapping[str, Any]]) -> str:
    """Stage and number of questions of each failure; causes may quote texts and stay in the artifacts."""
    return "; ".join(
        f"{f.get('variant', '')} {f.get('stage', '')}: {_count(f.get('questions'))} questions" for f in failures
    )


def _count(questions: Any) -> int:
    return len(questions) if isinstance(questions, Sequence | set) else int(questions or 0)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted name, without secrets; lists stay whole."""
    for key, value in _without_secrets(settings).items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        elif f"{prefix}{key}" not in ("seed", "variants", "question"):
            yield f"{prefix}{key}", value


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            str(key): "(withheld)" if _SECRET.search(str(key)) and isinstance(inner, str) else _without_secrets(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(inner) for inner in value]
    return value
