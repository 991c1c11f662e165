"""A run as the command line does it: results, report and MLflow, written to one folder.

What a finished run left in the store is copied and not made again: results, reports, and the MLflow run.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_lab.contracts import RagLabError
from rag_lab.corpus.deny import DenyList
from rag_lab.corpus.exports import note_export
from rag_lab.definition import Experiment
from rag_lab.experiment import run
from rag_lab.progress import Progress
from rag_lab.provenance import code_digest
from rag_lab.reports.terminal import print_summary
from rag_lab.results import Results
from rag_lab.store import Store, digest
from rag_lab.terminal import print_written
from rag_lab.variants.execute import ATTEMPTS


def run_session(
    definition: Experiment, folder: Path, *, track: bool, report: bool, experiment_file: Path | None = None
) -> list[dict[str, Any]]:
    """Run, write and print; return the failures.

    When documents are denied while results and report are written, these are made and written again without them.
    """
    shown = sys.stderr.isatty()
    note_export(Store.default(), folder)
    for _ in range(ATTEMPTS):
        results = run(definition, progress=shown)
        if experiment_file is not None:
            results.provenance["experiment_file"] = experiment_file.name
        results.save(folder)
        written = {"results": str(folder / "results.json")}
        if report:
            paths = _write_report(results, folder, shown)
            written |= {f"report ({name})": str(path) for name, path in paths.items()}
        if _holds(results):
            break
        Store.default().remove("reports", _report_key(results))
    else:
        raise RagLabError(f"{folder}: documents are denied faster than results are written; delete it and run again")
    print_summary(results)
    if track:
        written["MLflow (rag-lab ui)"] = _track(results, folder, report, shown)
    print_written(written)
    return results.failures


def _identity(results: Results) -> list[Any]:
    """What decides a report or an MLflow run beside the code that makes it."""
    return [results.provenance["key"], results.provenance.get("experiment_file"), results.provenance["finished"]]


def _holds(results: Results) -> bool:
    """Whether nothing was denied since the results were handed out, so that what was written of them may stay."""
    asked = results.provenance["denials"]
    return bool(DenyList(Store.default()).epoch(asked["corpus"]) == asked["epoch"])


def _report_key(results: Results) -> str:
    return digest(_identity(results), code_digest())


def _write_report(results: Results, folder: Path, shown: bool) -> dict[str, Path]:
    """Make the report, or copy the one that was made of these results before."""
    from rag_lab import reports

    def make(at: Path) -> Mapping[str, Any] | None:
        with Progress(shown) as bars:
            bars.update("report", 0, 1)
            reports.write(results, at)
        return {"snapshots": results.snapshot.split(", ")}

    kept = Store.default().publish("reports", _report_key(results), make)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for file in sorted((kept / "figures").glob("*")):  # results without a figure to draw have no such folder
        shutil.copyfile(file, folder / "figures" / file.name)
    paths = {name: folder / f"report.{name}" for name in reports.FORMATS}
    for path in paths.values():
        shutil.copyfile(kept / path.name, path)
    return paths


def _track(results: Results, folder: Path, report: bool, shown: bool) -> str:
    """Log to MLflow unless these results are there already; return the store's address."""
    from rag_lab import tracking

    uri = tracking.tracking_uri()
    if (runs := tracking.own_folder(uri)) is not None:
        note_export(Store.default(), runs)
    store, key = Store.default(), digest(_identity(results), uri, report)
    done = store.read("tracked", key, "run.json")
    if done is None or not tracking.store_exists(uri):
        with Progress(shown) as bars:
            bars.update("MLflow", 0, 1)
            files = [folder / f"report.{name}" for name in ("html", "pdf")] if report else []
            run_id = tracking.log(results, folder, files)
        if not _holds(results):
            raise RagLabError(f"{uri}: documents were denied while run {run_id} was logged; delete that run, run again")
        store.write("tracked", key, "run.json", json.dumps({"uri": uri, "run_id": run_id}).encode())
    return uri
