"""The command line: bad input is one line that names file, field and fix, with exit status 2 and no trace."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rag_lab import cli
from rag_lab.contracts import RagLabError
from rag_lab.definition import Experiment

HEAVY = ("torch", "faiss", "jnius", "pandas", "pyarrow", "mlflow", "matplotlib", "transformers")
GOOD = "dataset: handbook\nvariants: [bm25, dense]\nbaseline: bm25\n"


class Ended(NamedTuple):
    """How a command ended."""

    status: Any
    out: str
    err: str


Call = Callable[..., Ended]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Run ``rag-lab ARGUMENTS`` in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["rag-lab", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return Ended(end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Write an experiment file."""

    def write(content: str | bytes) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Experiment, Path, dict[str, Any]]]:
    """Stand in for the run itself, and keep what it was asked for."""
    from rag_lab import session

    asked: list[tuple[Experiment, Path, dict[str, Any]]] = []

    def run_session(definition: Experiment, folder: Path, **options: Any) -> list[dict[str, Any]]:
        asked.append((definition, folder, options))
        return []

    monkeypatch.setattr(session, "run_session", run_session)
    return asked


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be loaded."""

    def load(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a dataset was loaded")

    monkeypatch.setattr("rag_lab.datasets.load", load)


def refused(ended: Ended, *parts: str | Path) -> None:
    """One line on standard error that holds `parts`, status 2, nothing on standard output, no trace."""
    assert ended.status == 2
    assert ended.out == ""
    assert ended.err.startswith("rag-lab: ")
    assert ended.err.count("\n") == 1
    assert ended.err.endswith("\n")
    assert "Traceback" not in ended.err
    for part in parts:
        assert str(part) in ended.err


BAD_FILES: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    "empty": ("", ("must hold fields such as 'dataset'",)),
    "list": ("- bm25\n- dense\n", ("must hold fields",)),
    "sentence": ("just a sentence", ("must hold fields",)),
    "not yaml": ("dataset: handbook\nvariants: [bm25\n", ("line 3", "not YAML")),
    "tab": ("dataset: handbook\n\tseed: 1\n", ("line 2", "not YAML")),
    "binary": (b"\x89PNG\r\n\x1a\n\x00\x00", ("cannot be read",)),
    "no such day": ("dataset: handbook\ntime: 2026-02-30\n", ("not YAML", "day is out of range")),
    "control characters": (b"dataset: \x00\x01\n", ("not YAML",)),
    "tag": ("dataset: !!python/object:os.system x\n", ("not YAML", "line 1")),
    "unknown field": (GOOD + "varients: [bm25]\n", ("varients", "unknown field", "remove it")),
    "unknown nested field": (GOOD + "snapshot: {chunker: {sise: 3}}\n", ("snapshot.chunker.sise", "unknown field")),
    "number as key": (GOOD + "7: x\n", ("7: keys should be strings",)),
    "no dataset": ("variants: [bm25]\n", ("dataset", "missing; add it")),
    "wrong type": (GOOD + "seed: soon\n", ("seed", "integer", "'soon'")),
    "mapping for a text": ("dataset: {name: handbook}\n", ("dataset", "string")),
    "no variants": ("dataset: handbook\nvariants: []\n", ("variants", "at least 1")),
    "variants as text": ("dataset: handbook\nvariants: bm25\n", ("variants", "list")),
    "unknown variant": ("dataset: handbook\nvariants: [bm52]\n", ("variants", "'bm52' is unknown", "bm25")),
    "repeated variant": ("dataset: handbook\nvariants: [bm25, bm25]\n", ("variants", "'bm25' is listed twice")),
    "unknown stage": ("dataset: handbook\nvariants: [{mine: [bm52]}]\n", ("variants.mine[1]", "'bm52' is unknown")),
    "unknown setting": (
        "dataset: handbook\nvariants: [{mine: [{bm25: {dept: 3}}]}]\n",
        ("variants.mine[1].bm25.dept",),
    ),
    "stages in the wrong order": (
        "dataset: handbook\nvariants: [{mine: [assemble, bm25]}]\n",
        ("variants.mine", "stages must come as"),
    ),
    "negative cap": (GOOD + "budget: {context_tokens: -1}\n", ("budget.context_tokens", "-1", "at least 0")),
    "half a token": (GOOD + "budget: {context_tokens: 1.5}\n", ("budget.context_tokens", "whole number of tokens")),
    "cap without end": (GOOD + "budget: {latency_ms: .inf}\n", ("budget.latency_ms", "inf")),
    "unknown resource": (GOOD + "budget: {tokens: 5}\n", ("budget.tokens", "unknown resource", "context_tokens")),
    "unknown resource of the sweep": (GOOD + "sweep: {tokens: [5]}\n", ("sweep.tokens", "unknown resource")),
    "unknown metric": (GOOD + "metrics: [nDCG@10, NDGC]\n", ("metrics", "'NDGC'", "nDCG@10")),
    "baseline": (GOOD.replace("baseline: bm25", "baseline: hybrid"), ("baseline", "'hybrid'", "bm25, dense")),
    "confidence": (GOOD + "statistics: {confidence: 95}\n", ("statistics.confidence", "95")),
    "name as path": (GOOD + "name: ../elsewhere\n", ("name", "../elsewhere")),
}


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_experiment_file_is_refused_before_data_is_loaded(
    case: str, call: Call, experiment: Callable[[str | bytes], Path]
) -> None:
    content, parts = BAD_FILES[case]
    path = experiment(content)
    refused(call("run", path, "--no-track"), path, *parts)


def test_a_missing_file_and_a_folder_are_refused(call: Call, tmp_path: Path) -> None:
    refused(call("run", "nowhere.yaml"), "nowhere.yaml: no such file", "experiments/quickstart.yaml")
    refused(call("run", tmp_path), tmp_path, "is a folder")


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (("--limit", "0"), ("--limit", "greater than or equal to 1")),
        (("--limit", "many"), ("--limit", "integer")),
        (("--variants", ""), ("--variants", "is empty")),
        (("--variants", " , "), ("--variants", "is empty")),
        (("--variants", "bm25,bm52"), ("--variants", "'bm52' is unknown", "hybrid")),
        (("--dataset", ""), ("--dataset", "the name is empty")),
        (("--frobnicate",), ("No such option", "--frobnicate", "--help")),
        (("--limit",), ("--limit", "requires an argument")),
        (("more.yaml",), ("more.yaml", "--help")),
    ],
)
def test_a_bad_option_is_refused_and_named(
    arguments: tuple[str, ...], parts: tuple[str, ...], call: Call, experiment: Callable[[str], Path]
) -> None:
    pytest.importorskip("rag_lab.session")
    path = experiment(GOOD + "generator: none\n")
    ended = call("run", path, *arguments)
    refused(ended, *parts)
    assert str(path) not in ended.err


def test_an_unknown_dataset_names_the_field_and_what_to_do(call: Call, experiment: Callable[[str], Path]) -> None:
    path = experiment(GOOD.replace("handbook", "no such dataset") + "generator: none\n")
    refused(call("run", path), f"{path}: dataset 'no such dataset': not found", "RAG_LAB_DATA")
    ended = call("run", experiment(GOOD + "generator: none\n"), "--dataset", "no such dataset")
    refused(ended, "--dataset 'no such dataset': not found")
    refused(call("datasets", "no such dataset"), "dataset 'no such dataset': not found", "RAG_LAB_DATA")


@pytest.mark.parametrize(
    "prices", [None, b"- 1\n", b"\xff\xfe\x00", b"compute_usd_per_hour: -1\n", b"compute_usd_per_hour: [\n"]
)
def test_a_price_file_that_cannot_be_read_is_named(
    prices: bytes | None, call: Call, experiment: Callable[[str], Path], tmp_path: Path
) -> None:
    if prices is not None:
        (tmp_path / "prices.yaml").write_bytes(prices)
    refused(call("run", experiment(GOOD + "prices: prices.yaml\ngenerator: none\n")), tmp_path / "prices.yaml", "price")


def test_out_must_be_able_to_be_a_folder(call: Call, experiment: Callable[[str], Path], tmp_path: Path) -> None:
    path = experiment(GOOD)
    refused(call("run", path, "--out", path), f"--out {path}", "is a file; name a folder")
    refused(call("run", path, "--out", path / "below"), f"--out {path}/below", f"{path} is a file")
    (tmp_path / "reports").write_text("a file where the results would go")
    refused(call("run", path), "--out reports/mine", "is a file")


def test_options_take_the_place_of_fields(
    call: Call, experiment: Callable[[str], Path], tmp_path: Path, sessions: list[Any]
) -> None:
    path = experiment("dataset: handbook\nvariants: [bm25, {mine: [bm25, {assemble: {passages: 2}}]}, dense]\n")
    arguments = ("--dataset", "scifact", "--limit", "7", "--variants", "mine, hybrid,mine", "--out", "there")
    ended = call("run", path, *arguments, "--no-track", "--no-report")
    assert (ended.status, ended.err) == (0, "")
    ((definition, folder, options),) = sessions
    assert (definition.name, definition.dataset, definition.limit) == ("mine", "scifact", 7)
    assert definition.variant_definitions() == {"mine": ["bm25", {"assemble": {"passages": 2}}], "hybrid": None}
    assert folder == Path("there")
    assert options == {"track": False, "report": False, "experiment_file": path}


def test_results_go_below_reports_by_the_name_of_the_experiment(
    call: Call, experiment: Callable[[str], Path], sessions: list[Any]
) -> None:
    assert call("run", experiment(GOOD + "name: First try\n")).status == 0
    assert sessions[0][1] == Path("reports") / "First try"


SEVERAL = "datasets: [handbook, {dataset: scifact, limit: 9}]\nvariants: [bm25]\n"


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ((), [("mine-handbook", None, "reports/mine-handbook"), ("mine-scifact", 9, "reports/mine-scifact")]),
        (("--dataset", "scifact", "--out", "there"), [("mine-scifact", 9, "there")]),
        (
            ("--limit", "3", "--out", "o"),
            [("mine-handbook", 3, "o/mine-handbook"), ("mine-scifact", 3, "o/mine-scifact")],
        ),
    ],
)
def test_each_of_several_datasets_is_a_run_of_its_own(
    arguments: tuple[str, ...],
    asked: list[tuple[str, int | None, str]],
    call: Call,
    experiment: Callable[[str], Path],
    sessions: list[Any],
) -> None:
    assert call("run", experiment(SEVERAL), *arguments).status == 0
    assert [(one.name, one.limit, str(folder)) for one, folder, _ in sessions] == asked


@pytest.mark.parametrize(
    "variants, baseline, said",
    [
        ("dense,bm25", "bm25", False),
        ("dense,hybrid", "dense", True),
        ("no_retrieval,hybrid", "hybrid", True),
        ("no_retrieval", "no_retrieval", True),
    ],
)
def test_without_its_baseline_the_first_variant_that_retrieves_takes_its_place(
    variants: str, baseline: str, said: bool, call: Call, experiment: Callable[[str], Path], sessions: list[Any]
) -> None:
    ended = call("run", experiment(GOOD), "--variants", variants)
    assert ended.status == 0
    assert sessions[0][0].baseline == baseline
    assert ended.err == (
        f"rag-lab: the file's baseline is not among --variants; '{baseline}' takes its place\n" if said else ""
    )


def test_a_failed_stage_makes_the_status_1(
    call: Call, experiment: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_lab.session.run_session", lambda *_, **__: [{"stage": "generate"}])
    assert call("run", experiment(GOOD)) == Ended(1, "", "")


@pytest.mark.parametrize(
    "raised, status, line",
    [
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on where it stopped"),
        (RagLabError("Java 21 is needed,\n found: none"), 2, "Java 21 is needed, found: none"),
        (PermissionError(13, "Permission denied", "/there"), 2, "/there: Permission denied"),
        (OSError(28, "No space left on device"), 2, "this machine: No space left on device"),
    ],
)
def test_what_a_run_raises_becomes_one_line(
    raised: BaseException,
    status: int,
    line: str,
    call: Call,
    experiment: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run_session(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr("rag_lab.session.run_session", run_session)
    assert call("run", experiment(GOOD)) == Ended(status, "", f"rag-lab: {line}\n")


def test_a_fault_of_ours_keeps_its_trace(experiment: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def run_session(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rag_lab.session.run_session", run_session)
    monkeypatch.setattr(sys, "argv", ["rag-lab", "run", str(experiment(GOOD))])
    with pytest.raises(ZeroDivisionError):
        cli.main()


@pytest.mark.parametrize(
    "content", [None, "", "{", "[]", "null", "{}", '{"format": 0}', '{"format": 1}', b"\xff\xfe"], ids=str
)
@pytest.mark.parametrize("command", ["compare", "report"])
def test_a_broken_results_folder_is_named(
    content: str | bytes | None, command: str, call: Call, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    if content is not None:
        (folder / "results.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(call(command, folder), folder / "results.json", "run the experiment again")


def test_compare_and_report_refuse_what_is_no_folder(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(call("compare", "file"), "file/results.json", "run the experiment again")
    refused(call("compare", "nowhere", "nowhere"), "nowhere/results.json")
    refused(call("report", "nowhere"), "nowhere/results.json")
    refused(call("compare"), "Missing argument", "--help")


def test_an_unknown_command_is_refused(call: Call) -> None:
    refused(call("frobnicate"), "No such command 'frobnicate'", "see rag-lab --help")


@pytest.mark.parametrize("port", ["0", "70000", "x"])
def test_a_port_that_is_none_is_refused(port: str, call: Call) -> None:
    refused(call("ui", "--port", port), "--port")


def test_ui_without_runs_says_what_to_do_first(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    refused(call("ui"), "mlruns/mlflow.db", "run an experiment")


@pytest.mark.parametrize("arguments", [(), ("--help",), ("run", "--help"), ("doctor", "--help")])
def test_help_is_no_error(arguments: tuple[str, ...], call: Call) -> None:
    ended = call(*arguments)
    assert (ended.status, ended.err) == (0, "")
    assert "Usage" in ended.out
    if not arguments[1:] and arguments != ("--help",):
        assert all(name in ended.out for name in ("run", "compare", "report", "datasets", "doctor", "ui"))


def test_datasets_lists_the_handbook_and_shows_it(call: Call) -> None:
    ended = call("datasets")
    assert ended.status == 0
    assert "handbook" in ended.out
    shown = call("datasets", "handbook")
    assert (shown.status, shown.err) == (0, "")
    assert all(word in shown.out for word in ("split", "languages", "groups", "rights", "fingerprint", "declared"))


def in_a_process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, **options)


@pytest.mark.parametrize(
    "code", ["import rag_lab", "import rag_lab.cli; sys.argv = ['rag-lab', '--help']; rag_lab.cli.main()"]
)
def test_import_and_help_load_nothing_heavy(code: str) -> None:
    script = (
        "import sys, time, json, atexit\nstarted = time.perf_counter()\n"
        f"HEAVY = {HEAVY!r}\n"
        "def tell():\n"
        "    loaded = [name for name in HEAVY if name in sys.modules]\n"
        "    print(json.dumps([loaded, time.perf_counter() - started]), file=sys.stderr)\n"
        f"atexit.register(tell)\n{code}\n"
    )
    ended = in_a_process("-c", script)
    assert ended.returncode == 0
    loaded, seconds = json.loads(ended.stderr)
    assert loaded == []
    print(f"{code}: {seconds:.2f} s")


@pytest.mark.parametrize("program", [("-m", "rag_lab"), ("-c", "from rag_lab.cli import main; main()")])
def test_the_real_program_refuses_in_one_line(program: tuple[str, ...], tmp_path: Path) -> None:
    ended = in_a_process(*program, "run", "nowhere.yaml", cwd=tmp_path)
    refused(Ended(ended.returncode, ended.stdout, ended.stderr), "nowhere.yaml: no such file")


def test_the_installed_command_helps() -> None:
    command = Path(sys.executable).parent / "rag-lab"
    if not command.is_file():
        pytest.skip("rag-lab is not installed beside this Python")
    ended = subprocess.run([command], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "doctor" in ended.stdout


def test_output_that_nobody_reads_ends_quietly() -> None:
    code = (
        "import os, sys\nfrom rag_lab import cli\nsys.argv = ['rag-lab', 'datasets']\n"
        "read, write = os.pipe()\nos.close(read)\nos.dup2(write, 1)\ncli.main()\n"
    )
    ended = in_a_process("-c", code)
    assert (ended.returncode, ended.stderr) == (1, "")
