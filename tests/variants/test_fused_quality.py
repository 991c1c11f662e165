"""What fusing gains on a real collection, with nothing learned or chosen on its questions."""

from __future__ import annotations

from pathlib import Path

import pytest

import rag_lab
from rag_lab.store import Store

CHANNELS = ["bm25", "dense"]


@pytest.mark.slow
@pytest.mark.shared
def test_an_equally_weighted_sum_beats_both_channels_and_reciprocal_ranks(shared_data: Path, tmp_path: Path) -> None:
    results = rag_lab.run(
        dataset=str(shared_data / "scifact"),
        variants=[*CHANNELS, "hybrid", {"sum": [*CHANNELS, "weighted_sum"]}],
        generator="none",
        metrics=["nDCG@10", "Recall@100"],
        store=Store(tmp_path),
        progress=False,
    )
    scores = results.table()["nDCG@10"]
    assert scores["sum"] >= 0.73
    assert scores["sum"] > scores["hybrid"] > max(scores["bm25"], scores["dense"])
    assert results.table()["Recall@100"]["sum"] > 0.95
