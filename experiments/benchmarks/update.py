"""What an update costs beside a fresh build, and whether its result ranks the same.

    python experiments/benchmarks/update.py scifact [--share 0.01]
    python experiments/benchmarks/update.py growth [--sizes 5000 20000 80000] [--changes 10 100 1000]
    python experiments/benchmarks/update.py recall [--share 0.15]
    python experiments/benchmarks/update.py files [--entries 1000]

``scifact``: the whole collection (SciFact under RAG_LAB_DATA, or beside the project) is published into a new store with
BM25 and dense vectors; then a share of its documents get another text, and that is published with the first snapshot
as base. Both run in one process, one after the other, with everything loaded and Java warm, which is to the fresh
build's advantage. The changed collection is published afresh too, and the rankings of all questions at depth 1000 must
be equal, scores included. A second update removes and adds documents, a third changes rights alone; then the same is
compared again.

``growth``: texts drawn by a seed, with vectors drawn from a hash of the text, so that encoding takes next to no time
and what is left of an update is seen: the part that grows with the corpus, and the part that grows with the change.

``recall``: of the 100 exact neighbours of each question, how many an approximate index finds that is older than its
rows, and how many one that was built for them; for all rows and for a drawn share of them, without the exact search
that few permitted rows get otherwise. It writes to the store of RAG_LAB_HOME, and reads the vectors that are there.

``files``: small entries published one after another, with and without having the disk keep each.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

from rag_lab import datasets
from rag_lab.contracts import Acl, Document, Encoder, IntArray, Span
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.publishing import compact, publish, rewrite_without
from rag_lab.corpus.snapshot import Snapshot, index_name
from rag_lab.retrieval.dense import DenseIndex
from rag_lab.retrieval.encoders import Embeddings, embed_queries, load_encoder
from rag_lab.store import Store

DEPTH = 1000
NEIGHBOURS = 100
os.environ.setdefault("RAG_LAB_DATA", str(Path(__file__).parents[3] / "shared" / "data"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["scifact", "growth", "recall", "files"])
    parser.add_argument("--share", type=float)
    parser.add_argument("--sizes", type=int, nargs="+", default=[5000, 20000, 80000])
    parser.add_argument("--changes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--entries", type=int, default=1000)
    options = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as work:
        if options.what == "scifact":
            scifact(Path(work), options.share or 0.01)
        elif options.what == "recall":
            recall(options.share or 0.15)
        elif options.what == "growth":
            growth(Path(work), options.sizes, options.changes)
        else:
            files(Path(work), options.entries)
    print(f"load after: {os.getloadavg()[0]:.1f}")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of a call."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def warm(work: Path, settings: dict[str, Any]) -> None:
    """Load libraries and models, and have Java compile, before anything is timed."""
    texts = [Document(f"w{number}", f"word{number % 977} " * 50, acl=Acl(public=True)) for number in range(3000)]
    lexical = {"analyzer": settings["analyzer"]}
    base = publish(Store(work / "warm"), texts, Whole(), **lexical)
    publish(base.store, [replace(texts[0], text="changed")], Whole(), **lexical, base=base)
    settings["encoder"].encode_passages(["warm"])


# --- a real collection ----------------------------------------------------------------------------------------------


def scifact(work: Path, share: float) -> None:
    """Fresh build, updates, and the comparison of rankings."""
    found = datasets.load("scifact")
    documents, queries = list(found.documents), [question.text for question in found.questions]
    encoder = load_encoder("minilm")
    settings: dict[str, Any] = {"analyzer": "en", "encoder": encoder, "factories": ["Flat"]}
    warm(work, settings)
    built, base = timed(lambda: publish(Store(work / "one"), documents, Whole(), **settings))
    print(f"{len(documents)} documents, {len(queries)} questions; fresh build {built:.2f} s")
    random = np.random.default_rng(0)
    order = random.permutation(len(documents)).tolist()
    count = round(share * len(documents))
    changed = {i: replace(documents[i], text=shuffled(documents[i].text, random)) for i in order[:count]}
    after = [changed.get(i, document) for i, document in enumerate(documents)]
    one = update("changed texts", built, base, list(changed.values()), [], settings)
    check(work / "fresh one", one, after, queries, settings)
    gone = {documents[i].document_id for i in order[count : 2 * count]}
    more = [
        replace(documents[i], document_id=f"new {i}", text=shuffled(documents[i].text, random)) for i in order[:count]
    ]
    two = update("removals and additions", built, one, more, sorted(gone), settings)
    after = [document for document in after if document.document_id not in gone] + more
    rights = [replace(document, acl=Acl(groups=("staff",))) for document in after[:count]]
    three = update("changed rights", built, two, rights, [], settings)
    check(work / "fresh two", three, rights + after[count:], queries, settings)
    update("nothing", built, three, rights, [], settings)
    last = after[-1].document_id
    seconds, made = timed(lambda: rewrite_without(three.store, opened(three), lambda name, _: name == last))
    print(f"{'rewriting without a document':28} {seconds:7.2f} s  {seconds / built:6.1%} of the build")
    seconds, _ = timed(lambda: compact(made.store, opened(made)))
    print(f"{'compaction':28} {seconds:7.2f} s  {seconds / built:6.1%} of the build")


def shuffled(text: str, random: np.random.Generator) -> str:
    """The words of a text in another order, and one more."""
    return " ".join([*random.permutation(text.split()).tolist(), "revised"])


def opened(snapshot: Snapshot) -> Snapshot:
    """The snapshot with nothing read yet."""
    return Snapshot(snapshot.store, snapshot.id)


def update(
    name: str,
    built: float,
    base: Snapshot,
    documents: Sequence[Document],
    removed: Sequence[str],
    settings: dict[str, Any],
) -> Snapshot:
    """Publish an update and print what it took."""
    before = opened(base)
    seconds, made = timed(lambda: publish(base.store, documents, Whole(), **settings, base=before, removed=removed))
    print(
        f"{name:28} {seconds:7.2f} s  {seconds / built:6.1%} of the build  "
        f"({len(documents)} given, {len(removed)} removed, {len(made.segments)} segments)"
    )
    result: Snapshot = made
    return result


def check(
    folder: Path, made: Snapshot, documents: Sequence[Document], queries: Sequence[str], settings: dict[str, Any]
) -> None:
    """Publish the documents afresh and compare every ranking, with its scores."""
    fresh = publish(Store(folder), documents, Whole(), **settings)
    vectors = embed_queries(settings["encoder"], queries)
    same = [made.chunks.chunk_id == fresh.chunks.chunk_id]
    for one, other in (
        (made.bm25.search(queries, DEPTH, None).ranking(), fresh.bm25.search(queries, DEPTH, None).ranking()),
        (made.dense("Flat").search(vectors, DEPTH).ranking, fresh.dense("Flat").search(vectors, DEPTH).ranking),
    ):
        same.append(
            all(np.array_equal(getattr(one, field), getattr(other, field)) for field in ("query", "chunk", "score"))
        )
    rows, bm25, dense = ("equal" if one else "DIFFERENT" for one in same)
    print(f"    against a fresh build: rows {rows}; at depth {DEPTH}: BM25 {bm25}, dense {dense}")


# --- growth ---------------------------------------------------------------------------------------------------------


class HashEncoder:
    """Vectors drawn from a hash of the text: as many and as large as a model's, for next to nothing."""

    name, version, dimension, max_tokens = "hash", "hash-1", 384, 512
    languages = frozenset({"en"})

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors, ``[n, 384]``."""
        return self.encode_passages(texts)

    def encode_passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors, ``[n, 384]``."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for i, text in enumerate(texts):
            seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
            vectors[i] = np.random.default_rng(seed).standard_normal(self.dimension, dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Words of each text, ``[n]``."""
        return np.array([len(text.split()) for text in texts], dtype=np.int32)

    def token_spans(self, text: str) -> list[Span]:
        """Words."""
        return [match.span() for match in re.finditer(r"\S+", text)]


def growth(work: Path, sizes: Sequence[int], changes: Sequence[int]) -> None:
    """A table of update times: corpus sizes down, change sizes across."""
    encoder: Encoder = HashEncoder()
    settings: dict[str, Any] = {"analyzer": "en", "encoder": encoder, "factories": ["Flat"]}
    warm(work, settings)
    print(f"seconds (share of the build)\n{'chunks':>8} {'build':>8} " + " ".join(f"{c:>8} changed" for c in changes))
    for size in sizes:
        random = np.random.default_rng(size)
        documents = [Document(f"d{i:07}", drawn(random), acl=Acl(public=True)) for i in range(size)]
        built, base = timed(partial(publish, Store(work / str(size)), documents, Whole(), **settings))
        cells = []
        for count in changes:
            some = random.choice(size, min(count, size // 2), replace=False).tolist()
            changed = [replace(documents[i], text=drawn(random)) for i in some]
            before = opened(base)
            seconds, _ = timed(partial(publish, before.store, changed, Whole(), **settings, base=before))
            cells.append(f"{seconds:7.2f} ({seconds / built:5.1%})")
        print(f"{size:8} {built:8.2f} " + " ".join(cells))


def drawn(random: np.random.Generator) -> str:
    """A text of 120 words, some frequent and most rare."""
    return " ".join(f"w{number}" for number in (random.pareto(1.1, size=120) * 20).astype(int).tolist())


# --- recall ---------------------------------------------------------------------------------------------------------


def recall(share: float) -> None:
    """A line for each factory and share of permitted rows."""
    found = datasets.load("scifact")
    encoder = load_encoder("minilm")
    queries = embed_queries(encoder, [question.text for question in found.questions])
    factories = ["Flat", "HNSW32", "IVF64,Flat"]
    base = publish(Store.default(), found.documents, Whole(), encoder=encoder, factories=factories)
    random = np.random.default_rng(0)
    some = random.permutation(len(found.documents))[: round(share * len(found.documents))].tolist()
    changed = [replace(found.documents[i], text=shuffled(found.documents[i].text, random)) for i in some]
    made = publish(base.store, changed, Whole(), encoder=encoder, factories=factories, base=base)
    exact = made.dense("Flat")
    print(f"{len(changed)} of {len(found.documents)} documents changed; recall@{NEIGHBOURS}, {len(queries)} questions")
    for factory in factories[1:]:
        kept = made.facts["parts"][index_name(factory)] == base.facts["parts"][index_name(factory)]
        fresh = DenseIndex.build(Embeddings(np.asarray(made.vectors), encoder.name, encoder.version), factory)
        for permitted in (1.0, 0.5, 0.1, 0.02):
            allowed = random.random(len(made.chunks)) < permitted
            truth = exact.search(queries, NEIGHBOURS, allowed).ranking
            with mock.patch("rag_lab.retrieval.dense.exact_rows", return_value=0):
                older, newer = (
                    np.mean(
                        [len(np.intersect1d(one.of(i), truth.of(i))) / len(truth.of(i)) for i in range(len(queries))]
                    )
                    for one in (
                        index.search(queries, NEIGHBOURS, allowed).ranking for index in (made.dense(factory), fresh)
                    )
                )
            print(
                f"{factory:12} {permitted:5.0%} permitted  older {older:.4f} (kept: {kept})  built for them {newer:.4f}"
            )


# --- files ----------------------------------------------------------------------------------------------------------


def files(work: Path, entries: int) -> None:
    """Milliseconds for a small entry, as it is and without flushing."""

    def fill(at: Path) -> None:
        for number in range(3):
            (at / f"{number}.bin").write_bytes(b"x" * 2000)

    def run(name: str) -> float:
        kept = Store(work / name)
        seconds, _ = timed(lambda: [kept.publish("parts", f"k{number}", fill) for number in range(entries)])
        return 1000 * seconds / entries

    flushed = run("flushed")
    with mock.patch("os.fsync"):
        unflushed = run("unflushed")
    print(f"{entries} entries of 3 files: {flushed:.2f} ms each, {unflushed:.2f} ms without flushing")


if __name__ == "__main__":
    main()
