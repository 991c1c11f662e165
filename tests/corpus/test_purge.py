"""What a purge removes, what it leaves, and whether its proof tells the truth."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import rag_lab
from rag_lab.contracts import Principal, RagLabError
from rag_lab.corpus import purge as purging
from rag_lab.corpus.corpus import Corpus
from rag_lab.corpus.kept import KIND as KEPT
from rag_lab.corpus.purge import backlog
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.retrieval.row_index import RowIndex
from rag_lab.store import Store

READER = Principal("default")
SECRET = (
    "The reactor vault opens with the blue key at a quarter past four, and the second guard is always late.\n"
    "地下金库的蓝色钥匙在四点一刻可以打开第二道门，而第二名警卫总是迟到，这件事任何人都不得外传。\n"
)
TRACES = [line.encode() for line in SECRET.splitlines()]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(30):
        (folder / f"page{number:02}.txt").write_text(f"Page {number} tells of gardening tool number {number * 7}.\n")
    (folder / "vault.txt").write_text(SECRET)
    (folder / "rights.yaml").write_text('rules:\n  "*": {tenant: default, public: true}\n')
    return folder


@pytest.fixture
def corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder, hash_late_encoder, hash_sparse_encoder
) -> Iterator[Corpus]:
    monkeypatch.setattr("rag_lab.retrieval.encoders.load_encoder", lambda name: hash_encoder)
    monkeypatch.setattr("rag_lab.retrieval.late.load_late_encoder", lambda name: hash_late_encoder)
    settings = {"encoder": "hash", "analyzer": "en", "factories": ["Flat", "HNSW8"], "keep": 9}
    monkeypatch.setattr("rag_lab.retrieval.sparse.load_sparse_encoder", lambda name: hash_sparse_encoder)
    settings |= {"colbert": "hash-late", "colbert_indexes": ["exact", "plaid"], "splade": ["hash-sparse"]}
    with Corpus.create(Store(tmp_path / "store"), "kb", **settings) as made:
        yield made


def bytes_of(path: Path) -> bytes:
    """A file, and what it packs, by means other than those under test."""
    data = path.read_bytes()
    if path.suffix == ".parquet":
        return data + json.dumps(pq.read_table(path).to_pylist(), ensure_ascii=False, default=str).encode()
    if data.startswith(b"PK"):
        with np.load(path) as arrays:
            found = (arrays[name] for name in arrays)
            return data + b"".join(one if isinstance(one, bytes) else one.tobytes() for one in found)
    return data


def holding(folder: Path, traces: list[bytes]) -> set[str]:
    """First folders below `folder` with a file that holds one of these."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {p.relative_to(folder).parts[0] for p in files if any(trace in bytes_of(p) for trace in traces)}


def test_nothing_of_a_revoked_document_is_left(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    (docs / "page03.txt").write_text("Page 3 was rewritten.\n")
    corpus.update()
    rows = corpus.snapshot().chunks.documents["vault.txt"]
    vector = corpus.snapshot().vectors[rows].tobytes()
    made = corpus.snapshot().token_vectors.take(np.arange(rows.start, rows.stop))
    tokens = [made.tokens.tobytes(), *(two.tobytes() for two in made.vectors[:-1].reshape(-1, 32))]
    terms = np.frombuffer(corpus.snapshot().encoded("impacts:hash-sparse").bytes_of(rows)[0], dtype=np.int32)
    tokens += [terms[:6].tobytes(), terms[6:12].tobytes()]
    old = {corpus.snapshot(number).id for number in (1, 2)}
    root = corpus.store.root
    assert holding(root, TRACES) == {"corpora", "segments"}
    assert "vectors" in holding(root, [vector])
    assert [holding(root, [trace]) for trace in tokens] == [{"token_vectors"}] * (len(tokens) - 2) + [{"impacts"}] * 2
    corpus.revoke(["vault.txt"], "a test")
    assert backlog(corpus) == ["vault.txt"]

    purge = corpus.purge()
    assert purge.proof.clean
    assert (purge.documents, purge.generation) == (["vault.txt"], 3)
    assert purge.removed == {"snapshots": 2, "kept": 1}
    assert (purge.proof.left, purge.proof.elsewhere, purge.proof.exported, purge.proof.unmarked) == ([], [], [], [])
    assert holding(root, [*TRACES, vector, *tokens]) == set()
    assert not old & set(corpus.store.entries("snapshots"))
    for kind in ("lucene", "impact"):
        assert len(corpus.store.entries(kind)) == 1
        with RowIndex(corpus.store.path(kind, corpus.store.entries(kind)[0])) as index:
            assert "vault.txt" not in index.documents()
    assert backlog(corpus) == []
    assert corpus.purge().documents == ()
    snapshot = corpus.snapshot()
    snapshot.verify()
    assert len(snapshot.documents) == 30
    assert snapshot.chunks.text[snapshot.chunks.documents["page03.txt"].start] == "Page 3 was rewritten."
    (event,) = corpus.catalogue.events("purged")
    assert event.started_at <= corpus.catalogue.events("revoked")[0].ended_at <= event.ended_at


def test_the_source_of_a_purged_document_is_not_read_again(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    corpus.revoke(["vault.txt"], "a test")
    corpus.purge()
    (docs / "page04.txt").write_text("Page 4 was rewritten.\n")
    report = corpus.update()
    assert report.updated == ["page04.txt"]
    assert report.asleep == ["vault.txt"]
    assert holding(corpus.store.root, TRACES) == set()
    assert corpus.prove().clean
    corpus.lift(["vault.txt"])
    assert corpus.update().added == ["vault.txt"]
    assert corpus.chunks("vault.txt", READER)


def test_old_content_goes_and_new_content_stays(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    corpus.delete(["vault.txt"])
    (docs / "vault.txt").write_text("The vault was turned into a library that is open to everybody on weekdays.\n")
    assert corpus.add(docs).added == ["vault.txt"]
    purge = corpus.purge()
    assert purge.documents == ["vault.txt"]
    assert purge.proof.clean
    assert holding(corpus.store.root, TRACES) == set()
    assert len(corpus.chunks("vault.txt", READER)) == 1
    assert corpus.snapshot().bm25.search(["library"], 5, None).row.tolist() == corpus.chunks("vault.txt", READER)


def test_a_copy_that_stays_is_no_trace(corpus: Corpus, docs: Path) -> None:
    (docs / "copy.txt").write_text(SECRET)
    corpus.add(docs)
    corpus.revoke(["vault.txt"], "a test")
    purge = corpus.purge()
    assert purge.proof.clean
    assert purge.proof.unmarked == ["vault.txt"]
    assert corpus.chunks("copy.txt", READER)


def test_another_corpus_keeps_its_copy_and_is_named(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    with Corpus.create(corpus.store, "other", encoder="hash", analyzer="none") as other:
        other.add(docs)
        corpus.revoke(["vault.txt"], "a test")
        proof = corpus.purge().proof
        assert proof.clean
        assert {finding.place.relative_to(corpus.store.root).parts[0] for finding in proof.elsewhere} == {
            "corpora",
            "segments",
            "vectors",
        }
        assert other.chunks("vault.txt", READER)
        other.snapshot().verify()


def test_answers_results_and_reports_of_a_run_go_as_well(
    corpus: Corpus, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hash_encoder
) -> None:
    from rag_lab.definition import Experiment
    from rag_lab.session import run_session

    monkeypatch.setenv("RAG_LAB_HOME", str(corpus.store.root))
    monkeypatch.setattr("rag_lab.preparation.load_encoder", lambda name: hash_encoder)
    corpus.add(docs)
    dataset = tmp_path / "questions"
    (dataset / "qrels").mkdir(parents=True)
    documents = [{"_id": "vault.txt", "text": SECRET}, {"_id": "page01.txt", "text": "Page 1"}]
    questions = [{"_id": "q1", "text": "When does the reactor vault open?"}, {"_id": "q2", "text": "Which tool?"}]
    for name, records in (("corpus", documents), ("queries", questions)):
        (dataset / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (dataset / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tvault.txt\t1\nq2\tpage01.txt\t1\n")
    experiment = Experiment.read(
        {"dataset": str(dataset), "corpus": "kb", "variants": ["bm25"], "generator": "extractive", "seed": 1}
    )
    out = tmp_path / "out"
    run_session(experiment, out, track=False, report=True)
    root = corpus.store.root
    assert {"stages", "results", "reports"} <= holding(root, TRACES)

    corpus.revoke(["vault.txt"], "a test")
    proof = corpus.purge().proof
    assert proof.clean
    assert holding(root, TRACES) == set()
    assert {out in finding.place.parents for finding in proof.exported} == {True}
    again = rag_lab.run(experiment, progress=False)
    assert "reactor vault opens" not in json.dumps(again.outcomes.astype(str).to_dict())


@pytest.mark.parametrize("step", ["_replace_active", "_drop_snapshots", "_rewrite_kept", "prove"])
def test_an_interrupted_purge_is_repeated_with_its_proof(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    corpus.add(docs)
    corpus.revoke(["vault.txt"], "a test")

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(purging, step, killed)
        with pytest.raises(KeyboardInterrupt):
            corpus.purge()
    assert backlog(corpus) == ["vault.txt"]
    purge = corpus.purge()
    assert purge.proof.clean
    assert purge.proof.marks > 5
    assert holding(corpus.store.root, TRACES) == set()
    assert backlog(corpus) == []


def test_the_status_lists_what_a_purge_would_take(corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also old content of a document that has another, and what was removed and not proven gone."""

    def waiting() -> list[tuple[str, str]]:
        return [(one.document_id, one.why) for one in corpus.status(drift=False).backlog]

    corpus.add(docs)
    corpus.delete(["vault.txt"])
    (docs / "vault.txt").write_text("The vault was torn down.\n")
    assert corpus.add(docs).added == ["vault.txt"]
    assert waiting() == [("vault.txt", "deleted")]
    with monkeypatch.context() as broken:
        broken.setattr(purging, "prove", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            corpus.purge()
    assert waiting() == [("vault.txt", "deleted")]
    (row,) = [one for one in corpus.status(drift=False).delays if one["kind"] == "purged"]
    assert (row["n"], row["open"]) == (1, 1)
    assert corpus.purge().proof.clean
    assert waiting() == []


def test_a_purge_lasts_from_the_first_denial_of_what_was_there(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    corpus.delete(["vault.txt"])
    corpus.revoke(["vault.txt"], "a test")
    corpus.purge()
    first, revoked = (d.at for d in corpus.denials.of("kb").in_force["vault.txt"])
    (event,) = corpus.catalogue.events("purged")
    assert first < revoked
    assert datetime.fromisoformat(event.started_at) == first


def test_the_proof_finds_what_somebody_left(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    corpus.revoke(["vault.txt"], "a test")
    corpus.purge()
    left = corpus.store.root / "stray" / "cache.json.gz"
    left.parent.mkdir()
    left.write_bytes(gzip.compress(json.dumps({"answer": SECRET}, ensure_ascii=False).encode()))
    proof = corpus.prove()
    assert not proof.clean
    assert [finding.place for finding in proof.left] == [left]
    left.unlink()
    database = sqlite3.connect(corpus.store.root / "stray" / "notes.sqlite")
    database.execute("CREATE TABLE notes (text TEXT)")
    database.execute("INSERT INTO notes VALUES (?)", (SECRET,))
    database.commit()
    database.close()
    assert [finding.place.name for finding in corpus.prove().left] == ["notes.sqlite"]


def test_a_snapshot_that_is_open_while_it_is_purged_gives_nothing_away(corpus: Corpus, docs: Path) -> None:
    corpus.add(docs)
    with corpus.pinned() as (_, opened):
        rows = opened.chunks.documents["vault.txt"]
        request = corpus.request(READER)
        assert opened.scopes([request]).rows(0)[rows].all()
        corpus.revoke(["vault.txt"], "a test")
        corpus.purge()
        assert not opened.scopes([request]).rows(0)[rows].any()
        with pytest.raises(RagLabError, match="the snapshot was retired or purged, open the newest one"):
            _ = opened.keys
    with pytest.raises(RagLabError, match="not a published folder"):
        _ = Snapshot(corpus.store, opened.id).facts


def test_a_part_whose_entries_are_all_gone_is_removed(corpus: Corpus, tmp_path: Path) -> None:
    folder = tmp_path / "single"
    folder.mkdir()
    (folder / "vault.txt").write_text(SECRET)
    corpus.add(folder, tenant="default", public=True)
    corpus.revoke(["vault.txt"], "a test")
    assert corpus.purge().proof.clean
    assert corpus.kept.entries(KEPT) == []
    assert len(corpus.snapshot().chunks) == 0
