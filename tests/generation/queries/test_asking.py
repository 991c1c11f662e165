from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.generation.queries.asking import instructions, put_question, read_lines, read_passage, read_text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("first\nsecond", ["first", "second"]),
        ("1. first\n2) second\n(3) third\n- fourth\n• fifth", ["first", "second", "third", "fourth", "fifth"]),
        ("1、第一\n2：第二", ["第一", "第二"]),
        ("Here are the queries:\n\n1. \"first\"\n2. 'second'", ["first", "second"]),
        ("Question: Who is it?", ["Who is it?"]),
        ("问题：他是谁？", ["他是谁？"]),
        ("“第一个”\n「第二个」", ["第一个", "第二个"]),
        ('["first", "second"]', ["first", "second"]),
        ('```json\n["first", "second"]\n```', ["first", "second"]),
        ('{"questions": ["first", {"question": "second", "id": 2}]}', ["first", "second"]),
        ('[{"query": "first"}, {"text": "second"}, 3, null]', ["first", "second"]),
        ('{"a": {"b": "deep"}}', ["deep"]),
        ("[]", []),
        ("{}", []),
        ("", []),
        (" \n\n ", []),
        ('["first", "sec', None),
        ("{question: first}", None),
        ("[" * 100_000, None),
        ("[1] first\n[2] second", ["[1] first", "[2] second"]),
        ('"one" or "two"', ['"one" or "two"']),
        ("12 Monkeys", ["12 Monkeys"]),
        ("2024年有什么？", ["2024年有什么？"]),
    ],
)
def test_lists_are_read_however_they_are_written(written: str, expected: list[str] | None) -> None:
    assert read_lines(written) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("Rewritten question: When did Ann Lee die?\nI hope it helps.", "When did Ann Lee die?"),
        ('{"question": "When?"}', "When?"),
        ("", ""),
        ("{", None),
    ],
)
def test_the_one_text_that_was_asked_for(written: str, expected: str | None) -> None:
    assert read_text(written) == expected


def test_a_passage_is_one_line() -> None:
    assert read_passage("Passage: It rains.\n\nIt  snows.") == "It rains. It snows."
    assert read_passage("```\n1. It rains.\n```") == "1. It rains."
    assert read_passage(" \n") == ""


@settings(deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), max_size=6))
def test_a_json_list_is_read_whatever_it_holds(texts: list[str]) -> None:
    expected = [" ".join(text.split()) for text in texts]
    found = read_lines(json.dumps(texts))
    assert found is not None
    assert len(found) <= len(expected)
    assert all(any(one in whole for whole in expected) for one in found)


@settings(deadline=None)
@given(st.text(max_size=80))
def test_reading_never_fails(written: str) -> None:
    found = read_lines(written)
    assert found is None or all(one.strip() == one and one for one in found)
    assert "\n" not in read_passage(written)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_instructions_say_how_many(language: str) -> None:
    assert "7" in instructions("multi_query", language, 7)
    assert "{n}" not in instructions("decompose", language, 4)
    assert instructions("hyde", language) != instructions("step_back", language)


def test_braces_arrive_as_they_are() -> None:
    assert put_question("What does {n} mean? {0} %s", "en") == "Question: What does {n} mean? {0} %s"
    assert put_question("他呢？", "zh", ["谁是{甲}？\n第二行"]) == "对话：\n- 谁是{甲}？ 第二行\n\n最后一个问题：他呢？"
