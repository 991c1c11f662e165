"""Prompts as token ids of a chat model.

A tokenizer's chat template is rendered once with placeholders, and the texts are encoded between its pieces. So no
template code of a passage or question runs, nothing is trimmed, and a passage that spells a control token such as
``<|im_end|>`` gives ordinary tokens and cannot end the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_lab.contracts import IntArray, RagLabError
from rag_lab.generation.prompts import Prompt

_SYSTEM, _USER = "SYSTEMTEXTPLACEHOLDER", "USERTEXTPLACEHOLDER"


class PromptEncoder:
    """Encodes prompts for one tokenizer; one without a chat template gets plain text that ends in ``Answer:``."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        frame, self._merged = _frame(tokenizer)
        before, rest = frame.split(_SYSTEM, 1) if not self._merged else ("", frame)
        between, after = rest.split(_USER, 1)
        self._before, self._between, self._after = (self._control(text) for text in (before, between, after))

    def encode(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """Token ids of each prompt."""
        if self._merged:
            users = self._data([prompt.system + "\n\n" + prompt.user for prompt in prompts])
            return [[*self._between, *user, *self._after] for user in users]
        systems = list(dict.fromkeys(prompt.system for prompt in prompts))
        encoded = dict(zip(systems, self._data(systems), strict=True))
        users = self._data([prompt.user for prompt in prompts])
        return [
            [*self._before, *encoded[prompt.system], *self._between, *user, *self._after]
            for prompt, user in zip(prompts, users, strict=True)
        ]

    def count(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text, ``[n]``."""
        return np.array([len(ids) for ids in self._data(texts)], dtype=np.int32)

    def _control(self, text: str) -> list[int]:
        """Ids of the template's own text, in which control tokens are control tokens."""
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

    def _data(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of data, in which nothing is a control token."""
        if not texts:
            return []
        return [
            list(ids)
            for ids in self._tokenizer(
                list(texts), add_special_tokens=False, split_special_tokens=True, truncation=False, verbose=False
            )["input_ids"]
        ]


def _frame(tokenizer: Any) -> tuple[str, bool]:
    """The template around the placeholders, and whether the instructions have to go into the user's turn."""
    if not getattr(tokenizer, "chat_template", None):
        start = tokenizer.bos_token if getattr(tokenizer, "add_bos_token", False) and tokenizer.bos_token else ""
        return start + _SYSTEM + "\n\n" + _USER + "\n\nAnswer:", False
    system = {"role": "system", "content": _SYSTEM}
    user = {"role": "user", "content": _USER}
    for messages, merged in (([system, user], False), ([user], True)):
        frame = _render(tokenizer, messages)
        if frame is not None and frame.count(_USER) == 1 and frame.count(_SYSTEM) == (0 if merged else 1):
            return frame, merged
    raise RagLabError(f"generator {tokenizer.name_or_path}: its chat template takes no user turn; use another model")


def _render(tokenizer: Any, messages: list[dict[str, str]]) -> str | None:
    from jinja2 import TemplateError

    try:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except TemplateError:
        return None
