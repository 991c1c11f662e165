"""A run as the command line does it: results, report and MLflow in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rag_lab.definition import Experiment
from rag_lab.experiment import run
from rag_lab.progress import Progress
from rag_lab.reports.terminal import print_results


def run_session(
    definition: Experiment, folder: Path, *, track: bool, report: bool, experiment_file: Path | None = None
) -> list[dict[str, Any]]:
    """Run, write and print; return the failures."""
    results = run(definition)
    if experiment_file is not None:
        results.provenance["experiment_file"] = experiment_file.name
    results.save(folder)
    written: dict[str, Path] = {}
    with Progress() as bars:
        if report:
            from rag_lab import reports

            bars.update("report", 0, 1)
            written = reports.write(results, folder)
        if track:
            from rag_lab import tracking

            bars.update("MLflow", 0, 1)
            tracking.log(results, folder)
    print_results(results, folder, written)
    return results.failures
