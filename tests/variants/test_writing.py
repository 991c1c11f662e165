"""What stages spend on a language model: every token once, every call counted, no cap ever passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_writer import ScriptedWriter

from rag_lab.budgets import Budget, Ledger, Price, Prices
from rag_lab.contracts import Curtailment, Queries, RagLabError, Ranking, Request, Written
from rag_lab.store import Store
from rag_lab.variants.stage import Batch, Output, State
from rag_lab.variants.writing import OPEN, Pen, book, grant, spare, writer_of

CALLS = {"rewrite": (30, 10), "grade": (200, 1), "answer": (500, 50), "retry": (60, 0)}
"""Prompt and output of one question's calls; the last one fails."""


class Metered:
    """A writer whose calls take what `CALLS` says."""

    name, version, window = "metered", "1", None

    def count_prompts(self, instructions: str, texts: list[str]) -> Any:
        return np.array([CALLS[text][0] for text in texts], dtype=np.int32)

    def write(self, instructions: str, texts: list[str], output_tokens: Any) -> list[Written]:
        cause = {"retry": "not finished after 1 s"}
        rooms = zip(texts, output_tokens.tolist(), strict=True)
        return [Written("x", CALLS[t][0], min(CALLS[t][1], room), 3.0, cause.get(t, "")) for t, room in rooms]


def state_of(batch: Batch, answer_tokens: int = 0, **caps: float) -> State:
    ledger = Ledger(Budget.from_mapping(caps), batch.size)
    own = Queries.of_requests(batch.requests)
    return State(batch, ledger, 0, answer_tokens, own, np.zeros(batch.size, dtype=bool))


@pytest.fixture
def batch(house: Any, store: Store, ask: Callable[..., Request]) -> Batch:
    prices = Prices("prices", 0.0, {"metered": Price(3.0, 15.0)})
    return replace(house.batch([ask()], store), writer=Metered(), prices=prices)


def run(batch: Batch, state: State, calls: int = 4) -> tuple[list[Written | None], State]:
    plan = grant(state, calls)
    pen = Pen(batch, "stage", plan)
    found = [pen.write("", [text], np.array([0]), 50)[0] for text in CALLS]
    nothing = Ranking.from_scores("x", batch.size, [], [], [])
    book(state, "stage", Output(nothing, pen.ms, pen.facts))
    return found, state


def test_four_calls_are_on_the_bill_with_the_one_that_failed(batch: Batch) -> None:
    found, state = run(batch, state_of(batch))
    assert [one.cause if one else None for one in found] == ["", "", "", "not finished after 1 s"]
    usage = state.ledger.usage(0)
    assert (usage.llm_calls, usage.context_tokens, usage.output_tokens) == (4, 790, 61)
    assert usage.usd == pytest.approx((790 * 3 + 61 * 15) / 1e6)
    assert state.ledger.curtailments == [[]]


@pytest.mark.parametrize(
    ("caps", "made", "spent", "cut"),
    [
        ({"llm_calls": 4, "context_tokens": 790, "output_tokens": 61 + 50}, 4, (4, 790, 61), ()),
        ({"llm_calls": 3}, 3, (3, 730, 61), ("llm_calls", 4, 3)),
        ({"llm_calls": 0}, 0, (0, 0, 0), ("llm_calls", 4, 0)),
        ({"context_tokens": 789}, 3, (3, 730, 61), ("context_tokens", 790, 730)),
        ({"context_tokens": 229}, 2, (2, 90, 10), ("context_tokens", 790, 90)),
        ({"context_tokens": 29}, 0, (0, 0, 0), ("context_tokens", 790, 0)),
        ({"output_tokens": 61}, 3, (3, 730, 61), ("output_tokens", 61 + 50, 61)),
        ({"output_tokens": 60}, 3, (3, 730, 60), ("output_tokens", 60 + 1 + 50, 60)),
        ({"output_tokens": 11}, 2, (2, 230, 11), ("output_tokens", 11 + 49 + 50 + 50, 11)),
        ({"output_tokens": 0}, 0, (0, 0, 0), ("output_tokens", 200, 0)),
    ],
)
def test_every_cap_is_reached_and_none_is_passed(
    batch: Batch, caps: dict[str, float], made: int, spent: tuple[int, int, int], cut: tuple[Any, ...]
) -> None:
    found, state = run(batch, state_of(batch, **caps))
    usage = state.ledger.usage(0)
    assert sum(one is not None for one in found) == made
    assert (usage.llm_calls, usage.context_tokens, usage.output_tokens) == spent
    assert state.ledger.curtailments[0] == ([Curtailment("stage", *cut)] if cut else [])


def test_only_the_calls_that_were_wanted_are_granted(batch: Batch) -> None:
    found, state = run(batch, state_of(batch), calls=1)
    assert [one is not None for one in found] == [True, False, False, False]
    assert state.ledger.usage(0).llm_calls == 1


def test_what_was_not_sent_is_not_on_the_bill(batch: Batch) -> None:
    writer = ScriptedWriter(lambda _, text: Written("", 0, 0, 0.0, "too long") if text == "long" else "ok")
    batch = replace(batch, writer=writer)
    pen = Pen(batch, "stage", grant(state_of(batch, llm_calls=1), 1))
    assert [one.cause for one in pen.write("", ["long"], np.array([0]), 5) if one] == ["too long"]
    assert [one.text for one in pen.write("", ["short"], np.array([0]), 5) if one] == ["ok"]
    assert {name: values.tolist() for name, values in pen.facts.items()} == {
        "spent_llm_calls": [1],
        "spent_context_tokens": [1],
        "spent_output_tokens": [1],
        "lacked_llm_calls": [0],
        "lacked_context_tokens": [0],
        "lacked_output_tokens": [0],
    }


def test_a_model_that_raises_fails_what_it_was_sent_and_nothing_else(
    house: Any, store: Store, ask: Callable[..., Request]
) -> None:
    def say(instructions: str, text: str) -> str:
        raise TimeoutError(f"the secret text {text}")

    batch = replace(house.batch([ask(), ask(number=1)], store), writer=ScriptedWriter(say))
    state = state_of(batch)
    pen = Pen(batch, "stage", grant(state, np.array([1, 0])))
    found = pen.write("tell", ["one two", "three"], np.array([0, 1]), 5)
    assert found[1] is None
    assert found[0] is not None
    assert (found[0].cause, found[0].prompt_tokens) == ("TimeoutError", 3)
    assert pen.facts["spent_llm_calls"].tolist() == [1, 0]
    assert pen.facts["spent_context_tokens"].tolist() == [3, 0]
    assert pen.facts["lacked_llm_calls"].tolist() == [0, 1]


def test_times_belong_to_who_asked(house: Any, store: Store, ask: Callable[..., Request]) -> None:
    batch = replace(house.batch([ask(), ask(number=1)], store), writer=ScriptedWriter(lambda *_: "a"))
    pen = Pen(batch, "stage", grant(state_of(batch), 9))
    pen.write("", ["x", "y", "z"], np.array([0, 1, 1]), 5)
    assert pen.ms.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("caps", "answer_tokens", "expected"),
    [
        ({}, 96, (2, OPEN // 2, OPEN - 96)),
        ({}, 0, (2, OPEN, OPEN)),
        ({"llm_calls": 2, "context_tokens": 101, "output_tokens": 100}, 96, (1, 50, 4)),
        ({"llm_calls": 1, "context_tokens": 1, "output_tokens": 95}, 96, (0, 0, 0)),
        ({"llm_calls": 1, "context_tokens": 100, "output_tokens": 95}, 0, (1, 100, 95)),
    ],
)
def test_the_answer_keeps_its_part(
    batch: Batch, caps: dict[str, float], answer_tokens: int, expected: tuple[int, int, int]
) -> None:
    class Caller:
        calls = 1

    state = state_of(replace(batch, generator=Caller()), answer_tokens, **caps)  # type: ignore[arg-type]
    assert tuple(int(values[0]) for values in spare(state, 2).values()) == expected


def test_an_extractive_answer_takes_no_call(batch: Batch) -> None:
    assert spare(state_of(batch, 96, llm_calls=1), 1)["llm_calls"].tolist() == [1]


def test_without_a_writer_the_error_says_how_to_get_one(batch: Batch) -> None:
    with pytest.raises(RagLabError, match=r"^hyde: needs a language model; set 'writer', such as 'writer: smollm2'$"):
        writer_of(replace(batch, writer=None), "hyde")


AMOUNTS = st.integers(0, 40)


@settings(deadline=None)
@given(
    caps=st.fixed_dictionaries({}, optional=dict.fromkeys(("llm_calls", "context_tokens", "output_tokens"), AMOUNTS)),
    words=st.lists(st.integers(1, 15), max_size=8),
    room=st.integers(0, 12),
)
def test_no_script_passes_a_cap(house: Any, caps: dict[str, float], words: list[int], room: int) -> None:
    ask = Request("r0", "q", None, "t", datetime(2026, 1, 1, tzinfo=UTC))
    writer = ScriptedWriter(lambda _, text: text)
    batch = replace(house.batch([ask], Store.default()), writer=writer)
    state = state_of(batch, **caps)
    pen = Pen(batch, "stage", grant(state, 5))
    found = [pen.write("go", [" ".join("w" * n)], np.array([0]), room)[0] for n in words]
    book(state, "stage", Output(Ranking.from_scores("x", 1, [], [], []), pen.ms, pen.facts))
    usage, made = state.ledger.usage(0), [one for one in found if one]
    assert usage.llm_calls == len(made) <= min(5, caps.get("llm_calls", 5))
    assert usage.context_tokens == sum(one.prompt_tokens for one in made) <= caps.get("context_tokens", 10**6)
    assert usage.output_tokens == sum(one.output_tokens for one in made) <= caps.get("output_tokens", 10**6)
    assert len(writer.asked) == len(made)
