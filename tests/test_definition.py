"""Experiment files: what they say, and that every fault names file and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import RESOURCES, RagLabError
from rag_lab.definition import MAIN, Experiment
from rag_lab.variants import catalogue, load_variant, place

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
OTHERS = ("ann.yaml", "expected_scores.yaml")  # a study of indexes, and scores to reproduce
LEAST = {"dataset": "handbook"}


def test_the_least_experiment_has_the_documented_defaults() -> None:
    found = Experiment.read(LEAST)
    assert (found.name, found.split, found.seed, found.limit, found.baseline) == ("experiment", "test", 0, None, None)
    assert found.variants == ["bm25", "dense", "hybrid"]
    assert (found.generator.name, found.generator.calibration) == ("extractive", 50)
    assert (found.snapshot.chunker.name, found.snapshot.analyzer, found.snapshot.encoder) == ("whole", "auto", "auto")
    assert (found.statistics.resamples, found.statistics.permutations, found.statistics.confidence) == (
        10_000,
        10_000,
        0.95,
    )
    assert {name: budget.caps() for name, budget in found.budgets().items()} == {MAIN: {}}


@pytest.mark.parametrize(
    "path", sorted(path for path in EXPERIMENTS.glob("*.yaml") if path.name not in OTHERS), ids=lambda path: path.name
)
def test_the_experiments_of_the_project_can_be_read(path: Path) -> None:
    found = Experiment.load_all(path)
    several = len(found) > 1
    for experiment in found:
        assert experiment.name == (f"{path.stem}-{experiment.dataset}" if several else path.stem)
        snapshots = list(experiment.snapshot_settings())
        assert experiment.baseline in (
            None,
            *place(experiment.variant_definitions(), snapshots, bool(experiment.snapshots)),
        )


def test_a_file_gives_its_name_and_the_place_of_its_price_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: handbook\nprices: ../prices.yaml\n", encoding="utf-8")
    experiment = Experiment.load(str(path))
    assert experiment.name == "mine"
    assert experiment.prices == str(tmp_path / ".." / "prices.yaml")


def test_an_experiment_survives_its_own_form(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: 中文 experiment\ndataset: handbook\ngenerator: none\n"
        "budget: {context_tokens: 800, usd: 0.1, rounds: null}\n"
        "sweep: {context_tokens: [200, 800]}\nvariants: [bm25, {mine: [bm25, {assemble: {passages: 2}}]}]\n",
        encoding="utf-8",
    )
    experiment = Experiment.load(path)
    assert Experiment.read(experiment.model_dump()) == experiment
    assert Experiment.read(experiment.model_dump(mode="json", exclude_none=True)).budgets() == experiment.budgets()


def test_several_snapshots_share_the_settings_that_they_do_not_state() -> None:
    experiment = Experiment.read(
        {
            **LEAST,
            "snapshot": {"encoder": "minilm", "chunker": "blocks"},
            "snapshots": {
                "words": {"chunker": {"name": "window", "size": 50}},
                "plain": {"encoder": "multilingual-e5"},
            },
        }
    )
    found = {name: (s.chunker.version, s.encoder) for name, s in experiment.snapshot_settings().items()}
    assert found == {
        "words": ("window-2(size=50,overlap=0)", "minilm"),
        "plain": ("blocks-4(size=200)", "multilingual-e5"),
    }
    assert Experiment.read(experiment.model_dump()) == experiment
    assert Experiment.read(experiment.model_dump(mode="json", exclude_none=True)) == experiment
    alone = Experiment.read({**LEAST, "snapshot": {"chunker": "window"}}).snapshot_settings()
    assert {name: s.chunker.version for name, s in alone.items()} == {"main": "window-2(size=200,overlap=0)"}


@pytest.mark.parametrize("written", ["none", {"name": "none"}])
def test_a_generator_may_be_written_by_its_name(written: Any) -> None:
    assert Experiment.read({**LEAST, "generator": written}).generator.name == "none"


def test_a_sweep_changes_one_cap_and_leaves_the_others() -> None:
    experiment = Experiment.read(
        {
            **LEAST,
            "budget": {"context_tokens": 800, "candidates": 50},
            "sweep": {"context_tokens": [200, 800], "candidates": [10], "usd": [0.5]},
        }
    )
    assert {name: budget.caps() for name, budget in experiment.budgets().items()} == {
        "main": {"candidates": 50, "context_tokens": 800},
        "context_tokens=200": {"candidates": 50, "context_tokens": 200},
        "candidates=10": {"candidates": 10, "context_tokens": 800},
        "usd=0.5": {"candidates": 50, "context_tokens": 800, "usd": 0.5},
    }


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"dataset": None}, "dataset", "string"),
    ({"dataset": ["a"]}, "dataset", "string"),
    ({"dataset_options": "x"}, "dataset_options", "dictionary"),
    ({"dataset_options": {"foo": 1}}, "dataset_options.foo", "unknown field"),
    ({"variants": [{}]}, "variants", "an entry is empty"),
    ({"generator": {"calibration": float("inf")}}, "generator.calibration", "finite"),
    ({"name": ""}, "name", "pattern"),
    ({"name": "a/b"}, "name", "pattern"),
    ({"name": "x" * 101}, "name", "pattern"),
    ({"question": 3}, "question", "string"),
    ({"split": 3}, "split", "string"),
    ({"limit": 0}, "limit", "greater than or equal to 1"),
    ({"limit": 1.5}, "limit", "integer"),
    ({"seed": -1}, "seed", "greater than or equal to 0"),
    ({"seed": 2**32}, "seed", "less than"),
    ({"time": 3}, "time", "string"),
    ({"snapshot": "x"}, "snapshot", "dictionary"),
    ({"snapshot": {"analyser": "en"}}, "snapshot.analyser", "unknown field"),
    ({"snapshot": {"analyzer": "fr"}}, "snapshot.analyzer", "'auto', 'en', 'zh' or 'multilingual'"),
    ({"snapshot": {"encoder": 1}}, "snapshot.encoder", "string"),
    ({"snapshot": {"chunker": {"name": "words"}}}, "snapshot.chunker.name", "use one of whole, window, recursive"),
    ({"snapshot": {"chunker": {"size": 100}}}, "snapshot.chunker.size", "unknown field of chunker 'whole'"),
    ({"snapshot": {"chunker": {"name": "window", "size": 0}}}, "snapshot.chunker.size", "greater than or equal to 1"),
    (
        {"snapshot": {"chunker": {"name": "window", "overlap": -1}}},
        "snapshot.chunker.overlap",
        "greater than or equal to 0",
    ),
    (
        {"snapshot": {"chunker": {"name": "recursive", "size": 30, "overlap": 30}}},
        "snapshot.chunker.overlap",
        "size 30 and overlap 30",
    ),
    ({"snapshot": {"chunker": 3}}, "snapshot.chunker", "name of a chunker"),
    ({"snapshots": [1]}, "snapshots", "dictionary"),
    ({"snapshots": {"a": 3}}, "snapshots.a", "dictionary"),
    ({"snapshots": {"a@b": {}}}, "snapshots.a@b", "pattern"),
    ({"snapshots": {"a": {"analyser": "en"}}}, "snapshots.a.analyser", "unknown field"),
    ({"snapshots": {"a": {"chunker": "words"}}}, "snapshots.a.chunker.name", "'words' is unknown"),
    ({"corpus": 3}, "corpus", "string"),
    ({"generation": 1}, "generation", "concerns a corpus"),
    ({"freshness": {}}, "freshness", "concerns a corpus"),
    ({"coming_days": -1}, "coming_days", "greater than or equal to 0"),
    ({"generator": {"nmae": "none"}}, "generator.nmae", "unknown field"),
    ({"generator": {"name": 1}}, "generator.name", "string"),
    ({"generator": {"options": []}}, "generator.options", "dictionary"),
    ({"generator": {"calibration": -1}}, "generator.calibration", "greater than or equal to 0"),
    ({"budget": {"tokens": 1}}, "budget.tokens", "unknown resource"),
    ({"budget": {"rounds": -1}}, "budget.rounds", "at least 0"),
    ({"budget": {"rounds": 0.5}}, "budget.rounds", "whole number"),
    ({"budget": {"rounds": "many"}}, "budget.rounds", "number"),
    ({"budget": {"usd": float("nan")}}, "budget.usd", "finite number"),
    ({"budget": [1]}, "budget", "dictionary"),
    ({"sweep": {"tokens": [1]}}, "sweep.tokens", "unknown resource"),
    ({"sweep": {"rounds": 3}}, "sweep.rounds", "list"),
    ({"variants": []}, "variants", "at least 1"),
    ({"variants": "bm25"}, "variants", "list"),
    ({"variants": [{"mine": "bm25"}]}, "variants.0", "input should be"),
    ({"baseline": 1}, "baseline", "string"),
    ({"metrics": "AP"}, "metrics", "list"),
    ({"ablation": 3}, "ablation", "dictionary"),
    ({"ablation": "rerank"}, "ablation.variant", "is not one of the variants; name one of bm25, dense, hybrid"),
    ({"ablation": {"variant": "hybrid", "generators": [3]}}, "ablation.generators.0", "dictionary"),
    ({"ablation": "hybrid", "snapshots": {"a": {}}}, "ablation", "works on one snapshot"),
    ({"ablation": "bm25"}, "ablation.variant", "'bm25' has no stage that can be switched"),
    ({"writer": {"options": {}}}, "writer.name", "missing"),
    ({"statistics": {"resamples": 10}}, "statistics.resamples", "greater than or equal to 100"),
    ({"statistics": {"permutations": 10**7}}, "statistics.permutations", "less than or equal to 1000000"),
    ({"statistics": {"confidence": 1}}, "statistics.confidence", "less than 1"),
    ({"prices": 1}, "prices", "string"),
    ({"datset": "handbook"}, "datset", "unknown field; remove it or check its spelling"),
]


@pytest.mark.parametrize("fields, field, wrong", FAULTS, ids=lambda value: str(value)[:40])
def test_every_fault_names_the_file_the_field_and_what_is_wrong(
    fields: dict[str, Any], field: str, wrong: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**LEAST, **fields}), encoding="utf-8")
    with pytest.raises(RagLabError) as refused:
        Experiment.load(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: {field}")
    assert wrong in message
    assert "\n" not in message


def test_faults_are_tested_for_every_field() -> None:
    tested = {field.split(".")[0] for _, field, _ in FAULTS}
    assert tested >= set(Experiment.model_fields)


def test_a_missing_field_says_so() -> None:
    with pytest.raises(RagLabError, match=r"^here: dataset: missing; add it$"):
        Experiment.read({}, "here")


def test_a_negative_cap_of_a_sweep_is_refused_with_its_field() -> None:
    with pytest.raises(RagLabError, match=r"context_tokens.*at least 0"):
        Experiment.read({**LEAST, "sweep": {"context_tokens": [-5]}})


def test_a_variant_that_is_listed_twice_is_refused() -> None:
    with pytest.raises(RagLabError, match="variants: 'bm25' is listed twice"):
        Experiment.read({**LEAST, "variants": ["bm25", {"bm25": [{"bm25": {}}]}]})


def test_nothing_can_be_changed_afterwards() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Experiment.read(LEAST).seed = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_a_variant_of_the_catalogue_survives_its_yaml_form(name: str) -> None:
    variant = load_variant(name)
    written = yaml.safe_dump(variant.to_yaml())
    assert load_variant(name, yaml.safe_load(written)) == variant
    assert load_variant(name, variant.to_yaml()).to_yaml() == variant.to_yaml()


@given(
    depth=st.integers(1, 10_000),
    k=st.integers(0, 1000),
    passages=st.integers(1, 50),
    order=st.sampled_from(["rank", "source"]),
    weight=st.floats(0, 10),
    output_tokens=st.integers(1, 1000),
)
def test_the_settings_of_a_variant_survive_its_yaml_form(
    depth: int, k: int, passages: int, order: str, weight: float, output_tokens: int
) -> None:
    stages = [
        {"bm25": {"depth": depth}},
        "dense",
        {"rrf": {"k": k, "weights": {"bm25": weight}}},
        {"assemble": {"passages": passages, "order": order}},
        {"generate": {"output_tokens": output_tokens}},
    ]
    variant = load_variant("mine", stages)
    again = load_variant("mine", yaml.safe_load(yaml.safe_dump(variant.to_yaml())))
    assert again == variant
    settings = [next(iter(stage.values())) for stage in variant.to_yaml()]
    assert settings[0]["depth"] == depth
    assert (settings[2]["k"], settings[2]["weights"]) == (k, {"bm25": weight})
    assert (settings[3]["passages"], settings[3]["order"]) == (passages, order)
    assert settings[4]["output_tokens"] == output_tokens


def test_a_stage_may_be_written_by_its_name_alone() -> None:
    assert load_variant("mine", ["bm25", {"assemble": None}]) == load_variant("mine", [{"bm25": {}}, {"assemble": {}}])


@given(st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 10**6)))
def test_caps_are_read_as_they_are_written(caps: dict[str, int]) -> None:
    assert Experiment.read({**LEAST, "budget": caps}).budgets()[MAIN].caps() == caps


def test_a_folder_may_be_a_path_and_a_date_need_not_be_quoted(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("dataset: adi\ntime: 2026-09-10\n", encoding="utf-8")
    assert Experiment.load(path).time == "2026-09-10"
    assert Experiment.read({"dataset": tmp_path}).dataset == str(tmp_path)


def test_a_file_with_several_datasets_is_an_experiment_for_each(tmp_path: Path) -> None:
    path = tmp_path / "seven.yaml"
    own = {"dataset": "squad2-dev", "limit": 5, "generator": "extractive"}
    shared = {"variants": ["bm25"], "generator": "none", "seed": 3}
    path.write_text(yaml.safe_dump({**shared, "datasets": ["scifact", own, {**own, "name": "mine"}]}))
    found = Experiment.load_all(path)
    assert [(e.name, e.dataset, e.limit, e.generator.name, e.seed) for e in found] == [
        ("seven-scifact", "scifact", None, "none", 3),
        ("seven-squad2-dev", "squad2-dev", 5, "extractive", 3),
        ("mine", "squad2-dev", 5, "extractive", 3),
    ]
    with pytest.raises(RagLabError, match="has 3 datasets"):
        Experiment.load(path)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"datasets": []}, "datasets: must be a list"),
        ({"datasets": "scifact"}, "datasets: must be a list"),
        ({"datasets": ["a"], "dataset": "b"}, "dataset: the file lists datasets; remove one of the two"),
        ({"datasets": ["a", "a"]}, "datasets: 'x-a' stands for two"),
        ({"datasets": ["a", {"limit": 3}]}, r"datasets\[2\]: dataset: missing"),
        ({"datasets": [{"dataset": "a", "seed": -1}]}, r"datasets\[1\]: seed"),
    ],
)
def test_faulty_lists_of_datasets_are_named(tmp_path: Path, fields: dict[str, Any], wrong: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml.safe_dump({"variants": ["bm25"], **fields}))
    with pytest.raises(RagLabError, match=wrong):
        Experiment.load_all(path)
