"""Finished results and documents that are denied before, while and after a run."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import rag_lab
from rag_lab import reports, session
from rag_lab.contracts import RagLabError
from rag_lab.corpus.deny import DenyList
from rag_lab.definition import Experiment
from rag_lab.experiment import ATTEMPTS
from rag_lab.results import Results
from rag_lab.scoring import Scorer
from rag_lab.store import Store

COLOURS = {"attics": "red", "library": "blue", "cellar hall": "white", "kitchens": "green"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    at = tmp_path / "rooms"
    (at / "qrels").mkdir(parents=True)
    documents = [{"_id": room, "text": f"The {room} is painted {colour}."} for room, colour in COLOURS.items()]
    questions = [{"_id": f"q{len(room)}", "text": f"What colour is the {room} painted?"} for room in COLOURS]
    answers = [{"_id": f"q{len(room)}", "answers": [colour], "gold": [room]} for room, colour in COLOURS.items()]
    for name, rows in (("corpus", documents), ("queries", questions), ("answers", answers)):
        (at / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = "".join(f"q{len(room)}\t{room}\t1\n" for room in COLOURS)
    (at / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return at


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def run(folder: Path, store: Store, **fields: object) -> Results:
    statistics = {"resamples": 100, "permutations": 100}
    generator = {"name": "extractive", "calibration": 0, "options": {"threshold": 0.0}}
    given = {"dataset": str(folder), "variants": ["bm25", "gold_context"], "generator": generator}
    return rag_lab.run(progress=False, store=store, **{**given, "statistics": statistics, **fields})


def shown(results: Results) -> str:
    """Everything that was retrieved, put into a context, quoted or answered."""
    columns = ["answer", "cited", "quotes", "context_documents", "context_texts"]
    return results.outcomes[columns].to_json() + json.dumps(results.runs)


def test_results_read_back_whole_hold_nothing_that_was_denied_since(folder: Path, store: Store) -> None:
    first = run(folder, store)
    assert "kitchens" in shown(first)
    assert run(folder, store).folder is not None
    deny = DenyList(store)
    deny.deny("rooms", ["kitchens"], "leaked", by="test")
    second = run(folder, store)
    assert "kitchens" not in shown(second)
    assert "library" in shown(second)
    assert second.snapshot == first.snapshot
    assert second.provenance["key"] != first.provenance["key"]
    deny.deny("rooms", ["garden"], "not in there", by="test")
    assert run(folder, store).provenance["finished"] == second.provenance["finished"]
    deny.lift("rooms", ["kitchens"], by="test")
    assert run(folder, store).provenance["key"] == first.provenance["key"]
    assert "kitchens" in shown(run(folder, store))


def test_what_is_denied_while_results_are_made_is_not_in_them(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Scorer.judge

    def judging(scorer, variant, budget, state):
        DenyList(store).deny("rooms", ["kitchens"], "leaked", by="test")
        return judge(scorer, variant, budget, state)

    monkeypatch.setattr(Scorer, "judge", judging)
    results = run(folder, store)
    assert "kitchens" not in shown(results)
    assert not results.failures


def test_denials_without_end_end_in_failures_of_what_they_touch(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, deny, rounds = Scorer.judge, DenyList(store), []

    def judging(scorer, variant, budget, state):
        if variant == "bm25" and len(rounds) <= ATTEMPTS:
            if rounds:
                deny.lift("rooms", [rounds[-1]], by="test")
            rounds.append(["kitchens", "library"][len(rounds) % 2])
            deny.deny("rooms", [rounds[-1]], "leaked", by="test")
        return judge(scorer, variant, budget, state)

    monkeypatch.setattr(Scorer, "judge", judging)
    results = run(folder, store, variants=["gold_context", "bm25"])
    assert len(rounds) == ATTEMPTS + 1
    assert rounds[-1] not in shown(results)
    assert {failure["stage"] for failure in results.failures} == {"hand-out"}
    assert not any(name in failure["cause"] for failure in results.failures for name in COLOURS)


def test_a_damaged_deny_list_stops_the_run(folder: Path, store: Store) -> None:
    run(folder, store)
    DenyList(store).deny("rooms", ["kitchens"], "leaked", by="test")
    path = store.path("denied", "corpus-rooms") / "list.json"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RagLabError, match="the deny list cannot be read"):
        run(folder, store)


def test_results_tell_how_often_the_caches_had_what_was_asked_for(folder: Path, store: Store) -> None:
    first = run(folder, store)
    assert first.provenance["caches"] == {
        "retrieval": {"hits": 0, "misses": 4},
        "answer": {"hits": 0, "misses": 2},
    }
    wider = run(folder, store, variants=["bm25", "gold_context", {"deep": [{"bm25": {"depth": 5}}, "assemble"]}])
    assert wider.provenance["caches"] == {
        "retrieval": {"hits": 4, "misses": 2},
        "answer": {"hits": 2, "misses": 0},
    }


def test_results_tell_how_many_passages_had_a_vector_before(folder: Path, store: Store) -> None:
    passages = sum(1 for _ in (folder / "corpus.jsonl").open())
    first = run(folder, store, variants=["dense"], snapshot={"encoder": "minilm"})
    assert first.provenance["caches"]["embedding"] == {"hits": 0, "misses": passages}
    again = run(folder, store, variants=["dense", "hybrid"], snapshot={"encoder": "minilm"})
    assert again.provenance["caches"]["embedding"] == {"hits": passages, "misses": 0}


def test_policies_and_sections_of_a_dataset_decide_who_reads(folder: Path, store: Store) -> None:
    text = "# Painting\n\nThe attic is painted pink.\n\n## Price\n\nThe attic paint costs ninety euros.\n"
    documents = [
        {
            "_id": "attic",
            "text": text,
            "tenant": "t",
            "policy": "p",
            "sections": [{"heading": "Price", "groups": ["x"]}],
        }
    ]
    groups = {"none": [], "reader": ["r"], "both": ["r", "x"]}
    questions = [
        {
            "_id": name,
            "text": "What is the attic painted and what does it cost?",
            "time": "2026-06-01",
            "principal": {"tenant": "t", "groups": members},
        }
        for name, members in groups.items()
    ]
    for name, rows in (("corpus", documents), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "answers.jsonl").unlink()
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"{n}\tattic\t1\n" for n in groups)
    )
    (folder / "policies.yaml").write_text("policies: [{id: p, groups: [r]}]")
    snapshot = {"chunker": {"name": "blocks", "size": 12}, "encoder": "minilm"}

    def read() -> dict[str, str]:
        outcomes = run(folder, store, variants=["bm25"], snapshot=snapshot).outcomes
        return {row.query_id: " ".join(row.context_texts) for row in outcomes.itertuples()}

    seen = read()
    assert seen["none"] == ""
    assert "pink" in seen["reader"]
    assert "ninety" not in seen["reader"]
    assert "ninety" in seen["both"]
    (folder / "policies.yaml").write_text("policies: []")
    assert "documents name policies that are in no policies.yaml and admit nobody: p" in (
        run(folder, store, variants=["bm25"], snapshot=snapshot).warnings
    )
    (folder / "policies.yaml").write_text("policies: [{id: p, groups: [y]}]")
    assert set(read().values()) == {""}
    (folder / "policies.yaml").write_text("policies: [{id: p, groups: r}]")
    with pytest.raises(RagLabError, match=r"policies\.yaml, field policies\[1\]\.groups: 'r' is not a list of names"):
        read()


def everything_below(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    tables = [pd.read_parquet(path).to_json() for path in files if path.suffix == ".parquet"]
    return " ".join([*tables, *(path.read_bytes().decode("utf-8", "replace") for path in files)])


def test_what_is_written_of_a_run_holds_nothing_that_was_denied_while_it_was_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_LAB_HOME", str(tmp_path / "store"))
    store, given, write = Store.default(), session.run, Results.save

    def report(results: Results, at: Path) -> None:
        for name in reports.FORMATS:
            (at / f"report.{name}").write_text(results.outcomes.to_json())

    def save(results: Results, at: Path) -> Path:
        saved = write(results, at)
        if at == tmp_path / "out" and "green" in everything_below(at):
            DenyList(store).deny("rooms", ["kitchens"], "leaked", by="test")
        return saved

    monkeypatch.setattr(session, "run", lambda definition, progress: given(definition, store=store, progress=False))
    monkeypatch.setattr("rag_lab.reports.write", report)
    monkeypatch.setattr(Results, "save", save)
    definition = Experiment.read(
        {
            "dataset": str(folder),
            "variants": ["bm25"],
            "generator": {"name": "extractive", "calibration": 0, "options": {"threshold": 0.0}},
            "statistics": {"resamples": 100, "permutations": 100},
        }
    )
    assert session.run_session(definition, tmp_path / "out", track=False, report=True) == []
    written = everything_below(tmp_path / "out")
    assert "painted white" in written
    assert "kitchens is painted" not in written
    assert len(store.entries("reports")) == 1
    assert "kitchens is painted" not in everything_below(store.path("reports", store.entries("reports")[0]))


def test_denials_without_end_stop_what_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_LAB_HOME", str(tmp_path / "store"))
    rooms, write, given = iter(COLOURS), Results.save, session.run

    def save(results: Results, at: Path) -> Path:
        if at == tmp_path / "out":
            DenyList(Store.default()).deny("rooms", [next(rooms)], "leaked", by="test")
        return write(results, at)

    monkeypatch.setattr(session, "run", lambda definition, progress: given(definition, progress=False))
    monkeypatch.setattr(Results, "save", save)
    definition = Experiment.read({"dataset": str(folder), "variants": ["bm25"], "generator": {"name": "none"}})
    with pytest.raises(RagLabError, match="denied faster than results are written; delete it and run again"):
        session.run_session(definition, tmp_path / "out", track=False, report=False)


def test_a_run_that_was_logged_while_documents_were_denied_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_LAB_HOME", str(tmp_path / "store"))
    monkeypatch.setattr("rag_lab.tracking.tracking_uri", lambda: "sqlite:///unused.db")
    monkeypatch.setattr("rag_lab.tracking.own_folder", lambda uri: None)

    def log(*_: object) -> str:
        DenyList(Store.default()).deny("rooms", ["kitchens"], "leaked", by="test")
        return "run-7"

    monkeypatch.setattr("rag_lab.tracking.log", log)
    definition = Experiment.read({"dataset": str(folder), "variants": ["bm25"], "generator": {"name": "none"}})
    with pytest.raises(RagLabError, match="denied while run run-7 was logged; delete that run, run again"):
        session.run_session(definition, tmp_path / "out", track=True, report=False)
    assert Store.default().entries("tracked") == []
