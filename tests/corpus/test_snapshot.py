from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from rag_lab.contracts import Acl, Document, Principal, RagLabError, Request
from rag_lab.corpus.chunking import Whole, Window
from rag_lab.corpus.publishing import documents_digest, publish
from rag_lab.store import Store

DOCUMENTS = [
    Document("b", "beta two. beta three.", title="Beta", acl=Acl(groups=("hr",)), language="en"),
    Document("a10", "alpha ten", acl=Acl(public=True)),
    Document("a2", "alpha two", acl=Acl(public=True), valid_until=datetime(2026, 1, 1, tzinfo=UTC)),
    Document("empty", "  ", acl=Acl(public=True)),
]


def test_rows_follow_document_id_and_offset(tmp_path: Path, hash_encoder) -> None:
    snapshot = publish(Store(tmp_path), DOCUMENTS, Window(3), token_encoder=hash_encoder)
    table = snapshot.chunks
    assert table.chunk_id == ["a10#0", "a2#0", "b#0", "b#1"]
    assert [DOCUMENTS[0].text[s:e] for s, e in zip(table.start[2:], table.end[2:], strict=True)] == table.text[2:]
    assert table.documents == {"a10": slice(0, 1), "a2": slice(1, 2), "b": slice(2, 4)}
    assert table.indexed_text(2) == "Beta beta two."
    assert table.valid_until[1] == datetime(2026, 1, 1, tzinfo=UTC)
    chunk = snapshot.chunk(2)
    assert (chunk.document_id, chunk.source_span, chunk.title) == ("b", (0, 9), "Beta")
    assert chunk.acls == (Acl(groups=("hr",)),)
    assert chunk.chunker_version == "window-2(size=3,overlap=0)"
    assert snapshot.facts["documents"] == 4
    assert snapshot.facts["chunks"] == 4


def test_the_same_input_is_the_same_snapshot_and_costs_nothing(tmp_path: Path, hash_encoder) -> None:
    store = Store(tmp_path)
    first = publish(store, DOCUMENTS, Whole(), encoder=hash_encoder, factories=["Flat"])

    class Broken(type(hash_encoder)):
        def encode_passages(self, texts):
            raise AssertionError("encoded again")

    again = publish(store, list(reversed(DOCUMENTS)), Whole(), encoder=Broken(), factories=["Flat"])
    assert again.id == first.id
    assert again.folder == first.folder
    wider = publish(store, DOCUMENTS, Whole(), encoder=Broken(), factories=["Flat", "HNSW8"])
    assert wider.id != first.id
    wider.verify()


@pytest.mark.parametrize(
    "change",
    [
        {"text": "alpha ten."},
        {"title": "t"},
        {"tenant": "u"},
        {"acl": Acl(groups=("hr",))},
        {"acl": Acl()},
        {"source_version": "2"},
        {"valid_from": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
)
def test_every_change_of_a_document_is_another_snapshot(change: dict[str, object]) -> None:
    changed = [replace(document, **change) if document.document_id == "a10" else document for document in DOCUMENTS]
    assert documents_digest(changed) != documents_digest(DOCUMENTS)


def test_s22_another_chunk_size_cuts_again(tmp_path: Path, hash_encoder) -> None:
    store = Store(tmp_path)
    sizes = [publish(store, DOCUMENTS, Window(size), token_encoder=hash_encoder) for size in (2, 3)]
    assert [len(snapshot.chunks) for snapshot in sizes] == [5, 4]


def test_a_damaged_part_is_built_again_before_it_is_used(tmp_path: Path, hash_encoder) -> None:
    store = Store(tmp_path)
    texts = publish(store, DOCUMENTS, Whole()).chunks.text
    (file,) = (tmp_path / "segments").glob("*/chunks.parquet")
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    again = publish(store, DOCUMENTS, Whole(), encoder=hash_encoder, factories=["Flat"])
    assert again.chunks.text == texts
    again.verify()


def test_a_snapshot_says_what_it_lacks(tmp_path: Path, hash_encoder) -> None:
    snapshot = publish(Store(tmp_path), DOCUMENTS, Whole(), encoder=hash_encoder, factories=["Flat"])
    with pytest.raises(RagLabError, match="has no Lucene index"):
        _ = snapshot.bm25
    with pytest.raises(RagLabError, match="has no FAISS index 'HNSW32'"):
        snapshot.dense("HNSW32")
    with pytest.raises(RagLabError, match=r"counts tokens and needs snapshot\.encoder"):
        publish(Store(tmp_path), DOCUMENTS, Window(3))


def test_a_snapshot_older_than_the_freshness_bound_is_refused(tmp_path: Path) -> None:
    snapshot = publish(Store(tmp_path), DOCUMENTS, Whole())
    now = datetime.now(UTC)
    request = Request("r", "q", Principal("default"), "default", now)
    assert np.flatnonzero(snapshot.scopes([request]).rows(0)).tolist() == [0]
    with pytest.raises(RagLabError, match=r"request r: snapshot .* older than the freshness bound"):
        snapshot.scopes([replace(request, freshness_bound=now + timedelta(hours=1))])


def test_a_wrong_shape_of_vectors_is_refused(tmp_path: Path, hash_encoder) -> None:
    class Short(type(hash_encoder)):
        def encode_passages(self, texts):
            return super().encode_passages(texts)[:-1]

    with pytest.raises(RagLabError, match=r"gave vectors of shape \(2, 32\) for 3 chunks"):
        publish(Store(tmp_path), DOCUMENTS, Whole(), encoder=Short(), factories=["Flat"])


def test_progress_goes_to_standard_error(tmp_path: Path, hash_encoder, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    publish(Store(tmp_path), DOCUMENTS, Whole(), encoder=hash_encoder, factories=["Flat"], progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "encoding passages" in captured.err


def test_an_interrupted_encoding_goes_on(tmp_path: Path, hash_encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from rag_lab.corpus import encoded

    monkeypatch.setattr(encoded, "ENCODING_BLOCK", 2)
    documents = [Document(f"d{i}", f"text {i}", acl=Acl(public=True)) for i in range(7)]
    store, sizes = Store(tmp_path), []

    class Stopped(type(hash_encoder)):
        def encode_passages(self, texts):
            sizes.append(len(texts))
            if len(sizes) == 3:
                raise KeyboardInterrupt
            return super().encode_passages(texts)

    with pytest.raises(KeyboardInterrupt):
        publish(store, documents, Whole(), encoder=Stopped(), factories=["Flat"])
    whole = publish(store, documents, Whole(), encoder=Stopped(), factories=["Flat"])
    assert sizes == [2, 2, 2, 2, 1]
    assert not list((tmp_path / "encoding").glob("*"))
    expected = hash_encoder.encode_passages([whole.chunks.indexed_text(row) for row in range(7)])
    assert np.array_equal(whole.dense("Flat").vectors, expected)
