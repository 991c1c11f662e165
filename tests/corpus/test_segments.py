"""What an update costs, when segments are put together, and what is left of what was removed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import Acl, CacheUse, Document, RagLabError
from rag_lab.corpus.chunking import Whole, Window
from rag_lab.corpus.publishing import compact, publish, rewrite_without
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.retrieval.encoders import embed_queries
from rag_lab.store import Store


def public(name: str, text: str, **fields: Any) -> Document:
    return Document(name, text, acl=Acl(public=True), **fields)


def many(count: int, start: int = 0) -> list[Document]:
    return [public(f"d{number:04}", f"text number {number}") for number in range(start, start + count)]


def sizes(snapshot: Snapshot) -> list[tuple[int, int]]:
    """Living and dead documents of each segment."""
    return [(len(segment.documents), len(segment.dead)) for segment in snapshot.segments]


def updated(base: Snapshot, documents: Sequence[Document], removed: Sequence[str] = (), **options: Any) -> Snapshot:
    return publish(base.store, documents, Whole(), **options, base=base, removed=removed)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def counting(hash_encoder: Any) -> Any:
    """The hash encoder, which also lists what it was asked to encode."""

    class Counting(type(hash_encoder)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seen: list[str] = []

        def encode_passages(self, texts: Sequence[str]) -> Any:
            self.seen += texts
            return super().encode_passages(texts)

    return Counting()


# --- encoding -------------------------------------------------------------------------------------------------------


def test_only_texts_that_are_new_are_encoded_each_once(store: Store, counting: Any) -> None:
    options = {"token_encoder": counting, "encoder": counting, "factories": ["Flat"]}
    documents = [public("a", "one two three four five six"), public("b", "one two three seven"), public("c", "")]
    first = publish(store, documents, Window(size=3), **options)
    assert sorted(counting.seen) == ["four five six", "one two three", "seven"]
    counting.seen.clear()
    again = [
        replace(documents[0], text="one two three four five nine"),
        replace(documents[1], acl=Acl(groups=("hr",))),
        public("d", "seven"),
    ]
    second = publish(store, again, Window(size=3), **options, base=first)
    assert counting.seen == ["four five nine"]
    expected = counting.encode_passages([second.chunks.indexed_text(row) for row in range(len(second.chunks))])
    assert np.array_equal(second.vectors, expected)


def test_chunks_with_and_without_a_known_vector_are_counted(store: Store, counting: Any) -> None:
    uses: list[CacheUse] = []
    options = {"encoder": counting, "factories": ["Flat"], "on_use": uses.append}
    first = publish(store, [*many(5), public("same", "text number 3")], Whole(), **options)
    publish(store, [*many(5), public("same", "text number 3")], Whole(), **options)
    updated(first, [*many(4), public("d0004", "other"), public("more", "text number 0")], **options)
    updated(first, many(2), ["d0002"], **options)
    assert uses == [CacheUse("embedding", 1, 5), CacheUse("embedding", 6, 0), CacheUse("embedding", 1, 1)]
    assert len(counting.seen) == 6


def test_texts_that_an_interrupted_run_encoded_are_known(store: Store, counting: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_lab.corpus.encoded.ENCODING_BLOCK", 2)
    encode, uses = counting.encode_passages, []

    def stops(texts: Sequence[str]) -> Any:
        if counting.seen:
            raise RuntimeError("stopped")
        return encode(texts)

    options = {"encoder": counting, "factories": ["Flat"], "on_use": uses.append}
    monkeypatch.setattr(counting, "encode_passages", stops)
    with pytest.raises(RuntimeError):
        publish(store, many(5), Whole(), **options)
    monkeypatch.undo()
    monkeypatch.setattr("rag_lab.corpus.encoded.ENCODING_BLOCK", 2)
    publish(store, many(5), Whole(), **options)
    assert uses == [CacheUse("embedding", 2, 3)]


@pytest.mark.parametrize(
    "change",
    [
        {"acl": Acl(groups=("hr",))},
        {"valid_until": datetime(2030, 1, 1, tzinfo=UTC)},
        {"source_version": "2"},
        {"status": "retired"},
    ],
)
def test_rights_and_metadata_cost_no_encoding(store: Store, counting: Any, change: dict[str, Any]) -> None:
    options = {"encoder": counting, "factories": ["Flat"]}
    first = publish(store, many(5), Whole(), **options)
    counting.seen.clear()
    second = updated(first, [replace(many(5)[2], **change)], **options)
    assert counting.seen == []
    assert second.id != first.id
    assert getattr(second.chunk(2), next(iter(change)), None) != getattr(first.chunk(2), next(iter(change)), ...)


def test_what_is_as_it_was_is_the_same_snapshot(store: Store, counting: Any) -> None:
    options = {"analyzer": "en", "encoder": counting, "factories": ["Flat", "HNSW8"]}
    first = publish(store, many(5), Whole(), **options)
    before = {kind: store.entries(kind) for kind in ("segments", "vectors", "lucene", "faiss", "snapshots")}
    counting.seen.clear()
    now = datetime(2026, 5, 5, tzinfo=UTC)
    same = [replace(document, metadata={"seen": 2}, ingested_at=now) for document in many(3)]
    assert updated(first, same, ["never there"], **options).id == first.id
    assert counting.seen == []
    assert {kind: store.entries(kind) for kind in before} == before


# --- segments -------------------------------------------------------------------------------------------------------


def test_segments_grow_by_a_written_rule(store: Store) -> None:
    made = publish(store, many(16), Whole())
    seen = []
    for number in range(6):
        made = updated(made, many(1, 100 + number))
        seen.append([alive for alive, _ in sizes(made)])
    assert seen == [[16, 1], [16, 2], [16, 2, 1], [16, 4], [16, 4, 1], [16, 4, 2]]
    # Of 16 half may be dead; with one more it is written anew, and with it the next, which is more than half as large.
    made = updated(made, [], [f"d{number:04}" for number in range(8)])
    assert sizes(made) == [(8, 8), (4, 0), (2, 0)]
    made = updated(made, [], ["d0008"])
    assert sizes(made) == [(11, 0), (2, 0)]


def test_mostly_dead_segments_are_written_anew_and_empty_ones_go(store: Store) -> None:
    made = updated(publish(store, many(40), Whole()), many(2, 100))
    made = updated(made, [], [f"d{number:04}" for number in range(20)])
    assert sizes(made) == [(20, 20), (2, 0)]
    made = updated(made, [], ["d0020"])
    assert sizes(made) == [(19, 0), (2, 0)]
    made = updated(made, [], ["d0100", "d0101"])
    assert sizes(made) == [(19, 0)]
    made = updated(made, [], list(made.documents))
    assert sizes(made) == [(0, 0)]
    assert made.id == publish(Store(store.root.parent / "other"), [], Whole()).id


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=8), st.integers(0, 30))
def test_segments_stay_few_and_mostly_alive(tmp_path_factory: pytest.TempPathFactory, steps: Any, first: int) -> None:
    made = publish(Store(tmp_path_factory.mktemp("store")), many(first), Whole())
    for turn, (added, removed) in enumerate(steps, 1):
        made = updated(made, many(added, 100 * turn), list(made.documents)[:removed])
        held = sizes(made)
        assert all(alive >= dead for alive, dead in held)
        assert all(old >= 2 * new for (old, _), (new, _) in pairwise(held))
        assert sum(alive for alive, _ in held) == len(made.documents) == len(made.chunks)


def test_compaction_gives_the_snapshot_of_a_fresh_build(tmp_path: Path, store: Store, counting: Any) -> None:
    options = {"analyzer": "en", "encoder": counting, "factories": ["Flat"], "corpus": "c"}
    made = updated(
        publish(store, many(20), Whole(), **options), [public("d0003", "changed"), public("e", "")], **options
    )
    counting.seen.clear()
    merged = compact(store, made)
    assert counting.seen == []
    documents = [*many(3), public("d0003", "changed"), *many(16, 4), public("e", "")]
    assert merged.id == publish(Store(tmp_path / "fresh"), documents[::-1], Whole(), **options).id
    assert merged.facts["parts"] == made.facts["parts"]
    assert compact(store, merged).id == merged.id


def test_a_snapshot_names_every_part_that_it_reads(tmp_path: Path, store: Store, hash_encoder: Any) -> None:
    options = {"analyzer": "en", "encoder": hash_encoder, "factories": ["Flat", "HNSW8"]}
    made = updated(publish(store, many(20), Whole(), **options), many(3, 100), **options)
    copy = Store(tmp_path / "copy")
    for kind, key in [*made.parts, ("snapshots", made.id)]:
        shutil.copytree(store.path(kind, key), copy.path(kind, key))
    there = Snapshot(copy, made.id)
    there.verify()
    queries = embed_queries(hash_encoder, ["text number 101"])
    for snapshot in (made, there):
        assert snapshot.bm25.search(["101"], 5, None).row.tolist() == [21]
        assert snapshot.dense("Flat").search(queries, 1).ranking.chunk.tolist() == [21]
        assert snapshot.dense("HNSW8").search(queries, 1).ranking.chunk.tolist() == [21]


# --- refusals -------------------------------------------------------------------------------------------------------


def test_an_update_under_other_settings_is_refused(store: Store, hash_encoder: Any) -> None:
    class Other(type(hash_encoder)):  # type: ignore[misc]
        version = "hash-2"

    dense = {"encoder": hash_encoder, "factories": ["Flat"], "token_encoder": hash_encoder}
    base = publish(store, many(3), Window(size=4), **dense, analyzer="en", corpus="c")

    def fails(message: str, chunker: Any = Window(size=4), **options: Any) -> None:  # noqa: B008
        given = dense | {"analyzer": "en", "corpus": "c"} | options
        with pytest.raises(RagLabError, match=message):
            publish(store, many(1), chunker, **given, base=base)

    fails(r"made with chunker window.*size=4.*, not window.*size=5.*; publish everything without base", Window(size=5))
    fails("made with encoder hash hash-1, not hash hash-2", encoder=Other())
    fails("made with tokens hash-1, not hash-2", token_encoder=Other())
    fails("made with encoder hash hash-1, not none", factories=[])
    fails("made with lucene lucene-.*/en/., not lucene-.*/zh/.", analyzer="zh")
    fails("made with lucene .*, not none", analyzer=None)
    fails("is of corpus 'c', not 'd'", corpus="d")


def test_an_index_of_another_kind_may_join_in_an_update(store: Store, hash_encoder: Any) -> None:
    base = publish(store, many(30), Whole(), encoder=hash_encoder, factories=["Flat"])
    made = updated(base, many(1, 50), encoder=hash_encoder, factories=["Flat", "HNSW8"])
    assert made.facts["factories"] == ["Flat", "HNSW8"]
    assert made.dense("HNSW8").card.count == 31


def test_contradictory_input_is_refused(store: Store) -> None:
    base = publish(store, many(3), Whole())
    with pytest.raises(RagLabError, match="1 ids are given twice"):
        publish(store, [*many(3), *many(1)], Whole())
    with pytest.raises(RagLabError, match="d0001 is both given and removed"):
        updated(base, [public("d0001", "new")], ["d0001"])


# --- damage ---------------------------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_base_is_named_or_made_again(store: Store, hash_encoder: Any) -> None:
    options = {"analyzer": "en", "encoder": hash_encoder, "factories": ["HNSW8"]}
    base = publish(store, many(30), Whole(), **options)
    for kind in ("lucene", "faiss"):
        flip(
            next(
                path for path in store.path(kind, store.entries(kind)[0]).iterdir() if path.suffix in (".fdt", ".faiss")
            )
        )
    made = updated(base, many(1, 50), **options)
    made.verify()
    assert made.bm25.search(["50"], 5, None).row.tolist() == [30]
    assert made.dense("HNSW8").card.count == 31
    flip(base.segments[0].folder / "chunks.parquet")
    with pytest.raises(RagLabError, match=r"chunks\.parquet: checksum differs"):
        compact(store, made)
    with pytest.raises(RagLabError, match=r"chunks\.parquet: checksum differs"):
        base.verify()


def test_a_manifest_is_checked_against_the_id_and_written_again(store: Store) -> None:
    made = updated(publish(store, many(3), Whole()), [], ["d0001"])
    path = made.folder / "manifest.json"
    path.write_text(path.read_text().replace("d0001", "d0002"))
    with pytest.raises(RagLabError, match="its manifest is not what was written; delete it and publish again"):
        _ = Snapshot(store, made.id).segments
    again = updated(publish(store, many(3), Whole()), [], ["d0001"])
    assert again.id == made.id
    assert list(Snapshot(store, made.id).documents) == ["d0000", "d0002"]


# --- what is left ---------------------------------------------------------------------------------------------------


def holding(snapshot: Snapshot, *needles: bytes) -> set[str]:
    """Kinds of parts in which some of these bytes are found."""
    return {
        kind
        for kind, key in [*snapshot.parts, ("snapshots", snapshot.id)]
        for path in snapshot.store.path(kind, key).rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    }


@pytest.mark.parametrize("removed_before", [False, True])
def test_nothing_of_a_document_is_left_after_rewriting(store: Store, counting: Any, removed_before: bool) -> None:
    options = {"analyzer": "en", "encoder": counting, "factories": ["Flat", "HNSW8"]}
    secret = public("idqzx", "contentqzx word")
    base = publish(store, [*many(40), secret], Whole(), **options)
    vector = counting.encode_passages(["contentqzx word"])[0].tobytes()
    needles = (b"idqzx", b"contentqzx", vector)
    assert holding(base, *needles) == {"segments", "vectors", "lucene", "faiss"}
    made = updated(base, many(1, 60), ["idqzx"] if removed_before else [], **options)
    assert ("snapshots" in holding(made, b"idqzx")) is removed_before
    assert "faiss" in holding(made, vector)
    counting.seen.clear()
    clean = rewrite_without(store, made, lambda name, _: name == "idqzx")
    assert counting.seen == []
    assert holding(clean, *needles) == set()
    clean.verify()
    assert list(clean.documents) == [f"d{number:04}" for number in [*range(40), 60]]
    assert clean.bm25.search(["contentqzx", "60"], 5, None).row.tolist() == [40]
    assert rewrite_without(store, clean, lambda name, _: name == "idqzx").id == clean.id


def test_a_removed_document_that_was_merged_away_leaves_the_faiss_index_too(store: Store, counting: Any) -> None:
    options = {"encoder": counting, "factories": ["HNSW8"]}
    base = publish(store, [*many(40), public("x", "contentqzx")], Whole(), **options)
    vector = counting.encode_passages(["contentqzx"])[0].tobytes()
    merged = compact(store, updated(base, [], ["x"], **options))
    assert holding(merged, b"contentqzx", vector) == {"faiss"}
    assert holding(rewrite_without(store, merged, lambda name, _: name == "x"), vector) == set()


def test_an_old_version_is_rewritten_away_and_the_new_one_stays(store: Store, counting: Any) -> None:
    options = {"analyzer": "en", "encoder": counting, "factories": ["Flat"]}
    base = publish(store, [*many(9), public("x", "oldqzx")], Whole(), **options)
    made = updated(base, [public("x", "newqzx")], **options)
    old = base.documents["x"]
    clean = rewrite_without(store, made, lambda name, found: (name, found) == ("x", old))
    assert holding(clean, b"oldqzx") == set()
    assert clean.documents == made.documents
    assert clean.bm25.search(["newqzx"], 5, None).row.tolist() == [9]


# --- FAISS ----------------------------------------------------------------------------------------------------------


def test_a_faiss_index_is_kept_until_it_is_outdated(store: Store, hash_encoder: Any) -> None:
    options = {"encoder": hash_encoder, "factories": ["HNSW8"]}
    made = publish(store, many(100), Whole(), **options)
    kept = made.facts["parts"]
    made = updated(made, many(20, 500), [f"d{number:04}" for number in range(4)], **options)
    assert made.facts["parts"] == kept
    made = updated(made, [replace(document, acl=Acl(groups=("hr",))) for document in many(60, 10)], **options)
    assert made.facts["parts"] == kept
    made = updated(made, many(6, 600), **options)
    assert made.facts["parts"] != kept
    assert made.dense("HNSW8").card.count == len(made.chunks) == 122


# --- token vectors --------------------------------------------------------------------------------------------------


@pytest.fixture
def late(hash_late_encoder: Any) -> Any:
    """The late-interaction encoder, which also lists what it was asked to encode."""

    class Counting(type(hash_late_encoder)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seen: list[str] = []

        def encode_passages(self, texts: Sequence[str]) -> Any:
            self.seen += texts
            return super().encode_passages(texts)

    return Counting()


def check_tokens(snapshot: Snapshot, encoder: Any) -> None:
    """The token vectors of a snapshot are those of its rows' texts."""
    table = snapshot.chunks
    expected = encoder.encode_passages([table.indexed_text(row) for row in range(len(table))])
    made = snapshot.token_vectors
    for name in ("vectors", "lengths", "tokens"):
        assert np.array_equal(getattr(made, name), getattr(expected, name)), name
        assert getattr(made, name).dtype == getattr(expected, name).dtype
    assert (made.encoder, made.version) == (encoder.name, encoder.version)


def test_token_vectors_of_known_texts_are_copied(store: Store, late: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_lab.corpus.encoded.ENTRIES_A_BLOCK", 2)
    uses: list[CacheUse] = []
    options = {"late": late, "on_use": uses.append}
    documents = [*many(9), public("none", "!?"), public("same", "text number 3"), public("void", "")]
    first = publish(store, documents, Whole(), **options)
    assert len(late.seen) == 10
    check_tokens(first, late)
    late.seen.clear()
    second = updated(first, [public("d0004", "quite another text"), public("x", "text number 5")], ["d0001"], **options)
    assert late.seen == ["quite another text"]
    assert uses == [CacheUse("token vectors", 1, 10), CacheUse("token vectors", 1, 1)]
    check_tokens(second, late)
    late.seen.clear()
    merged = compact(store, second)
    assert late.seen == []
    check_tokens(merged, late)
    assert merged.segments[0].encoded.keys() == {"token_vectors"}
    assert publish(store, [], Whole(), late=late).token_vectors.vectors.shape == (0, 16)


def test_token_vectors_of_one_whole_segment_are_mapped_and_others_lie_on_the_disk(store: Store, late: Any) -> None:
    first = publish(store, many(9), Whole(), late=late)
    whole, gathered = (snapshot.token_vectors.vectors for snapshot in (first, updated(first, many(1, 50), late=late)))
    for vectors in (whole, gathered):
        while isinstance(vectors, np.ndarray) and not isinstance(vectors, np.memmap):
            vectors = vectors.base
        assert isinstance(vectors, np.memmap)
    assert not [path for path in store.root.iterdir() if path.is_file()]


def test_an_interrupted_encoding_of_tokens_goes_on(store: Store, late: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_lab.corpus.encoded.ENCODING_BLOCK", 2)
    encode = late.encode_passages

    def stops(texts: Sequence[str]) -> Any:
        if len(late.seen) == 4:
            raise KeyboardInterrupt
        return encode(texts)

    monkeypatch.setattr(late, "encode_passages", stops)
    with pytest.raises(KeyboardInterrupt):
        publish(store, many(7), Whole(), late=late)
    monkeypatch.setattr(late, "encode_passages", encode)
    made = publish(store, many(7), Whole(), late=late)
    assert late.seen == [document.text for document in many(7)]
    assert store.entries("encoding") == []
    check_tokens(made, late)


def test_blocks_that_a_purge_takes_away_meanwhile_are_made_again(store: Store, late: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_lab.corpus.encoded.ENCODING_BLOCK", 2)
    encode = late.encode_passages

    def purged(texts: Sequence[str]) -> Any:
        for key in store.entries("encoding") if len(late.seen) == 4 else ():
            store.remove("encoding", key)
        return encode(texts)

    monkeypatch.setattr(late, "encode_passages", purged)
    made = publish(store, many(7), Whole(), late=late)
    monkeypatch.setattr(late, "encode_passages", encode)
    assert len(late.seen) == 7 + 4
    check_tokens(made, late)


def test_a_damaged_part_of_token_vectors_is_encoded_again(store: Store, late: Any) -> None:
    made = publish(store, many(5), Whole(), late=late)
    flip(store.path("token_vectors", store.entries("token_vectors")[0]) / "tokens.npy")
    with pytest.raises(RagLabError, match=r"tokens\.npy: checksum differs"):
        made.verify()
    publish(store, many(5), Whole(), late=late).verify()


def test_texts_of_a_damaged_part_are_encoded_and_not_copied(store: Store, late: Any) -> None:
    base = publish(store, many(5), Whole(), late=late)
    flip(store.path("token_vectors", store.entries("token_vectors")[0]) / "vectors.npy")
    late.seen.clear()
    made = updated(base, [public("x", "text number 3"), public("y", "another")], late=late)
    assert sorted(late.seen) == ["another", "text number 3"]
    with pytest.raises(RagLabError, match=r"vectors\.npy: checksum differs"):
        made.verify()


def test_what_is_wrong_with_token_vectors_is_said(store: Store, late: Any, monkeypatch: Any) -> None:
    made = publish(store, many(3), Whole())
    with pytest.raises(RagLabError, match="has no token vectors; publish it with a late-interaction encoder"):
        _ = made.token_vectors
    with pytest.raises(RagLabError, match="has no late-interaction index 'plaid'; publish it with a late encoder"):
        publish(store, many(3), Whole(), late=late).late("plaid")
    with pytest.raises(RagLabError, match="late index 'hnsw': is unknown; use one of auto, exact, plaid"):
        publish(store, many(3), Whole(), late=late, late_indexes=["hnsw"])
    with pytest.raises(RagLabError, match="made with late none, not hash-late hash-late-1"):
        updated(made, many(1, 9), late=late)
    encode = late.encode_passages
    monkeypatch.setattr(late, "encode_passages", lambda texts: encode(texts[:-1]))
    with pytest.raises(RagLabError, match="gave token vectors of 2 texts, 16 dimensions and type float16 for 3 chunks"):
        publish(store, many(3, 20), Whole(), late=late)

    def broken(texts: Sequence[str]) -> Any:
        found = encode(texts)
        found.vectors[0, 3] = np.nan
        return found

    monkeypatch.setattr(late, "encode_passages", broken)
    with pytest.raises(RagLabError, match="late encoder hash-late: gave token vectors with NaN or infinity"):
        publish(store, many(3, 20), Whole(), late=late)


def test_the_index_auto_is_exact_for_few_chunks_and_plaid_for_many(store: Store, late: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_lab.corpus.snapshot.PLAID_CHUNKS", 20)
    options = {"late": late, "late_indexes": ["auto", "exact"]}
    few = publish(store, many(20), Whole(), **options)
    assert few.facts["parts"] == {}
    assert few.late("auto") is few.late("exact")
    more = updated(few, many(1, 50), **options)
    assert more.facts["parts"].keys() == {"plaid"}
    assert more.late("auto").card.kind == "plaid"
    assert more.late("exact").card.kind == "exact"
    assert updated(more, [], ["d0003"], **options).facts["parts"] == {}


def test_a_plaid_index_is_kept_until_it_is_outdated(store: Store, late: Any) -> None:
    options = {"late": late, "late_indexes": ["plaid"]}
    made = publish(store, many(100), Whole(), **options)
    kept = made.facts["parts"]
    made = updated(made, many(20, 500), [f"d{number:04}" for number in range(4)], **options)
    assert made.facts["parts"] == kept
    assert made.late("plaid").card.count == 100
    assert len(made.late("plaid").passages) == 116
    made = updated(made, many(6, 600), **options)
    assert made.facts["parts"] != kept
    assert made.late("plaid").card.count == len(made.chunks) == 122


@pytest.mark.parametrize("removed_before", [False, True])
def test_no_token_of_a_document_is_left_after_rewriting(store: Store, late: Any, removed_before: bool) -> None:
    options = {"late": late, "late_indexes": ["exact", "plaid"]}
    secret = public("idqzx", "contentqzx wordqzx")
    base = publish(store, [*many(40), secret], Whole(), **options)
    made = updated(base, many(1, 60), ["idqzx"] if removed_before else [], **options)
    tokens = late.encode_passages(["contentqzx wordqzx"])
    needles = [tokens.tokens.tobytes(), *(vector.tobytes() for vector in tokens.vectors)]
    assert holding(made, needles[0]) == {"token_vectors"}
    assert all("token_vectors" in holding(made, needle) for needle in needles)
    late.seen.clear()
    clean = rewrite_without(store, made, lambda name, _: name == "idqzx")
    assert late.seen == []
    assert holding(clean, *needles) == set()
    assert clean.facts["parts"] != made.facts["parts"]
    clean.verify()
    check_tokens(clean, late)


@pytest.fixture
def joint(late: Any, counting: Any) -> Any:
    """The late-interaction encoder as one whose pass gives the vectors of the hash encoder, too."""

    class Joint(type(late)):  # type: ignore[misc]
        dense = counting

        def encode_both(self, texts: Sequence[str]) -> Any:
            return self.encode_passages(texts), type(counting).__mro__[1].encode_passages(counting, texts)

    return Joint()


def test_one_pass_gives_vectors_and_token_vectors(store: Store, joint: Any, counting: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_lab.corpus.encoded.ENCODING_BLOCK", 4)
    uses: list[CacheUse] = []
    options = {"encoder": counting, "factories": ["Flat"], "late": joint, "on_use": uses.append}
    made = publish(store, many(9), Whole(), **options)
    made = updated(made, [public("d0004", "quite another text")], ["d0001"], **options)
    assert counting.seen == []
    assert len(joint.seen) == 10
    assert uses == [
        CacheUse("token vectors", 0, 9),
        CacheUse("embedding", 0, 9),
        CacheUse("token vectors", 0, 1),
        CacheUse("embedding", 0, 1),
    ]
    assert store.entries("encoding") == []
    check_tokens(made, joint)
    expected = counting.encode_passages([made.chunks.indexed_text(row) for row in range(len(made.chunks))])
    assert np.array_equal(made.vectors, expected)


def test_what_only_one_of_them_lacks_is_encoded_by_it_alone(store: Store, joint: Any, counting: Any) -> None:
    dense, tokens = {"encoder": counting, "factories": ["Flat"]}, {"late": joint}
    publish(store, many(5), Whole(), **dense)
    publish(store, many(5, 50), Whole(), **tokens)
    assert (len(counting.seen), len(joint.seen)) == (5, 5)
    uses: list[CacheUse] = []
    publish(store, many(5), Whole(), **dense, **tokens, on_use=uses.append)
    publish(store, many(5, 50), Whole(), **dense, **tokens, on_use=uses.append)
    assert (len(counting.seen), len(joint.seen)) == (10, 10)
    assert [(use.hits, use.misses) for use in uses] == [(0, 5), (5, 0), (5, 0), (0, 5)]
    assert store.entries("encoding") == []


def test_another_version_of_the_model_is_not_taken_from_the_same_pass(
    store: Store, joint: Any, counting: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(counting, "version", "hash-2")
    monkeypatch.setattr(type(joint), "dense", type(counting).__mro__[1]())
    publish(store, many(5), Whole(), encoder=counting, factories=["Flat"], late=joint)
    assert (len(counting.seen), len(joint.seen)) == (5, 5)


def test_an_interrupted_pass_for_both_goes_on(store: Store, joint: Any, counting: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rag_lab.corpus.encoded.ENCODING_BLOCK", 2)
    both = type(joint).encode_both

    def stops(self: Any, texts: Sequence[str]) -> Any:
        if len(self.seen) == 4:
            raise KeyboardInterrupt
        return both(self, texts)

    options = {"encoder": counting, "factories": ["Flat"], "late": joint}
    monkeypatch.setattr(type(joint), "encode_both", stops)
    with pytest.raises(KeyboardInterrupt):
        publish(store, many(7), Whole(), **options)
    monkeypatch.setattr(type(joint), "encode_both", both)
    made = publish(store, many(7), Whole(), **options)
    assert joint.seen == [document.text for document in many(7)]
    assert counting.seen == []
    check_tokens(made, joint)
    assert np.array_equal(made.vectors, counting.encode_passages([document.text for document in many(7)]))


# --- weighted terms -------------------------------------------------------------------------------------------------


@pytest.fixture
def sparse(hash_sparse_encoder: Any) -> Any:
    """The learned sparse encoder, which also lists what it was asked to encode."""

    class Counting(type(hash_sparse_encoder)):  # type: ignore[misc]
        def __init__(self) -> None:
            self.seen: list[str] = []

        def encode_passages(self, texts: Sequence[str]) -> Any:
            self.seen += texts
            return super().encode_passages(texts)

    return Counting()


def found(snapshot: Snapshot, encoder: Any, text: str) -> list[str]:
    hits = snapshot.impact(encoder.name).search(encoder.encode_queries([text]), 3, None)
    return [snapshot.chunks.document_id[row] for row in hits.row.tolist()]


def test_weighted_terms_of_known_texts_are_copied(store: Store, sparse: Any) -> None:
    uses: list[CacheUse] = []
    options = {"sparse": [sparse], "on_use": uses.append}
    first = publish(store, [*many(9), public("none", "!?"), public("same", "text number 3")], Whole(), **options)
    assert len(sparse.seen) == 10
    sparse.seen.clear()
    second = updated(first, [public("d0004", "quite another text")], ["d0001"], **options)
    assert sparse.seen == ["quite another text"]
    assert uses == [CacheUse("sparse vectors", 1, 10), CacheUse("sparse vectors", 0, 1)]
    for snapshot in (first, second, compact(store, second)):
        table = snapshot.chunks
        expected = sparse.encode_passages([table.indexed_text(row) for row in range(len(table))])
        made = snapshot.encoded("impacts:hash-sparse")
        assert made.lengths.tolist() == expected.lengths.tolist()
        for name in ("terms", "impacts"):
            assert np.array_equal(made.arrays[name], getattr(expected, name))
    assert found(second, sparse, "quite another")[0] == "d0004"
    assert found(first, sparse, "1")[0] == "d0001" != found(second, sparse, "1")[0]
    second.verify()


def test_several_models_weigh_terms_side_by_side(store: Store, sparse: Any) -> None:
    class Other(type(sparse)):  # type: ignore[misc]
        name, version = "other/model", "other-1"

    options = {"sparse": [sparse, Other()]}
    made = updated(publish(store, many(9), Whole(), **options), many(1, 50), **options)
    assert made.facts["sparse"] == {"hash-sparse": "hash-sparse-1", "other/model": "other-1"}
    assert {kind for kind, _ in made.parts} == {"segments", "impacts", "impact"}
    assert found(made, sparse, "50")[0] == found(made, Other(), "50")[0] == "d0050"
    with pytest.raises(RagLabError, match="has no weighted terms of 'a/b'; publish it with that sparse encoder"):
        made.impact("a/b")
    with pytest.raises(RagLabError, match=r"made with impact lucene-.*/impact/1, not none"):
        updated(made, many(1, 60))
    with pytest.raises(RagLabError, match=r"the queries by other/model \(version other-1\); encode both"):
        made.impact("hash-sparse").search(Other().encode_queries(["x"]), 3, None)


def test_a_damaged_impact_index_is_made_again(store: Store, sparse: Any) -> None:
    base = publish(store, many(30), Whole(), sparse=[sparse])
    flip(next(path for path in store.path("impact", store.entries("impact")[0]).iterdir() if path.suffix == ".fdt"))
    made = updated(base, many(1, 50), sparse=[sparse])
    made.verify()
    assert found(made, sparse, "50")[0] == "d0050"


@pytest.mark.parametrize("removed_before", [False, True])
def test_no_term_of_a_document_is_left_after_rewriting(store: Store, sparse: Any, removed_before: bool) -> None:
    options = {"sparse": [sparse]}
    secret = public("idqzx", "contentqzx wordqzx")
    base = publish(store, [*many(40), secret], Whole(), **options)
    made = updated(base, many(1, 60), ["idqzx"] if removed_before else [], **options)
    terms = sparse.encode_passages([secret.text]).terms.tobytes()
    assert holding(base, terms, b"idqzx") == {"segments", "impacts", "impact"}
    sparse.seen.clear()
    clean = rewrite_without(store, made, lambda name, _: name == "idqzx")
    assert sparse.seen == []
    assert holding(clean, terms, b"idqzx") == set()
    assert "idqzx" not in clean.impact("hash-sparse").documents()
    clean.verify()


def test_wrong_terms_are_refused(store: Store, sparse: Any, monkeypatch: Any) -> None:
    encode = sparse.encode_passages
    monkeypatch.setattr(sparse, "encode_passages", lambda texts: encode(texts[:-1]))
    with pytest.raises(RagLabError, match="sparse encoder hash-sparse: gave terms of 2 texts for 3 chunks"):
        publish(store, many(3), Whole(), sparse=[sparse])
