"""Several snapshots in one experiment, on documents whose sections have rights of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rag_lab
from rag_lab.corpus.deny import DenyList
from rag_lab.results import Results
from rag_lab.store import Store

TOPICS = ("boiler", "library", "kitchen", "garage", "cellar", "attic")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six documents, each with an open part and one for the board; two questions a document, asked by the board."""
    at = tmp_path_factory.mktemp("study")
    documents, questions, answers, judgments = [], [], [], []
    for i, topic in enumerate(TOPICS):
        opened = f"# The {topic}\n\nThe {topic} was painted green in {1990 + i}. Its door opens to the east side."
        secret = f"\n\n## For the board\n\nThe {topic} will be sold for {i + 2} million in the coming year."
        sections = [{"heading": "For the board", "groups": ["board"]}]
        documents.append({"_id": topic, "text": opened + secret, "metadata": {"public": True, "tenant": "t"}})
        documents[-1]["metadata"]["sections"] = sections
        for kind, text, answer in (
            ("when", f"When was the {topic} painted green?", str(1990 + i)),
            ("sold", f"For how much will the {topic} be sold?", f"{i + 2} million"),
        ):
            name = f"{topic}-{kind}"
            start = (opened + secret).index(answer)
            asker = {"tenant": "t", "groups": ["board"], "time": "2026-09-10T00:00:00Z"}
            questions.append({"_id": name, "text": text, "metadata": asker})
            spans = [[start, start + len(answer)]]
            answers.append(
                {"_id": name, "answers": [answer], "answerable": True, "gold": [topic], "answer_spans": spans}
            )
            judgments.append(f"{name}\t{topic}\t1")
    (at / "qrels").mkdir()
    for file, rows in (("corpus", documents), ("queries", questions), ("answers", answers)):
        (at / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (at / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *judgments]) + "\n")
    return at


@pytest.fixture(scope="module")
def results(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    return rag_lab.run(
        dataset=str(folder),
        snapshot={"encoder": "minilm"},
        snapshots={
            "window": {"chunker": {"name": "window", "size": 16}},
            "blocks": {"chunker": {"name": "blocks", "size": 32}},
            "family": {"chunker": {"name": "parent_child", "size": 16, "parent_size": 32}},
        },
        variants=["bm25", "no_retrieval", "gold_context"],
        generator={"name": "extractive", "calibration": 0},
        metrics=["SpanRecall@60c", "SpanNDCG@10", "RelevantText@1", "AssembledRecall", "Correct"],
        statistics={"resamples": 200, "permutations": 200},
        store=Store(tmp_path_factory.mktemp("store")),
        progress=False,
    )


def test_every_variant_that_retrieves_is_on_every_snapshot(results: Results) -> None:
    assert list(results.variants) == [
        "bm25@window",
        "bm25@blocks",
        "bm25@family",
        "no_retrieval",
        "gold_context@window",
        "gold_context@blocks",
        "gold_context@family",
    ]
    assert results.failures == []
    assert set(results.comparisons["baseline"]) == {"bm25@window"}
    assert set(results.comparisons["variant"]) == {"bm25@blocks", "bm25@family"}
    assert len(results.snapshot.split(", ")) == 3
    assert list(results.provenance["snapshots"]) == ["window", "blocks", "family"]


def test_what_the_chunkers_made_is_a_frame(results: Results) -> None:
    made = results.snapshots.pivot(index="snapshot", columns="measure", values="value")
    assert made.loc["blocks", "boundary_chunks"] == 0
    assert made.loc["family", "boundary_chunks"] == 0
    assert made.loc["window", "boundary_chunks"] == 6
    assert made.loc["blocks", "gold_whole"] == 1
    assert made.loc["blocks", "chunks"] == 12
    assert made.loc["family", "chunks"] > 12


def test_results_and_report_hold_the_study(results: Results, tmp_path: Path) -> None:
    results.save(tmp_path)
    read = Results.load(tmp_path)
    assert read.snapshots.to_dict("records")[0]["snapshot"] == "window"
    assert (tmp_path / "runs" / "bm25@blocks.trec").is_file()
    page = Path(rag_lab.write_report(read, tmp_path / "report", formats=("html",))["html"]).read_text(encoding="utf-8")
    assert "What the chunkers made" in page
    assert "chunks across a change of rights" in page


def test_a_baseline_names_variant_and_snapshot(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(rag_lab.RagLabError, match=r"baseline: 'bm25' is not among the variants \(bm25@a"):
        rag_lab.run(
            dataset=str(folder),
            snapshots={"a": {}},
            variants=["bm25"],
            baseline="bm25",
            store=Store(tmp_path),
            progress=False,
        )


def test_denied_documents_are_measured_in_nothing(folder: Path, tmp_path: Path) -> None:
    snapshots = {name: {"chunker": {"name": name, "size": 32}} for name in ("window", "blocks")}
    store, given = Store(tmp_path), {"variants": ["bm25"], "generator": {"name": "none"}, "snapshots": snapshots}

    def measured() -> dict[str, tuple[float, int]]:
        frame = rag_lab.run(dataset=str(folder), store=store, progress=False, snapshot={"encoder": "minilm"}, **given)
        rows = frame.snapshots[frame.snapshots["snapshot"] == "blocks"]
        return {row["measure"]: (row["value"], row["n"]) for row in rows.to_dict("records")}

    before = measured()
    DenyList(store).deny(folder.name, ["attic", "cellar"], "a test", by="test")
    after = measured()
    assert (before["chunks"], after["chunks"]) == ((12.0, 6), (8.0, 4))
    assert (before["boundary_chunks"][1], after["boundary_chunks"][1]) == (12, 8)
    assert (before["gold_whole"], after["gold_whole"]) == ((1.0, 12), (1.0, 8))
    assert (before["tokens_mean"][1], after["tokens_mean"][1]) == (12, 8)
