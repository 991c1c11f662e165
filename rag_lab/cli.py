"""The command line: ``rag-lab run | compare | report | datasets | doctor | ui``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from rag_lab.contracts import RagLabError

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Compare retrieval-augmented generation pipelines under matched budgets.",
)


@app.command()
def run(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (YAML).")],
    dataset: Annotated[str | None, typer.Option(help="Dataset name or folder, instead of the file's.")] = None,
    variants: Annotated[str | None, typer.Option(help="Variants to run, separated by commas.")] = None,
    limit: Annotated[int | None, typer.Option(help="Draw this many questions by the seed.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results and reports [reports/NAME].")] = None,
    track: Annotated[bool, typer.Option(help="Log the run to MLflow.")] = True,
    report: Annotated[bool, typer.Option(help="Write report.html and report.pdf.")] = True,
) -> None:
    """Run an experiment; write results, report and MLflow runs. Exit status 1 when a stage failed."""
    from rag_lab.definition import Experiment
    from rag_lab.session import run_session

    definition = Experiment.load(experiment)
    changes: dict[str, Any] = {}
    if dataset is not None:
        changes["dataset"] = dataset
    if limit is not None:
        changes["limit"] = limit
    if variants is not None:
        changes["variants"] = _chosen(definition, variants)
    definition = Experiment.read({**definition.model_dump(), **changes}, str(experiment))
    folder = out or Path("reports") / definition.name
    failures = run_session(definition, folder, track=track, report=report, experiment_file=experiment)
    raise typer.Exit(1 if failures else 0)


def _chosen(definition: Any, names: str) -> list[Any]:
    """The named variants with the file's own definitions; the baseline has to stay."""
    known = definition.variant_definitions()
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise RagLabError("--variants: is empty; name variants such as bm25,dense")
    return [{name: known[name]} if known.get(name) else name for name in wanted]


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a run.")],
    second: Annotated[Path | None, typer.Argument(help="Folder of another run on the same questions.")] = None,
) -> None:
    """Show the comparisons of a run, or compare two runs question by question."""
    from rag_lab.comparison import compare_runs
    from rag_lab.reports.terminal import print_comparisons
    from rag_lab.results import Results

    if second is None:
        print_comparisons(Results.load(first).comparisons)
        return
    found = compare_runs(Results.load(first), Results.load(second), (str(first), str(second)))
    print_comparisons(found.table, found.differs)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Write report.html and report.pdf of a finished run once more."""
    from rag_lab import reports
    from rag_lab.results import Results

    for path in reports.write(Results.load(folder), folder).values():
        typer.echo(path)


@app.command()
def datasets(name: Annotated[str | None, typer.Argument(help="Show what one dataset holds.")] = None) -> None:
    """List the datasets that a name leads to, or check one."""
    from rag_lab import datasets as sources
    from rag_lab.reports.terminal import print_dataset, print_datasets

    if name is None:
        print_datasets(sources.available())
    else:
        print_dataset(sources.load(name))


@app.command()
def doctor() -> None:
    """Say what was found on this machine, what is missing, and how to get it. Exit status 1 when a need is not met."""
    from rag_lab.doctor import examine
    from rag_lab.reports.terminal import print_checks

    checks = examine()
    print_checks(checks)
    raise typer.Exit(0 if all(check.ok or not check.needed for check in checks) else 1)


@app.command()
def ui(port: Annotated[int, typer.Option(help="Port on this machine.")] = 5000) -> None:
    """Open the MLflow runs in a browser."""
    import subprocess

    from rag_lab.tracking import ui_command

    command = ui_command(port)
    typer.echo(f"MLflow at http://127.0.0.1:{port} (Ctrl-C ends it)")
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def main() -> None:
    """Entry point: an error that the user can act on is one line on standard error and exit status 2."""
    try:
        status = app(standalone_mode=False)
    except RagLabError as error:
        sys.exit(_refuse(str(error)))
    except click.ClickException as error:
        sys.exit(_refuse(error.format_message()))
    except (KeyboardInterrupt, click.Abort):
        print("rag-lab: interrupted; the same command goes on where it stopped", file=sys.stderr)  # noqa: T201
        sys.exit(130)
    sys.exit(status if isinstance(status, int) else 0)


def _refuse(message: str) -> int:
    print("rag-lab: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201
    return 2
