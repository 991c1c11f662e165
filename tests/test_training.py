"""Weights that are learned on training questions: which ones, how, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rag_lab
from rag_lab.contracts import RagLabError
from rag_lab.results import Results
from rag_lab.store import Store

ROOMS = ["boiler", "library", "kitchen", "garage", "cellar", "attic", "office", "studio"]
KINDS = {"paint": "The walls of the {} are painted red.", "floor": "The floor of the {} is made of stone."}


def write(folder: Path, splits: dict[str, list[tuple[str, str, str]]]) -> Path:
    """A dataset of short documents; each split lists (question id, text, relevant document)."""
    (folder / "qrels").mkdir(parents=True)
    documents = [
        {"_id": f"{room}-{kind}", "title": room, "text": text.format(room)}
        for room in ROOMS
        for kind, text in KINDS.items()
    ]
    asked = {query: text for rows in splits.values() for query, text, _ in rows}
    questions = [{"_id": query, "text": text} for query, text in asked.items()]
    for name, rows in (("corpus", documents), ("queries", questions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, rows in splits.items():
        lines = ["query-id\tcorpus-id\tscore", *(f"{query}\t{document}\t1" for query, _, document in rows)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


TEST = [(f"q{i}", f"What colour are the walls of the {room}?", f"{room}-paint") for i, room in enumerate(ROOMS[:3])]
# One channel alone can tell these apart: the words are those of the floor, and no stemmer makes paint of colour.
TRAIN = [(f"t{i}", f"Of what stone is the {room} floor?", f"{room}-floor") for i, room in enumerate(ROOMS)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "rooms", {"test": TEST, "train": TRAIN})


def run(folder: Path, store: Store, fusion: dict[str, Any], **fields: Any) -> Results:
    variants = [{"fusion": ["bm25", "dense", {"weighted_sum": fusion}]}]
    given = {"dataset": str(folder), "variants": variants, "generator": "none"} | fields
    return rag_lab.run(given, store=store, progress=False)


def test_weights_are_learned_on_the_training_questions_and_told(folder: Path, store: Store) -> None:
    results = run(folder, store, {"weights": "learned"})
    (lesson,) = results.provenance["learned"]
    assert (lesson["variant"], lesson["stage"], lesson["split"]) == ("fusion", "weighted_sum", "train")
    assert (lesson["questions"], lesson["metric"]) == (len(TRAIN), "nDCG@10")
    assert sum(lesson["weights"].values()) == pytest.approx(1)
    assert list(lesson["weights"]) == ["bm25", "dense"]
    assert lesson["score"] >= lesson["equal"]
    # The same weights, given: the same figures. Scored questions are those of the test split.
    given = run(folder, store, {"weights": lesson["weights"]})
    assert given.provenance["learned"] == []
    assert given.runs["fusion"] == results.runs["fusion"]
    assert set(results.runs["fusion"]) == {query for query, _, _ in TEST}
    assert results.variants["fusion"][2]["weighted_sum"]["weights"] == "learned"
    again = Results.load(results.save(store.root / "saved"))
    assert again.provenance["learned"] == [lesson]


def test_the_training_questions_are_part_of_the_key(folder: Path, store: Store, tmp_path: Path) -> None:
    key = run(folder, store, {"weights": "learned"}).provenance["key"]
    assert run(folder, store, {"weights": "learned"}).provenance["key"] == key
    other = write(tmp_path / "rooms", {"test": TEST, "train": TRAIN[:-1]})
    assert run(other, store, {"weights": "learned"}).provenance["key"] != key
    assert run(folder, store, {}).provenance["key"] != key
    plain = run(folder, store, {"weights": {"bm25": 1}}).provenance["key"]
    assert (
        run(other, store, {"weights": {"bm25": 1}}).provenance["key"] != plain
    )  # the folder is part of the definition


def test_another_split_may_be_named(tmp_path: Path, store: Store) -> None:
    folder = write(tmp_path / "rooms", {"test": TEST, "practice": TRAIN})
    (lesson,) = run(folder, store, {"weights": "learned", "learned_on": "practice"}).provenance["learned"]
    assert lesson["split"] == "practice"


@pytest.mark.parametrize(
    ("splits", "fusion", "message"),
    [
        (
            {"test": TEST},
            {},
            r"variants\.fusion\.weighted_sum: cannot learn on split 'train': dataset rooms: it has no split 'train'; "
            "its splits: test; name a split of training questions, or give the values",
        ),
        (
            {"test": TEST, "train": TRAIN},
            {"learned_on": "test"},
            "weighted_sum: split 'test' is the one that is scored",
        ),
        (
            {"test": TEST, "train": [*TRAIN, TEST[1]]},
            {},
            "question 'q1' of split 'train' is among the questions of split 'test', which are scored",
        ),
        (
            {"test": TEST, "train": [*TRAIN, ("t9", "what COLOUR are the walls of the library", "library-paint")]},
            {},
            "question 't9' of split 'train' is among the questions of split 'test'",
        ),
        (
            {"test": TEST, "train": [("t0", "Of what?", "nowhere")]},
            {},
            None,
        ),
    ],
)
def test_what_cannot_be_learned_on_is_refused_before_anything_runs(
    tmp_path: Path, store: Store, splits: Any, fusion: dict[str, Any], message: str | None
) -> None:
    folder = write(tmp_path / "rooms", splits)
    if message is None:
        assert run(folder, store, {"weights": "learned"}).provenance["learned"][0]["score"] == 0
        return
    fresh = Store(tmp_path / "store")
    with pytest.raises(RagLabError, match=message):
        run(folder, fresh, {"weights": "learned", **fusion})
    assert not (fresh.root / "snapshots").exists()


def test_training_questions_without_a_relevant_document_teach_nothing(tmp_path: Path, store: Store) -> None:
    folder = write(tmp_path / "rooms", {"test": TEST, "train": TRAIN})
    lines = (folder / "qrels" / "train.tsv").read_text().replace("\t1\n", "\t0\n")
    (folder / "qrels" / "train.tsv").write_text(lines)
    with pytest.raises(RagLabError, match="cannot learn on split 'train': no question has a judged document"):
        run(folder, store, {"weights": "learned"})


def test_a_compression_says_where_its_rules_were_developed(tmp_path: Path, store: Store) -> None:
    variants = [{"short": ["bm25", "assemble", "compress"]}, {"long": ["bm25", "assemble"]}]
    for name, warned in (("squad2-dev", True), ("rooms", False)):
        folder = write(tmp_path / name, {"test": TEST})
        results = rag_lab.run(dataset=str(folder), variants=variants, generator="none", store=store, progress=False)
        assert any("what it keeps here (short) is not held out" in warning for warning in results.warnings) == warned
