"""Results into MLflow: one parent run an experiment, one child run a variant and budget.

The store is SQLite in ``mlruns`` below the current folder, unless ``MLFLOW_TRACKING_URI`` names another. Numbers go to
metrics, settings to parameters; the texts of questions and answers only ever go to artifacts. Nothing is sent anywhere
else: MLflow's own telemetry is switched off.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rag_lab.contracts import RagLabError
from rag_lab.definition import MAIN

if TYPE_CHECKING:
    import pandas as pd

    from rag_lab.results import Results

ADDRESS = "MLFLOW_TRACKING_URI"
SQLITE = "sqlite:///"
# MLflow opens an experiment of this kind at its table of runs and metrics.
RUNS_FIRST = {"mlflow.experimentKind": "custom_model_development"}
PRIVACY = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}

LONG_VALUES = "long_values.json"
LONGEST_VALUE = 500
LONGEST_NAME = 250
DIGEST_LENGTH = 36
METRICS_PER_BATCH = 1000
PARAMS_PER_BATCH = 100
LOCK_TIMEOUT_S = 600

KIND = "rag_lab.kind"
PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
IN_FOLDER = ("results.json", "tables", "runs", "figures")

_UNSAFE = re.compile(r"[^\w. \-]|^[. ]|[ ]$|_(?=x)")
_ESCAPED = re.compile(r"_x([0-9a-f]*)_")
_SECRET = re.compile(r"(?:^|_)(?:key|token|secret|password|authorization|credentials?)$", re.IGNORECASE)


def encode_name(name: str) -> str:
    """A name that MLflow takes: what it refuses is written as ``_x40_`` (for ``@``). Distinct names stay distinct."""
    return _UNSAFE.sub(lambda match: f"_x{ord(match.group()):x}_", name) or "_x_"


def decode_name(name: str) -> str:
    """The inverse of `encode_name`."""
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)) if match.group(1) else "", name)


def tracking_uri(folder: Path | None = None) -> str:
    """``MLFLOW_TRACKING_URI``, else the SQLite store in ``mlruns`` below `folder` (the current one by default)."""
    return os.environ.get(ADDRESS) or f"{SQLITE}{(folder or Path.cwd()).resolve() / 'mlruns' / 'mlflow.db'}"


def store_exists(uri: str) -> bool:
    """False when `uri` is a SQLite file that is not there; a server is taken to be there."""
    database = _database(uri)
    return database is None or database.is_file()


def ui_command(folder: Path | None = None, port: int = 5000) -> list[str]:
    """The command that opens the store in MLflow's pages at ``http://127.0.0.1:PORT``.

    Run it with `PRIVACY` in its environment.
    """
    uri = tracking_uri(folder)
    if uri.startswith(("http:", "https:")):
        raise RagLabError(f"{ADDRESS} names a server; open {_public(uri)} in a browser")
    database = _database(uri)
    if database is not None and not database.is_file():
        raise RagLabError(f"{database}: no MLflow store yet; run an experiment without --no-track first")
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    return [*command, "--host", "127.0.0.1", "--port", str(port)]


def log(results: Results, folder: Path, reports: Sequence[Path] = ()) -> str:
    """Log results, with the folder that they were saved in and the reports on them; return the parent run's id.

    A run whose variant has failures ends FAILED, any other FINISHED. When logging itself breaks off, the runs it began
    end FAILED (KILLED on an interrupt) and the cause is raised as `RagLabError`.
    """
    uri = tracking_uri()
    with ExitStack() as stack:
        stack.enter_context(_readable(uri))
        client = stack.enter_context(_client(uri))
        experiment_id = _experiment(client, str(results.experiment.get("name") or "experiment"), uri)
        if _database(uri) is not None:
            _end_abandoned(client, experiment_id)
        run = stack.enter_context(_Run.opened(client, experiment_id, _run_name(results), results))
        _log_parent(run, results, Path(folder), reports)
        for variant in results.variants:
            for budget in results.budgets:
                name = variant if len(results.budgets) == 1 else f"{variant} @ {budget}"
                with _Run.opened(client, experiment_id, name, results, run.run_id) as child:
                    _log_variant(child, results, variant, budget, Path(folder))
        return run.run_id


@dataclass(eq=False)
class _Run:
    """An open MLflow run: collects what there is to log and sends it in batches."""

    client: Any
    run_id: str
    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    long_values: dict[str, str] = field(default_factory=dict)
    status: str = "FINISHED"

    @classmethod
    @contextmanager
    def opened(
        cls, client: Any, experiment_id: str, name: str, results: Results, parent: str | None = None
    ) -> Iterator[_Run]:
        """A run from the experiment's start to its end; it never stays RUNNING when the block is left."""
        tags = {KIND: "variant", PARENT: parent} if parent else {KIND: "experiment"}
        made = client.create_run(experiment_id, _milliseconds(results, "started"), tags, name)
        run = cls(client, made.info.run_id)
        try:
            yield run
            run.send()
        except BaseException as error:
            run.status = "FAILED" if isinstance(error, Exception) else "KILLED"
            raise
        finally:
            client.set_terminated(run.run_id, run.status, _milliseconds(results, "finished"))

    def number(self, value: Any, *parts: str, why: str = "") -> None:
        """Log a finite number as the metric named by `parts`, anything else as a tag with the reason."""
        number = math.nan if value is None else float(value)
        if math.isfinite(number):
            self.metrics[self._key(parts)] = number
        else:
            self.tag(f"{number}; {why}".strip("; "), "not_logged", *parts)

    def param(self, value: Any, *parts: str) -> None:
        """Log a setting; one that is too long goes to an artifact and leaves its beginning."""
        self.params[self._key(parts)] = self._short(parts, _text(value))

    def tag(self, value: str, *parts: str) -> None:
        """Set a tag, with the same care for its length."""
        self.tags[self._key(parts)] = self._short(parts, value)

    def file(self, path: Path, below: str | None = None) -> None:
        """Keep a file or a folder as an artifact, when it is there."""
        if path.is_dir():
            self.client.log_artifacts(self.run_id, str(path), f"{below}/{path.name}" if below else path.name)
        elif path.is_file():
            self.client.log_artifact(self.run_id, str(path), below)

    def table(self, name: str, frame: pd.DataFrame) -> None:
        """Keep a frame as a Parquet artifact."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.parquet"
            frame.to_parquet(path, index=False)
            self.file(path)

    def send(self) -> None:
        """Send what was collected, in batches that MLflow takes."""
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        metrics = [Metric(name, value, now, 0) for name, value in self.metrics.items()]
        params = [Param(name, value) for name, value in self.params.items()]
        tags = [RunTag(name, value) for name, value in self.tags.items()]
        for start in range(0, len(metrics), METRICS_PER_BATCH):
            self.client.log_batch(self.run_id, metrics=metrics[start : start + METRICS_PER_BATCH])
        for start in range(0, len(params), PARAMS_PER_BATCH):
            self.client.log_batch(self.run_id, params=params[start : start + PARAMS_PER_BATCH])
        for start in range(0, len(tags), PARAMS_PER_BATCH):
            self.client.log_batch(self.run_id, tags=tags[start : start + PARAMS_PER_BATCH])
        if self.long_values:
            text = json.dumps(self.long_values, ensure_ascii=False, indent=1)
            self.client.log_text(self.run_id, text, LONG_VALUES)

    def _key(self, parts: Sequence[str]) -> str:
        key = "/".join(map(encode_name, parts))
        if len(key) <= LONGEST_NAME:
            return key
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        self.long_values[f"name {digest}"] = "/".join(parts)
        return f"name {digest}"

    def _short(self, parts: Sequence[str], value: str) -> str:
        if len(value) <= LONGEST_VALUE:
            return value
        self.long_values["/".join(parts)] = value
        return f"{value[: LONGEST_VALUE - 40]}... (whole in {LONG_VALUES})"


def _log_parent(run: _Run, results: Results, folder: Path, reports: Sequence[Path]) -> None:
    """Settings, provenance, the dataset and every file of the experiment."""
    for name, value in _flat(results.experiment):
        run.param(value, name)
    _log_held_equal(run, results)
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


def _log_variant(run: _Run, results: Results, variant: str, budget: str, folder: Path) -> None:
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
    ranking = variant if budget == MAIN else f"{variant}@{budget}"
    run.file(folder / "runs" / f"{ranking}.trec", "runs")


def _log_metrics(run: _Run, frame: pd.DataFrame, not_measured: Mapping[str, str]) -> None:
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


def _log_comparisons(run: _Run, frame: pd.DataFrame) -> None:
    """The difference from the baseline, its interval, and p before and after Holm's correction."""
    for row in frame.to_dict("records"):
        run.tag(str(row["baseline"]), "baseline")
        for name in ("delta", "ci_low", "ci_high", "p", "p_holm", "effect"):
            run.number(row[name], "against_baseline", name, row["metric"], why=str(row["note"] or ""))


def _log_held_equal(run: _Run, results: Results) -> None:
    """What every variant of an experiment shares."""
    run.param(results.seed, "seed")
    run.param(results.snapshot, "snapshot")
    run.param(results.dataset.get("fingerprint", ""), "dataset_fingerprint")
    run.param(results.provenance.get("code_version", ""), "code_version")


def _log_dataset(run: _Run, results: Results) -> None:
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


@contextmanager
def _client(uri: str) -> Iterator[Any]:
    """A quiet client. An SQLite store belongs to one process at a time, so that two first starts do not collide."""
    for name, value in PRIVACY.items():
        os.environ.setdefault(name, value)
    from filelock import FileLock, Timeout
    from mlflow import MlflowClient

    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    database = _database(uri)
    with ExitStack() as stack:
        for logger, level in zip(loggers, levels, strict=True):
            stack.callback(logger.setLevel, level)
            logger.setLevel(logging.WARNING)
        if database is not None:
            database.parent.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(FileLock(f"{database}.lock", timeout=LOCK_TIMEOUT_S))
            except Timeout as error:
                raise RagLabError(f"{database}: another process has been writing for {LOCK_TIMEOUT_S} s") from error
            if not database.is_file():
                _make_store(database)
        yield MlflowClient(tracking_uri=uri)


def _make_store(database: Path) -> None:
    """Make an empty store and put it in place whole.

    MLflow's migrations commit some hundred times. Elsewhere they need not wait for the disk each time, which takes a
    third of the time.
    """
    from mlflow import MlflowClient
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def hurry(connection: Any, _: Any) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    finished = database.with_name(f"{database.name}.new")
    finished.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        draft = Path(folder) / database.name
        event.listen(Engine, "connect", hurry)
        try:
            MlflowClient(tracking_uri=f"{SQLITE}{draft}").search_experiments()
        finally:
            event.remove(Engine, "connect", hurry)
        with closing(sqlite3.connect(draft)) as connection:
            connection.execute("VACUUM INTO ?", (str(finished),))
    finished.replace(database)


@contextmanager
def _readable(uri: str) -> Iterator[None]:
    """MLflow's errors as one line that names the store."""
    try:
        yield
    except RagLabError:
        raise
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise RagLabError(f"MLflow store {_public(uri)}: {why}; see {ADDRESS}, or run with --no-track") from error


def _experiment(client: Any, name: str, uri: str) -> str:
    """The id of the MLflow experiment of that name, made when it is not there."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        database = _database(uri)
        artifacts = None if database is None else (database.parent / "artifacts").as_uri()
        try:
            return str(client.create_experiment(name, artifact_location=artifacts, tags=RUNS_FIRST))
        except MlflowException:
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage != "active":
        raise RagLabError(f"MLflow experiment '{name}' is deleted; restore it, or give the experiment another name")
    return str(found.experiment_id)


def _end_abandoned(client: Any, experiment_id: str) -> None:
    """End runs that a killed process left RUNNING: while this process holds the store, nobody else is writing."""
    for run in client.search_runs([experiment_id], "attributes.status = 'RUNNING'"):
        if KIND in run.data.tags:
            client.set_terminated(run.info.run_id, "KILLED")


def _database(uri: str) -> Path | None:
    """The file of an SQLite store, None for any other."""
    return Path(uri.removeprefix(SQLITE).partition("?")[0]).absolute() if uri.startswith(SQLITE) else None


def _public(uri: str) -> str:
    """The address without user name and password."""
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if parts.netloc else uri


def _run_name(results: Results) -> str:
    return f"{results.experiment.get('name') or 'experiment'} on {results.dataset.get('name', '')}"


def _failures(failures: Sequence[Mapping[str, Any]]) -> str:
    """Stage and number of questions of each failure; causes may quote texts and stay in the artifacts."""
    return "; ".join(
        f"{f.get('variant', '')} {f.get('stage', '')}: {_count(f.get('questions'))} questions" for f in failures
    )


def _count(questions: Any) -> int:
    return len(questions) if isinstance(questions, Sequence | set) else int(questions or 0)


def _milliseconds(results: Results, key: str) -> int:
    """An instant of the provenance in milliseconds since 1970; now, when it is not stated."""
    value = results.provenance.get(key)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value or datetime.now(UTC)
    return int(moment.timestamp() * 1000)


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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
