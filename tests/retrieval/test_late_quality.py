"""What late interaction finds on a real collection; nothing was fitted or chosen on its questions."""

import json

import numpy as np
import pytest
import pytrec_eval

from rag_lab.retrieval.late import Breadth, LateIndex, load_late_encoder

DEPTH = 100


def records(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def run_of(hits, names, ids):
    """What `pytrec_eval` takes."""
    run = {name: {} for name in names}
    ranking = hits.ranking
    for query, row, score in zip(ranking.query.tolist(), ranking.chunk.tolist(), ranking.score.tolist(), strict=True):
        run[names[query]][ids[row]] = score
    return run


@pytest.mark.slow
@pytest.mark.shared
def test_plaid_finds_on_scifact_what_exact_search_finds(shared_data, tmp_path):
    folder = shared_data / "scifact"
    documents = sorted(records(folder / "corpus.jsonl"), key=lambda document: document["_id"])
    questions = records(folder / "queries.jsonl")
    ids, names = [document["_id"] for document in documents], [question["_id"] for question in questions]
    qrels = {name: {} for name in names}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        name, document, grade = line.split("\t")
        qrels[name][document] = int(grade)
    encoder = load_late_encoder("minilm")
    passages = encoder.encode_passages([f"{document['title']} {document['text']}" for document in documents])
    queries = encoder.encode_queries([question["text"] for question in questions])
    built = LateIndex.build(passages, "plaid")
    built.save(tmp_path)
    index = LateIndex.load(tmp_path, passages)
    hits = index.search(queries, DEPTH)
    assert hits.method == "plaid, 0 queries exact"
    evaluator = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "recall.100"})
    figures = list(evaluator.evaluate(run_of(hits, names, ids)).values())
    assert np.mean([row["ndcg_cut_10"] for row in figures]) >= 0.70
    assert np.mean([row["recall_100"] for row in figures]) >= 0.91
    some = queries.take(np.arange(0, len(queries), 30))
    exact = index.exactly().search(some, DEPTH).ranking
    narrow, whole = (index.search(some, DEPTH, breadth=breadth).ranking for breadth in (None, Breadth(10**6, 10**6)))
    assert whole.chunk.tolist() == exact.chunk.tolist()
    assert whole.score.tolist() == exact.score.tolist()
    found = np.mean([np.isin(exact.of(query)[:10], narrow.of(query)).mean() for query in range(len(some))])
    assert found >= 0.98
