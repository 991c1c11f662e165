from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.generation.queries.guard import added, guard
from rag_lab.generation.queries.rewriting import rewrite

APPLE = ["Who founded Apple?", "Steve Jobs founded Apple in 1976."]


@pytest.mark.parametrize(
    ("text", "history", "expected"),
    [
        ("When did he die?", APPLE, "When did Steve Jobs die?"),
        ("When was it founded?", APPLE, "When was Apple founded?"),
        ("What is his birthplace?", APPLE, "What is Steve Jobs's birthplace?"),
        ("Where is its headquarters?", ["Who runs Apple?"], "Where is Apple's headquarters?"),
        ("Who runs that company?", ["Where is Apple?"], "Who runs Apple?"),
        ("Is it open on Sunday?", ['Where is the "Blue House"?'], "Is Blue House open on Sunday?"),
        ("And in 2023?", ["How many people did Apple have in 2022?"], "How many people did Apple have in 2023?"),
        ("What about 2023?", ["How many people did Apple have in 2022?"], "How many people did Apple have in 2023?"),
        ("And in Germany?", ["How many shops has Apple in Ireland?"], "How many shops has Apple in Germany?"),
        ("What about Germany?", ["What is the capital of France?"], "What is the capital of Germany?"),
        ("What about Germany?", ["Has Apple shops in Ireland?"], "Has Apple shops in Ireland? Germany"),
        ("What about managers?", ["How much leave do we get?"], "How much leave do we get? managers"),
        ("And for managers?", ["How much leave do we get?"], "How much leave do we get? for managers"),
        ("Why?", ["Is smoking allowed at Apple?", "No."], "Why? Is smoking allowed at Apple?"),
        ("Is it true that water boils at 100 °C?", APPLE, "Is it true that water boils at 100 °C?"),
        ("When did Microsoft say that it would pay?", APPLE, "When did Microsoft say that it would pay?"),
        ('Who said "he is late"?', APPLE, 'Who said "he is late"?'),
        ("How do I apply for leave?", ["hello"], "How do I apply for leave?"),
        ("When did he die?", [], "When did he die?"),
        ("When did he die?", ["ok"], "When did he die?"),
        ("那2023年呢？", ["苹果公司2022年有多少员工？"], "苹果公司2023年有多少员工?"),
        ("那德国呢？", ["法国的首都是哪里？"], "德国的首都是哪里？"),
        ("他出生在哪里？", ["《红楼梦》的作者是谁？", "曹雪芹。"], "曹雪芹出生在哪里？"),
        ("它有多少员工？", ["苹果公司是什么时候成立的？"], "苹果公司有多少员工？"),
        ("其总部在哪里？", ["华为是谁创办的？"], "华为的总部在哪里？"),
        ("该公司有多少员工？", ["华为是谁创办的？"], "华为有多少员工？"),
        ("为什么？", ["年假可以累计吗？"], "为什么？ 年假可以累计吗？"),
        ("其他规定是什么？", ["华为是谁创办的？"], "其他规定是什么？"),
        ("他喜欢什么？", [], "他喜欢什么？"),
    ],
)
def test_a_question_that_stands_alone(text: str, history: list[str], expected: str) -> None:
    assert rewrite([text], [history], [""]) == [expected]


def test_each_question_has_its_own_history_and_language() -> None:
    found = rewrite(["When did he die?", "它有多少员工？"], [["Who is Ann Lee?"], ["苹果公司在哪里？"]], ["en", "zh"])
    assert found == ["When did Ann Lee die?", "苹果公司有多少员工？"]


WORDS = [
    *["he", "it", "And", "in", "what", "about", "2023", "Apple", "?", "why", "Ann", "Lee", "is", "that", "company"],
    *["他", "那", "呢", "？", "2022年", "苹果公司", "的", "是", "《甲》", "其", '"x y"', "HR-204"],
]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), max_size=3),
    st.sampled_from(["en", "zh"]),
)
def test_nothing_is_lost_or_made_up(text: str, history: list[str], language: str) -> None:
    found = rewrite([text], [history], [language])[0]
    assert added(found, [text, *history]) == []
    assert history or found == text
    assert guard(text, found) == []
