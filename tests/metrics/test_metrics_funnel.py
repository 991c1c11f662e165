"""The loss funnel: each question is lost once, at the first stage that lost its evidence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import (
    Abstention,
    Answer,
    Claim,
    Context,
    Failure,
    GoldSpan,
    Passage,
    Question,
    RagLabError,
    Ranking,
    Reason,
    Source,
    Span,
)
from rag_lab.metrics.evidence import Evidence
from rag_lab.metrics.funnel import STAGES, Collection, Passed, funnel, lost_at, shares

# Rows 0-2 are document a in three chunks, row 3 is b, row 4 is c.
COLLECTION = Collection(["a", "a", "a", "b", "c"], np.array([[0, 10], [10, 20], [20, 30], [0, 50], [0, 50]]))


def context(*parts: tuple[str, Span]) -> Context:
    return Context("q", tuple(Passage(1, 0, "c", d, "1", "", "", "", span, "en") for d, span in parts))


def answer(*sources: tuple[str, Span]) -> Answer:
    return Answer("q", "x", (Claim("x", tuple(Source(d, "1", "c", span, "") for d, span in sources)),))


def question(*gold: GoldSpan, evidence: str = "any", answerable: bool | None = True) -> Question:
    return Question("q", "?", gold=gold, evidence=evidence, answerable=answerable)  # type: ignore[arg-type]


def ranking(*rows: list[int]) -> Ranking:
    query = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
    flat = [row for r in rows for row in r]
    return Ranking.from_scores("x", len(rows), query, flat, -np.arange(len(flat)))


def test_a_context_that_holds_more_than_was_retrieved_lost_nothing_at_retrieval() -> None:
    questions = [question(GoldSpan("b"))] * 4
    contexts = [context(("b", (0, 50))), context(("b", (0, 50))), context(), context()]
    passed = Passed(
        candidates=ranking([0], [0], [0], [3]),
        cut=ranking([], [], [], []),
        contexts=contexts,
        direct=np.array([True, False, True, True]),
    )
    lost, _ = funnel(Evidence.of(questions), COLLECTION, passed)
    assert lost.tolist() == ["answered", "candidates", "assembly", "assembly"]


def test_every_stage_by_hand() -> None:
    """Ten questions, each lost at another stage; the tenth cannot be answered and is not in the funnel."""
    whole, straddling = GoldSpan("b"), GoldSpan("a", (5, 15))
    questions = [
        question(GoldSpan("a", (25, 40))),
        question(GoldSpan("missing")),
        question(whole),
        question(straddling),
        question(whole),
        question(whole, GoldSpan("c"), evidence="all"),
        question(whole),
        question(whole),
        question(whole),
        question(whole, answerable=False),
    ]
    allowed: list[np.ndarray | None] = [None] * 10
    allowed[2] = np.array([True, True, True, False, True])
    good = context(("b", (0, 50)))
    passed = Passed(
        allowed=allowed,
        candidates=ranking([0, 1, 2], [3], [3], [0], [3], [3, 4], [3], [3], [3], []),
        cut=ranking([0, 1, 2], [3], [3], [0], [], [3, 4], [3], [3], [3], []),
        contexts=[good, good, good, good, good, good, good, good, good, None],
        outcomes=[
            *[answer(("b", (0, 1)))] * 6,
            Failure("q", "generate", "boom"),
            answer(("c", (0, 1))),
            answer(("b", (0, 1))),
            Abstention("q", Reason.INSUFFICIENT),
        ],
        correct=np.ones(10, dtype=bool),
    )
    lost, notes = funnel(Evidence.of(questions), COLLECTION, passed)
    assert lost.tolist() == [
        "ingest",
        "ingest",
        "scope",
        "candidates",
        "cut",
        "assembly",
        "generation",
        "citation",
        "answered",
        "",
    ]
    assert notes == ()
    rows = shares(lost)
    assert [row.stage for row in rows] == list(STAGES)
    assert [row.lost for row in rows] == [2, 1, 1, 1, 1, 1, 1, 1]
    assert rows[0].share == 2 / 9


def test_two_chunks_hold_a_straddling_span() -> None:
    evidence = Evidence.of([question(GoldSpan("a", (5, 15)))] * 2)
    lost, _ = funnel(evidence, COLLECTION, Passed(candidates=ranking([1, 0], [1, 2])))
    assert lost.tolist() == ["answered", "candidates"]


def test_without_generation_answered_is_noted() -> None:
    lost, notes = funnel(Evidence.of([question(GoldSpan("b"))]), COLLECTION, Passed(contexts=[context(("b", (0, 9)))]))
    assert lost.tolist() == ["answered"]
    assert notes == ("no answers are generated: 'answered' means that the evidence reached the end",)


def test_lost_evidence_stays_lost_although_the_answer_is_right() -> None:
    passed = Passed(candidates=ranking([4]), outcomes=[answer(("b", (0, 1)))], correct=np.array([True]))
    assert funnel(Evidence.of([question(GoldSpan("b"))]), COLLECTION, passed)[0].tolist() == ["candidates"]


def test_unjudged_answers_pass_generation_and_abstentions_do_not() -> None:
    outcomes = [answer(("b", (0, 1))), Abstention("q", Reason.INSUFFICIENT), answer(("b", (0, 1)))]
    passed = Passed(outcomes=outcomes, correct=np.zeros(3, bool), judged=np.array([False, False, True]))
    lost, notes = funnel(Evidence.of([question(GoldSpan("b"))] * 3), COLLECTION, passed)
    assert lost.tolist() == ["answered", "generation", "generation"]
    assert notes == ("2 questions have no reference answer: any answer passes generation",)
    unknown, notes = funnel(Evidence.of([question(GoldSpan("b"))]), COLLECTION, Passed(outcomes=outcomes[:1]))
    assert unknown.tolist() == ["answered"]
    assert notes == ("1 questions have no reference answer: any answer passes generation",)


def test_gold_of_one_question_is_not_found_by_another() -> None:
    evidence = Evidence.of([question(GoldSpan("b")), question(GoldSpan("c"))])
    assert funnel(evidence, COLLECTION, Passed(candidates=ranking([4], [3])))[0].tolist() == ["candidates"] * 2


def test_scope_as_a_table() -> None:
    allowed = np.array([[True] * 5, [False] * 5])
    evidence = Evidence.of([question(GoldSpan("b"))] * 2)
    assert funnel(evidence, COLLECTION, Passed(allowed=allowed))[0].tolist() == ["answered", "scope"]


def test_unknown_stage_is_an_error() -> None:
    with pytest.raises(RagLabError, match="'rerank' cannot lose evidence"):
        lost_at({"rerank": np.array([True])}, np.array([True]))


def test_no_question_with_evidence() -> None:
    lost, _ = funnel(Evidence.of([question()]), COLLECTION, Passed())
    assert lost.tolist() == [""]
    assert [row.share for row in shares(lost)] == [0] * 8


@given(st.lists(st.lists(st.booleans(), min_size=8, max_size=8), min_size=1, max_size=30))
@settings(max_examples=80, deadline=None)
def test_shares_partition_the_questions_with_evidence(table: list[list[bool]]) -> None:
    columns = np.array(table).T
    lost = lost_at(dict(zip(STAGES[:-1], columns[:7], strict=True)), columns[7])
    rows = shares(lost)
    assert sum(row.lost for row in rows) == columns[7].sum()
    assert sum(row.share for row in rows) == pytest.approx(float(columns[7].any()), abs=1e-12)
    for i, name in enumerate(lost.tolist()):
        expected = next((s for s, kept in zip(STAGES, columns[:7, i], strict=False) if not kept), "answered")
        assert name == (expected if columns[7, i] else "")
