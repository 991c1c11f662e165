from __future__ import annotations

import pytest

from rag_lab.generation.queries.glossary import translate

ZH_EN = {"年假": "annual leave", "年": "year", "天": "days", "员工手册": "staff handbook"}
EN_ZH = {"Annual Leave": "年假", "leave": "假", "staff": "员工"}


@pytest.mark.parametrize(
    ("text", "glossary", "expected"),
    [
        ("年假有多少天？", ZH_EN, "annual leave days"),
        ("2024年3月的年假，HR-204怎么说？", ZH_EN, "2024年3月 annual leave HR-204"),
        ("《员工手册》里的年假和员工手册", ZH_EN, "《员工手册》 annual leave staff handbook"),
        ("《边城》里的年假", ZH_EN, "《边城》 annual leave"),
        ("Apple的年假有１０天", ZH_EN, "Apple annual leave 10 days"),
        ("年假有１０元和10%", ZH_EN, "annual leave 10元 10%"),
        ("什么都没有", ZH_EN, ""),
        ("How much annual leave do staff at Apple get in May 2021?", EN_ZH, "年假 员工 Apple May 2021"),
        ("sleave and leaves", EN_ZH, ""),
        ("ANNUAL LEAVE", EN_ZH, "年假"),
        ("İ leave", EN_ZH, "假"),
        ("anything", {}, ""),
        ("anything", {" ": "x"}, ""),
        ("", ZH_EN, ""),
    ],
)
def test_terms_are_translated_and_the_rest_is_left_out(text: str, glossary: dict[str, str], expected: str) -> None:
    assert translate([text], glossary) == [expected]
