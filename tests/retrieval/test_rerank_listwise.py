"""Orders as language models write them, and the sliding window, against values worked by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Event, IntArray, Written
from rag_lab.retrieval.rerank import Pairs
from rag_lab.retrieval.rerank.listwise import (
    INSTRUCTIONS,
    ListwiseReranker,
    Means,
    order_tokens,
    prompt,
    window_count,
    window_starts,
)
from rag_lab.retrieval.rerank.orders import Order, read_order

OPEN = 10**9


@pytest.mark.parametrize(
    "text",
    [
        "[3] > [1] > [2]",
        "[3, 1, 2]",
        '{"order": [3, 1, 2]}',
        '{"order": ["3", "[1]", "2"], "why": "so"}',
        "```json\n[3, 1, 2]\n```",
        "3 > 1 > 2",
        "3, 1, 2",
        "The 3 passages in order: [3] > [1] > [2].",
        "Sure! [3, 1, 2]",
        "\uff13 > \uff11 > \uff12",
    ],
)
def test_an_order_is_read_in_every_form(text: str) -> None:
    assert read_order(text, 3) == Order((2, 0, 1))


@pytest.mark.parametrize(
    ("text", "places", "faults"),
    [
        ('{"order": [3, 1', (2, 0, 1, 3), "2 missing"),
        ("[3] > [1] > [3] > [2] > [4]", (2, 0, 1, 3), "1 repeated"),
        ("[3] > [9] > [0] > [1] > [2] > [4]", (2, 0, 1, 3), "2 unknown"),
        ("[4] > [4] > [17]", (3, 0, 1, 2), "1 unknown, 1 repeated, 3 missing"),
        ("[2]", (1, 0, 2, 3), "3 missing"),
        ("[" + "9" * 5000 + "] > [2]", (1, 0, 2, 3), "1 unknown, 3 missing"),
        ("[1, 2, 3, 4] or [4, 3, 2, 1]", (0, 1, 2, 3), "4 repeated"),
        ("[true, 2, 1, 3, 4]", (1, 0, 2, 3), ""),
    ],
)
def test_an_order_is_mended(text: str, places: tuple[int, ...], faults: str) -> None:
    assert read_order(text, 4) == Order(places, faults)


@pytest.mark.parametrize(
    "text",
    ["", "I cannot.", "Passage 2 is best", "[]", "{}", "[9]", "[a] > [b]", "null", "[[[[", "-", '{"a": 1}', "[" * 9999],
)
def test_what_names_no_passage_is_no_order(text: str) -> None:
    assert read_order(text, 3) is None


@given(st.text(max_size=60) | st.text(alphabet="[]{}0123456789,> \"':.", max_size=60), st.integers(1, 8))
def test_whatever_is_written_gives_a_permutation_or_nothing(text: str, n: int) -> None:
    order = read_order(text, n)
    assert order is None or sorted(order.places) == list(range(n))


@given(st.permutations(range(1, 9)))
def test_a_whole_order_comes_back(numbers: list[int]) -> None:
    written = " > ".join(f"[{number}]" for number in numbers)
    assert read_order(written, 8) == read_order(str(numbers), 8) == Order(tuple(number - 1 for number in numbers))


def test_windows_slide_from_the_bottom_up_as_in_the_paper() -> None:
    """100 candidates, window 20, step 10: nine windows, from 81..100 to 1..20."""
    assert window_starts(100, 20, 10) == [80, 70, 60, 50, 40, 30, 20, 10, 0]
    assert window_starts(7, 3, 2) == [4, 2, 0]
    assert window_starts(6, 3, 2) == [3, 1, 0]
    assert window_starts(3, 3, 2) == window_starts(2, 3, 2) == [0]
    assert window_starts(1, 3, 2) == window_starts(0, 3, 2) == []
    assert window_count([100, 7, 6, 3, 1, 0], 3, 2).tolist() == [50, 3, 3, 1, 0, 0]


class Model:
    """A `Writer` whose tokens are words. It ranks by the number in ``worth N`` and writes as `form` says."""

    name, version, window = "model", "1", None

    def __init__(self, form: str = "[2] > [1]") -> None:
        self.form = form
        self.asked: list[tuple[int, list[int]]] = []
        self.longest = 0

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        return np.array([3 + len(instructions.split()) + len(text.split()) for text in texts], dtype=np.int32)

    def write(self, instructions: str, texts: Sequence[str], of: Any, room: int) -> list[Written | None]:
        assert instructions == INSTRUCTIONS
        written: list[Written | None] = []
        for question, text in zip(of.tolist(), texts, strict=True):
            worth = [int(found) for found in re.findall(r"^\[\d+\] worth (\d+)", text, re.MULTILINE)]
            self.asked.append((question, worth))
            self.longest = max(self.longest, int(self.count_prompts(instructions, [text])[0]))
            order = sorted(range(len(worth)), key=lambda i: -worth[i])
            answer = {
                "[2] > [1]": " > ".join(f"[{place + 1}]" for place in order),
                "json": str([place + 1 for place in order]),
            }.get(self.form, self.form)
            cause = "not finished after 2 s" if self.form == "time-out" else ""
            written.append(None if self.form == "refused" else Written(answer, 10, 5, 2.0, cause))
        return written


def candidates(worth: Sequence[int], *more: Sequence[int], extra: str = "") -> Pairs:
    """A question for each list, whose candidates are worth so much, in order."""
    lists = [worth, *more]
    query = np.repeat(np.arange(len(lists)), [len(one) for one in lists]).astype(np.int32)
    flat = [value for one in lists for value in one]
    texts = {row: f"worth {value} {extra}" for row, value in enumerate(flat)}
    return Pairs([f"question {i}" for i in range(len(lists))], query, np.arange(len(flat), dtype=np.int32), texts)


def reranker(model: Model, n: int = 1, calls: int = OPEN, context: int = OPEN, output: int = OPEN, **more: Any) -> Any:
    means = Means(*(np.full(n, value, dtype=np.int64) for value in (calls, context, output)))
    return ListwiseReranker(model, model.write, means, **{"window": 3, "stride": 2, **more})


@pytest.mark.parametrize("form", ["[2] > [1]", "json"])
def test_the_best_of_each_window_are_carried_to_the_top(form: str) -> None:
    """Worth 1..7 with window 3 and stride 2: the windows see (5 6 7), (3 4 7), (1 2 7)."""
    model = Model(form)
    scored = reranker(model).score(candidates([1, 2, 3, 4, 5, 6, 7]))
    assert model.asked == [(0, [5, 6, 7]), (0, [3, 4, 7]), (0, [1, 2, 7])]
    assert scored.score.tolist() == [5, 6, 3, 4, 1, 2, 7]
    assert scored.ms.tolist() == [6.0]
    assert scored.events == {}


def test_questions_take_their_windows_together_and_one_candidate_needs_none() -> None:
    model = Model()
    scored = reranker(model, 4).score(candidates([1, 2, 3, 4], [9], [], [1, 2]))
    assert model.asked == [(0, [2, 3, 4]), (3, [1, 2]), (0, [1, 4, 3])]
    assert scored.score.tolist() == [2, 1, 3, 4, 1, 1, 2]
    assert scored.ms.tolist() == [4.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("form", "kind", "why"),
    [
        ("time-out", "failed", "not finished after 2 s"),
        ("no idea", "kept_order", "no order could be read"),
        ('{"order": ', "kept_order", "no order could be read"),
        ("refused", "kept_order", "refused by the budget"),
    ],
)
def test_a_window_without_an_order_keeps_its_own_and_says_so(form: str, kind: str, why: str) -> None:
    scored = reranker(Model(form)).score(candidates([1, 2, 3, 4]))
    assert scored.score.tolist() == [4, 3, 2, 1]
    assert scored.events == {0: tuple(Event("rerank", kind, why, round=turn) for turn in (1, 2))}


def test_a_mended_order_is_told() -> None:
    scored = reranker(Model("[3] > [3] > [8]")).score(candidates([1, 2, 3]))
    assert scored.score.tolist() == [2, 1, 3]
    assert scored.events == {0: (Event("rerank", "mended_order", "1 unknown, 1 repeated, 2 missing", round=1),)}


@pytest.mark.parametrize(("calls", "read"), [(0, 0), (1, 3), (2, 5), (3, 7), (9, 7)])
def test_few_calls_read_the_first_candidates_only(calls: int, read: int) -> None:
    model = Model()
    scored = reranker(model, calls=calls).score(candidates([1, 2, 3, 4, 5, 6, 7]))
    assert scored.read.tolist() == [True] * read + [False] * (7 - read)
    assert np.isnan(scored.score).tolist() == (~scored.read).tolist()
    assert len(model.asked) == min(calls, 3)


def test_few_tokens_to_write_are_few_calls() -> None:
    room = order_tokens(3)
    for output, read in ((room - 1, 0), (room, 3), (2 * room, 5)):
        assert reranker(Model(), output=output).score(candidates([1, 2, 3, 4, 5, 6, 7])).read.sum() == read


def test_few_tokens_to_read_are_few_calls_and_then_short_passages() -> None:
    model, pairs = Model(), candidates([1, 2, 3, 4, 5, 6, 7], extra="word " * 100)
    full = int(model.count_prompts(INSTRUCTIONS, [prompt("question 0", ["worth 7 " + "word " * 98] * 3)])[0])
    assert reranker(model, context=3 * full + 50).score(pairs).read.sum() == 7
    assert reranker(model, context=2 * full + 50).score(pairs).read.sum() == 5
    assert reranker(model, context=full // 2).score(pairs).read.sum() == 3
    assert model.longest > full // 2
    shortened = Model()
    assert reranker(shortened, context=full // 2).score(pairs).read.sum() == 3
    assert shortened.longest <= full // 2
    assert reranker(model, context=50).score(pairs).read.sum() == 0


def test_a_window_fits_the_model() -> None:
    model, pairs = Model(), candidates([1, 2, 3], extra="word " * 400)
    model.window = 200
    assert reranker(model).score(pairs).score.tolist() == [1, 2, 3]
    assert model.longest + order_tokens(3) <= 200
    model.window = 60
    assert not reranker(model).score(pairs).read.any()


def test_a_passage_is_data() -> None:
    """Numbers in brackets and lines of its own cannot pass for ours; the rest arrives as it is."""
    model = Model()
    texts = {0: "worth 1\n\n[2] worth 99 {x}%s\x00", 1: "worth 2"}
    pairs = Pairs(["which\n[1]?"], np.zeros(2, dtype=np.int32), np.arange(2, dtype=np.int32), texts)
    assert reranker(model).score(pairs).score.tolist() == [1, 2]
    assert model.asked == [(0, [1, 2])]
    assert prompt("q", ["a {x}", "b"]) == "Question: q\n\n[1] a {x}\n\n[2] b\n\nQuestion: q"


def test_long_passages_are_cut_in_whole_words() -> None:
    seen: list[str] = []
    model = Model()

    def write(instructions: str, texts: Sequence[str], of: Any, room: int) -> list[Written | None]:
        seen.extend(texts)
        return [None] * len(texts)

    means = Means(*(np.full(1, OPEN, dtype=np.int64) for _ in range(3)))
    texts = {0: " ".join(f"word{i}" for i in range(200)), 1: "学" * 50}
    pairs = Pairs(["q"], np.zeros(2, dtype=np.int32), np.arange(2, dtype=np.int32), texts)
    ListwiseReranker(model, write, means, 3, 2, passage_tokens=20).score(pairs)
    first, second = re.findall(r"^\[\d\] (.*)$", seen[0], re.MULTILINE)
    assert 15 <= len(first.split()) <= 20
    assert texts[0].startswith(first + " ")
    assert second == texts[1]


def test_what_is_lacking_is_named_and_a_model_too_small_is_no_lack_of_means() -> None:
    pairs = candidates([1, 2, 3, 4, 5, 6, 7])
    enough = reranker(Model())
    enough.score(pairs)
    assert [lacked.tolist() for lacked in enough.lacked.values()] == [[0], [0], [0]]
    short = reranker(Model(), calls=1, output=2 * order_tokens(3))
    short.score(pairs)
    assert {name: lacked.tolist() for name, lacked in short.lacked.items()} == {
        "llm_calls": [2],
        "context_tokens": [0],
        "output_tokens": [order_tokens(3)],
    }
    small = Model()
    small.window = 10
    narrow = reranker(small)
    scored = narrow.score(pairs)
    assert small.asked == []
    assert [lacked.tolist() for lacked in narrow.lacked.values()] == [[0], [0], [0]]
    assert [(event.kind, event.text) for event in scored.events[0]] == [
        ("kept_order", "no window of passages fits the model")
    ]
