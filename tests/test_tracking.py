"""MLflow runs: names, numbers, artifacts, and what must stay out."""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab import tracking
from rag_lab.contracts import RESOURCES, RagLabError
from rag_lab.results import COLUMNS, Results, frame
from rag_lab.tracking.run import KIND, LONGEST_VALUE, encode_name
from rag_lab.tracking.store import open_client

SECRET_TEXT = "Which ward is Ms Okafor in?"
S23 = {"ndcg@10": 0.5, "ndcg_10": 0.4, "p(abstain)": 0.1, "\u547d\u4e2d\u7387": 0.2, "bad": math.nan, "worse": math.inf}


def metric_row(variant: str, budget: str, group: str, metric: str, value: float | None) -> dict:
    row = {"variant": variant, "budget": budget, "group": group, "metric": metric, "value": value}
    finite = value is not None and math.isfinite(value)
    low, high = (value - 0.05, value + 0.05) if finite else (math.nan, math.nan)
    return {
        **row,
        "ci_low": low,
        "ci_high": high,
        "n": 2,
        "n_failed": 1,
        "n_abstained": 0,
        "value_within_budget": value,
    }


def make_results(
    values: dict[str, float] | None = None,
    variants: tuple[str, ...] = ("bm25", "dense"),
    budgets: tuple[str, ...] = ("main",),
    groups: tuple[str, ...] = ("multi-step", "a/b"),
    **changes,
) -> Results:
    values = {"nDCG@10": 0.6789} if values is None else values
    cells = [(variant, budget) for budget in budgets for variant in variants]
    outcome = dict.fromkeys(COLUMNS["outcomes"], None) | dict.fromkeys(RESOURCES, 0.0)
    outcome |= {"query_id": "q1", "group": "a/b", "question": SECRET_TEXT, "state": "answered", "gold_answers": ["5"]}
    rows: dict[str, list[dict]] = {
        "metrics": [
            metric_row(variant, budget, group, metric, value)
            for variant, budget in cells
            for group in ("all", *groups)
            for metric, value in values.items()
        ],
        "comparisons": [
            {
                "baseline": variants[0],
                "variant": variant,
                "budget": budget,
                "metric": metric,
                "delta": -0.03,
                "ci_low": -0.05,
                "ci_high": -0.01,
                "p": 0.01,
                "p_holm": 0.02,
                "effect": -0.2,
                "n": 2,
                "note": "",
            }
            for variant, budget in cells
            for metric in values
            if variant != variants[0]
        ],
        "budget_use": [
            {
                "variant": variant,
                "budget": budget,
                "resource": "context_tokens",
                "cap": 512,
                "mean": 400.5,
                "max": 512,
                "curtailed": 1,
                "over": 0,
            }
            for variant, budget in cells
        ],
        "funnel": [{"variant": v, "budget": b, "stage": "candidates", "lost": 1, "share": 0.5} for v, b in cells],
        "questions": [
            {"variant": v, "budget": b, "query_id": "q1", "group": "a/b", "metric": "nDCG@10", "value": 1.0}
            for v, b in cells
        ],
        "outcomes": [outcome | {"variant": v, "budget": b} for v, b in cells],
        "timings": [
            {
                "variant": v,
                "budget": b,
                "stage": "bm25",
                "ms_mean": 2.0,
                "ms_p50": 1.5,
                "ms_p95": 4.0,
                "ms_p99": 5.0,
                "total_s": 0.1,
                "cached": False,
                "shared_with": ["dense"],
            }
            for v, b in cells
        ],
    }
    fields = {
        "dataset": {
            "name": "tiny",
            "fingerprint": "f" * 64,
            "documents": 3,
            "queries": 2,
            "languages": ["en"],
            "groups": {"a/b": 2},
            "not_measured": {"EM": "the dataset has no answers"},
        },
        "snapshot": "5" * 64,
        "seed": 7,
        "experiment": {
            "name": "first comparison",
            "question": "Does dense beat BM25?",
            "dataset": "tiny",
            "seed": 7,
            "statistics": {"resamples": 1000},
            "generator": {"name": "remote", "api_key": "sk-very-secret"},
        },
        "variants": {variant: [{"bm25": {"k1": 0.9}}, {"hub_token": "hf_secret"}] for variant in variants},
        "budgets": {budget: {"context_tokens": 512} for budget in budgets},
        "warnings": ["one"],
        "calibration": None,
        "failures": [],
        "provenance": {
            "code_version": "0.1.0+abc",
            "started": "2026-09-10T09:00:00+00:00",
            "finished": "2026-09-10T09:00:30+00:00",
            "packages": {"numpy": "2.4.0"},
        },
    }
    frames = {name: frame(name, rows.get(name, [])) for name in COLUMNS}
    runs = {v if b == "main" else f"{v}@{b}": {"q1": [("d1", 2.0), ("d2", 1.0)]} for v, b in cells}
    return Results(**frames, **(fields | changes), runs=runs)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory) -> Path:
    """An empty store: MLflow's migrations take seconds, so they run once."""
    path = tmp_path_factory.mktemp("migrated") / "mlflow.db"
    with open_client(f"sqlite:///{path}") as client:
        client.search_experiments()
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch, migrated) -> Path:
    """A current folder with an empty store and nothing in the environment."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlruns").mkdir()
    shutil.copy(migrated, tmp_path / "mlruns" / "mlflow.db")
    return tmp_path


@pytest.fixture
def client(folder):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=tracking.tracking_uri())


def saved(results: Results, folder: Path) -> Path:
    place = results.save(folder / "run")
    (place / "figures").mkdir()
    (place / "figures" / "frontier.svg").write_text("<svg/>")
    (place / "report.html").write_text("<html></html>")
    return place


def children(client, parent_id: str) -> dict:
    parent = client.get_run(parent_id)
    runs = client.search_runs([parent.info.experiment_id], f"tags.`mlflow.parentRunId` = '{parent_id}'")
    return {run.info.run_name: run for run in runs}


def decode_name(name: str) -> str:
    """The inverse of `encode_name`."""
    return re.sub(r"_x([0-9a-f]*)_", lambda match: chr(int(match[1], 16)) if match[1] else "", name)


def decoded(metrics: dict[str, float]) -> dict[tuple[str, ...], float]:
    return {tuple(decode_name(part) for part in name.split("/")): value for name, value in metrics.items()}


@settings(deadline=None)
@given(st.text())
def test_every_name_is_legal_and_reversible(name):
    from mlflow.utils.validation import _validate_metric_name

    encoded = encode_name(name)
    _validate_metric_name(encoded)
    assert "/" not in encoded
    assert decode_name(encoded) == name


@pytest.mark.parametrize(
    "name, encoded",
    [
        ("nDCG@10", "nDCG_x40_10"),
        ("ndcg_10", "ndcg_10"),
        ("a_x40_b", "a_x5f_x40_b"),
        ("_x40@", "_x5f_x40_x40_"),
        ("just updated", "just updated"),
        ("a/b", "a_x2f_b"),
        ("..", "_x2e_."),
        ("", "_x_"),
    ],
)
def test_encoded_names(name, encoded):
    assert encode_name(name) == encoded
    assert decode_name(encoded) == name


def test_s23_names_and_numbers(client, folder):
    results = make_results(S23, variants=("bm25",), groups=())
    run_id = tracking.log(results, saved(results, folder))
    run = children(client, run_id)["bm25"]
    numbers = decoded(run.data.metrics)
    assert {name: numbers[name,] for name in S23 if math.isfinite(S23[name])} == {
        "ndcg@10": 0.5,
        "ndcg_10": 0.4,
        "p(abstain)": 0.1,
        "\u547d\u4e2d\u7387": 0.2,
    }
    assert ("bad",) not in numbers
    assert ("worse",) not in numbers
    assert all(math.isfinite(value) for value in numbers.values())
    assert run.data.tags["not_logged/bad"] == "nan; no figure; n 2, n_failed 1"
    assert run.data.tags["not_logged/worse"] == "inf; no figure; n 2, n_failed 1"
    assert run.info.status == "FINISHED"


def test_a_metric_that_the_dataset_cannot_have_is_tagged_with_the_reason(client, folder):
    results = make_results({"EM": None}, variants=("bm25",), groups=())
    run = children(client, tracking.log(results, saved(results, folder)))["bm25"]
    assert run.data.tags["not_logged/EM"] == "nan; the dataset has no answers; n 2, n_failed 1"


def test_parent_and_children(client, folder):
    results = make_results()
    place = saved(results, folder)
    run_id = tracking.log(results, place, [place / "report.html", place / "absent.pdf"])
    parent = client.get_run(run_id)
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name == "first comparison on tiny"
    assert client.get_experiment(parent.info.experiment_id).name == "first comparison"
    assert parent.info.end_time - parent.info.start_time == 30_000
    params = parent.data.params
    assert (params["seed"], params["snapshot"], params["code_version"]) == ("7", "5" * 64, "0.1.0+abc")
    assert (params["variants"], params["statistics.resamples"]) == ("bm25, dense", "1000")
    assert parent.data.tags["mlflow.note.content"] == "Does dense beat BM25?"
    assert parent.data.tags["package/numpy"] == "2.4.0"
    runs = children(client, run_id)
    assert sorted(runs) == ["bm25", "dense"]
    dense = runs["dense"]
    assert dense.data.params["cap/context_tokens"] == "512"
    assert '"k1": 0.9' in dense.data.params["stage/1"]
    assert dense.data.tags["baseline"] == "bm25"
    numbers = decoded(dense.data.metrics)
    assert numbers["nDCG@10",] == 0.6789
    assert numbers["ci_low", "nDCG@10"] == pytest.approx(0.6289)
    assert numbers["group", "a/b", "ci_high", "nDCG@10"] == pytest.approx(0.7289)
    assert numbers["group", "multi-step", "n", "nDCG@10"] == 2
    assert numbers["n_failed", "nDCG@10"] == 1
    assert numbers["against_baseline", "p_holm", "nDCG@10"] == 0.02
    assert numbers["spent", "context_tokens", "mean"] == 400.5
    assert numbers["lost", "candidates"] == 0.5
    assert numbers["time", "bm25", "ms_p95"] == 4.0


def test_artifacts(client, folder):
    import pandas as pd

    results = make_results()
    place = saved(results, folder)
    run_id = tracking.log(results, place, [place / "report.html"])
    top = {item.path for item in client.list_artifacts(run_id)}
    assert top == {"results.json", "tables", "runs", "figures", "report.html"}
    assert [item.path for item in client.list_artifacts(run_id, "figures")] == ["figures/frontier.svg"]
    child = children(client, run_id)["dense"].info.run_id
    assert {item.path for item in client.list_artifacts(child)} == {"questions.parquet", "outcomes.parquet", "runs"}
    assert [item.path for item in client.list_artifacts(child, "runs")] == ["runs/dense.trec"]
    questions = pd.read_parquet(client.download_artifacts(child, "outcomes.parquet", str(folder)))
    assert list(questions["variant"]) == ["dense"]
    assert questions["question"][0] == SECRET_TEXT
    artifacts = folder / "mlruns" / "artifacts"
    assert (artifacts / run_id / "artifacts" / "results.json").is_file()


def test_the_dataset_is_an_mlflow_dataset(client, folder):
    results = make_results()
    run = client.get_run(tracking.log(results, saved(results, folder)))
    (logged,) = run.inputs.dataset_inputs
    assert (logged.dataset.name, logged.dataset.digest) == ("tiny", "f" * 36)
    assert '"documents": 3' in logged.dataset.profile
    assert {tag.key: tag.value for tag in logged.tags} == {"mlflow.data.context": "evaluation"}


def test_the_corpus_its_settings_and_its_targets_are_logged(client, folder):
    corpus = {
        "name": "kb",
        "generation": 3,
        "activated": "2026-09-10T08:00:00+00:00",
        "policies": "1",
        "denied": 2,
        "built_with": {"chunker": {"name": "blocks", "size": 80}, "encoder": "minilm"},
        "targets": [{"name": "revocations at once", "wanted": "100% within 1 s", "measured": "4 of 5", "met": False}],
    }
    results = make_results()
    results.provenance["corpus"] = corpus
    run = client.get_run(tracking.log(results, saved(results, folder)))
    logged = {key: value for key, value in run.data.params.items() if key.startswith("corpus")}
    assert logged == {
        "corpus/generation": "3",
        "corpus/activated": "2026-09-10T08:00:00+00:00",
        "corpus/policies": "1",
        "corpus/denied": "2",
        "corpus/built_with/chunker.name": "blocks",
        "corpus/built_with/chunker.size": "80",
        "corpus/built_with/encoder": "minilm",
    }
    assert run.data.tags["freshness/revocations at once"] == "missed: 4 of 5, wanted 100% within 1 s"


def test_a_sweep_has_one_child_for_each_variant_and_budget(client, folder):
    results = make_results(budgets=("main", "context_tokens=256"))
    runs = children(client, tracking.log(results, saved(results, folder)))
    assert sorted(runs) == ["bm25 @ context_tokens=256", "bm25 @ main", "dense @ context_tokens=256", "dense @ main"]
    rankings = {name: [a.path for a in client.list_artifacts(run.info.run_id, "runs")] for name, run in runs.items()}
    assert rankings["dense @ main"] == ["runs/dense.trec"]
    assert rankings["dense @ context_tokens=256"] == ["runs/dense@context_tokens=256.trec"]


def test_family_32_long_values_go_to_an_artifact(client, folder):
    long = "x" * 10_000
    experiment = {"name": "long", "prices": long, "options": {"k" * 300: "short"}}
    results = make_results(experiment=experiment, variants=("bm25",))
    run_id = tracking.log(results, saved(results, folder))
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["prices"].endswith("... (whole in long_values.json)")
    assert len(run.data.params["prices"]) <= LONGEST_VALUE
    kept = Path(client.download_artifacts(run_id, "long_values.json", str(folder))).read_text()
    assert long in kept
    assert "options." + "k" * 300 in kept


def test_private_texts_and_keys_stay_out(client, folder):
    failures = [{"variant": "bm25", "budget": "main", "stage": "generation", "cause": SECRET_TEXT, "questions": 3}]
    results = make_results(failures=failures)
    run_id = tracking.log(results, saved(results, folder))
    for run in (client.get_run(run_id), *children(client, run_id).values()):
        said = str(run.to_dictionary())
        assert "Okafor" not in said
        assert "sk-very-secret" not in said
        assert "hf_secret" not in said
    assert client.get_run(run_id).data.params["generator.api_key"] == "(withheld)"


def test_a_variant_with_failures_ends_failed(client, folder):
    failures = [{"variant": "bm25", "budget": "main", "stage": "generation", "cause": "out of memory", "questions": 3}]
    results = make_results(failures=failures)
    run_id = tracking.log(results, saved(results, folder))
    runs = children(client, run_id)
    assert client.get_run(run_id).info.status == "FAILED"
    assert (runs["bm25"].info.status, runs["dense"].info.status) == ("FAILED", "FINISHED")
    assert runs["bm25"].data.tags["failures"] == "bm25 generation: 3 questions"


@pytest.mark.parametrize("error, status", [(ValueError("disk\nfull"), "FAILED"), (KeyboardInterrupt(), "KILLED")])
def test_a_run_that_breaks_off_is_not_left_running(client, folder, monkeypatch, error, status):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(tracking, "_log_comparisons", fail)
    results = make_results()
    expected = RagLabError if isinstance(error, Exception) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        tracking.log(results, saved(results, folder))
    if expected is RagLabError:
        assert str(caught.value).startswith("MLflow store sqlite:///")
        assert "\n" not in str(caught.value)
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    assert {run.info.status for run in client.search_runs(ids)} == {status}


def test_a_run_left_by_a_killed_process_is_ended_by_the_next(client, folder):
    results = make_results()
    place = saved(results, folder)
    first = client.get_run(tracking.log(results, place))
    left = client.create_run(first.info.experiment_id, tags={KIND: "experiment"})
    foreign = client.create_run(first.info.experiment_id)
    tracking.log(results, place)
    assert client.get_run(left.info.run_id).info.status == "KILLED"
    assert client.get_run(foreign.info.run_id).info.status == "RUNNING"


STARTER = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from rag_lab import tracking
from test_tracking import make_results
results = make_results(variants=("bm25",), groups=())
print(tracking.log(results, results.save(Path.cwd() / sys.argv[1])))
"""


@pytest.mark.slow
def test_s23_two_processes_on_one_fresh_store(tmp_path, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    code = STARTER.format(tests=str(Path(__file__).parent))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, name], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in ("one", "two")
    ]
    ended = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0, 0], ended
    client = MlflowClient(tracking_uri=tracking.tracking_uri(tmp_path))
    ids = [output.strip() for output, _ in ended]
    assert ids[0] != ids[1]
    for run_id in ids:
        assert client.get_run(run_id).info.status == "FINISHED"
        assert [run.info.status for run in children(client, run_id).values()] == ["FINISHED"]
    assert all(not noise for _, noise in ended)


def test_a_run_is_sent_in_few_batches(client, folder, monkeypatch):
    from mlflow import MlflowClient

    sent: list[str] = []
    whole = MlflowClient.log_batch

    def counted(self, run_id, **entries):
        sent.append(run_id)
        return whole(self, run_id, **entries)

    monkeypatch.setattr(MlflowClient, "log_batch", counted)
    values = {f"metric {i}": 0.5 for i in range(16)}
    variants = tuple(f"v{i}" for i in range(5))
    results = make_results(values, variants, groups=tuple(f"g{i}" for i in range(10)))
    place = saved(results, folder)
    tracking.log(results, place)
    assert len(sent) <= 4 * 6


def test_the_address_in_the_environment_is_respected(folder, monkeypatch, migrated):
    from mlflow import MlflowClient

    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(migrated, elsewhere / "other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{elsewhere / 'other.db'}")
    results = make_results()
    run_id = tracking.log(results, saved(results, folder))
    run = MlflowClient(tracking_uri=f"sqlite:///{elsewhere / 'other.db'}").get_run(run_id)
    assert run.info.artifact_uri.startswith((elsewhere / "artifacts").as_uri())


def test_a_store_that_cannot_be_opened_is_one_line(folder, monkeypatch):
    (folder / "text.db").write_text("this is no database, and long enough to be told apart from one " * 20)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'text.db'}")
    results = make_results()
    with pytest.raises(RagLabError, match=r"MLflow store sqlite:///.*text\.db: .*--no-track") as caught:
        tracking.log(results, saved(results, folder))
    assert "\n" not in str(caught.value)


def test_a_deleted_experiment_is_named(client, folder):
    results = make_results()
    place = saved(results, folder)
    run = client.get_run(tracking.log(results, place))
    client.delete_experiment(run.info.experiment_id)
    with pytest.raises(RagLabError, match="experiment 'first comparison' is deleted"):
        tracking.log(results, place)


def test_logging_is_quiet_and_leaves_the_loggers_alone(folder, capfd):
    level = logging.getLogger("mlflow").level
    results = make_results()
    tracking.log(results, saved(results, folder))
    assert logging.getLogger("mlflow").level == level
    assert capfd.readouterr() == ("", "")
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_ui_command(folder, monkeypatch):
    command = tracking.ui_command(folder, port=5123)
    assert command[1:4] == ["-m", "mlflow", "ui"]
    assert command[-4:] == ["--host", "127.0.0.1", "--port", "5123"]
    assert f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}" in command
    with pytest.raises(RagLabError, match="no MLflow store yet"):
        tracking.ui_command(folder / "nowhere")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:secret@mlflow.example:5000/base")
    with pytest.raises(RagLabError, match=r"open https://mlflow\.example:5000/base in a browser") as caught:
        tracking.ui_command(folder)
    assert "secret" not in str(caught.value)
