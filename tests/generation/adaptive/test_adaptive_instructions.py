"""What is read out of a model's reply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.generation.adaptive.instructions import reply, told, with_passages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"relevant": true}', {"relevant": True}),
        ('Sure! {"query": "a {b}"} Anything else?', {"query": "a {b}"}),
        ('```json\n{"parts": ["a", "b"]}\n```', {"parts": ["a", "b"]}),
        ('{broken {"steps": "one"}', {"steps": "one"}),
        ('{"steps": "one"', None),
        ("[1, 2]", None),
        ("no JSON", None),
        ("", None),
        ("{" * 5000, None),
    ],
)
def test_the_first_object_counts(text: str, expected: Any) -> None:
    assert reply(text) == expected


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ('{"x": true}', bool, True),
        ('{"x": "yes"}', bool, None),
        ('{"x": true}', int, None),
        ('{"x": 3}', int, 3),
        ('{"x": null}', str, None),
        ("{}", str, None),
        ("x", str, None),
    ],
)
def test_a_field_of_another_kind_is_none(text: str, kind: type, expected: Any) -> None:
    assert told(text, "x", kind) is expected


@given(st.text(max_size=60))
def test_any_reply_can_be_read(text: str) -> None:
    assert reply(text) is None or isinstance(reply(text), dict)


def test_passages_are_cut_and_joined_as_they_are() -> None:
    assert with_passages("{q}?", ["a\n %s b", "0123456789"], 6) == "Passages:\n[1] a %s b\n[2] 012345\n\nQuestion: {q}?"
