"""A causal language model as generator: prompts in batches, greedy, and only verified claims leave.

The model's text is read as follows. No text is a failure; text that declines is an abstention; in any other, every
claim is checked against the passages (see `verification`), unsupported claims are dropped, and when none is left the
answer is withheld as *unsupported claim*, its text kept. When only claims about what is coming are left, it is told as
such and counts as an abstention (see `coming`). A context that no assembly made is a question from memory: it
gets a prompt without passages, and its answer has no sources. A prompt that does not fit the window with its answer
fails the question; nothing is ever cut.

A question's text must not depend on the questions it shares a batch with. Sums in a matrix product are split by its
shape, so every batch has the same number of rows (the last is filled up with copies) and a width that depends on the
question alone: its prompt, padded on the left to a multiple of `WIDTH`. Measured once, on one CPU, with the packaged
model in bfloat16, on 24 prompts and 40 tokens each: 24 of 24 greedy texts survive a regrouping, against 20 of 24 with
batches as they come. That is no guarantee for other processors, models or lengths.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rag_lab.context import has_empty_scope
from rag_lab.contracts import (
    Abstention,
    Answer,
    Claim,
    Completion,
    Context,
    Failure,
    IntArray,
    Outcome,
    Passage,
    RagLabError,
    Reason,
    Request,
    Written,
    batches,
)
from rag_lab.generation.abstention import DETECTOR_VERSION, detect
from rag_lab.generation.chat import PromptEncoder
from rag_lab.generation.citations import cited, without_markers
from rag_lab.generation.coming import NOT_YET, only_coming
from rag_lab.generation.models import LoadedModel, load_model
from rag_lab.generation.prompts import PROMPT_VERSION, Prompt, build, language
from rag_lab.generation.verification import VERIFICATION_VERSION, source_of, verify
from rag_lab.progress import progress_bar

STAGE = "generation"
WIDTH = 128


@dataclass(frozen=True, slots=True)
class _Text:
    """What the model wrote for one question, or why it did not finish."""

    text: str
    tokens: int
    cause: str = ""


class LanguageModel:
    """A `Generator` on a transformers model.

    Args:
        batch_size: questions that are answered together; a batch costs the same when it is not full.
        time_limit_s: seconds that one batch may take; questions that are not finished then fail. None: no limit.
        progress: show a bar on the terminal.
    """

    calls = 1
    """Calls of a language model that one question takes."""

    def __init__(
        self,
        name: str,
        loaded: LoadedModel,
        batch_size: int = 8,
        time_limit_s: float | None = None,
        progress: bool = False,
    ) -> None:
        if batch_size < 1:
            raise RagLabError(f"generator {name}: batch_size must be at least 1, got {batch_size}")
        self.name = name
        self.batch_size = batch_size
        self.time_limit_s = time_limit_s
        self.progress = progress
        self._model, self._tokenizer, self._device = loaded.model, loaded.tokenizer, loaded.device
        self._encoder = PromptEncoder(loaded.tokenizer)
        self._end = _end_tokens(loaded.model, loaded.tokenizer)
        limit = getattr(loaded.model.config, "max_position_embeddings", None)
        self.window: int | None = int(limit) if limit else None
        rules = f"prompt{PROMPT_VERSION}-abstention{DETECTOR_VERSION}-verification{VERIFICATION_VERSION}"
        self.version = f"{loaded.identity}-batch{batch_size}x{WIDTH}-{rules}"

    @classmethod
    def load(
        cls,
        name: str,
        dtype: str = "auto",
        device: str = "auto",
        batch_size: int = 8,
        time_limit_s: float | None = None,
        progress: bool = False,
    ) -> LanguageModel:
        """Load a model by name ("smollm2" or a hub name) or folder."""
        return cls(name, load_model(name, dtype, device), batch_size, time_limit_s, progress)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text in the model's tokenizer, ``[n]``."""
        return self._encoder.count(texts)

    def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Sequence[Passage]]) -> IntArray:
        """Tokens of each whole prompt, chat template included, ``[n]``."""
        prompts = [build(request, passages) for request, passages in zip(requests, contexts, strict=True)]
        return np.array([len(ids) for ids in self._encoder.encode(prompts)], dtype=np.int32)

    def generate(
        self, requests: Sequence[Request], contexts: Sequence[Context], output_tokens: IntArray
    ) -> list[Completion]:
        """One completion per request; a question that fails does not stop the others."""
        done: dict[int, Completion] = {}
        asked: list[int] = []
        rooms = [int(room) for room in output_tokens]
        prompts = [
            build(request, context.passages, _is_from_memory(context))
            for request, context in zip(requests, contexts, strict=True)
        ]
        encoded = self._encoder.encode(prompts)
        for i, (request, context) in enumerate(zip(requests, contexts, strict=True)):
            refusal = self._refusal(request, context, len(encoded[i]), rooms[i])
            if refusal is None:
                asked.append(i)
            else:
                done[i] = Completion(refusal, 0, 0, 0, 0.0)
        for group in self._batches(asked, encoded):
            begin = time.perf_counter()
            texts = self._run([encoded[i] for i in group], [rooms[i] for i in group])
            outcomes = [self._outcome(requests[i], contexts[i], t) for i, t in zip(group, texts, strict=True)]
            ms = (time.perf_counter() - begin) * 1000 / len(group)
            for i, written, outcome in zip(group, texts, outcomes, strict=True):
                done[i] = Completion(outcome, len(encoded[i]), written.tokens, 1, ms)
        return [done[i] for i in range(len(requests))]

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        """Tokens of each whole prompt of `write`, chat template included, ``[n]``."""
        prompts = [Prompt(instructions, text) for text in texts]
        return np.array([len(ids) for ids in self._encoder.encode(prompts)], dtype=np.int32)

    def write(self, instructions: str, texts: Sequence[str], output_tokens: IntArray) -> list[Written]:
        """What the model writes for each text, unchecked, at most `output_tokens` ``[n]`` long.

        A text that does not fit the window with what is to be written is not sent; its cause says so.
        """
        encoded = self._encoder.encode([Prompt(instructions, text) for text in texts])
        rooms = [int(room) for room in output_tokens]
        written = [self._too_long(len(ids), room) for ids, room in zip(encoded, rooms, strict=True)]
        for group in self._batches([i for i, refused in enumerate(written) if refused is None], encoded):
            begin = time.perf_counter()
            found = self._run([encoded[i] for i in group], [rooms[i] for i in group])
            ms = (time.perf_counter() - begin) * 1000 / len(group)
            for i, one in zip(group, found, strict=True):
                written[i] = Written("" if one.cause else one.text, len(encoded[i]), one.tokens, ms, one.cause)
        return [one for one in written if one is not None]

    def _too_long(self, prompt: int, room: int) -> Written | None:
        if self.window is None or prompt + room <= self.window:
            return None
        cause = f"a prompt of {prompt} tokens and {room} to write exceed the window of {self.window}"
        return Written("", 0, 0, 0.0, cause)

    def _refusal(self, request: Request, context: Context, prompt: int, room: int) -> Outcome | None:
        """Why a question is not put to the model; None when it is."""
        if has_empty_scope(context):
            return Abstention(request.request_id, Reason.NO_AUTHORISED_EVIDENCE)
        if not context.passages and not _is_from_memory(context):
            return Abstention(request.request_id, Reason.INSUFFICIENT)
        if room <= 0:
            return Abstention(request.request_id, Reason.OVER_BUDGET)
        if self.window is not None and prompt + room > self.window:
            cause = f"prompt of {prompt} tokens and {room} for the answer exceed the window of {self.window}"
            return Failure(request.request_id, STAGE, cause)
        return None

    def _batches(self, asked: Sequence[int], encoded: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        order = sorted(asked, key=lambda i: (len(encoded[i]), i))
        widths = [_width(len(encoded[i])) for i in order]
        edges = [0, *(k for k in range(1, len(order)) if widths[k] != widths[k - 1]), len(order)]
        groups = [order[a:b][part] for a, b in pairwise(edges) for part in batches(b - a, self.batch_size)]
        with progress_bar(self.name, len(asked), self.progress) as advance:
            for group in groups:
                yield group
                advance(len(group))

    def _run(self, prompts: Sequence[Sequence[int]], rooms: Sequence[int]) -> list[_Text]:
        """Greedy text for one batch; what stops the whole batch is the cause for each of its questions."""
        try:
            return self._decode(prompts, rooms)
        except (RuntimeError, ValueError, IndexError, MemoryError) as error:
            cause = (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
            )
            return [_Text("", 0, cause)] * len(prompts)

    def _decode(self, prompts: Sequence[Sequence[int]], rooms: Sequence[int]) -> list[_Text]:
        import torch
        from transformers import GenerationConfig

        from rag_lab.generation.watch import Deadline, NanWatch

        width = _width(max(map(len, prompts)))
        rows = [*prompts, *[prompts[0]] * (self.batch_size - len(prompts))]
        ids = torch.full((len(rows), width), self._end[0], dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(rows):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        settings = GenerationConfig(
            do_sample=False,
            max_new_tokens=max(rooms),
            eos_token_id=self._end,
            pad_token_id=self._end[0],
            bos_token_id=self._model.generation_config.bos_token_id,
        )
        nan, deadline = NanWatch(), Deadline(self.time_limit_s)
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=ids.to(self._device),
                attention_mask=mask.to(self._device),
                generation_config=settings,
                logits_processor=[nan],
                stopping_criteria=[deadline],
            )
        written = output[: len(prompts), width:].tolist()
        return [
            self._read(tokens, room, row in nan.rows, deadline.passed)
            for row, (tokens, room) in enumerate(zip(written, rooms, strict=True))
        ]

    def _read(self, tokens: Sequence[int], room: int, is_nan: bool, timed_out: bool) -> _Text:
        """The text of one row of output: up to its end token and its own cap."""
        if is_nan:
            return _Text("", len(tokens), "the model gave scores that are not numbers")
        end = next((place for place, token in enumerate(tokens) if token in self._end), None)
        own = list(tokens[: end if end is not None else len(tokens)])[:room]
        if timed_out and end is None and len(own) < room:
            return _Text("", len(own), f"not finished after {self.time_limit_s} s")
        return _Text(self._tokenizer.decode(own, skip_special_tokens=True).strip(), len(own))

    def _outcome(self, request: Request, context: Context, written: _Text) -> Outcome:
        if written.cause:
            return Failure(request.request_id, STAGE, written.cause)
        kind = detect(written.text)
        if kind == "failed":
            return Failure(request.request_id, STAGE, "the model wrote no text")
        if kind == "abstained":
            return _abstention(request, context, written.text)
        if _is_from_memory(context):
            text = without_markers(written.text)
            return Answer(request.request_id, text, (Claim(text),))
        verified = verify(written.text, context.passages)
        if not verified.claims:
            return Abstention(request.request_id, Reason.UNSUPPORTED_CLAIM, written.text)
        if all(claim.kind == "upcoming" for claim in verified.claims):
            sources = [source for claim in verified.claims for source in claim.sources]
            return only_coming(request.request_id, NOT_YET[language(request)] + verified.text, sources)
        return Answer(request.request_id, verified.text, verified.claims, verified.invalid)


def _width(length: int) -> int:
    """Width of the batches that take prompts of `length` tokens."""
    return -(-length // WIDTH) * WIDTH


def _is_from_memory(context: Context) -> bool:
    """Whether nobody assembled evidence for a question: an assembled context has a prompt, even an empty one."""
    return not context.passages and not context.dropped and context.prompt_tokens == 0


def _abstention(request: Request, context: Context, text: str) -> Abstention:
    numbers, _ = cited(text, len(context.passages))
    looked_at = tuple(source_of(request.query, p) for p in context.passages if p.number in numbers)
    return Abstention(request.request_id, Reason.INSUFFICIENT, text, looked_at)


def _end_tokens(model: Any, tokenizer: Any) -> list[int]:
    given = getattr(model.generation_config, "eos_token_id", None)
    found = list(given) if isinstance(given, list | tuple) else [given]
    ends = [int(token) for token in dict.fromkeys([*found, tokenizer.eos_token_id]) if token is not None]
    if not ends:
        raise RagLabError(f"generator {tokenizer.name_or_path}: neither model nor tokenizer names an end token")
    return ends
