"""Prompts are joined from their parts and hold data byte for byte."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Passage, Request
from rag_lab.generation.abstention import detect
from rag_lab.generation.prompts import ABSTENTION, PROMPT_VERSION, block, build, header, language

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
    assert header(one, "en") == "[2] Travel policy (version 3, valid from 2026-09-10, valid before 2027-01-01)"
    assert header(one, "zh") == "[2] Travel policy (版本 3, 有效期自 2026-09-10, 在此之前有效：2027-01-01)"
    assert header(Passage(1, 0, "c", "d", "", "", "", "t", (0, 1), ""), "en") == "[1]"


def test_an_instant_that_is_no_midnight_of_utc_has_its_time_and_zone() -> None:
    midnight_in_shanghai = datetime(2026, 9, 15, tzinfo=timezone(timedelta(hours=8)))
    one = replace(passage("t"), source_version="1", valid_from=midnight_in_shanghai)
    assert header(one, "en") == "[1] Setup (valid from 2026-09-14 16:00 UTC)"
    noon = replace(request("Who?"), time=datetime(2026, 9, 10, 12, 30, 59, tzinfo=UTC))
    assert "The question is asked on 2026-09-10 12:30 UTC\n" in build(noon, [one]).user


@pytest.mark.parametrize(
    ("precedence", "en", "zh"),
    [
        (0, "", ""),
        (1, " (copy)", " (副本)"),
        (2, " (global)", " (通用)"),
        (4, " (article)", " (文章)"),
        (8, " (retired)", " (已废止)"),
        (15, " (retired, article, global, copy)", " (已废止, 文章, 通用, 副本)"),
    ],
)
def test_header_shows_a_standing_that_is_not_the_highest(precedence: int, en: str, zh: str) -> None:
    one = Passage(1, 0, "c", "d", "1", "", "Guide", "t", (0, 1), "", precedence=precedence)
    assert (header(one, "en"), header(one, "zh")) == ("[1] Guide" + en, "[1] Guide" + zh)


def test_header_says_what_is_not_in_force() -> None:
    one = replace(passage("t"), source_version="1", precedence=4, coming=True)
    assert header(one, "en") == "[1] Setup (article, not in force until 2026-09-10)"
    assert header(one, "zh") == "[1] Setup (文章, 在此之前不生效：2026-09-10)"
    dateless = replace(one, valid_from=None, precedence=0)
    assert (header(dateless, "en"), header(dateless, "zh")) == (
        "[1] Setup (not in force yet)",
        "[1] Setup (尚未生效)",
    )
    assert "asked on 2026-09-10" in build(request("Who?"), [dateless]).user


def test_the_header_of_a_cut_table_stands_above_its_rows() -> None:
    one = Passage(1, 0, "c", "d", "1", "", "", "| Paris | 140 |", (40, 55), "", lead="| City | Rate |\n|---|---|\n")
    assert block(one, "en") == "[1]\n| City | Rate |\n|---|---|\n| Paris | 140 |"
    assert block(replace(one, lead=""), "en") == "[1]\n| Paris | 140 |"


def test_the_rule_of_precedence_is_told_where_passages_could_disagree() -> None:
    one, two = passage("a"), passage("b", 2)
    rule = "If passages disagree, the one not marked retired prevails, then the one not marked article, then global, "
    assert rule in build(request("Who?"), [one, two]).system
    assert "if they are equal, say that they disagree" in build(request("Who?"), [one, two]).system
    assert "disagree" not in build(request("Who?"), [one]).system
    chinese = build(request("每天补贴多少？"), [one, two]).system
    assert "依次以没有标“已废止”“文章”“通用”“副本”的为准；如果相同，请说明它们互相矛盾。" in chinese
    coming = build(request("Who?"), [replace(one, coming=True)]).system
    assert "What is not in force yet is not the answer." in coming
    assert coming.endswith(ABSTENTION["en"])
    assert "尚未生效的内容不是答案。" in build(request("每天补贴多少？"), [replace(one, coming=True)]).system


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
