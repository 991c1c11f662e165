"""Ranking metrics on spans of evidence, worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rag_lab.contracts import GoldSpan, Question, RagLabError, Ranking
from rag_lab.metrics import Observation, evaluate, metric, not_measured
from rag_lab.metrics.scores import Collection

TEXT = "0123456789" * 10


def ask(*gold: tuple[str, int, int] | str, evidence: str = "any") -> Question:
    pieces = tuple(GoldSpan(g) if isinstance(g, str) else GoldSpan(g[0], (g[1], g[2])) for g in gold)
    return Question("q1", "?", gold=pieces, evidence=evidence)  # type: ignore[arg-type]


def score(name: str, question: Question, chunks: Sequence[tuple[str, int, int]], ranked: Sequence[int]) -> float:
    """The value of one metric for one question whose ranking lists rows of `chunks`, best first."""
    ranking = Ranking.from_scores("x", 1, [0] * len(ranked), ranked, [-float(i) for i in range(len(ranked))])
    collection = Collection([name for name, _, _ in chunks], np.array([c[1:] for c in chunks]).reshape(-1, 2))
    seen = Observation(
        [question],
        documents={"q1": []},
        texts={"d": TEXT, "e": TEXT},
        ranking=ranking,
        collection=collection,
    )
    return evaluate([name], seen)[name].value


TENS = [("d", i, i + 10) for i in range(0, 100, 10)]


@pytest.mark.parametrize(
    ("name", "gold", "evidence", "ranked", "expected"),
    [
        ("SpanRecall@1", [("d", 12, 18)], "any", [1], 1),
        ("SpanRecall@1", [("d", 12, 18)], "any", [2, 1], 0),
        ("SpanRecall@2", [("d", 12, 18)], "any", [2, 1], 1),
        ("SpanRecall@2", [("d", 15, 25)], "any", [1, 2], 1),
        ("SpanRecall@1", [("d", 15, 25)], "any", [1, 2], 0),
        ("SpanRecall@3", [("d", 12, 18), ("d", 55, 58)], "all", [1, 2, 3], 0.5),
        ("SpanRecall@3", [("d", 12, 18), ("d", 55, 58)], "any", [1, 2, 3], 1),
        ("SpanRecall@20c", [("d", 12, 18)], "any", [0, 1], 1),
        ("SpanRecall@17c", [("d", 12, 18)], "any", [0, 1], 0),
        ("SpanRecall@18c", [("d", 12, 18)], "any", [0, 1], 1),
        ("SpanRecall@10", [("e", 12, 18)], "any", [0, 1], 0),
        ("SpanNDCG@10", [("d", 12, 18)], "any", [1, 0], 1),
        ("SpanNDCG@10", [("d", 12, 18)], "any", [0, 2, 1], 0.5),
        ("SpanNDCG@2", [("d", 12, 18)], "any", [0, 2, 1], 0),
        ("SpanNDCG@10", [("d", 15, 25)], "any", [1, 0, 2], 0.5),
        ("SpanNDCG@10", [("d", 12, 18), ("d", 52, 58)], "all", [1, 0, 5], 0.75),
        ("SpanNDCG@10", [("d", 12, 18), ("d", 52, 58)], "all", [1, 0], 0.5),
        ("SpanNDCG@10", [("d", 12, 18), ("d", 52, 58)], "any", [0, 2, 5, 1], 0.5),
        ("RelevantText@2", [("d", 12, 17)], "any", [1, 0], 0.25),
        ("RelevantText@1", [("d", 12, 17)], "any", [1, 0], 0.5),
        ("RelevantText@15c", [("d", 0, 20)], "any", [1, 5], 10 / 15),
        ("RelevantText@2", [("e", 12, 17)], "any", [1, 0], 0),
        ("RelevantText@5", ["d"], "any", [3, 4], 1),
    ],
)
def test_values_worked_by_hand(name: str, gold: list, evidence: str, ranked: list[int], expected: float) -> None:
    assert score(name, ask(*gold, evidence=evidence), TENS, ranked) == pytest.approx(expected)


def test_large_chunks_win_at_a_number_of_passages_and_not_at_a_number_of_characters() -> None:
    gold, whole = ask(("d", 72, 78)), [("d", 0, 100)]
    assert score("SpanRecall@1", gold, whole, [0]) == 1
    assert score("SpanNDCG@10", gold, whole, [0]) == 1
    assert score("SpanRecall@20c", gold, whole, [0]) == 0
    assert score("SpanRecall@20c", gold, TENS, [3, 7]) == 1
    assert score("RelevantText@1", gold, whole, [0]) == pytest.approx(0.06)


def test_children_of_one_parent_are_one_passage() -> None:
    parents = [("d", 0, 50), ("d", 0, 50), ("d", 50, 100), ("e", 0, 50)]
    assert score("SpanNDCG@10", ask(("d", 62, 68)), parents, [0, 1, 2]) == pytest.approx(1 / np.log2(3))
    assert score("RelevantText@2", ask(("d", 0, 50)), parents, [0, 1, 3]) == 0.5


def test_a_question_without_results_scores_0_and_one_that_failed_is_missing() -> None:
    questions = [Question(f"q{i}", "?", gold=(GoldSpan("d", (0, 5)),)) for i in range(3)]
    questions.append(Question("q3", "?", answerable=False))
    seen = Observation(
        questions,
        documents={"q0": [], "q1": [], "q3": []},
        texts={"d": TEXT},
        ranking=Ranking.from_scores("x", 4, [0], [0], [1.0]),
        collection=Collection(["d"], np.array([[0, 10]])),
    )
    found = evaluate(["SpanRecall@10"], seen)["SpanRecall@10"]
    assert found.values.tolist() == [1, 0, 0, 0]
    assert found.eligible.tolist() == [True, True, True, False]
    assert found.missing.tolist() == [False, False, True, False]


def test_names_and_needs() -> None:
    assert metric("SpanRecall@4000c").meaning == (
        "Share of the needed gold spans that the first 4000 characters of retrieved text cover in full."
    )
    for name in ("SpanNDCG@10c", "SpanRecall", "SpanRecall@0", "RelevantText@x"):
        with pytest.raises(RagLabError, match="unknown metric"):
            metric(name)
    assert not_measured(["SpanRecall@5"], ["gold"]) == {"SpanRecall@5": "the variant retrieves nothing"}
    assert "SpanRecall@5" not in evaluate(["SpanRecall@5"], Observation([ask(("d", 0, 5))]))
