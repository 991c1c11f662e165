"""An ablation of a variant, on a small collection of files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rag_lab
from rag_lab.metrics.stats import compare, holm
from rag_lab.reports.document import build
from rag_lab.results import Results
from rag_lab.store import Store

ROOMS = ["boiler", "library", "kitchen", "garage", "cellar", "attic", "stable", "chapel"]
STAGES = [{"bm25": {}}, {"dense": {}}, {"rrf": {}}, {"assemble": {"passages": 2}}, {"generate": {}}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight rooms, each with a year and a colour, and a question about each."""
    at = tmp_path_factory.mktemp("rooms")
    (at / "qrels").mkdir()
    plain = "The {} was painted green in {}. Its door opens to the east side, near the lamp."
    texts = {room: plain.format(room, 1990 + i) for i, room in enumerate(ROOMS)}
    rows = {
        "corpus": [{"_id": room, "text": text} for room, text in texts.items()],
        "queries": [{"_id": f"q-{room}", "text": f"When was the {room} painted green?"} for room in ROOMS],
        "answers": [
            {"_id": f"q-{room}", "answers": [str(1990 + i)], "answerable": True, "gold": [room]}
            for i, room in enumerate(ROOMS)
        ],
    }
    for file, listed in rows.items():
        (at / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in listed))
    judged = [f"q-{room}\t{room}\t1" for room in ROOMS]
    (at / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n")
    return at


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return rag_lab.ablate(
        {"mine": STAGES},
        dataset=str(folder),
        snapshot={"encoder": "minilm"},
        generator={"name": "extractive", "calibration": 0},
        generators=[{"name": "extractive", "options": {"threshold": 2.0}}],
        budget={"context_tokens": 400},
        sweep={"context_tokens": [60]},
        statistics={"resamples": 200, "permutations": 200},
        store=Store(tmp_path_factory.mktemp("store")),
        progress=False,
    )


def test_every_step_is_there_with_what_it_intervenes_in(results: Results) -> None:
    mine = results.ablation[results.ablation["metric"] == "Correct"]
    assert list(zip(mine["direction"], mine["step"], mine["intervention"], mine["against"], strict=True)) == [
        ("leave one out", "whole", "", ""),
        ("leave one out", "without bm25", "stage", "mine"),
        ("leave one out", "without dense", "stage", "mine"),
        ("add one", "bm25", "stage", ""),
        ("add one", "+ dense", "stage", "mine 1 bm25"),
        ("other interventions", "60 context tokens", "context tokens", "mine"),
        ("other interventions", "generator extractive", "generator", "mine"),
    ]
    assert mine["n"].tolist() == [8] * 7


def test_differences_are_paired_by_question_and_corrected_within_a_direction(results: Results) -> None:
    frame = results.ablation.set_index(["metric", "direction", "step"])
    questions = results.questions[results.questions["budget"] == "main"].set_index(["variant", "metric", "query_id"])
    ids = sorted(f"q-{room}" for room in ROOMS)

    def values(variant: str) -> np.ndarray:
        return np.array([questions.loc[(variant, "nDCG@10", name), "value"] for name in ids])

    ps = []
    for step, variant in (("without bm25", "mine - bm25"), ("without dense", "mine - dense")):
        found = compare(values("mine"), values(variant)[:, None], ids, resamples=200, permutations=200)
        row = frame.loc[("nDCG@10", "leave one out", step)]
        assert row["delta"] == pytest.approx(values(variant).mean() - values("mine").mean())
        assert (row["delta"], row["delta_low"], row["delta_high"]) == (found.delta[0], found.low[0], found.high[0])
        ps.append(found.p[0])
    rows = frame.sort_index().loc[("nDCG@10", "leave one out")].drop("whole")
    assert rows["p_holm"].tolist() == holm(ps).tolist()
    assert np.isnan(frame.loc[("nDCG@10", "leave one out", "whole"), "delta"])


def test_another_generator_is_judged_by_its_own_answers(results: Results) -> None:
    """With a threshold that nothing reaches, it answers nothing."""
    row = results.ablation.set_index(["metric", "step"]).loc[("Correct", "generator extractive")]
    whole = results.ablation.set_index(["metric", "step"]).loc[("Correct", "whole")]
    assert whole["value"] > 0.8
    assert (row["value"], row["delta"]) == (0, -whole["value"])


def test_stages_that_steps_share_ran_once(results: Results) -> None:
    shared = results.timings[(results.timings["stage"] == "bm25") & (results.timings["budget"] == "main")]
    assert dict(zip(shared["variant"], map(set, shared["shared_with"]), strict=True)) == {
        "mine": {"mine - dense", "mine 1 bm25"},
        "mine - dense": {"mine", "mine 1 bm25"},
        "mine 1 bm25": {"mine", "mine - dense"},
    }


def test_the_report_has_a_table_for_each_headline_metric(results: Results) -> None:
    (section,) = [s for s in build(results).sections if s.anchor == "ablation"]
    tables = [block for block in section.blocks if hasattr(block, "rows")]
    assert [table.caption for table in tables][:1] == ["nDCG@10, step by step"]
    assert [line[0].lines for line in tables[0].rows][1:3] == [
        ("without bm25", "leave one out"),
        ("without dense", "leave one out"),
    ]


def test_results_come_back_with_the_steps(results: Results, tmp_path: Path) -> None:
    again = Results.load(results.save(tmp_path / "out"))
    assert again.ablation["step"].tolist() == results.ablation["step"].tolist()
    assert json.loads((tmp_path / "out" / "results.json").read_text())["ablation"][1]["step"] == "without bm25"
