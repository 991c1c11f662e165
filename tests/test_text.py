from __future__ import annotations

import pytest

from rag_lab.text import abbreviation, trim


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("  ab c \n", (0, 8), (2, 6)),
        ("  ab c \n", (3, 4), (3, 4)),
        ("a  b", (1, 3), None),
        ("", (0, 0), None),
        ("\u3000中\xa0", (0, 3), (1, 2)),
    ],
)
def test_trim(text: str, span: tuple[int, int], expected: tuple[int, int] | None) -> None:
    assert trim(text, span) == expected


@pytest.mark.parametrize(
    ("before", "found"),
    [("Dr", True), ("see Fig", True), ("(e.g", True), ("the U.S", True), ("J", True), ("config", False)],
)
def test_abbreviations_before_a_full_stop(before: str, found: bool) -> None:
    assert bool(abbreviation().search(before)) is found


def test_more_abbreviations() -> None:
    assert abbreviation("Inc|Ltd", r"a\.m").search("at 9 a.m")
    assert abbreviation("Inc").search("Example Inc")
    assert not abbreviation("Inc").search("zinc")
