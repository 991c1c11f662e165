"""Prompts are joined from their parts and hold data byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Passage, Request
from rag_lab.generation.abstention import detect
from rag_lab.generation.prompts import ABSTENTION, PROMPT_VERSION, build, header, language

NOW = datetime(2026, 9, 10, tzinfo=UTC)
BRACES = 'Set {"retries": 3} and use ${HOME}/{user}. 100% {0} {{x}} {% raw %}'


def request(query: str, code: str = "") -> Request:
    return Request("q", query, None, "t", NOW, language=code)


def passage(text: str, number: int = 1, title: str = "Setup") -> Passage:
    return Passage(number, 0, "d#0", "d", "3", "", title, text, (0, len(text)), "en", valid_from=NOW)


def test_s15_braces_in_passage_and_question_stay() -> None:
    prompt = build(request("What does {context} mean?"), [passage(BRACES)])
    assert prompt.user.count(BRACES) == 1
    assert "Question: What does {context} mean?" in prompt.user


@given(st.text(max_size=50), st.text(max_size=50))
def test_s15_any_text_stays(text: str, query: str) -> None:
    prompt = build(request(query, "en"), [passage(text)])
    assert "(version 3, valid from 2026-09-10)\n" + text in prompt.user
    assert prompt.user.endswith("Question: " + query)
    assert prompt.system == build(request("x", "en"), []).system


def test_language_follows_the_question() -> None:
    assert language(request("每天补贴多少？")) == "zh"
    assert language(request("每天补贴多少？", "en")) == "en"
    assert ABSTENTION["zh"] in build(request("每天补贴多少？"), []).system
    assert ABSTENTION["en"] in build(request("How much?"), []).system


def test_header_names_number_title_version_and_validity() -> None:
    one = Passage(2, 0, "c", "d", "3", "", "Travel\npolicy", "t", (0, 1), "en", NOW, datetime(2027, 1, 1, tzinfo=UTC))
    assert header(one, "en") == "[2] Travel policy (version 3, valid from 2026-09-10, valid until 2027-01-01)"
    assert header(one, "zh") == "[2] Travel policy (版本 3, 有效期自 2026-09-10, 有效期至 2027-01-01)"
    assert header(Passage(1, 0, "c", "d", "", "", "", "t", (0, 1), ""), "en") == "[1]"


def test_the_date_is_told_where_validity_depends_on_it() -> None:
    timeless = Passage(1, 0, "c", "d", "1", "", "", "t", (0, 1), "")
    assert "2026-09-10" not in build(request("Who?"), [timeless]).user
    assert "asked on 2026-09-10" in build(request("Who?"), [timeless, passage("t", 2)]).user


def test_from_memory_there_are_no_passages() -> None:
    prompt = build(request("Who?"), [], closed_book=True)
    assert "assages" not in prompt.system + prompt.user


def test_the_detector_knows_the_sentence_that_models_are_asked_to_say() -> None:
    assert {detect(sentence) for sentence in ABSTENTION.values()} == {"abstained"}
    assert len(PROMPT_VERSION) == 12
