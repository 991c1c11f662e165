"""How many steps a question is taken to need, and a classifier in place of the rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.generation.adaptive.classifier import FEWEST, fit, probability
from rag_lab.generation.adaptive.complexity import FEATURES, classified, estimate, measure, nothing_to_look_for
from rag_lab.generation.adaptive.names import names
from rag_lab.generation.queries.decomposition import decompose


def levels(*questions: str, language: str = "") -> list[str]:
    parts = decompose(questions, [language] * len(questions))
    features = measure(questions, [language] * len(questions), [len(found) for found in parts])
    return [one.level for one in estimate(questions, features)]


@pytest.mark.parametrize(
    "question",
    [
        "When was the harbour built?",
        "What is the notice period?",
        "Who wrote Emma?",
        "How many days of leave do employees get?",
        "年假有多少天？",
        "谁写了《红楼梦》？",
    ],
)
def test_one_thing_that_is_asked_of_one_thing_takes_one_step(question: str) -> None:
    assert levels(question) == ["one"]


@pytest.mark.parametrize(
    "question",
    [
        "Where was the director of Harbour Light born?",  # a description in place of a name
        "Are Kon Kan and Badly Drawn Boy from the same country?",  # compared
        "Which is older, Delft or Graz?",
        "What is the capital of the country in which the author of Emma was born?",
        "Which player, who was born in Graz, scored in the final that Delft lost?",
        "《红楼梦》和《西游记》的作者是同一个人吗？",
        "《红楼梦》的作者出生在哪里？",
    ],
)
def test_what_has_parts_compares_or_describes_takes_several(question: str) -> None:
    assert levels(question) == ["several"]


@pytest.mark.parametrize(
    "question", ["Hello!", "thanks", "What is 17 * 3?", "2+2=", "你好", "请计算 12 × 4", "Who are you?", "?", ""]
)
def test_greetings_and_sums_need_nothing(question: str) -> None:
    assert nothing_to_look_for(question)
    assert levels(question) == ["none"]


@pytest.mark.parametrize("question", ["Hello Kitty", "What is 42?", "2024", "What is an axle?", "thanks to whom"])
def test_what_names_something_is_no_greeting_and_no_sum(question: str) -> None:
    assert (nothing_to_look_for(question)) is (question in ("What is 42?", "2024", "thanks to whom"))


def test_features_are_counted() -> None:
    question = "Which film, directed by Pim de Vries, is longer than “Quiet Canal” of the year of the flood?"
    assert dict(zip(FEATURES, measure([question], ["en"], [2])[0].tolist(), strict=True)) == {
        "parts": 2,
        "names": 2,
        "compared": 1,
        "described": 1,
        "nested": 1,
        "terms": 10,
    }


def test_the_score_is_the_number_of_signs() -> None:
    questions = ["What is a pump?", "Which pump that Otto Brandt built runs in Graz?"]
    ones = estimate(questions, measure(questions, ["en", "en"], [0, 0]))
    assert [one.score for one in ones] == [0, 2]
    assert [one.level for one in ones] == ["one", "several"]
    assert not any(one.compares for one in ones)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Did Sir Matt Busby manage Manchester United?", ("Sir Matt Busby", "Manchester United")),
        ("Is “the end” by Kon Kan and Badly Drawn Boy?", ("the end", "Kon Kan", "Badly Drawn Boy")),
        ("Which of François Coli's planes flew?", ("François Coli",)),
        ("The University of Graz, Delft and the Bay of Biscay", ("University of Graz", "Delft", "Bay of Biscay")),
        ("In 1964 the Armstrong 500 took place. Pumps broke.", ("Armstrong 500", "Pumps")),
        ("《红楼梦》和「西游记」", ("红楼梦", "西游记")),
        ("J. R. Smith lives in St. Louis.", ("J. R. Smith", "St. Louis")),
        ("what is a pump", ()),
        ("", ()),
    ],
)
def test_names(text: str, expected: tuple[str, ...]) -> None:
    assert names(text) == expected


@given(st.text(max_size=80))
def test_any_text_can_be_measured(text: str) -> None:
    features = measure([text], [""], [0])
    assert (features >= 0).all()
    assert estimate([text], features)[0].level in ("none", "one", "several")


def separable(n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    several = np.arange(n) % 2 == 0
    features = np.zeros((n, len(FEATURES)))
    features[:, 3] = np.where(several, 2, 0)
    features[:, 5] = np.arange(n) % 5
    return features, several


def test_a_classifier_learns_what_tells_them_apart() -> None:
    features, several = separable()
    weights = fit(features, several)
    p = probability(features, weights)
    assert ((p >= 0.5) == several).all()
    # A feature that never changes has no weight, and the two that do not matter have little.
    assert (weights[1], weights[2], weights[3], weights[5]) == (0, 0, 0, 0)
    assert weights[4] > 1 > abs(weights[6])
    # At the maximum the gradient is 0: the residuals balance the weights of the standardised features.
    spread = features.std(axis=0)
    table = (features[:, 3] - features[:, 3].mean()) / spread[3]
    assert table @ (several - p) == pytest.approx(weights[4] * spread[3], abs=1e-4)
    assert (several - p).sum() == pytest.approx(0, abs=1e-4)


def test_a_greeting_stays_one_whatever_was_learned() -> None:
    questions = ["Hello!", "What is a pump?"]
    found = classified(questions, measure(questions, ["", ""], [0, 0]), np.array([0.9, 0.9]))
    assert [(one.level, one.score) for one in found] == [("none", 0.9), ("several", 0.9)]


def test_too_few_of_one_kind_teach_nothing() -> None:
    features, several = separable(2 * FEWEST - 1)
    with pytest.raises(RagLabError, match=rf"enough for {FEWEST - 1} questions and not for {FEWEST}"):
        fit(features, several)
