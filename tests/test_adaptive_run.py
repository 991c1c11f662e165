"""Whole runs with the adaptive variant: what its classifier learns, on which questions, and what it gains."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rag_lab
from rag_lab.contracts import RagLabError
from rag_lab.results import Results
from rag_lab.store import Store

TOWNS = ["Bodo", "Delft", "Graz", "Lund", "Siena", "Tartu", "Ghent", "Porto", "Kotor", "Turku"]
PEOPLE = [
    "Ada Berg",
    "Bo Cark",
    "Cy Dorn",
    "Di Elm",
    "Ed Foss",
    "Fay Gray",
    "Gil Holt",
    "Ina Jost",
    "Kim Lund",
    "Mo Nast",
]


def write(folder: Path, splits: dict[str, list[tuple[str, str, tuple[str, ...]]]]) -> Path:
    """Films, their directors and the towns of these; each split lists (question id, text, documents needed)."""
    (folder / "qrels").mkdir(parents=True)
    documents = []
    for number, (town, person) in enumerate(zip(TOWNS, PEOPLE, strict=True)):
        film = f"Film Number {number}"
        documents += [
            {"_id": f"film-{number}", "title": film, "text": f"{film} is a picture that {person} directed."},
            {"_id": f"person-{number}", "title": person, "text": f"{person} grew up in {town} by the water."},
            {"_id": f"town-{number}", "title": town, "text": f"{town} has a harbour of depth {number} and a mayor."},
        ]
    asked = [row for rows in splits.values() for row in rows]
    questions = [{"_id": query, "text": text} for query, text, _ in asked]
    answers = [{"_id": query, "answers": ["x"], "gold": list(needed), "evidence": "all"} for query, _, needed in asked]
    for name, rows in (("corpus", documents), ("queries", questions), ("answers", answers)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, rows in splits.items():
        lines = [f"{query}\t{name}\t1" for query, _, needed in rows for name in needed]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    return folder


def easy(number: int) -> tuple[str, str, tuple[str, ...]]:
    return f"e{number}", f"What is the depth of the harbour of {TOWNS[number]}?", (f"town-{number}",)


def hard(number: int) -> tuple[str, str, tuple[str, ...]]:
    text = f"What is the depth of the harbour of the town where the director of Film Number {number} grew up?"
    return f"h{number}", text, (f"film-{number}", f"person-{number}", f"town-{number}")


TEST = [easy(0), hard(1), easy(2), hard(3)]
TRAIN = [one for number in range(4, 10) for one in (easy(number), hard(number))]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "films", {"test": TEST, "train": TRAIN})


def run(folder: Path, store: Store, settings: dict[str, Any], **fields: Any) -> Results:
    steps = [{"adaptive": {"channels": ["bm25"], "drift": None, **settings}}, {"assemble": {"passages": 5}}]
    variants = [{"one": ["bm25", {"assemble": {"passages": 5}}]}, {"mine": steps}]
    given = {"dataset": str(folder), "variants": variants, "generator": "none", "baseline": "one"} | fields
    return rag_lab.run(given, store=store, progress=False)


def found(results: Results, variant: str) -> dict[str, float]:
    rows = results.questions
    mine = rows[(rows.variant == variant) & (rows.metric == "AssembledRecall")]
    return dict(zip(mine.query_id, mine.value, strict=True))


def test_several_rounds_bring_the_whole_chain_into_the_context(folder: Path, store: Store) -> None:
    results = run(folder, store, {})
    assert found(results, "mine") == {"e0": 1, "e2": 1, "h1": 1, "h3": 1}
    assert max(found(results, "one")[name] for name in ("h1", "h3")) < 1
    events = results.events
    stops = events[(events.variant == "mine") & (events.kind == "stop")]
    assert sorted(stops.query_id) == sorted(query for query, *_ in TEST)
    assert not results.failures


def test_the_classifier_learns_on_the_training_part_alone(folder: Path, store: Store) -> None:
    results = run(folder, store, {"classifier": "trained"})
    (lesson,) = results.provenance["learned"]
    assert (lesson["variant"], lesson["stage"], lesson["split"]) == ("mine", "adaptive", "train")
    assert (lesson["questions"], lesson["several"], lesson["agrees"]) == (len(TRAIN), len(TRAIN) // 2, 1)
    events = results.events
    levels = events[events.kind == "complexity"]
    assert dict(zip(levels.query_id, levels.text, strict=True)) == {
        "e0": "one",
        "h1": "several",
        "e2": "one",
        "h3": "several",
    }
    given = run(folder, store, {"classifier": list(lesson["weights"].values())})
    assert given.runs["mine"] == results.runs["mine"]


@pytest.mark.parametrize(
    ("splits", "settings", "said"),
    [
        ({"test": TEST}, {}, "cannot learn on split 'train'"),
        ({"test": TEST, "train": TRAIN}, {"learned_on": "test"}, "is the one that is scored"),
        ({"test": TEST, "train": [*TRAIN, TEST[0]]}, {}, "is among the questions of split 'test'"),
        ({"test": TEST, "train": TRAIN[:2]}, {}, "at least 5 of each are needed"),
    ],
)
def test_without_training_questions_of_its_own_the_run_is_refused(
    tmp_path: Path, store: Store, splits: dict[str, Any], settings: dict[str, Any], said: str
) -> None:
    folder = write(tmp_path / "films", splits)
    with pytest.raises(RagLabError, match=r"variants\.mine\.adaptive") as error:
        run(folder, store, {"classifier": "trained", **settings})
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.slow
@pytest.mark.shared
def test_adaptive_finds_both_paragraphs_more_often_than_hybrid(shared_data: Path, store: Store) -> None:
    """On questions that no rule was made with: significantly more often, under the same budget."""
    results = rag_lab.run(
        dataset=str(shared_data / "hotpotqa-dev100"),
        variants=["hybrid", "adaptive"],
        baseline="hybrid",
        generator="none",
        snapshot={"chunker": {"name": "whole"}, "encoder": "minilm"},
        budget={"candidates": 2000, "context_tokens": 1500, "rounds": 3},
        metrics=["GoldInContext"],
        store=store,
        progress=False,
    )
    (row,) = results.comparisons.to_dict("records")
    assert (row["variant"], row["metric"], row["n"]) == ("adaptive", "GoldInContext", 100)
    assert row["delta"] > 0.1
    assert row["ci_low"] > 0
    assert row["p_holm"] < 0.01
