"""Run files: strict 32-bit scores, raw values where they are strict already, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.metrics.trec import read_trec, strictly_falling, write_trec


def trec_eval_order(path: Path) -> dict[str, list[str]]:
    """As trec_eval orders a run: 32-bit score, highest first, then document id, highest first."""
    rows: dict[str, list[tuple[np.float32, str]]] = {}
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        query, _, document, _, score, _ = line.split(" ")
        rows.setdefault(query, []).append((np.float32(float(score)), document))
    return {query: [document for _, document in sorted(pairs, reverse=True)] for query, pairs in rows.items()}


def test_ties_keep_our_order_and_strict_scores_their_text(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    write_trec(path, "bm25", {"q1": [("a", 7.123456789), ("b", 2.0), ("c", 2.0), ("d", 1.0)]})
    lines = path.read_text().split("\n")
    assert lines[0] == "q1 Q0 a 1 7.123456789 bm25"
    assert lines[1] == "q1 Q0 b 2 2.0 bm25"
    assert lines[2] == "q1 Q0 c 3 1.9999999 bm25"
    assert lines[3] == "q1 Q0 d 4 1.0 bm25"
    assert trec_eval_order(path) == {"q1": ["a", "b", "c", "d"]}


@given(st.lists(st.floats(-1e30, 1e30) | st.sampled_from([0.0, -0.0, 1.0, 1 + 1e-12, 1e-45]), max_size=30))
@settings(max_examples=200, deadline=None)
def test_falls_strictly_and_stays_close(scores: list[float]) -> None:
    ordered = np.sort(np.array(scores))[::-1]
    falling = strictly_falling(ordered)
    assert (np.diff(falling) < 0).all()
    assert (falling <= ordered.astype(np.float32)).all()
    if len(set(ordered.astype(np.float32).tolist())) == len(ordered):
        assert np.array_equal(falling, ordered.astype(np.float32))


@given(st.lists(st.tuples(st.text("ab é%中\t\n", min_size=1, max_size=4), st.floats(-5, 5)), max_size=12))
@settings(max_examples=60, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, float]]) -> None:
    ranked = sorted(dict(entries).items(), key=lambda entry: (-entry[1], entry[0]))
    path = tmp_path_factory.mktemp("trec") / "run.trec"
    write_trec(path, "a run", {"q 1": ranked})
    read = read_trec(path)
    assert [document for document, _ in read.get("q 1", [])] == [document for document, _ in ranked]


def test_reading_breaks_ties_by_our_rule(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_bytes(b"\xef\xbb\xbfq1 Q0 b 1 1.5 x\r\n\nq1\tQ0\ta\t9\t1.5\tx\nq1 Q0 c 3 2 x")
    assert read_trec(path) == {"q1": [("c", 2.0), ("a", 1.5), ("b", 1.5)]}


@pytest.mark.parametrize(
    "line, message",
    [
        ("q1 Q0 d1 1 0.5", "line 2: 5 fields, not 6"),
        ("q1 Q0 d1 1 nan x", "line 2: score 'nan' is not a finite number"),
        ("q1 Q0 d1 1 high x", "line 2: score 'high' is not a finite number"),
    ],
)
def test_broken_lines_name_themselves(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text(f"q1 Q0 d0 1 0.9 x\n{line}\n")
    with pytest.raises(RagLabError, match=message):
        read_trec(path)


@pytest.mark.parametrize(
    "ranked, message",
    [
        ([("a", 1.0), ("b", float("nan"))], "query 'q1': the score at rank 2 is not a finite 32-bit float"),
        ([("a", 1e39)], "query 'q1': the score at rank 1 is not a finite 32-bit float"),
        ([("a", 1.0), ("b", 2.0)], "query 'q1': scores rise down the ranking"),
    ],
)
def test_scores_that_cannot_be_ranked(ranked: list[tuple[str, float]], message: str, tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match=message):
        write_trec(tmp_path / "run.trec", "x", {"q1": ranked})
