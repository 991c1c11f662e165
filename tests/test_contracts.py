from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Queries, RagLabError, Ranking, Usage, batches


def test_entries_are_ordered_by_score_then_row_and_kept_once() -> None:
    ranking = Ranking.from_scores("c", 3, [2, 0, 0, 0, 2], [4, 7, 3, 7, 1], [1.0, 0.5, 0.5, 0.9, 1.0])
    assert ranking.query.tolist() == [0, 0, 2, 2]
    assert ranking.chunk.tolist() == [7, 3, 1, 4]
    assert ranking.score.tolist() == [0.9, 0.5, 1.0, 1.0]
    assert ranking.rank.tolist() == [1, 2, 1, 2]
    assert ranking.offsets.tolist() == [0, 2, 2, 4]
    assert ranking.of(1).tolist() == []
    assert ranking.top([1, 5, 0]).chunk.tolist() == [7]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(RagLabError, match="dense: 1 scores are NaN or infinite"):
        Ranking.from_scores("dense", 1, [0, 0], [0, 1], [bad, 1.0])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3))), st.randoms())
def test_the_order_of_the_input_does_not_matter(entries: list[tuple[int, int, int]], random) -> None:
    shuffled = list(entries)
    random.shuffle(shuffled)
    one, other = (
        Ranking.from_scores("c", 4, *(list(column) for column in zip(*given, strict=True))) if given else None
        for given in (entries, shuffled)
    )
    if one is not None and other is not None:
        assert one.chunk.tolist() == other.chunk.tolist()
        assert one.score.tolist() == other.score.tolist()
        keys = list(zip(one.query.tolist(), one.chunk.tolist(), strict=True))
        assert len(keys) == len(set(keys))


def test_usage_adds_up() -> None:
    assert Usage(candidates=2, usd=0.5) + Usage(candidates=3, latency_ms=7) == Usage(
        candidates=5, usd=0.5, latency_ms=7
    )


def test_batches_cover_everything_once() -> None:
    assert [list(range(10))[part] for part in batches(10, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(batches(0, 4)) == []
    assert np.concatenate([np.arange(7)[part] for part in batches(7, 3)]).tolist() == list(range(7))


def test_a_channel_is_searched_by_its_own_texts_or_else_by_those_for_all() -> None:
    rows = [
        (2, "c", "question", ""),
        (0, "a", "question", ""),
        (0, "a in words", "translate", "bm25"),
        (0, "a passage", "hyde", "dense", "a"),
        (1, "b", "question", "colbert"),
    ]
    queries = Queries.build(3, rows)
    assert queries.of.tolist() == [0, 0, 0, 1, 2]
    assert queries.counts.tolist() == [3, 1, 1]
    found = {name: queries.for_channel(name) for name in ("bm25", "dense", "colbert", "other")}
    assert {name: one.texts for name, one in found.items()} == {
        "bm25": ("a in words", "c"),
        "dense": ("a passage", "c"),
        "colbert": ("a", "b", "c"),
        "other": ("a", "c"),
    }
    assert queries.averaged == ("", "", "a", "", "")
    assert found["dense"].averaged == ("a", "")
    assert found["bm25"].averaged == ()
    assert queries.meant_for("dense").tolist() == [False, False, True, False, True]


def test_no_queries_are_meant_for_nobody() -> None:
    queries = Queries.build(2, [])
    assert queries.for_channel("bm25").texts == ()
    assert queries.counts.tolist() == [0, 0]


def test_the_query_that_found_an_entry_stays_with_it() -> None:
    ranking = Ranking.from_scores("c", 2, [0, 0, 1], [5, 6, 5], [1.0, 2.0, 3.0])
    credited = replace(ranking, found_by=np.array([1, 0, 2], dtype=np.int32))
    top = credited.top([1, 1])
    assert top.chunk.tolist() == [6, 5]
    assert top.found_by is not None
    assert top.found_by.tolist() == [1, 2]
    assert ranking.top(1).found_by is None
