"""An experiment on a corpus: what it searches, what it refuses, and what its results and report say."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import rag_lab
from rag_lab.contracts import RagLabError
from rag_lab.corpus.corpus import Corpus
from rag_lab.definition import Experiment
from rag_lab.reports.corpus import corpus_section
from rag_lab.reports.reproducing import question_section
from rag_lab.reports.selection import select
from rag_lab.store import Store

SHORT = {
    "dataset": "handbook",
    "corpus": "kb",
    "generator": "none",
    "variants": ["dense"],
    "metrics": ["nDCG@10"],
    "limit": 12,
    "time": "2026-09-10",
    "statistics": {"resamples": 200, "permutations": 200},
}


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder) -> Iterator[Corpus]:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr("rag_lab.preparation.load_encoder", lambda name: hash_encoder)
    freshness = {"searchable_within_s": 600, "revoked_at_once": True}
    settings = {"encoder": "hash", "analyzer": "none", "freshness": freshness}
    with Corpus.create(Store(tmp_path / "store"), "kb", **settings) as made:
        made.add("dataset:handbook")
        yield made


def run(at: Corpus, **fields):
    return rag_lab.run(SHORT, store=at.store, progress=False, **fields)


def test_the_active_generation_is_searched_and_named_in_the_results(corpus: Corpus) -> None:
    results = run(corpus)
    assert results.snapshot == corpus.snapshot().id
    found = results.provenance["corpus"]
    assert (found["name"], found["generation"], found["active"], found["denied"]) == ("kb", 1, True, 0)
    assert [t["name"] for t in found["targets"]] == ["updates searchable in time", "revocations at once"]
    (section,) = corpus_section(results)
    assert section.title == "The corpus"
    assert section.blocks[0].items[0] == ("Corpus", "kb, generation 1 (active)")
    assert dict(section.blocks[0].items)["Built with"] == "chunker blocks; encoder hash; analyzer none"
    assert not {"snapshot", "snapshots"} & results.experiment.keys()
    assert [row[0].lines for row in section.blocks[1].rows] == [
        ("updates searchable in time",),
        ("revocations at once",),
    ]
    assert section.blocks[2].rows[0][0].lines == ("added until searchable (first load)",)
    asked = dict(question_section(results, select(results)).blocks[1].items)
    assert asked["Rights"] == "those of corpus kb, applied before ranking"
    assert asked["Size"].startswith(f"{corpus.status(drift=False).documents} documents of the corpus, ")
    assert corpus_section(run(corpus, corpus=None)) == ()


def test_a_revocation_changes_the_next_run_and_a_pinned_generation_too(corpus: Corpus) -> None:
    before = run(corpus)
    gold = next(iter(before.runs["dense"].values()))[0][0]
    corpus.revoke([gold], "leaked")
    after = run(corpus)
    assert after.snapshot == before.snapshot
    assert gold not in {document for documents in after.runs["dense"].values() for document, _ in documents}
    assert after.provenance["corpus"]["denied"] == 1
    corpus.delete(["nothing"] if gold == "nothing" else [sorted(corpus.catalogue.live())[0]])
    pinned = run(corpus, generation=1)
    assert pinned.snapshot == before.snapshot
    assert pinned.provenance["corpus"]["active"] is False
    assert gold not in {document for documents in pinned.runs["dense"].values() for document, _ in documents}


def test_the_generation_is_pinned_as_long_as_the_experiment_lasts(corpus: Corpus) -> None:
    from rag_lab.preparation import Preparation
    from rag_lab.progress import Progress

    work = Preparation(Experiment.read(SHORT), corpus.store, Progress(False))
    assert corpus.catalogue.pins() == [(1, os.getpid())]
    assert work.held.row.number == 1
    del work
    gc.collect()
    assert corpus.catalogue.pins() == []


def test_targets_of_the_experiment_take_the_place_of_the_corpus_own(corpus: Corpus) -> None:
    (target,) = run(corpus, freshness={"index_age_s": 0.001}).provenance["corpus"]["targets"]
    assert (target["name"], target["met"]) == ("age of the index", False)


def test_gold_spans_need_the_text_that_they_were_made_for(corpus: Corpus, tmp_path: Path, monkeypatch) -> None:
    from dataclasses import replace

    from rag_lab import datasets

    loaded = datasets.load("handbook")
    spans = {piece.document_id for question in loaded.questions for piece in question.gold if piece.span}
    name = min(spans)
    original = datasets.load

    def load(*arguments, **options):
        found = original(*arguments, **options)
        changed = [replace(d, text=d.text + " More.") if d.document_id == name else d for d in found.documents]
        return replace(found, documents=changed)

    monkeypatch.setattr(datasets, "load", load)
    with pytest.raises(RagLabError, match=f"corpus kb: the text of '{name}' is not that of dataset handbook"):
        run(corpus, limit=None)


def test_documents_that_the_corpus_lacks_are_warned_of(corpus: Corpus) -> None:
    judged = {document for documents in run(corpus).runs["dense"].values() for document, _ in documents}
    corpus.delete(sorted(judged)[:5])
    warnings = run(corpus, limit=None).warnings
    assert any(warning.startswith("corpus kb lacks ") for warning in warnings)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"variants": ["bm25"]}, "corpus kb, generation 1: has no Lucene index, which a variant searches"),
        (
            {"variants": [{"ann": [{"dense": {"index": "HNSW32"}}]}]},
            "corpus kb, generation 1: has no FAISS index 'HNSW32'",
        ),
        (
            {"variants": ["colbert"]},
            "corpus kb, generation 1: has no token vectors, which a colbert variant searches; make a new corpus with "
            "the setting 'colbert: auto', or leave that variant out",
        ),
        (
            {"variants": [{"x": [{"splade": {"model": "org/model"}}]}]},
            "corpus kb, generation 1: has no weighted terms of 'org/model', which a splade variant searches; make a "
            r"new corpus with the setting 'splade: \[org/model\]', or leave that variant out",
        ),
        ({"corpus": "nope"}, "corpus nope: unknown, there are kb"),
        ({"generation": 7}, "generation 7: unknown; this corpus has 1"),
        (
            {"snapshot": {"encoder": "minilm"}},
            "snapshot: corpus kb was built with settings of its own; remove snapshot",
        ),
        ({"corpus": None, "generation": 1}, "generation: concerns a corpus; name it in the field corpus"),
        ({"corpus": None, "freshness": {"share": 1}}, "freshness: concerns a corpus"),
        ({"freshness": {"share": 2}}, "freshness.share: input should be less than or equal to 1"),
    ],
)
def test_what_does_not_fit_is_refused(corpus: Corpus, fields: dict, message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        run(corpus, **fields)


def test_colbert_searches_the_token_vectors_of_the_corpus(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch, hash_late_encoder
) -> None:
    named: list[str] = []
    monkeypatch.setattr(
        "rag_lab.retrieval.late.load_late_encoder", lambda name: named.append(name) or hash_late_encoder
    )
    settings = {"encoder": "hash", "analyzer": "none", "colbert": "hash-late"}
    with Corpus.create(Store(tmp_path / "other"), "kb", **settings) as late:
        late.add("dataset:handbook")
        results = run(late, variants=["colbert", {"narrow": [{"colbert": {"depth": 5}}]}])
        assert results.runs["colbert"].keys() == results.runs["narrow"].keys()
        assert results.provenance["models"]["colbert"] == "hash-late hash-late-1"
        built = dict(corpus_section(results)[0].blocks[0].items)["Built with"]
        assert built == "chunker blocks; encoder hash; colbert hash-late; analyzer none"
        assert set(named) == {"hash-late"}
        message = "corpus kb, generation 1: has no colbert index 'plaid', which a variant searches; it has exact, auto"
        with pytest.raises(RagLabError, match=message):
            run(late, variants=[{"x": [{"colbert": {"index": "plaid"}}]}])
    named.clear()
    run(corpus)
    assert named == []
