"""A language model that says what a test tells it to, and counts words as tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rag_lab.contracts import IntArray, Written


class ScriptedWriter:
    """`say` gives the answer to (instructions, text): a text, or a whole `Written`."""

    name = "scripted"
    version = "1"
    window = None

    def __init__(self, say: Callable[[str, str], str | Written]) -> None:
        self.say = say
        self.asked: list[tuple[str, str]] = []

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        return np.array([len(f"{instructions} {text}".split()) for text in texts], dtype=np.int32)

    def write(self, instructions: str, texts: Sequence[str], output_tokens: IntArray) -> list[Written]:
        prompts = self.count_prompts(instructions, texts).tolist()
        self.asked += [(instructions, text) for text in texts]
        made = []
        for text, prompt, room in zip(texts, prompts, output_tokens.tolist(), strict=True):
            said = self.say(instructions, text)
            words = said.split(" ")[:room] if isinstance(said, str) else []
            made.append(said if isinstance(said, Written) else Written(" ".join(words), prompt, len(words), 2.0))
        return made
