"""Where MLflow keeps runs: addresses, a quiet client, an empty store made quickly, and errors in one line."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.tracking.run import KIND

ADDRESS = "MLFLOW_TRACKING_URI"
FOLDER = "mlruns"
SQLITE = "sqlite:///"
# MLflow opens an experiment of this kind at its table of runs and metrics.
RUNS_FIRST = {"mlflow.experimentKind": "custom_model_development"}
PRIVACY = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
LOCK_TIMEOUT_S = 600


def tracking_uri(folder: Path | None = None) -> str:
    """``MLFLOW_TRACKING_URI``, else the SQLite store in `FOLDER` below `folder` (the current one by default)."""
    return os.environ.get(ADDRESS) or f"{SQLITE}{(folder or Path.cwd()).resolve() / FOLDER / 'mlflow.db'}"


def own_folder(uri: str) -> Path | None:
    """The folder of the store and its artifacts where it is one of ours (``mlruns``), None for any other."""
    database = database_of(uri)
    return database.parent if database is not None and database.parent.name == FOLDER else None


def store_exists(uri: str) -> bool:
    """False when `uri` is a SQLite file that is not there; a server is taken to be there."""
    database = database_of(uri)
    return database is None or database.is_file()


def ui_command(folder: Path | None = None, port: int = 5000) -> list[str]:
    """The command that opens the store in MLflow's pages at ``http://127.0.0.1:PORT``.

    Run it with `PRIVACY` in its environment.
    """
    uri = tracking_uri(folder)
    if uri.startswith(("http:", "https:")):
        raise RagLabError(f"{ADDRESS} names a server; open {public_address(uri)} in a browser")
    database = database_of(uri)
    if database is not None and not database.is_file():
        raise RagLabError(f"{database}: no MLflow store yet; run an experiment without --no-track first")
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    return [*command, "--host", "127.0.0.1", "--port", str(port)]


@contextmanager
def open_client(uri: str) -> Iterator[Any]:
    """A quiet client. An SQLite store belongs to one process at a time, so that two first starts do not collide."""
    for name, value in PRIVACY.items():
        os.environ.setdefault(name, value)
    from filelock import FileLock, Timeout
    from mlflow import MlflowClient

    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    database = database_of(uri)
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
def readable_errors(uri: str) -> Iterator[None]:
    """MLflow's errors as one line that names the store."""
    try:
        yield
    except RagLabError:
        raise
    except Exception as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        place = f"MLflow store {public_address(uri)}"
        raise RagLabError(f"{place}: {why}; see {ADDRESS}, or run with --no-track") from error


def experiment_id_of(client: Any, name: str, uri: str) -> str:
    """The id of the MLflow experiment of that name, made when it is not there."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        database = database_of(uri)
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


def end_abandoned(client: Any, experiment_id: str) -> None:
    """End runs that a killed process left RUNNING: while this process holds the store, nobody else is writing."""
    for run in client.search_runs([experiment_id], "attributes.status = 'RUNNING'"):
        if KIND in run.data.tags:
            client.set_terminated(run.info.run_id, "KILLED")


def database_of(uri: str) -> Path | None:
    """The file of an SQLite store, None for any other."""
    return Path(uri.removeprefix(SQLITE).partition("?")[0]).absolute() if uri.startswith(SQLITE) else None


def public_address(uri: str) -> str:
    """An address without user name, password and query, as it may be shown."""
    scheme, mark, rest = uri.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"
