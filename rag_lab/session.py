"""A run as the command line does it: results, report and MLflow in one folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rag_lab.definition import Experiment
from rag_lab.experiment import run
from rag_lab.progress import Progress
from rag_lab.reports.terminal import print_summary
from rag_lab.terminal import print_written, stdout


def run_session(
    definition: Experiment, folder: Path, *, track: bool, report: bool, experiment_file: Path | None = None
) -> list[dict[str, Any]]:
    """Run, write and print; return the failures."""
    shown = sys.stderr.isatty()
    results = run(definition, progress=shown)
    if experiment_file is not None:
        results.provenance["experiment_file"] = experiment_file.name
    results.save(folder)
    written = {"results": str(folder / "results.json")}
    if report:
        from rag_lab import reports

        with Progress(shown) as bars:
            bars.update("report", 0, 1)
            paths = reports.write(results, folder)
        written |= {f"report ({name})": str(paths[name]) for name in reports.FORMATS}
    print_summary(results, stdout())
    if track:
        from rag_lab import tracking

        with Progress(shown) as bars:
            bars.update("MLflow", 0, 1)
            tracking.log(results, folder, [folder / f"report.{name}" for name in reports.FORMATS] if report else ())
        written["MLflow (rag-lab ui)"] = tracking.tracking_uri()
    print_written(written)
    return results.failures
