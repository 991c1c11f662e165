"""The conversation before a question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rag_lab import datasets
from rag_lab.contracts import RagLabError


def load(written: Callable[..., Path], **fields: Any) -> datasets.Dataset:
    queries = [{"_id": "q1", "text": "When did he die?", **fields}, {"_id": "q2", "text": "second?"}]
    return datasets.load(str(written(queries=queries, judgments={"test": (("q1", "d1", 1), ("q2", "d2", 1))})))


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (["Who is Ann?", "Ann is a poet."], ("Who is Ann?", "Ann is a poet.")),
        ([{"role": "user", "content": "Who is Ann?"}, {"text": "A poet."}], ("Who is Ann?", "A poet.")),
        (["谁是安？", " ", "a\0b"], ("谁是安？", "ab")),
        ([], ()),
        (None, ()),
    ],
)
def test_turns_are_texts_or_records_of_one(
    written: Callable[..., Path], history: Any, expected: tuple[str, ...]
) -> None:
    first, second = load(written, history=history).questions
    assert first.history == expected
    assert second.history == ()


def test_the_history_may_stand_in_the_metadata(written: Callable[..., Path]) -> None:
    assert load(written, metadata={"history": ["Who is Ann?"]}).questions[0].history == ("Who is Ann?",)


@pytest.mark.parametrize("history", ["Who is Ann?", {"content": "x"}, [7], [{"role": "user"}], [None], 7])
def test_what_is_no_list_of_texts_is_an_error(written: Callable[..., Path], history: Any) -> None:
    with pytest.raises(RagLabError, match=r"question 'q1', field history: .* is not a list of texts, the oldest first"):
        load(written, history=history)


def test_another_history_is_another_dataset(written: Callable[..., Path], tmp_path: Path) -> None:
    queries = [{"_id": "q1", "text": "When did he die?", "history": [turn]} for turn in ("Who is Ann?", "Who is Bob?")]
    found = [
        datasets.load(str(written(name=f"n{i}", queries=[query], judgments={"test": (("q1", "d1", 1),)})))
        for i, query in enumerate(queries)
    ]
    assert found[0].fingerprint != found[1].fingerprint
