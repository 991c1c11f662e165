"""How much faster rag_lab's BM25 answers a batch than pyserini's, with the same Lucene and the same rankings.

    python experiments/benchmarks/bm25.py [FOLDER] [--depth 1000] [--rounds 7]

Both index the same texts of a BEIR folder (SciFact under RAG_LAB_DATA, or beside the project) and answer all its
questions. pyserini: `batch_search` with two threads, then document id and score of each hit. rag_lab: `search`, which
returns arrays. The two take turns in one process; the first round is cold (classes are loaded, nothing is compiled),
the warm figures are medians over the others. rag_lab goes first when cold, which is to pyserini's advantage.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rag_lab.retrieval import jvm
from rag_lab.retrieval.bm25 import Bm25Index, build
from rag_lab.retrieval.row_index import Entries, Hits

K1, B = 0.9, 0.4
THREADS = 2
DATA = Path(os.environ.get("RAG_LAB_DATA", Path(__file__).parents[3] / "shared" / "data"))

Run = dict[str, list[tuple[str, float]]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA / "scifact")
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    documents = sorted(read(options.folder / "corpus.jsonl"), key=lambda document: str(document["_id"]))
    ids = [str(document["_id"]) for document in documents]
    texts = [f"{document.get('title') or ''} {document['text']}" for document in documents]
    questions = read(options.folder / "queries.jsonl")
    names, queries = [str(question["_id"]) for question in questions], [question["text"] for question in questions]
    with tempfile.TemporaryDirectory() as work:
        built, index = timed(lambda: ours(Path(work) / "rag_lab", texts, ids))
        built_stock, searcher = timed(lambda: stock(Path(work) / "pyserini", texts, ids))
        seconds: dict[str, list[float]] = {"rag_lab": [], "pyserini": []}
        for turn in range(options.rounds):
            for side in ("rag_lab", "pyserini") if turn % 2 == 0 else ("pyserini", "rag_lab"):
                if side == "rag_lab":
                    took, hits = timed(lambda: index.search(queries, options.depth, None, K1, B))
                else:
                    took, run = timed(lambda: stock_run(searcher, queries, names, options.depth))
                seconds[side].append(took)
        index.close()
    description = jvm.describe()
    print(f"{len(ids)} documents, {len(queries)} questions, depth {options.depth}, Java {description.java}")
    print(f"index        rag_lab {built:7.2f} s   pyserini {built_stock:7.2f} s   (with its imports)")
    report("cold", seconds["rag_lab"][0], seconds["pyserini"][0])
    if options.rounds > 1:
        report("warm, median", *(float(np.median(seconds[side][1:])) for side in ("rag_lab", "pyserini")))
    print(agreement(hits, run, ids, names))


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of a call."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def ours(folder: Path, texts: list[str], ids: list[str]) -> Bm25Index:
    """rag_lab's index."""
    scopes, positions, fingerprints = ["all"] * len(texts), [0] * len(texts), np.arange(len(texts))
    build(folder, Entries(texts, scopes, ids, positions, fingerprints), "en")
    return Bm25Index(folder)


def stock(folder: Path, texts: list[str], ids: list[str]) -> Any:
    """pyserini's searcher over an index that pyserini built."""
    # pyserini builds an OpenAI client when it is imported, and refuses to without a key.
    key = os.environ.get("OPENAI_API_KEY")
    os.environ["OPENAI_API_KEY"] = key or "unused"
    try:
        from pyserini.index.lucene import LuceneIndexer
        from pyserini.search.lucene import LuceneSearcher
    finally:
        if key is None:
            del os.environ["OPENAI_API_KEY"]
    indexer = LuceneIndexer(str(folder), threads=THREADS)
    indexer.add_batch_dict([{"id": name, "contents": text} for name, text in zip(ids, texts, strict=True)])
    indexer.close()
    searcher = LuceneSearcher(str(folder))
    searcher.set_bm25(K1, B)
    return searcher


def stock_run(searcher: Any, queries: list[str], names: list[str], depth: int) -> Run:
    """pyserini's answer, with its hits read."""
    found = searcher.batch_search(queries, names, k=depth, threads=THREADS)
    return {name: [(hit.docid, hit.score) for hit in hits] for name, hits in found.items()}


def report(name: str, rag_lab: float, pyserini: float) -> None:
    """One line of the comparison."""
    print(f"{name:12} rag_lab {rag_lab:7.3f} s   pyserini {pyserini:7.3f} s   ratio {pyserini / rag_lab:.1f}")


def agreement(hits: Hits, run: Run, ids: list[str], names: list[str]) -> str:
    """How many rankings are the same, and how far scores differ in those."""
    ranking = hits.ranking("bm25")
    same, furthest = 0, 0.0
    for query, name in enumerate(names):
        start, end = ranking.offsets[query : query + 2]
        if [ids[row] for row in hits.row[start:end]] == [document for document, _ in run[name]]:
            same += 1
            scores = zip(hits.score[start:end], run[name], strict=True)
            furthest = max([furthest, *(abs(float(score) - other) for score, (_, other) in scores)])
    return f"same ranking for {same} of {len(names)} questions, scores within {furthest:.1e}"


if __name__ == "__main__":
    main()
