"""What a perfect reranker would reach, against values worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Question
from rag_lab.metrics import Observation, Scores, evaluate, metric, not_measured
from rag_lab.metrics.ceiling import ceilings

SECOND = 1 / math.log2(3)


def observe(
    qrels: dict[str, dict[str, int]], given: dict[str, list[str]], run: dict[str, list[str]] | None = None
) -> Observation:
    questions = [Question(query, "?") for query in qrels]
    return Observation(questions, qrels, run or given, reranked=given)


def found(seen: Observation, *names: str) -> dict[str, Scores]:
    return evaluate(list(names), seen)


def test_candidate_recall_is_the_share_of_relevant_documents_that_were_given() -> None:
    """q1 was given two of its three; q2 none; q3 has no relevant document; q4 was given nothing."""
    qrels = {"q1": {"a": 1, "b": 2, "c": 1, "n": 0}, "q2": {"a": 1}, "q3": {"a": 0}, "q4": {"a": 1}}
    seen = observe(qrels, {"q1": ["n", "a", "x", "c"], "q2": ["n", "b"], "q3": ["a"], "q4": []})
    scores = found(seen, "CandidateRecall")["CandidateRecall"]
    assert scores.values.tolist() == pytest.approx([2 / 3, 0, 0, 0])
    assert scores.eligible.tolist() == [True, True, False, True]
    assert scores.value == pytest.approx(2 / 9)


def test_the_ceiling_puts_the_best_grades_first() -> None:
    """Given n, a (1), b (2), while c (3) is beneath: (2 + 1/log2 3 + 3/log2 5) / (3 + 2/log2 3 + 1/2)."""
    seen = observe({"q": {"a": 1, "b": 2, "c": 3}}, {"q": ["n", "a", "b"]}, {"q": ["a", "n", "b", "c"]})
    scores = found(seen, "CeilingNDCG@10", "CeilingNDCG@2", "CeilingNDCG@1")
    ideal = 3 + 2 * SECOND + 1 / 2
    assert scores["CeilingNDCG@10"].value == pytest.approx((2 + SECOND + 3 / math.log2(5)) / ideal)
    assert scores["CeilingNDCG@2"].value == pytest.approx((2 + SECOND) / (3 + 2 * SECOND))
    assert scores["CeilingNDCG@1"].value == pytest.approx(2 / 3)


def test_what_ranks_beneath_keeps_its_order_and_counts_where_few_were_given() -> None:
    """One candidate was read, without a judgment; the relevant one stands second."""
    seen = observe({"q": {"b": 1}}, {"q": ["a"]}, {"q": ["a", "b"]})
    assert found(seen, "CeilingNDCG@10")["CeilingNDCG@10"].value == pytest.approx(SECOND)
    assert found(seen, "CandidateRecall")["CandidateRecall"].value == 0


def test_a_question_that_the_reranker_failed_keeps_its_ceiling() -> None:
    seen = observe({"q": {"b": 1}}, {"q": ["a", "b"]}, {"other": ["a"]})
    assert found(seen, "CeilingNDCG@10")["CeilingNDCG@10"].value == 1


@given(
    st.permutations([f"d{i}" for i in range(8)]),
    st.integers(0, 8),
    st.dictionaries(st.sampled_from([f"d{i}" for i in range(10)]), st.integers(-1, 3)).map(
        lambda grades: {**grades, "d9": 1}
    ),
    st.randoms(use_true_random=False),
)
def test_no_order_of_the_candidates_is_above_the_ceiling(ranked, depth, grades, draw) -> None:
    given, beneath = list(ranked[:depth]), list(ranked[depth:])
    draw.shuffle(given)
    seen = observe({"q": grades}, {"q": given}, {"q": [*given, *beneath]})
    scores = found(seen, "nDCG@5", "CeilingNDCG@5")
    assert np.all(scores["nDCG@5"].values <= scores["CeilingNDCG@5"].values + 1e-12)


def test_names() -> None:
    assert ceilings(["RR", "nDCG@10", "nDCG", "Recall@5", "nDCG@3"]) == (
        "CeilingNDCG@10",
        "CeilingNDCG@3",
        "CandidateRecall",
    )
    assert metric("CeilingNDCG@10").meaning.startswith("nDCG@10 that a perfect reranker")
    assert not_measured(["CandidateRecall"], Observation([], {"q": {"a": 1}}, {}).offers()) == {
        "CandidateRecall": "the variant reranks nothing"
    }
