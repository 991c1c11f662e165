from __future__ import annotations

import numpy as np
import pytest

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.metrics.ranking import ranked_documents, score_rankings
from rag_lab.retrieval.fusion import Pool, learn_weights, normalised_scores, weighted_sum
from rag_lab.retrieval.fusion.learning import MOST, Judgments, grid

NAMES = [f"d{row // 2:02}" for row in range(40)]  # two chunks a document
DOCUMENTS = np.array([row // 2 for row in range(40)], dtype=np.int32)


def judgments(listed: list[tuple[int, int, float]]) -> Judgments:
    query, document, grade = zip(*listed, strict=True) if listed else ((), (), ())
    return Judgments(np.array(query, dtype=np.int64), np.array(document, dtype=np.int64), np.array(grade, dtype=float))


def pooled(rankings: list[Ranking]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    pool = Pool.of("weighted_sum", rankings, [1.0] * len(rankings))
    return normalised_scores(pool, "minmax"), pool.query, DOCUMENTS[pool.chunk]


def ranking(channel: str, *lists: list[int]) -> Ranking:
    query = [i for i, rows in enumerate(lists) for _ in rows]
    rows = [row for listed in lists for row in listed]
    return Ranking.from_scores(
        channel, len(lists), query, rows, [-float(i) for listed in lists for i in range(len(listed))]
    )


def test_the_grid_divides_the_simplex_nearest_to_equal_first() -> None:
    assert list(grid(1)) == [(1.0,)]
    assert list(grid(2))[:5] == [(0.5, 0.5), (0.4, 0.6), (0.6, 0.4), (0.3, 0.7), (0.7, 0.3)]
    assert [len(list(grid(n))) for n in (2, 3, 4, 5, 6, 9)] == [11, 66, 286, 210, 252, 165]
    for channels in range(2, 9):
        points = list(grid(channels))
        assert len(points) == len(set(points)) <= MOST
        assert all(min(point) >= 0 and sum(point) == pytest.approx(1) for point in points)


def test_a_channel_that_is_right_gets_the_weight() -> None:
    # The right document (row 4, document 2) is first in one channel and last in the other, in both questions.
    good, bad = ranking("good", [4, 0, 6], [4, 0, 6]), ranking("bad", [0, 6, 4], [6, 0, 4])
    learned = learn_weights(*pooled([good, bad]), judgments([(0, 2, 1), (1, 2, 1)]))
    # Question 0: .5 * (1, .5, 0) + .5 * (0, 1, .5) puts document 0 first with .75; at (.6, .4) document 2 has .6, 0 .7;
    # at (.7, .3) 2 has .7, 0 .65. Question 1 is right from (.5, .5): .5 each but for ties by document.
    assert learned.weights == (0.7, 0.3)
    assert learned.score == 1.0
    # Equal weights: second in question 0 (1 / log2 3), and in question 1 documents 0, 2, 3 have .5 each: second too.
    assert learned.equal == pytest.approx(1 / np.log2(3))
    assert learned.questions == 2


def test_without_evidence_the_weights_stay_equal() -> None:
    same = [ranking("a", [4, 0]), ranking("b", [4, 0]), ranking("c", [4, 0])]
    assert learn_weights(*pooled(same), judgments([(0, 2, 1)])).weights == (1 / 3, 1 / 3, 1 / 3)
    unseen = learn_weights(*pooled(same), judgments([(0, -1, 1)]))
    assert (unseen.weights, unseen.score, unseen.equal) == ((1 / 3, 1 / 3, 1 / 3), 0.0, 0.0)


def test_nothing_judged_is_an_error_and_nothing_found_is_not() -> None:
    lists = [ranking("a", []), ranking("b", [])]
    with pytest.raises(RagLabError, match="no question has a judged document that is relevant"):
        learn_weights(*pooled(lists), judgments([]))
    assert learn_weights(*pooled(lists), judgments([(0, 3, 1)])).score == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_the_grid_by_trec_eval(seed: int) -> None:
    random = np.random.default_rng(seed)
    size = 7
    rankings = [
        Ranking.from_scores(
            name,
            size,
            np.repeat(np.arange(size), 15),
            np.concatenate([random.permutation(40)[:15] for _ in range(size)]),
            random.integers(0, 12, 15 * size) / 4,
        )
        for name in ("a", "b", "c")
    ]
    qrels = {
        f"q{i}": {f"d{d:02}": int(random.integers(0, 3)) for d in random.permutation(20)[:14]} for i in range(size)
    }
    qrels["q3"] = {"d01": 0, "elsewhere": 2}
    judged = judgments(
        [
            (i, int(name[1:]) if name != "elsewhere" else -1, grade)
            for i in range(size)
            for name, grade in qrels[f"q{i}"].items()
            if grade > 0
        ]
    )
    ids = [f"q{i}" for i in range(size)]

    def value(weights: tuple[float, ...]) -> float:
        ranked = ranked_documents(weighted_sum(rankings, "minmax", weights), NAMES, ids)
        run = {query: [name for name, _ in documents] for query, documents in ranked.items()}
        return float(score_rankings(["nDCG@10"], run, qrels, ids)["nDCG@10"].values.mean())

    learned = learn_weights(*pooled(rankings), judged)
    assert learned.equal == pytest.approx(value((1 / 3, 1 / 3, 1 / 3)), abs=1e-6)
    assert learned.score == pytest.approx(max(map(value, [*grid(3), (1 / 3, 1 / 3, 1 / 3)])), abs=1e-6)
    assert value(learned.weights) == pytest.approx(learned.score, abs=1e-6)
    assert learned.questions == size
