from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.generation.queries.facts import facts
from rag_lab.generation.queries.guard import added, guard

PIECES = [
    *"ab Z19.,:-/'\"“”「」《》%$年月日第三十百万个２é\n#_",
    "May ",
    "2024",
    "HR-",
    "v2.1",
    "two ",
    " million",
    "last year",
]
MIXED = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on 2024-03-01", [("date", ("2024", "3", "1"))]),
        ("on 3 May 2021", [("date", ("2021", "5", "3"))]),
        ("on May 3rd, 2021", [("date", ("2021", "5", "3"))]),
        ("in May 2021", [("date", ("2021", "5", ""))]),
        ("in 2024-03", [("date", ("2024", "3", ""))]),
        ("２０２４年３月", [("date", ("2024", "3", ""))]),
        ("2024年3月5日", [("date", ("2024", "3", "5"))]),
        ("二〇二四年三月五日", [("date", ("2024", "3", "5"))]),
        ("since last year", [("date", ("last year",))]),
        ("去年的预算", [("date", ("last year",))]),
        ("from 2010–2015", [("number", ("2010", "")), ("number", ("2015", ""))]),
        ("at 9:00 am", [("number", ("9:00", "am"))]),
        ("a dose of 500mg", [("number", ("500", "mg"))]),
        ("a dose of 500 milligrams", [("number", ("500", "mg"))]),
        ("at −5 °C", [("number", ("-5", "°C"))]),
        ("3.5 percent", [("number", ("3.5", "%"))]),
        ("百分之五", [("number", ("5", "%"))]),
        ("1,250,000 people", [("number", ("1250000", ""))]),
        ("2.5 million people", [("number", ("2500000", ""))]),
        ("三亿五千万人", [("number", ("350000000", ""))]),
        ("$10.50", [("number", ("10.50", "USD"))]),
        ("３万元", [("number", ("30000", "CNY"))]),
        ("twenty-one days", [("number", ("21", "day"))]),
        ("the first of two", [("number", ("1", "nth")), ("number", ("2", ""))]),
        ("第五回", [("number", ("5", "nth"))]),
        ("in the 1990s", [("number", ("1990s", ""))]),
        ("version v2.1", [("number", ("2.1", ""))]),
        ("2.10.3", [("number", ("2.10.3", ""))]),
        ("policy HR-204", [("identifier", ("hr-204",))]),
        ("GB/T 7714", [("acronym", ("gb/t",)), ("number", ("7714", ""))]),
        ("ISO 9001", [("acronym", ("iso",)), ("number", ("9001", ""))]),
        ("write to hr@example.com。", [("identifier", ("hr@example.com",))]),
        ("联系hr@example.com获取", [("identifier", ("hr@example.com",))]),
        ("see https://a.b/c?d=1.", [("identifier", ("https://a.b/c?d=1",))]),
        ("set max_tokens in config.yaml", [("identifier", ("max_tokens",)), ("identifier", ("config.yaml",))]),
        ("run it with --no-cache", [("identifier", ("--no-cache",))]),
        ("the locale zh-CN", [("identifier", ("zh-cn",))]),
        ("who said “Hello, World.”", [("quote", ("hello, world",))]),
        ("《红楼梦》和「石头记」", [("quote", ("石头记",)), ("quote", ("红楼梦",))]),
        ("isn't it Bob's", []),
        ("'big one' isn't it", [("quote", ("big one",))]),
        ("one of them, in chapter one", []),
        ("三明治和四川", []),
        ("WHO IS IT", []),
        ("", []),
    ],
)
def test_what_a_text_states_exactly(text: str, expected: list[tuple[str, tuple[str, ...]]]) -> None:
    assert [(fact.kind, fact.value) for fact in facts(text)] == expected


@pytest.mark.parametrize(
    ("question", "rewrite", "dropped"),
    [
        ("What changed on 2024-03-01?", "What changed on 1 March 2024?", []),
        ("What changed in March 2024?", "Changes of 2024-03-01", []),
        ("What changed on 2024-03-01?", "Changes in March 2024", ["2024-03-01"]),
        ("What changed on 2024-03-01?", "What changed on 2024-03-02?", ["2024-03-01"]),
        ("2024年3月的预算", "２０２４年３月 预算", []),
        ("2024年3月的预算", "2024年的预算", ["2024年3月"]),
        ("the election of 2016", "the election in 2016年", []),
        ("Who won in 2016?", "Who won on 8 November 2016?", []),
        ("last year's budget", "the budget", ["last year"]),
        ("去年三月的预算", "the budget of March last year", []),
        ("去年的预算", "last year's budget", []),
        ("the previous year", "last year", []),
        ("上周一的会议", "the meeting on Monday last week", []),
        ("周三的会议", "Thursday's meeting", ["周三"]),
        ("500 mg of aspirin", "aspirin 500 milligrams", []),
        ("500 mg of aspirin", "aspirin 500 g", ["500 mg"]),
        ("500 mg of aspirin", "aspirin 500", ["500 mg"]),
        ("500 people", "500 kg", []),
        ("five people", "5 people", []),
        ("五个人", "5个人", []),
        ("1,000 people", "1000 people", []),
        ("Python 3.1", "Python 3.10", ["3.1"]),
        ("v2.1 notes", "version 2.1 notes", []),
        ("v2.1 notes", "v2.10 notes", ["v2.1"]),
        ("What is HR-204?", "hr-204 policy", []),
        ("What is HR-204?", "HR-2041 policy", ["HR-204"]),
        ("What is HR-204?", "HR 204 policy", ["HR-204"]),
        ("mail a@b.org", "mail them", ["a@b.org"]),
        ("Who sang “Let It Be”?", "singer of let it be", []),
        ("Who sang “art”?", "who sang at the party", ["“art”"]),
        ("谁写了《边城》？", "边城的作者", []),
        ("谁写了《边城》？", "小说的作者", ["《边城》"]),
        ("What did NASA say?", "What did it say?", ["NASA"]),
        ("Is it the first or the second?", "Is it the first?", ["2nd"]),
        ("3 of 5, HR-1 and “x y”", "nothing", ["“x y”", "HR-1", "3", "5"]),
        ("no facts at all", "", []),
    ],
)
def test_what_a_rewrite_lost(question: str, rewrite: str, dropped: list[str]) -> None:
    assert guard(question, rewrite) == dropped


@pytest.mark.parametrize(
    ("rewrite", "known", "new"),
    [
        ("budget of 2024", ["the budget of March 2024"], []),
        ("budget of March 2024", ["the budget of 2024"], ["March 2024"]),
        ("HR-204 and HR-205", ["HR-204?", "and HR-205?"], []),
        ("HR-206", ["HR-204?", "and HR-205?"], ["HR-206"]),
        ("the CEO's “pay”", ["salary of the chief executive"], []),
        ("500 mg", ["500 tablets"], ["500 mg"]),
        ("7", [], ["7"]),
    ],
)
def test_what_nobody_said(rewrite: str, known: list[str], new: list[str]) -> None:
    assert added(rewrite, known) == new


@settings(deadline=None)
@given(MIXED)
def test_a_text_keeps_its_own_facts(text: str) -> None:
    assert guard(text, text) == []
    assert guard(text, f"well; {text}\n; so") == []
    assert added(text, [text]) == []


@settings(deadline=None)
@given(MIXED, MIXED)
def test_what_is_lost_is_a_fact_of_the_question(question: str, rewrite: str) -> None:
    dropped = guard(question, rewrite)
    assert set(dropped) <= {fact.text for fact in facts(question)}
    assert guard(question, "") == list(dict.fromkeys(fact.text for fact in facts(question)))
    assert guard(question, f"{rewrite}\n; {question}") == []


def test_compatibility_forms_are_one_form() -> None:
    assert guard("ＨＲ－２０４", "HR-204") == []
    assert guard("HR‑204", "HR-204") == []
    assert re.fullmatch("HR-204", guard("ＨＲ－２０４", "x")[0])
