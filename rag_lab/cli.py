"""The command line: ``rag-lab run | compare | report | ann | reproduce | datasets | corpus | doctor | ui``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_lab import corpus_cli
from rag_lab.contracts import RagLabError

if TYPE_CHECKING:
    from rag_lab.definition import Experiment

INTERRUPTED = 130

# Some versions of typer depend on click and others carry it along, so its class is reached through typer's own.
UsageError: Any = typer.BadParameter.__mro__[1]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Compare retrieval-augmented generation pipelines under matched budgets.",
)
app.add_typer(corpus_cli.app, name="corpus")


@app.callback(invoke_without_command=True)
def _without_command(context: typer.Context) -> None:
    """Without a command there is help, and that is no error."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    experiment: Annotated[Path, typer.Argument(help="Experiment file (YAML).")],
    dataset: Annotated[str | None, typer.Option(help="Dataset name or folder, instead of the file's.")] = None,
    variants: Annotated[str | None, typer.Option(help="Variants to run, separated by commas.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Draw this many questions by the seed.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results and reports [reports/NAME].")] = None,
    track: Annotated[bool, typer.Option(help="Log the run to MLflow.")] = True,
    report: Annotated[bool, typer.Option(help="Write report.html and report.pdf.")] = True,
) -> None:
    """Run an experiment; write results, report and MLflow runs. Exit status 1 when a stage failed."""
    from rag_lab.definition import Experiment

    found = Experiment.load_all(experiment)
    for definition in found:
        with _naming(experiment):
            _check_names(definition)
    if len(found) > 1 and dataset is not None:
        found = [one for one in found if one.dataset == dataset] or found[:1]
    changes: dict[str, Any] = {}
    if dataset is not None:
        changes["dataset"] = dataset
    if limit is not None:
        changes["limit"] = limit
    jobs = [_changed(definition, changes, variants, experiment) for definition in found]
    folders = [_folder(out, definition, len(jobs) > 1) for definition in jobs]
    from rag_lab.session import run_session

    failures = 0
    for definition, folder in zip(jobs, folders, strict=True):
        with _naming(experiment, changes):
            failures += len(run_session(definition, folder, track=track, report=report, experiment_file=experiment))
    raise typer.Exit(1 if failures else 0)


def _changed(definition: Experiment, changes: Mapping[str, Any], variants: str | None, file: Path) -> Experiment:
    """The definition with what the options say instead."""
    from rag_lab.definition import Experiment

    changes = {**changes, **(_chosen(definition, variants) if variants is not None else {})}
    with _naming(file, changes):
        changed = Experiment.read({**definition.model_dump(), **changes}, str(file))
        _check_names(changed)
    if "baseline" in changes:
        _say(f"the file's baseline is not among --variants; '{changed.baseline}' takes its place")
    return changed


def _folder(out: Path | None, definition: Experiment, several: bool) -> Path:
    """Where the results of one experiment go."""
    folder = Path("reports") / definition.name if out is None else out / definition.name if several else out
    _check_folder(folder)
    return folder


@contextmanager
def _naming(file: Path, changed: Collection[str] = ()) -> Iterator[None]:
    """An error about a field names the experiment file, or the option where one took the field's place."""
    from rag_lab.definition import Experiment

    try:
        yield
    except RagLabError as error:
        field = re.split(r"\W", str(error), maxsplit=1)[0]
        if field in changed:
            raise RagLabError(f"--{error}") from error
        if field in Experiment.model_fields:
            raise RagLabError(f"{file}: {error}") from error
        raise


def _check_names(definition: Experiment) -> None:
    """Refuse unknown variants, stages and metrics and a missing baseline before anything is loaded."""
    from rag_lab.metrics import metric

    known = list(_placed(definition, definition.variant_definitions()))
    if definition.baseline is not None and definition.baseline not in known:
        raise RagLabError(
            f"baseline: '{definition.baseline}' is not one of the variants; name one of {', '.join(known)}"
        )
    for name in definition.metrics or ():
        try:
            metric(name)
        except RagLabError as error:
            raise RagLabError(f"metrics: {error}") from error


def _check_folder(folder: Path) -> None:
    """Refuse a folder for results that cannot be one, before the work is done."""
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise RagLabError(f"--out {folder}: {nearest} is a file; name a folder")
    if not os.access(nearest, os.W_OK):
        raise RagLabError(f"--out {folder}: {nearest} is not writable; name another folder")


def _chosen(definition: Experiment, names: str) -> dict[str, Any]:
    """The named variants with the file's own definitions; where they leave its baseline out, the first takes over."""
    from rag_lab.variants import is_bound

    known = definition.variant_definitions()
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not wanted:
        raise RagLabError("--variants: is empty; name variants such as bm25,dense")
    changes: dict[str, Any] = {"variants": [{name: known[name]} if known.get(name) else name for name in wanted]}
    if definition.baseline is not None and definition.baseline.partition("@")[0] not in wanted:
        first = next((name for name in wanted if not is_bound(name)), wanted[0])
        changes["baseline"] = next(iter(_placed(definition, {first: known.get(first)})))
    return changes


def _placed(definition: Experiment, variants: Mapping[str, Sequence[Any] | None]) -> Iterable[str]:
    """Names of the variants on the snapshots of the experiment."""
    from rag_lab.variants import place

    return place(variants, list(definition.snapshot_settings()), bool(definition.snapshots))


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Folder of a run.")],
    second: Annotated[Path | None, typer.Argument(help="Folder of another run on the same questions.")] = None,
) -> None:
    """Show the comparisons of a run, or compare two runs question by question."""
    from rag_lab.comparison import compare_runs
    from rag_lab.results import Results
    from rag_lab.terminal import print_comparisons

    results = Results.load(first)
    alpha = 1 - float(results.provenance["confidence"])
    if second is None:
        print_comparisons(results.comparisons, alpha=alpha)
        return
    found = compare_runs(results, Results.load(second), (str(first), str(second)))
    print_comparisons(found.table, found.differs, second=str(second), alpha=alpha)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="Folder of a run or a study.")]) -> None:
    """Write report.html and report.pdf of a finished run or study once more."""
    from rag_lab import reports
    from rag_lab.ann.results import AnnResults
    from rag_lab.results import Results

    written = reports.write((AnnResults if AnnResults.is_in(folder) else Results).load(folder), folder)
    for name in reports.FORMATS:
        typer.echo(written[name])


@app.command()
def ann(
    study: Annotated[Path, typer.Argument(help="Study file (YAML).")],
    dataset: Annotated[str | None, typer.Option(help="Dataset name or folder, instead of the file's.")] = None,
    sizes: Annotated[str | None, typer.Option(help="Numbers of vectors, separated by commas.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results and report [reports/NAME].")] = None,
    report: Annotated[bool, typer.Option(help="Write report.html and report.pdf.")] = True,
) -> None:
    """Compare indexes of vectors with exact search: recall, times, memory and build time, by number of vectors."""
    from rag_lab import reports
    from rag_lab.ann.definition import AnnStudy
    from rag_lab.ann.sweep import ann_study
    from rag_lab.terminal import print_written
    from rag_lab.terminal_studies import print_ann

    changes: dict[str, Any] = {} if dataset is None else {"dataset": dataset}
    if sizes is not None:
        changes["sizes"] = _numbers(sizes)
    definition = AnnStudy.load(study)
    definition = AnnStudy.read({**definition.model_dump(), **changes}, ", ".join(f"--{name}" for name in changes))
    folder = out or Path("reports") / definition.name
    _check_folder(folder)
    results = ann_study(definition, progress=sys.stderr.isatty())
    results.save(folder)
    written = {"results": str(folder / "results.json")}
    if report:
        paths = reports.write(results, folder)
        written |= {f"report ({name})": str(paths[name]) for name in reports.FORMATS}
    print_ann(results)
    print_written(written)


def _numbers(given: str) -> list[int]:
    """Whole numbers separated by commas."""
    try:
        return [int(part) for part in given.split(",")]
    except ValueError:
        raise RagLabError(f"--sizes: {given!r} is not a list of whole numbers such as 10000,100000") from None


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="An entry, or a dataset for all of its entries.")] = None,
    file: Annotated[Path, typer.Option(help="File of expected scores.")] = Path("experiments/expected_scores.yaml"),
) -> None:
    """Run what expected scores say and can be run here. Exit status 1 when one is missed."""
    from rag_lab.reproduction import ExpectedScores
    from rag_lab.reproduction import reproduce as cells_of
    from rag_lab.terminal_studies import print_cells

    cells = list(cells_of(ExpectedScores.load(file), name, progress=sys.stderr.isatty()))
    print_cells(cells)
    raise typer.Exit(1 if any(cell.status == "missed" for cell in cells) else 0)


@app.command()
def datasets(
    name: Annotated[str | None, typer.Argument(help="Show what one dataset holds.")] = None,
    split: Annotated[str, typer.Option(help="Whose questions and judgments to show.")] = "test",
) -> None:
    """List the datasets that a name leads to, or check one."""
    from rag_lab import datasets as sources
    from rag_lab.terminal import print_dataset, print_datasets

    if name is None:
        print_datasets(sources.available())
    else:
        print_dataset(sources.load(name, split))


@app.command()
def doctor() -> None:
    """Say what was found on this machine, what is missing, and how to get it. Exit status 1 when a need is not met."""
    from rag_lab.doctor import examine
    from rag_lab.terminal import print_checks

    checks = examine()
    print_checks(checks)
    raise typer.Exit(0 if all(check.ok or not check.needed for check in checks) else 1)


@app.command()
def ui(port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000) -> None:
    """Open the MLflow runs in a browser."""
    import subprocess

    from rag_lab.tracking import PRIVACY, ui_command

    command = ui_command(port=port)
    typer.echo(f"MLflow at http://127.0.0.1:{port} (Ctrl-C ends it)")
    raise typer.Exit(subprocess.run(command, check=False, env={**os.environ, **PRIVACY}).returncode)


def main() -> None:
    """Entry point: an error that the user can act on is one line on standard error and exit status 2."""
    try:
        status = app(standalone_mode=False)
    except RagLabError as error:
        sys.exit(_refuse(str(error)))
    except UsageError as error:
        sys.exit(_refuse(f"{error.format_message().rstrip('.')}; see rag-lab --help"))
    except BrokenPipeError:
        # Whoever read the output has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        sys.exit(_refuse(f"{error.filename or 'this machine'}: {error.strerror or error}"))
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    if status == INTERRUPTED:
        _say("interrupted; the same command goes on where it stopped")
    sys.exit(status if isinstance(status, int) else 0)


def _refuse(message: str) -> int:
    _say(message)
    return 2


def _say(message: str) -> None:
    """One line on standard error."""
    print("rag-lab: " + " ".join(message.split()), file=sys.stderr)  # noqa: T201
