"""Files of studies: what they say, and that every fault names file and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rag_lab.ann.definition import AnnStudy
from rag_lab.contracts import RagLabError

LEAST: dict[str, Any] = {"dataset": "handbook", "sizes": [100], "indexes": ["Flat"]}
PROJECT = Path(__file__).parent.parent.parent


def test_the_least_study_has_the_documented_defaults() -> None:
    found = AnnStudy.read(LEAST)
    assert (found.name, found.split, found.queries, found.seed, found.threads) == ("ann", "test", 300, 0, 1)
    assert found.k == [10, 100]
    assert found.indexes == {"Flat": []}


def test_the_study_of_the_project_can_be_read() -> None:
    found = AnnStudy.load(PROJECT / "experiments" / "ann.yaml")
    assert found.name == "ann"
    assert {"Flat", "SQ8"} <= found.indexes.keys()


def test_sizes_and_k_are_put_in_order_and_each_is_taken_once() -> None:
    found = AnnStudy.read({**LEAST, "sizes": [300, 20, 300], "k": [100, 1, 1]})
    assert (found.sizes, found.k) == ([20, 300], [1, 100])


def test_an_index_is_its_name_or_its_name_with_breadths() -> None:
    found = AnnStudy.read({**LEAST, "indexes": ["SQ8", {"HNSW32": [64, 128]}, {"IVF16,Flat": [4]}]})
    assert found.indexes == {"SQ8": [], "HNSW32": [64, 128], "IVF16,Flat": [4]}


def test_a_study_survives_its_own_form() -> None:
    found = AnnStudy.read({**LEAST, "snapshot": {"chunker": {"name": "window", "size": 40}, "encoder": "minilm"}})
    assert AnnStudy.read(found.model_dump()) == found
    assert AnnStudy.read(found.model_dump(mode="json")) == found


def test_its_experiment_is_exact_dense_retrieval_of_the_drawn_questions() -> None:
    study = AnnStudy.read({**LEAST, "queries": 7, "seed": 3, "split": "dev", "dataset": Path("folder")})
    found = study.experiment()
    assert (found.dataset, found.split, found.limit, found.seed) == ("folder", "dev", 7, 3)
    assert found.variants == [{"dense": [{"dense": {"index": "Flat"}}]}]
    assert found.generator.name == "none"


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"name": "a/b"}, "name", "pattern"),
    ({"question": 1}, "question", "string"),
    ({"dataset": 1}, "dataset", "string"),
    ({"dataset_options": {"foo": 1}}, "dataset_options.foo", "unknown field"),
    ({"split": 1}, "split", "string"),
    ({"queries": 0}, "queries", "greater than or equal to 1"),
    ({"seed": -1}, "seed", "greater than or equal to 0"),
    ({"snapshot": {"chunker": "words"}}, "snapshot.chunker", "'words' is unknown"),
    ({"snapshot": {"analyzer": "en"}}, "snapshot", "searches vectors of passages alone; remove analyzer"),
    ({"sizes": []}, "sizes", "at least 1"),
    ({"sizes": [1]}, "sizes.0", "greater than or equal to 2"),
    ({"sizes": [10**9]}, "sizes.0", "less than or equal to 100000000"),
    ({"sizes": [1.5]}, "sizes.0", "integer"),
    ({"indexes": []}, "indexes", "at least 1"),
    ({"indexes": [{}]}, "indexes", "an entry is no FAISS factory string"),
    ({"indexes": [" "]}, "indexes", "an entry is no FAISS factory string"),
    ({"indexes": [3]}, "indexes", "an entry is no FAISS factory string"),
    ({"indexes": ["HNSW32", {"HNSW32": [64]}]}, "indexes", "'HNSW32' is listed twice"),
    ({"indexes": [{"HNSW32": [0]}]}, "indexes.HNSW32.0", "greater than or equal to 1"),
    ({"indexes": [{"HNSW32": 64}]}, "indexes.HNSW32", "list"),
    ({"indexes": "Flat"}, "indexes", "dictionary"),
    ({"k": []}, "k", "at least 1"),
    ({"k": [0]}, "k.0", "greater than or equal to 1"),
    ({"threads": 0}, "threads", "greater than or equal to 1"),
    ({"sises": [1]}, "sises", "unknown field"),
]


@pytest.mark.parametrize("fields, field, wrong", FAULTS, ids=lambda value: str(value)[:40])
def test_every_fault_names_the_file_the_field_and_what_is_wrong(
    fields: dict[str, Any], field: str, wrong: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **fields}), encoding="utf-8")
    with pytest.raises(RagLabError) as refused:
        AnnStudy.load(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: {field}")
    assert wrong in message
    assert "\n" not in message


def test_faults_are_tested_for_every_field() -> None:
    assert {field.split(".")[0] for _, field, _ in FAULTS} >= set(AnnStudy.model_fields)


def test_a_missing_file_points_to_one_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match=r"no such file; name an experiment file such as experiments/ann.yaml"):
        AnnStudy.load(tmp_path / "none.yaml")
