from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.generation.queries.guard import added
from rag_lab.generation.queries.variations import step_back, variations
from rag_lab.generation.terms import terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is the capital of France?", ["capital France", "the capital of France", "France"]),
        (
            "How many employees did Apple have in 2022?",
            ["employees Apple 2022", "employees Apple have in 2022", "Apple"],
        ),
        (
            'Who wrote "War and Peace" and when?',
            ["wrote War Peace", "War and Peace"],
        ),
        ("Does zinc improve immune function?", ["zinc improve immune function"]),
        ("zinc improves immune function", []),
        ("what is it", []),
        ("请问《红楼梦》的作者出生在哪一年？", ["《红楼梦》 作者出生", "《红楼梦》的作者出生", "红楼梦"]),
        ("年假有多少天？", ["年假 天", "年假天"]),
        ("", []),
    ],
)
def test_other_wordings_in_a_fixed_order(text: str, expected: list[str]) -> None:
    assert variations([text], [""], 3) == [expected]


def test_no_more_than_are_wanted() -> None:
    assert variations(["What is the capital of France?", "it?"], ["", ""], 1) == [["capital France"], []]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How many employees did Apple have in 2022?", "employees Apple have"),
        ("What is the maximum dose of aspirin for children under 12?", "maximum dose of aspirin"),
        (
            "When did Marie Curie win her second Nobel Prize in chemistry?",
            "Marie Curie win her second Nobel Prize",
        ),
        (
            "For how long was the Eiffel Tower the tallest building, by 1930, in Paris?",
            "Eiffel Tower the tallest building",
        ),
        ("What is the capital of France?", ""),
        ("how do I apply for leave", ""),
        ("《红楼梦》的作者出生在哪一年？", "《红楼梦》的作者出生"),
        ("年假有多少天？", ""),
        ("", ""),
    ],
)
def test_a_more_general_query(text: str, expected: str) -> None:
    assert step_back([text], [""]) == [expected]


WORDS = [
    *[
        "what",
        "is",
        "the",
        "capital",
        "of",
        "France",
        "in",
        "2022",
        "who",
        "did",
        "Apple",
        "and",
        "?",
        ",",
        "I",
        '"x y"',
    ],
    *["请问", "《甲》", "的", "作者", "是", "谁", "？", "有", "多少", "2024年"],
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), st.integers(1, 4), st.sampled_from(["", "en", "zh"])
)
def test_wordings_are_distinct_and_state_nothing_new(text: str, most: int, language: str) -> None:
    found = variations([text], [language], most)[0]
    assert len(found) <= most
    assert len({wording.casefold() for wording in [*found, text]}) == len(found) + 1
    for wording in [*found, *filter(None, step_back([text], [language]))]:
        assert terms(wording)
        assert added(wording, [text]) == []


@settings(deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_a_more_general_query_has_fewer_terms(text: str) -> None:
    found = step_back([text], [""])[0]
    assert not found or set(terms(found)) < set(terms(text))
