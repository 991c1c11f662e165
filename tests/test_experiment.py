"""One call, from a folder of questions to results: the main path on a small collection, with real indexes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rag_lab
from rag_lab.contracts import RagLabError
from rag_lab.metrics.trec import read_trec
from rag_lab.preparation import Preparation
from rag_lab.results import Results
from rag_lab.store import Store

ROOMS = ["boiler", "library", "kitchen", "garage", "cellar", "attic", "office", "studio", "nursery", "terrace"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty short documents on rooms; twenty questions on their colours, four of them without an answer."""
    at = tmp_path_factory.mktemp("rooms")
    colours = ["red", "blue", "green", "white", "black", "grey", "brown", "pink", "cyan", "gold"]
    documents = [
        {"_id": f"{room}-{kind}", "title": room, "text": text}
        for room, colour in zip(ROOMS, colours, strict=True)
        for kind, text in (
            ("paint", f"The walls of the {room} are painted {colour}. They were painted in spring."),
            ("floor", f"The floor of the {room} is made of stone number {len(room)}."),
            ("door", f"The door of the {room} opens to the east."),
        )
    ]
    questions = [
        {"_id": f"q{i:02}", "text": f"What colour are the walls of the {room}?"} for i, room in enumerate(ROOMS)
    ]
    questions += [
        {"_id": f"f{i:02}", "text": f"What is the floor of the {room} made of?"} for i, room in enumerate(ROOMS[:6])
    ]
    questions += [
        {"_id": f"u{i:02}", "text": f"Who planted the roses behind the {room}?"} for i, room in enumerate(ROOMS[:4])
    ]
    answers, judgments = [], []
    for question in questions:
        number = int(question["_id"][1:])
        kind = {"q": "paint", "f": "floor", "u": None}[question["_id"][0]]
        gold = [f"{ROOMS[number]}-{kind}"] if kind else []
        wording = [] if kind is None else [colours[number] if kind == "paint" else f"stone number {len(ROOMS[number])}"]
        answers.append({"_id": question["_id"], "answers": wording, "answerable": bool(gold), "gold": gold})
        judgments += [f"{question['_id']}\t{document}\t1" for document in gold]
    (at / "qrels").mkdir()
    for name, rows in (("corpus", documents), ("queries", questions), ("answers", answers)):
        (at / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (at / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judgments]) + "\n")
    return at


def run(folder: Path, store: Store, **fields: object) -> Results:
    given: dict[str, object] = {
        "dataset": str(folder),
        "variants": ["bm25", "dense", "hybrid", "no_retrieval", "gold_context"],
        "generator": {"name": "extractive", "calibration": 6},
        "budget": {"candidates": 20, "context_tokens": 120, "output_tokens": 40},
        "seed": 3,
    }
    return rag_lab.run(progress=False, store=store, **{**given, **fields})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def results(folder: Path, store: Store) -> Results:
    return run(folder, store)


def test_the_folder_has_the_fixed_interface(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    data = json.loads((tmp_path / "results.json").read_text())
    assert data["dataset"]["documents"] == 30
    assert data["dataset"]["queries"] == 14
    assert set(data["dataset"]) >= {"name", "fingerprint", "documents", "queries"}
    assert data["seed"] == 3
    metric = {"variant", "group", "metric", "value", "ci_low", "ci_high", "n", "n_failed"}
    assert all(metric <= set(row) for row in data["metrics"])
    comparison = {"baseline", "variant", "metric", "delta", "ci_low", "ci_high", "p", "p_holm"}
    assert data["comparisons"]
    assert all(comparison <= set(row) for row in data["comparisons"])
    assert {row["resource"] for row in data["budget"]} >= {"candidates", "context_tokens", "output_tokens"}
    assert all({"variant", "resource", "cap", "mean", "max", "curtailed", "over"} <= set(row) for row in data["budget"])
    assert [row["stage"] for row in data["funnel"][:8]] == [
        "ingest",
        "scope",
        "candidates",
        "cut",
        "assembly",
        "generation",
        "citation",
        "answered",
    ]
    for variant in data["variants"]:
        assert sum(row["share"] for row in data["funnel"] if row["variant"] == variant) == pytest.approx(1, abs=1e-12)
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        "bm25.trec",
        "dense.trec",
        "hybrid.trec",
        "gold_context.trec",
    }


def test_figures_are_the_ones_that_an_independent_tool_finds(results: Results, folder: Path, tmp_path: Path) -> None:
    import pytrec_eval

    results.save(tmp_path)
    asked = set(results.outcomes["query_id"])
    qrels: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if query in asked:
            qrels.setdefault(query, {})[document] = int(grade)
    scored = read_trec(tmp_path / "runs" / "hybrid.trec")
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recip_rank"})
    independent = evaluator.evaluate({query: dict(ranked) for query, ranked in scored.items() if query in qrels})
    mean = float(np.mean([row["ndcg_cut_10"] for row in independent.values()]))
    shown = results.metrics.query("variant == 'hybrid' and metric == 'nDCG@10' and group == 'all'")
    assert shown["value"].item() == pytest.approx(mean, abs=1e-12)
    assert shown["n"].item() == len(qrels)


def test_a_second_run_reads_and_gives_the_same_tables(
    results: Results, folder: Path, store: Store, tmp_path: Path
) -> None:
    again = run(folder, store)
    assert again.folder is not None
    for name in ("metrics", "comparisons", "budget_use", "funnel", "questions", "outcomes", "timings"):
        pd.testing.assert_frame_equal(getattr(again, name), _read_back(getattr(results, name), tmp_path))
    assert again.provenance == results.provenance


def _read_back(frame: pd.DataFrame, at: Path) -> pd.DataFrame:
    frame.to_parquet(at / "frame.parquet", index=False)
    return pd.read_parquet(at / "frame.parquet")


def test_another_store_gives_the_same_figures(results: Results, folder: Path, tmp_path: Path) -> None:
    fresh = run(folder, Store(tmp_path))
    pd.testing.assert_frame_equal(fresh.metrics, results.metrics)
    pd.testing.assert_frame_equal(fresh.comparisons, results.comparisons)
    pd.testing.assert_frame_equal(fresh.funnel, results.funnel)


@pytest.mark.slow
def test_another_process_with_other_threads_gives_the_same_table(
    results: Results, folder: Path, tmp_path: Path
) -> None:
    code = (
        "import rag_lab, sys; from rag_lab.store import Store; from pathlib import Path\n"
        f"r = rag_lab.run(progress=False, store=Store(Path({str(tmp_path)!r})), **{results.experiment!r})\n"
        "sys.stdout.write(r.metrics.to_json(double_precision=15))"
    )
    environment = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "77"}
    import os

    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    assert made.stdout == results.metrics.to_json(double_precision=15)


def test_calibration_questions_are_never_scored(results: Results) -> None:
    assert results.calibration is not None
    assert results.calibration["questions"] == 6
    assert any("too few for a good one" in line for line in results.warnings)
    assert results.outcomes["query_id"].nunique() == 14


def test_gold_context_bounds_and_no_retrieval_abstains(results: Results) -> None:
    table = results.table()
    assert table.loc["gold_context", "AssembledRecall"] == 1
    assert table.loc["no_retrieval", "Correct"] == 0
    assert set(results.outcomes.query("variant == 'no_retrieval'")["state"]) == {"abstained"}
    assert "nDCG@10" not in set(results.metrics.query("variant == 'no_retrieval'")["metric"])


def test_limit_draws_by_the_seed(folder: Path, store: Store) -> None:
    drawn = [
        tuple(run(folder, store, variants=["bm25"], limit=5, seed=seed).outcomes["query_id"]) for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 5


def test_a_sweep_runs_every_cap_and_shares_the_retrieval(folder: Path, store: Store) -> None:
    swept = run(folder, store, variants=["bm25"], sweep={"context_tokens": [30, 60]})
    assert list(swept.budgets) == ["main", "context_tokens=30", "context_tokens=60"]
    use = swept.budget_use.query("resource == 'context_tokens'").set_index("budget")
    assert (use["max"] <= use["cap"]).all()
    assert use.loc["context_tokens=30", "curtailed"] > 0
    recall = swept.metrics.query("metric == 'AssembledRecall' and group == 'all'").set_index("budget")["value"]
    assert recall["context_tokens=30"] <= recall["context_tokens=60"] <= recall["main"]
    assert "bm25@context_tokens=30" in swept.runs


def test_over_budget_questions_are_shown_as_they_came_and_as_zero(folder: Path, store: Store) -> None:
    late = run(folder, store, variants=["bm25"], budget={"latency_ms": 0.000001})
    row = late.metrics.query("metric == 'nDCG@10' and group == 'all'").iloc[0]
    assert row["value"] > 0.5
    assert row["value_within_budget"] == 0
    assert late.budget_use.query("resource == 'latency_ms'")["over"].item() == 14


def test_a_failing_stage_is_counted_named_and_not_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rag_lab.variants import query_vectors

    def broken(encoder: object, queries: object) -> None:
        raise RagLabError("encoder minilm: 2 vectors are NaN")

    store = Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(query_vectors, "embed_queries", broken)
        failed = run(folder, store, variants=["bm25", "dense"])
    assert failed.failures == [
        {
            "variant": "dense",
            "budget": "main",
            "stage": "dense",
            "cause": "encoder minilm: 2 vectors are NaN",
            "questions": 14,
        }
    ]
    row = failed.metrics.query("variant == 'dense' and metric == 'nDCG@10' and group == 'all'").iloc[0]
    judged = sum(not query.startswith("u") for query in failed.outcomes["query_id"].unique())
    assert (row["value"], row["n"], row["n_failed"]) == (0, judged, judged)
    assert set(failed.outcomes.query("variant == 'dense'")["state"]) == {"failed"}
    assert not run(folder, store, variants=["bm25", "dense"]).failures


def test_an_interrupted_run_goes_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_lab.variants import answer

    store, calls = Store(tmp_path), []
    whole = answer._generate

    def interrupted(batch, contexts, output_tokens, affordable, members, decided):
        calls.append(list(members))
        if len(calls) == 6:
            raise KeyboardInterrupt
        return whole(batch, contexts, output_tokens, affordable, members, decided)

    monkeypatch.setattr(answer, "SLICE", 4)
    monkeypatch.setattr(answer, "_generate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(folder, store, variants=["bm25"])
    before = len(calls)
    finished = run(folder, store, variants=["bm25"])
    assert not finished.failures
    assert before == 6
    assert len(calls) - before == (2 + 4) - (before - 1)


def test_no_generator_measures_retrieval_alone(folder: Path, store: Store) -> None:
    alone = run(folder, store, variants=["bm25"], generator="none")
    assert len(alone.dataset["not_measured"]) == 7
    assert alone.dataset["queries"] == 20
    assert set(alone.outcomes["state"]) == {"not_generated"}
    assert alone.calibration is None


def test_an_encoder_that_does_not_know_the_language_is_a_warning(tmp_path: Path, store: Store) -> None:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "d", "text": "每日出差补助为五百元。"}\n{"_id": "e", "text": "食堂中午开放。"}\n'
    )
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "出差补助是多少？"}\n')
    (tmp_path / "qrels" / "test.tsv").write_text("q\td\t1\n")
    fields = {"generator": "none", "variants": ["bm25", "dense"], "snapshot": {"encoder": "minilm"}}
    warned = run(tmp_path, store, **fields)
    assert [line for line in warned.warnings if "encoder minilm does not know the corpus language zh" in line]
    assert warned.table().loc["bm25", "nDCG@10"] == 1


def test_qrels_of_another_collection_are_refused(folder: Path, tmp_path: Path, store: Store) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "other")
    (tmp_path / "other" / "qrels" / "test.tsv").write_text("q00\tX1\t1\nq01\tX2\t1\n")
    with pytest.raises(RagLabError, match="none of its 2 document ids is known"):
        run(tmp_path / "other", store, variants=["bm25"])


def test_a_dataset_with_rights_needs_a_time(folder: Path, tmp_path: Path, store: Store) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "other")
    lines = (folder / "corpus.jsonl").read_text().splitlines()
    ruled = [json.dumps(json.loads(line) | {"metadata": {"tenant": "t", "public": True}}) for line in lines]
    (tmp_path / "other" / "corpus.jsonl").write_text("\n".join(ruled))
    with pytest.raises(RagLabError, match="has no time; set 'time' in the experiment file"):
        run(tmp_path / "other", store, variants=["bm25"])
    denied = run(tmp_path / "other", store, variants=["bm25"], time="2026-09-10")
    assert [line for line in denied.warnings if "14 questions name no principal" in line]
    assert denied.table().loc["bm25", "Recall@100"] == 0
    assert set(denied.outcomes["reason"]) == {"no_authorised_evidence"}
    funnel = denied.funnel.set_index("stage")["share"]
    assert funnel["scope"] == 1


def test_everything_that_decides_the_figures_is_in_the_key(folder: Path, store: Store, tmp_path: Path) -> None:
    from rag_lab.definition import Experiment
    from rag_lab.progress import Progress

    prices = tmp_path / "prices.yaml"
    prices.write_text("compute_usd_per_hour: 5\nmodels: {}\n")
    base = {"dataset": str(folder), "variants": ["bm25"]}
    changes: list[dict[str, object]] = [
        {},
        {"seed": 1},
        {"limit": 3},
        {"budget": {"candidates": 5}},
        {"generator": "none"},
        {"variants": [{"bm25": [{"bm25": {"k1": 1.2}}, "assemble", "generate"]}]},
        {"statistics": {"resamples": 200}},
        {"prices": str(prices)},
        {"snapshot": {"chunker": {"name": "window", "size": 50}}},
    ]
    keys = [Preparation(Experiment.read({**base, **change}), store, Progress(False)).key for change in changes]
    assert len(set(keys)) == len(changes)


def test_a_variant_that_only_retrieves_has_no_answers_that_failed(folder: Path, store: Store) -> None:
    results = run(folder, store, variants=["bm25", {"search": [{"bm25": {"k1": 1.0}}]}])
    table = results.table()
    assert np.isnan(table.loc["search", "F1"])
    assert table.loc["search", "Recall@100"] == table.loc["bm25", "Recall@100"]
    assert not results.failures
    assert not results.metrics["n_failed"].any()


@pytest.mark.parametrize("given", [5, [1]])
def test_what_is_no_experiment_is_refused(given: object) -> None:
    with pytest.raises(RagLabError):
        rag_lab.run(given, progress=False)  # type: ignore[arg-type]


def test_another_judgment_of_the_same_questions_gives_other_bounds(folder: Path, tmp_path: Path, store: Store) -> None:
    import shutil

    wanted = {"variants": ["gold_context"], "generator": "none"}
    assert run(folder, store, **wanted).table().loc["gold_context", "Recall@100"] == 1
    shutil.copytree(folder, tmp_path / "judged")
    answers = (folder / "answers.jsonl").read_text().replace("-paint", "-door")
    (tmp_path / "judged" / "answers.jsonl").write_text(answers)
    judgments = (folder / "qrels" / "test.tsv").read_text().replace("-paint", "-door")
    (tmp_path / "judged" / "qrels" / "test.tsv").write_text(judgments)
    assert run(tmp_path / "judged", store, **wanted).table().loc["gold_context", "Recall@100"] == 1


@pytest.mark.parametrize("kind", ["results", "segments", "vectors", "lucene", "stages"])
def test_a_damaged_file_in_the_store_changes_no_figure(folder: Path, tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path)
    first = run(folder, store, variants=["bm25", "dense"])
    files = [path for path in (tmp_path / kind).rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    second = run(folder, store, variants=["bm25", "dense"])
    assert not second.failures
    pd.testing.assert_frame_equal(
        first.metrics[first.metrics["metric"] != "latency"], second.metrics[second.metrics["metric"] != "latency"]
    )


def test_a_run_whose_first_stage_failed_is_printed(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_lab.reports.terminal import print_summary
    from rag_lab.variants.retrieve import Bm25

    def broken(*_: object) -> None:
        raise OSError("the index is gone")

    monkeypatch.setattr(Bm25, "compute", broken)
    results = run(folder, store, variants=[{"lost": [{"bm25": {"k1": 1.7}}, "assemble", "generate"]}], budget={})
    assert {failure["cause"] for failure in results.failures} == {"OSError: the index is gone"}
    print_summary(results)


def test_results_without_a_figure_still_have_a_report(folder: Path, tmp_path: Path, store: Store) -> None:
    from rag_lab.definition import Experiment
    from rag_lab.session import run_session

    definition = Experiment.read({"dataset": str(folder), "variants": ["no_retrieval"], "generator": "none"})
    assert run_session(definition, tmp_path / "out", track=False, report=True) == []
    assert {"results.json", "report.html", "report.pdf"} <= {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize("table, column", [("metrics", "ci_low"), ("outcomes", "reason")])
def test_results_of_another_version_are_refused(results: Results, tmp_path: Path, table: str, column: str) -> None:
    results.save(str(tmp_path))
    path = tmp_path / "tables" / f"{table}.parquet"
    pd.read_parquet(path).drop(columns=column).to_parquet(path)
    with pytest.raises(RagLabError, match=f"lacks '{table}.{column}'; run the experiment again"):
        Results.load(tmp_path)


def test_results_without_their_provenance_are_refused(results: Results, tmp_path: Path) -> None:
    path = results.save(tmp_path) / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"provenance": {}}))
    with pytest.raises(RagLabError, match=r"lacks 'provenance\.key'"):
        Results.load(tmp_path)
