"""Stages that write with a language model: what they may spend, what they asked, and what it cost.

A stage plans with `grant`, or with `spare` where an answer is to follow, writes with a `Pen` that asks nothing above
what was granted, returns `Pen.facts` and `Pen.ms` with its output, and books them with `book`. The prompts count as
context tokens and what is written as output tokens, for a model reads and writes them like those of the answer. A call
that fails is on the bill with what it took; one that was never sent is not. What was lacking is told by resource: a
call that could be made but for its prompt lacks context tokens, not calls.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import MEANS, FloatArray, RagLabError, Writer, Written
from rag_lab.variants.stage import Batch, Output, Plan, State

OPEN = 1 << 30


def writer_of(batch: Batch, stage: str) -> Writer:
    """The run's writer; an error that says how to get one where there is none."""
    if batch.writer is None:
        raise RagLabError(f"{stage}: needs a language model; set 'writer', such as 'writer: smollm2'")
    return batch.writer


def grant(state: State, calls: npt.ArrayLike) -> Plan:
    """What a stage may spend on writing for each question, which wants so many calls at most, ``[size]`` each."""
    ledger = state.ledger
    return {
        "llm_calls": ledger.grant("llm_calls", calls),
        "context_tokens": np.minimum(ledger.room("context_tokens"), OPEN).astype(np.int64),
        "output_tokens": np.minimum(ledger.room("output_tokens"), OPEN).astype(np.int64),
    }


def spare(state: State, calls: npt.ArrayLike) -> Plan:
    """The same, but the answer that is to follow keeps its calls, its tokens, and half of the room for prompts."""
    ledger, kept = state.ledger, state.batch.generator.calls if state.answers else 0
    room = np.maximum(0, np.minimum(ledger.room("llm_calls"), OPEN).astype(np.int64) - kept)
    granted = grant(state, np.minimum(np.broadcast_to(np.asarray(calls, dtype=np.int64), room.shape), room))
    return {
        "llm_calls": granted["llm_calls"],
        "context_tokens": granted["context_tokens"] // (2 if state.answers else 1),
        "output_tokens": np.maximum(0, granted["output_tokens"] - state.answer_tokens),
    }


class Pen:
    """Writes for the questions of a batch within what a plan granted each of them."""

    def __init__(self, batch: Batch, stage: str, plan: Plan) -> None:
        self._writer = writer_of(batch, stage)
        self._left = {name: plan[name].copy() for name in MEANS}
        self._granted = {name: values.copy() for name, values in self._left.items()}
        self._lacked = {name: np.zeros(batch.size, dtype=np.int64) for name in MEANS}
        self.ms: FloatArray = np.zeros(batch.size)

    def write(
        self, instructions: str, texts: Sequence[str], of: npt.NDArray[Any], output_tokens: int
    ) -> list[Written | None]:
        """What the model writes for each text; `of` names the question that pays for it, ``[m]``.

        None for a text that its question cannot pay: a call, the whole prompt, and a token to write. A model that
        raises has failed each text that it was sent.
        """
        prompts = self._writer.count_prompts(instructions, texts)
        found: list[Written | None] = [None] * len(texts)
        asked, rooms = [], []
        for i, question in enumerate(np.asarray(of).tolist()):
            lacking = self._lacking(question, int(prompts[i]))
            if lacking:
                self._lacked[lacking][question] += {"llm_calls": 1, "context_tokens": prompts[i]}.get(
                    lacking, output_tokens
                )
                continue
            room = min(output_tokens, int(self._left["output_tokens"][question]))
            self._take(question, 1, int(prompts[i]), room)
            asked.append(i)
            rooms.append(room)
        if not asked:
            return found
        made = self._made(instructions, [texts[i] for i in asked], [int(prompts[i]) for i in asked], rooms)
        for i, room, one in zip(asked, rooms, made, strict=True):
            question, unsent = int(of[i]), bool(one.cause) and one.prompt_tokens == 0
            self._take(question, -int(unsent), one.prompt_tokens - int(prompts[i]), one.output_tokens - room)
            if room < output_tokens and one.output_tokens >= room:
                self._lacked["output_tokens"][question] += output_tokens - room
            self.ms[question] += one.ms
            found[i] = one
        return found

    def _lacking(self, question: int, prompt: int) -> str:
        """The resource for want of which a call is not made, "" if none is."""
        wanted = zip(MEANS, (1, prompt, 1), strict=True)
        return next((name for name, amount in wanted if amount > self._left[name][question]), "")

    def _made(
        self, instructions: str, texts: Sequence[str], prompts: Sequence[int], rooms: Sequence[int]
    ) -> Sequence[Written]:
        started = time.perf_counter()
        try:
            return self._writer.write(instructions, texts, np.array(rooms, dtype=np.int32))
        except Exception as error:  # noqa: BLE001 - whatever it is, it fails these texts and nothing else
            each = (time.perf_counter() - started) * 1000 / len(texts)
            return [Written("", prompt, 0, each, type(error).__name__) for prompt in prompts]

    def _take(self, question: int, calls: int, prompt: int, output: int) -> None:
        for name, amount in zip(MEANS, (calls, prompt, output), strict=True):
            self._left[name][question] -= amount

    @property
    def facts(self) -> dict[str, npt.NDArray[Any]]:
        """What was spent, and what more was wanted and not to be had, ``[size]`` each, for `Output.facts`."""
        spent = {f"spent_{name}": self._granted[name] - left for name, left in self._left.items()}
        return spent | {f"lacked_{name}": lacked for name, lacked in self._lacked.items()}


def book(state: State, stage: str, output: Output) -> None:
    """Book what a stage spent on writing, and for want of what it wrote less."""
    ledger, spent = state.ledger, {name: output.facts[f"spent_{name}"] for name in MEANS}
    for name, amount in spent.items():
        ledger.spend(name, amount)
        ledger.curtail(stage, name, amount + output.facts[f"lacked_{name}"], amount)
    prompt, written = (spent[name].astype(np.float64) for name in ("context_tokens", "output_tokens"))
    ledger.spend("usd", state.batch.prices.tokens(writer_of(state.batch, stage).name, prompt, written))
