"""Expected scores: what a file may say, which cells are met, missed or not runnable, and how the command ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_lab import cli
from rag_lab.contracts import RagLabError
from rag_lab.metrics import metric
from rag_lab.reproduction import Cell, ExpectedScores, reproduce
from rag_lab.store import Store

PROJECT = Path(__file__).parent.parent
# Of two questions, the first finds its only document at rank 1 and the second at rank 2: RR is 3/4, Recall@1 a half.
RR = {"metric": "RR", "value": 0.75, "tolerance": 0.0, "source": "own", "where": "by hand"}
HALF = {"metric": "Recall@1", "value": 0.4, "tolerance": 0.1, "source": "published", "where": "a book", "differs": "k1"}


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three documents; BM25 ranks the first question's document first, and the second one's second."""
    at = tmp_path_factory.mktemp("data") / "pets"
    (at / "qrels").mkdir(parents=True)
    documents = [("cat", "The cat sleeps."), ("dog", "The dog barks. The dog runs."), ("cow", "A cow and a dog eat.")]
    questions = [("q1", "cat sleeps"), ("q2", "dog")]
    for name, rows in (("corpus", documents), ("queries", questions)):
        (at / f"{name}.jsonl").write_text("".join(json.dumps({"_id": i, "text": text}) + "\n" for i, text in rows))
    (at / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tcat\t1\nq2\tcow\t1\n")
    return at


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


def scores(pets: Path, **entries: dict[str, Any]) -> ExpectedScores:
    """The file's content with these entries, each on the pets by BM25 unless it says otherwise."""
    usual = {"dataset": str(pets), "variant": "bm25", "expected": [RR]}
    return ExpectedScores.model_validate({"entries": {name: {**usual, **entry} for name, entry in entries.items()}})


def shown(cells: list[Cell]) -> list[tuple[str, str, float | None, str]]:
    return [(cell.entry, cell.expected.metric, cell.found, cell.status) for cell in cells]


def test_a_score_within_its_tolerance_is_met_and_another_is_missed(pets: Path, store: Store) -> None:
    one = {"expected": [RR, HALF, {**HALF, "tolerance": 0.09}, {**RR, "value": 0.7501}]}
    found = list(reproduce(scores(pets, one=one), store=store, progress=False))
    assert shown(found) == [
        ("one", "RR", 0.75, "met"),
        ("one", "Recall@1", 0.5, "met"),
        ("one", "Recall@1", 0.5, "missed"),
        ("one", "RR", 0.75, "missed"),
    ]
    assert {cell.note for cell in found} == {""}


def test_stages_of_its_own_are_a_variant_by_the_name_of_the_entry(pets: Path, store: Store) -> None:
    stages = [{"bm25": {"depth": 1}}, {"assemble": {"passages": 1}}]
    found = list(reproduce(scores(pets, mine={"variant": stages}), store=store, progress=False))
    assert shown(found) == [("mine", "RR", 0.5, "missed")]


def test_a_dataset_that_is_nowhere_is_not_runnable(pets: Path, store: Store) -> None:
    found = list(reproduce(scores(pets, gone={"dataset": "no-such-set"}, one={}), store=store, progress=False))
    assert shown(found) == [("gone", "RR", None, "not runnable"), ("one", "RR", 0.75, "met")]
    assert found[0].note.startswith("dataset 'no-such-set': not found; looked in")


def test_a_download_that_cannot_be_reached_is_not_runnable(pets: Path, store: Store, tmp_path: Path) -> None:
    options = {"mirror": "http://127.0.0.1:9/beir", "cache": str(tmp_path)}
    entry = {"dataset": "nfcorpus", "dataset_options": options}
    found = list(reproduce(scores(pets, one=entry), store=store, progress=False))
    assert shown(found) == [("one", "RR", None, "not runnable")]
    assert "the host cannot be reached" in found[0].note


@pytest.mark.parametrize(
    "entry",
    [
        {"snapshot": {"encoder": "nobody/no-such-model"}, "variant": "dense"},
        {"variant": ["bm25", {"rerank": {"scorer": "nobody/no-such-model"}}, "assemble"]},
    ],
)
def test_a_model_of_the_hub_that_is_not_here_is_not_runnable(pets: Path, store: Store, entry: dict[str, Any]) -> None:
    found = list(reproduce(scores(pets, one=entry), store=store, progress=False))
    assert shown(found) == [("one", "RR", None, "not runnable")]
    assert found[0].note.startswith(
        "model nobody/no-such-model: not in the hub's cache, and the hub does not give it ("
    )
    assert "\n" not in found[0].note


def test_the_hub_is_asked_once_for_a_model(pets: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("rag_lab.reproduction._absence", lambda model: asked.append(model) or f"model {model}: absent")
    entry = {"snapshot": {"encoder": "nobody/no-such-model"}, "variant": "dense"}
    found = list(reproduce(scores(pets, one=entry, two=entry), store=store, progress=False))
    assert shown(found) == [(name, "RR", None, "not runnable") for name in ("one", "two")]
    assert {cell.note for cell in found} == {"model nobody/no-such-model: absent"}
    assert asked == ["nobody/no-such-model"]


def test_a_folder_is_no_model_of_the_hub(pets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    entry = scores(pets, one={"snapshot": {"encoder": "models/mine"}, "variant": "dense"}).entries["one"]
    assert entry.hub_models("one") == []
    entry = scores(pets, one={"snapshot": {"encoder": "models/theirs"}, "variant": "dense"}).entries["one"]
    assert entry.hub_models("one") == ["models/theirs"]
    indexes = scores(pets, one={"variant": [{"dense": {"index": "IVF64,PQ48"}}]}).entries["one"]
    assert indexes.hub_models("one") == []


def test_an_error_of_ours_or_a_stage_that_fails_is_missed(
    pets: Path, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = {"dataset": str(pets), "split": "none"}
    found = list(reproduce(scores(pets, one=broken), store=store, progress=False))
    assert shown(found) == [("one", "RR", None, "missed")]
    assert "split 'none'" in found[0].note

    def fail(*given: Any, **named: Any) -> None:
        raise RuntimeError("no Java")

    monkeypatch.setattr("rag_lab.retrieval.bm25.Bm25Index.search", fail)
    found = list(reproduce(scores(pets, one={}), store=Store(tmp_path), progress=False))
    assert [cell.status for cell in found] == ["missed"]
    assert "2 questions failed in stage bm25: RuntimeError: no Java" in found[0].note


def test_a_metric_that_the_dataset_cannot_have_is_missed_with_the_reason(pets: Path, store: Store) -> None:
    lacking = {**RR, "metric": "EM"}
    found = list(reproduce(scores(pets, one={"expected": [lacking]}), store=store, progress=False))
    assert shown(found) == [("one", "EM", None, "missed")]
    assert found[0].note == "the dataset has no answers"


def test_equal_work_of_several_entries_is_done_once(pets: Path, tmp_path: Path) -> None:
    """The second entry asks for another metric of the same ranking, so Lucene is searched for the first alone."""
    from rag_lab.retrieval.bm25 import Bm25Index

    calls: list[int] = []
    search = Bm25Index.search
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bm25Index, "search", lambda *given, **named: calls.append(1) or search(*given, **named))
        both = scores(pets, one={}, two={"expected": [{**HALF, "metric": "Recall@1"}]})
        found = list(reproduce(both, store=Store(tmp_path), progress=False))
    assert [cell.status for cell in found] == ["met", "met"]
    assert len(calls) == 1


def test_entries_are_chosen_by_their_name_or_their_dataset(pets: Path) -> None:
    found = scores(pets, one={}, two={"dataset": "scifact"}, three={"dataset": "scifact"})
    assert list(found.chosen(None)) == ["one", "two", "three"]
    assert list(found.chosen("two")) == ["two"]
    assert list(found.chosen("scifact")) == ["two", "three"]
    with pytest.raises(
        RagLabError, match=r"^four: no expected score is called so, .* known are one, two, three, .*scifact$"
    ):
        found.chosen("four")


def test_the_scores_of_the_project_can_be_read() -> None:
    found = ExpectedScores.load(PROJECT / "experiments" / "expected_scores.yaml")
    assert {"scifact-bm25", "scifact-dense", "scifact-hybrid"} <= found.entries.keys()
    for name, entry in found.entries.items():
        assert entry.snapshot.encoder != "auto", name
        assert entry.experiment(name).generator.name == "none"
    assert {metric(one.metric).name for entry in found.entries.values() for one in entry.expected}


FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"entries": {}}, "entries: dictionary should have at least 1 item"),
    ({}, "entries: missing; add it"),
    ({"entry": {}}, "entries: missing; add it"),
    ({"entries": {"a/b": {}}}, "entries.a/b"),
    ({"entries": {"one": 3}}, "entries.one: input should be a valid dictionary"),
    ({"defaults": 3}, "defaults: input should be a valid dictionary"),
    ({"dataset": 3}, "entries.one.dataset: input should be a valid string"),
    ({"datset": "x"}, "entries.one.datset: unknown field"),
    ({"seed": -1}, "entries.one.seed: input should be greater than or equal to 0"),
    ({"variant": "bm52"}, "variants: 'bm52' is unknown"),
    ({"variant": [{"bm25": {"dept": 3}}]}, "variants.entry[1].bm25.dept"),
    ({"snapshot": {"chunker": "words"}}, "snapshot.chunker.name: 'words' is unknown"),
    ({"expected": []}, "entries.one.expected: list should have at least 1 item"),
    ({"expected": [{**RR, "metric": "nDGC@10"}]}, "nDGC@10"),
    ({"expected": [{**RR, "tolerance": -0.1}]}, "entries.one.expected.0.tolerance: input should be greater"),
    ({"expected": [{**RR, "value": float("nan")}]}, "entries.one.expected.0.value: input should be a finite number"),
    ({"expected": [{**RR, "source": "heard"}]}, "entries.one.expected.0.source: input should be 'published' or 'own'"),
    ({"expected": [{**RR, "where": ""}]}, "entries.one.expected.0.where: string should have at least 1 character"),
]


@pytest.mark.parametrize("fields, wrong", FAULTS, ids=lambda value: str(value)[:50])
def test_every_fault_names_the_file_the_field_and_what_is_wrong(
    fields: dict[str, Any], wrong: str, tmp_path: Path
) -> None:
    usual = {"dataset": "scifact", "variant": "bm25", "expected": [RR]}
    whole = fields
    if fields and not {"entries", "entry", "defaults"} & fields.keys():
        whole = {"entries": {"one": {**usual, **fields}}}
    elif "defaults" in fields:
        whole = {**fields, "entries": {"one": usual}}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(whole), encoding="utf-8")
    with pytest.raises(RagLabError) as refused:
        ExpectedScores.load(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ")
    assert wrong in message
    assert "\n" not in message


def test_defaults_are_fields_that_an_entry_does_not_state(pets: Path) -> None:
    entries = {"one": {"seed": 4, "expected": [RR]}, "two": {"variant": "dense", "expected": [RR]}}
    found = ExpectedScores.model_validate(
        {"defaults": {"dataset": "d", "variant": "bm25", "seed": 3}, "entries": entries}
    )
    assert [(one.dataset, one.variant, one.seed) for one in found.entries.values()] == [
        ("d", "bm25", 4),
        ("d", "dense", 3),
    ]


Call = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def call(
    pets: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, store: Store
) -> Call:
    """Write a file of expected scores, and run ``rag-lab reproduce ARGUMENTS`` beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAG_LAB_HOME", str(store.root))

    def run(expected: ExpectedScores, *arguments: str) -> tuple[Any, str, str]:
        (tmp_path / "experiments").mkdir(exist_ok=True)
        text = yaml.safe_dump(expected.model_dump(mode="json"), sort_keys=False)
        (tmp_path / "experiments" / "expected_scores.yaml").write_text(text)
        monkeypatch.setattr(sys, "argv", ["rag-lab", "reproduce", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code, *capsys.readouterr())

    return run


def test_the_command_ends_well_when_nothing_is_missed(pets: Path, call: Call) -> None:
    nowhere = {"dataset": "no-such-set"}
    status, out, _ = call(scores(pets, one={"expected": [RR, HALF]}, gone=nowhere, lost=nowhere))
    lines = [line.split() for line in out.splitlines()]
    assert status == 0
    assert lines[:4] == [
        ["entry", "metric", "expected", "±", "found", "difference", "source"],
        ["one", "RR", "0.7500", "0", "0.7500", "+0.0000", "own", "met"],
        ["Recall@1", "0.4000", "0.1", "0.5000", "+0.1000", "published", "met"],
        ["gone", "RR", "0.7500", "0", "–", "–", "own", "not", "runnable"],
    ]
    assert "gone, lost, not runnable: dataset 'no-such-set': not found" in " ".join(out.split())
    assert out.splitlines()[-1] == "2 met, 0 missed, 2 not runnable."


def test_the_command_ends_with_1_when_one_is_missed_and_says_what_differs(pets: Path, call: Call) -> None:
    both = scores(pets, one={"expected": [RR, {**HALF, "value": 0.9}]}, two={})
    status, out, _ = call(both)
    assert status == 1
    assert "one, Recall@1: expected by a book; differs: k1" in out
    assert "−0.4000" in out
    assert out.splitlines()[-1] == "2 met, 1 missed, 0 not runnable."
    status, out, _ = call(both, "two")
    assert status == 0
    assert out.splitlines()[-1] == "1 met, 0 missed, 0 not runnable."


def test_a_name_or_a_file_that_is_not_there_is_one_line(pets: Path, call: Call) -> None:
    status, out, err = call(scores(pets, one={}), "three")
    assert (status, out) == (2, "")
    assert err.startswith("rag-lab: three: no expected score is called so")
    status, out, err = call(scores(pets, one={}), "--file", "none.yaml")
    assert (status, out) == (2, "")
    assert err.startswith("rag-lab: none.yaml: no such file; name an experiment file such as experiments/expected_sc")


@pytest.mark.slow
@pytest.mark.shared
def test_bm25_on_scifact_is_as_published(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_DATA", str(shared_data))
    found = ExpectedScores.load(PROJECT / "experiments" / "expected_scores.yaml")
    cells = list(reproduce(found, "scifact-bm25", progress=False))
    assert [(cell.expected.metric, cell.status) for cell in cells] == [("nDCG@10", "met"), ("Recall@100", "met")]
    assert [round(cell.found or 0, 4) for cell in cells] == [0.6789, 0.9253]
