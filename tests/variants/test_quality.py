"""What late interaction and fusion find on a real collection, with nothing learned or chosen on its questions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rag_lab
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.retrieval.late import Breadth, load_late_encoder
from rag_lab.store import Store

CHANNELS = ["bm25", "dense"]
DEPTH = 100


@pytest.mark.slow(seconds=200)
@pytest.mark.shared
def test_late_interaction_and_fusion_on_scifact(shared_data: Path, tmp_path: Path) -> None:
    folder, store = shared_data / "scifact", Store(tmp_path)
    results = rag_lab.run(
        dataset=str(folder),
        variants=[
            *CHANNELS,
            "hybrid",
            {"sum": [*CHANNELS, "weighted_sum"]},
            {"plaid": [{"colbert": {"depth": DEPTH, "index": "plaid"}}]},
        ],
        snapshot={"encoder": "minilm", "colbert": "minilm"},
        generator="none",
        metrics=["nDCG@10", "Recall@100"],
        store=store,
        progress=False,
    )
    scores, recall = (results.table()[metric] for metric in ("nDCG@10", "Recall@100"))
    assert scores["sum"] >= 0.73
    assert scores["sum"] > scores["hybrid"] > max(scores["bm25"], scores["dense"])
    assert recall["sum"] > 0.95
    assert scores["plaid"] >= 0.70
    assert recall["plaid"] >= 0.91

    index = Snapshot(store, results.snapshot).late("plaid")
    some = [question.text for question in rag_lab.load_dataset(str(folder)).questions][::30]
    queries = load_late_encoder("minilm").encode_queries(some)
    exact = index.exactly().search(queries, DEPTH).ranking
    hits = index.search(queries, DEPTH)
    assert hits.method == "plaid, 0 queries exact"
    whole = index.search(queries, DEPTH, breadth=Breadth(10**6, 10**6)).ranking
    assert whole.chunk.tolist() == exact.chunk.tolist()
    assert whole.score.tolist() == exact.score.tolist()
    found = [np.isin(exact.of(query)[:10], hits.ranking.of(query)).mean() for query in range(len(some))]
    assert np.mean(found) >= 0.98
