"""Normalisation, EM, F1 and containment, in English and Chinese."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import Abstention, Answer, Claim, Failure, Question, RagLabError, Reason
from rag_lab.metrics import Observation, evaluate
from rag_lab.metrics.answers import answer_text, check_answers, contains, exact_match, f1, tokens

words = st.text(st.sampled_from("ab c the 北京。,.$%+-5１２ '‘（）\u00e9\u0301"), max_size=12)


@pytest.mark.parametrize(
    "gold, answer, overlap, exact",
    [
        ("北京大学", "北京的大学。", 0.8889, 0),
        ("北京大学", "，北京大学。", 1, 1),
        ("2024年3月", "２０２４年３月", 1, 1),
        ("巴黎", "巴黎巴黎巴黎", 0.5, 0),
        ("Lima", "Lima Lima Lima", 0.5, 0),
    ],
)
def test_s19_units_and_multisets(gold: str, answer: str, overlap: float, exact: float) -> None:
    assert round(f1(answer, [gold]), 4) == overlap
    assert exact_match(answer, [gold]) == exact


@pytest.mark.parametrize(
    "one, other",
    [
        ("C++", "c"),
        ("C#", "C"),
        ("$5", "5"),
        ("€5", "$5"),
        ("-5", "5"),
        ("<5", ">5"),
        ("50%", "50"),
        ("5 ‰", "5%"),
        ("3.14", "314"),
        ("1,5", "15"),
        ("10²", "102"),
        ("3½", "31/2"),
        ("10:30", "1030"),
        ("the", "a"),
    ],
)
def test_signs_that_change_the_meaning_stay(one: str, other: str) -> None:
    assert exact_match(one, [other]) == 0
    assert not contains(one, [other])
    assert not contains(other, [one])


@pytest.mark.parametrize(
    "one, other",
    [
        ("The Eiffel Tower.", "eiffel tower"),
        ("U.S.", "US"),
        ("co-founder", "cofounder"),
        ("1,000", "1000"),
        ("１，０００", "1000"),
        ("1,234,567.89", "1234567.89"),
        ("50 %", "５０％"),
        ("$ 5", "$5"),
        ("−5", "-5"),
        ("don’t", "don't"),
        ("1990–1995", "1990-1995"),
        ("Caf\u00e9", "cafe\u0301"),
        ("STRASSE", "straße"),
        ("《三体》", "“三体”"),
        ("x²", "x2"),
        ("\u200bLima\ufeff", "lima"),
    ],
)
def test_writings_of_the_same_answer(one: str, other: str) -> None:
    assert exact_match(one, [other]) == 1


@pytest.mark.parametrize(
    "answer, gold, held",
    [
        ("I do not know", "no", False),
        ("No.", "no", True),
        ("in 2011", "1", False),
        ("在2011年", "1", False),
        ("在2011年", "2011", True),
        ("共112人", "12人", False),
        ("共12人。", "12人", True),
        ("北京大学", "北京", True),
        ("他在北京。", "南京", False),
        ("The Paris-based firm", "Paris", True),
        ("London/Paris", "paris", True),
        ("Before Rollo's arrival", "Rollo", True),
        ("It was $38,000, with fees", "$38,000", True),
        ("He flew to the New York office", "New York", True),
        ("York is not new", "New York", False),
        ("There is a reason", "A", False),
        ("A", "A", True),
        ("item 1", "A-1", False),
        ("", "x", False),
        ("anything", "...", False),
    ],
)
def test_containment_at_token_boundaries(answer: str, gold: str, held: bool) -> None:
    assert contains(answer, [gold]) is held


def test_articles_go_only_when_something_is_left() -> None:
    assert tokens("The The") == ("the", "the")
    assert tokens("A") == ("a",)
    assert tokens("an apple") == ("apple",)


def test_f1_by_hand_and_best_gold() -> None:
    """Tokens of the answer: lima, peru; of the golds: lima, city, of, peru / quito."""
    assert f1("Lima, Peru", ["Lima, city of Peru", "Quito"]) == pytest.approx(2 * 2 / (2 + 4))
    assert f1("", ["Lima"]) == 0
    assert f1("Lima", []) == 0
    assert exact_match("", [""]) == 0


def test_gold_without_content_is_an_error_that_names_the_question() -> None:
    with pytest.raises(RagLabError, match="question 'q7': reference answer '。。。' has no letter"):
        check_answers([Question("q1", "?", answers=("A",)), Question("q7", "?", answers=("。。。", ""))])


def test_gold_without_content_beside_others_matches_nothing() -> None:
    questions = [Question("q1", "?", answers=("Lima", "."))]
    assert check_answers(questions) == 1
    found = evaluate(["EM", "F1", "Correct"], Observation(questions, outcomes=[Answer("q1", ".", ())]))
    assert [scores.value for scores in found.values()] == [0, 0, 0]
    assert found["EM"].notes == ("1 reference answers hold nothing to compare and match nothing",)


@given(words, st.lists(words, max_size=3))
@settings(max_examples=300, deadline=None)
def test_exact_match_never_exceeds_f1(answer: str, golds: list[str]) -> None:
    assert 0 <= exact_match(answer, golds) <= f1(answer, golds) <= 1
    assert f1(answer, golds) == f1(answer, list(reversed(golds)))
    if exact_match(answer, golds):
        assert contains(answer, golds)


@given(st.text(max_size=30))
@settings(max_examples=200, deadline=None)
def test_any_text_equals_itself(text: str) -> None:
    expected = 1.0 if tokens(text) else 0.0
    assert exact_match(text, [text]) == f1(text, [text]) == float(contains(text, [text])) == expected


def test_upcoming_claims_are_not_the_answer() -> None:
    claims = (Claim("The allowance is 500."), Claim("It will be 600.", kind="upcoming"))
    assert answer_text(Answer("q", "both", claims)) == "The allowance is 500."
    assert answer_text(Answer("q", "No claims here.", ())) == "No claims here."
    assert answer_text(Abstention("q", Reason.INSUFFICIENT, text="500")) == ""


def test_scores_of_outcomes() -> None:
    """Right, abstained, failed, never generated; the unanswerable is left to the abstention figures."""
    questions = [Question(f"q{i}", "?", answers=("Lima",), answerable=True) for i in range(4)]
    questions += [Question("q4", "?", answers=("NOT_ENOUGH_INFO",), answerable=False), Question("q5", "?")]
    outcomes = [
        Answer("q0", "In Lima.", ()),
        Abstention("q1", Reason.INSUFFICIENT),
        Failure("q2", "generate", "boom"),
        None,
        Answer("q4", "x", ()),
        Answer("q5", "x", ()),
    ]
    found = evaluate(["EM", "F1", "Correct"], Observation(questions, outcomes=outcomes))
    assert found["F1"].values.tolist() == pytest.approx([2 / 3, 0, 0, 0, 0, 0])
    assert found["Correct"].value == 1 / 4
    assert found["EM"].value == 0
    assert found["EM"].eligible.tolist() == [True] * 4 + [False] * 2
    assert found["EM"].missing.tolist() == [False, False, True, True, False, False]
    assert found["EM"].notes == ("1 abstentions score 0",)
