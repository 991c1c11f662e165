"""Long context, the router and the places of the gold in one experiment, from the file to the frames and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rag_lab
from rag_lab.corpus.deny import DenyList
from rag_lab.reports.blocks import Figure, Paragraph, Table
from rag_lab.reports.document import build
from rag_lab.results import Results
from rag_lab.store import Store

TOPICS = ("boiler", "library", "kitchen", "garage", "cellar", "attic")
PLACES = ["gold_first", "gold_middle", "gold_last"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six documents; a question on each, one on all of them, and one that nothing answers. Callers see four or six."""
    at = tmp_path_factory.mktemp("house")
    documents, questions, answers, judgments = [], [], [], []

    def ask(name: str, text: str, gold: list[str], answer: str, groups: list[str], evidence: str = "any") -> None:
        asker = {"principal": {"tenant": "t", "groups": groups}, "time": "2026-09-10T00:00:00Z"}
        questions.append({"_id": name, "text": text, "metadata": asker})
        known = {"answers": [answer], "answerable": True} if answer else {"answers": [], "answerable": False}
        answers.append({"_id": name, **known, "gold": gold, "evidence": evidence})
        judgments.extend(f"{name}\t{document}\t1" for document in gold)

    for i, topic in enumerate(TOPICS):
        text = f"The {topic} was painted green in {1990 + i}. Its door opens to the east side of the yard."
        rights = {"public": True} if i < 4 else {"groups": ["board"]}
        documents.append({"_id": topic, "text": text, "metadata": {"tenant": "t", **rights}})
        ask(f"q-{topic}", f"When was the {topic} painted green?", [topic], str(1990 + i), ["board"] if i % 2 else [])
    ask("q-all", "List all rooms that were painted green.", list(TOPICS[:4]), "1990", [], evidence="all")
    ask("q-none", "Who sold the boat?", [], "", ["board"])
    (at / "qrels").mkdir()
    for file, rows in (("corpus", documents), ("queries", questions), ("answers", answers)):
        (at / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (at / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judgments]) + "\n")
    return at


def run(folder: Path, store: Store, **fields: Any) -> Results:
    given: dict[str, Any] = {
        "dataset": str(folder),
        "generator": {"name": "extractive", "calibration": 0},
        "budget": {"candidates": 20, "context_tokens": 100, "output_tokens": 40},
        "statistics": {"resamples": 200, "permutations": 200},
        "snapshot": {"chunker": "whole", "encoder": "minilm"},
    }
    return rag_lab.run(progress=False, store=store, **{**given, **fields})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def results(folder: Path, store: Store) -> Results:
    router = ["route", {"bm25": {"depth": 2}}, "assemble", "generate"]
    return run(folder, store, variants=["bm25", "long_context", {"router": router}], sweep={"context_tokens": [60]})


def values(results: Results, variant: str, metric: str, budget: str = "main") -> dict[str, float]:
    rows = results.questions.query("variant == @variant and metric == @metric and budget == @budget")
    return dict(zip(rows["query_id"], rows["value"], strict=True))


def test_gold_in_context_is_reported_for_every_question_and_variant(results: Results) -> None:
    assert results.failures == []
    everything = values(results, "long_context", "GoldInContext")
    without = {
        "q-cellar": "its caller is not on the board",
        "q-library": "to the board it is the last of six, four fit",
    }
    assert everything == {f"q-{topic}": float(f"q-{topic}" not in without) for topic in TOPICS} | {"q-all": 1.0}
    shorter = values(results, "long_context", "GoldInContext", "context_tokens=60")
    texts = results.outcomes.query("variant == 'long_context' and budget == 'context_tokens=60'").set_index("query_id")
    for name, value in shorter.items():
        held, gold = set(texts.loc[name, "context_documents"]), set(texts.loc[name, "gold_documents"])
        assert value == float(gold <= held)
    assert 0 < sum(shorter.values()) < sum(everything.values())
    assert values(results, "bm25", "AssembledRecall")["q-all"] == 1
    assert "GoldInContext" in results.table().columns


def test_the_events_say_what_was_left_out(results: Results) -> None:
    events = results.events.query("variant == 'long_context'").set_index(["budget", "query_id", "kind"])
    assert events.loc[("main", "q-boiler", "documents"), "value"].item() == 4
    assert events.loc[("main", "q-library", "documents"), "value"].item() == 4
    assert events.loc[("main", "q-library", "left_out"), "value"].item() == 2
    cut = results.curtailments.query("variant == 'long_context' and budget == 'main'")
    assert cut[["stage", "resource", "questions"]].values.tolist() == [["long_context", "context_tokens", 4]]


def test_the_routers_decisions_are_events_and_lose_nothing_at_retrieval(results: Results) -> None:
    events = results.events.query("variant == 'router' and stage == 'route' and budget == 'main'")
    kinds = dict(zip(events["query_id"], events["kind"], strict=True))
    assert {name for name, kind in kinds.items() if kind == "direct"} == {"q-all"}
    lost = results.outcomes.query("variant == 'router' and budget == 'main'").set_index("query_id")["lost_at"]
    assert lost["q-all"] not in ("candidates", "cut", "assembly")
    assert values(results, "router", "GoldInContext")["q-all"] == 1
    assert values(results, "router", "nDCG@10")["q-all"] == 0
    assert (
        "1 questions were not searched for, by the variant's own rule, and score 0 for want of a ranking"
        in " ".join(results.provenance["notes"])
    )
    used = results.outcomes.query("variant == 'router' and budget == 'main'").set_index("query_id")["candidates"]
    assert used["q-all"] == 0
    assert used["q-boiler"] > 0


def test_ranking_metrics_are_not_measured_where_nothing_is_retrieved(results: Results) -> None:
    measured = set(results.metrics.query("variant == 'long_context'")["metric"])
    assert "nDCG@10" not in measured
    assert {"GoldInContext", "RelevantTokens", "Correct"} <= measured
    compared = set(results.comparisons.query("variant == 'long_context'")["metric"])
    assert "Correct" in compared


def test_a_document_that_is_denied_is_in_no_context(folder: Path, tmp_path: Path) -> None:
    store = Store(tmp_path)
    before = run(folder, store, variants=["long_context"])
    DenyList(store).deny(folder.name, ["boiler"], "a test", by="test")
    after = run(folder, store, variants=["long_context"])
    held = [{name for names in frame.outcomes["context_documents"] for name in names} for frame in (before, after)]
    assert held[0] - held[1] == {"boiler"}
    assert values(after, "long_context", "GoldInContext")["q-boiler"] == 0


def test_snapshots_are_an_axis_of_long_context_too(folder: Path, store: Store) -> None:
    snapshots = {"whole": {"chunker": "whole"}, "small": {"chunker": {"name": "window", "size": 6}}}
    study = run(folder, store, variants=["long_context", "no_retrieval"], snapshots=snapshots, snapshot={})
    assert list(study.variants) == ["long_context@whole", "long_context@small", "no_retrieval"]
    texts = [
        study.outcomes.query("variant == @name").set_index("query_id").loc["q-boiler", "context_texts"]
        for name in ("long_context@whole", "long_context@small")
    ]
    assert list(texts[0]) == list(texts[1])


# --- places ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def placed(folder: Path, store: Store) -> Results:
    return run(
        folder, store, variants=[*PLACES, "bm25", "no_retrieval"], baseline="gold_first", budget={"context_tokens": 70}
    )


def test_places_are_compared_with_one_another_and_nothing_else_is(placed: Results) -> None:
    assert set(placed.comparisons["baseline"]) == {"gold_first"}
    assert set(placed.comparisons["variant"]) == {"gold_middle", "gold_last"}
    contexts = placed.outcomes.set_index(["variant", "query_id"])["context_documents"]
    for name in values(placed, "gold_first", "GoldInContext"):
        first, middle, last = (list(contexts[place, name]) for place in PLACES)
        assert sorted(first) == sorted(middle) == sorted(last)
    assert (contexts["gold_first", "q-garage"][0], contexts["gold_last", "q-garage"][-1]) == ("garage", "garage")
    assert values(placed, "gold_first", "GoldInContext") == values(placed, "gold_last", "GoldInContext")


def test_beside_other_variants_places_are_shown_and_not_tested(folder: Path, store: Store) -> None:
    beside = run(folder, store, variants=["bm25", "dense", *PLACES], budget={"context_tokens": 70})
    assert set(beside.comparisons["variant"]) == {"dense"}
    assert set(beside.metrics["variant"]) == {"bm25", "dense", *PLACES}
    (section,) = (section for section in build(beside).sections if section.anchor == "placement")
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert "▲" not in table.note


def test_gold_that_was_put_there_is_not_lost_at_retrieval(placed: Results) -> None:
    lost = placed.funnel.query("variant == 'gold_last'").set_index("stage")["lost"]
    assert lost[["candidates", "cut"]].tolist() == [0, 0]
    assert lost["scope"] == 1


def test_the_report_says_what_an_extractive_reader_can_show(placed: Results, tmp_path: Path) -> None:
    (section,) = (section for section in build(placed).sections if section.anchor == "placement")
    said = " ".join(block.text for block in section.blocks if isinstance(block, Paragraph))
    assert "nearly insensitive to place by construction" in said
    assert "adds 0.1/n for the number n of its passage" in said
    (figure,) = (block for block in section.blocks if isinstance(block, Figure))
    correct = placed.table()["Correct"]
    assert ", ".join(f"{place} {correct[place]:.3f}" for place in PLACES) in figure.alternative
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert [row[0].lines[0] for row in table.rows] == PLACES
    assert table.columns[-3].label == "GoldInContext"
    written = rag_lab.write_report(placed, tmp_path, formats=("html",))
    assert "figures/placement" in written
    assert "The place of the evidence" in written["html"].read_text(encoding="utf-8")


def test_without_places_or_answers_there_is_no_such_section(results: Results, folder: Path, store: Store) -> None:
    silent = run(folder, store, variants=PLACES, generator="none")
    one = run(folder, store, variants=["bm25", "gold_first"])
    for found in (results, silent, one):
        assert "placement" not in [section.anchor for section in build(found).sections]


def test_a_study_of_places_alone_has_the_first_as_baseline(folder: Path, store: Store) -> None:
    study = run(folder, store, variants=["gold_last", "gold_middle"], sweep={"context_tokens": [40]})
    assert set(study.comparisons["baseline"]) == {"gold_last"}
    (section,) = (section for section in build(study).sections if section.anchor == "placement")
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert [row[1].lines[0] for row in table.rows] == ["gold_middle", "gold_last"] * 2
    assert table.columns[0].label == "budget"
