"""One MLflow run: names and values in the form that MLflow takes, collected and sent in batches."""

from __future__ import annotations

import hashlib
import json
import math
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_lab.contracts import batches

if TYPE_CHECKING:
    import pandas as pd

    from rag_lab.results import Results

LONG_VALUES = "long_values.json"
LONGEST_VALUE = 500
LONGEST_NAME = 250
METRICS_PER_BATCH = 1000
PARAMS_PER_BATCH = 100

KIND = "rag_lab.kind"
PARENT = "mlflow.parentRunId"

_UNSAFE = re.compile(r"[^\w. \-]|^[. ]|[ ]$|_(?=x)")


def encode_name(name: str) -> str:
    """A name that MLflow takes: what it refuses is written as ``_x40_`` (for ``@``). Distinct names stay distinct."""
    return _UNSAFE.sub(lambda match: f"_x{ord(match.group()):x}_", name) or "_x_"


@dataclass(eq=False)
class Run:
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
    ) -> Iterator[Run]:
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
        for part in batches(len(metrics), METRICS_PER_BATCH):
            self.client.log_batch(self.run_id, metrics=metrics[part])
        for part in batches(len(params), PARAMS_PER_BATCH):
            self.client.log_batch(self.run_id, params=params[part])
        for part in batches(len(tags), PARAMS_PER_BATCH):
            self.client.log_batch(self.run_id, tags=tags[part])
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


def _milliseconds(results: Results, key: str) -> int:
    """An instant of the provenance in milliseconds since 1970; now, when it is not stated."""
    value = results.provenance.get(key)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value or datetime.now(UTC)
    return int(moment.timestamp() * 1000)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
