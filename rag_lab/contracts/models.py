"""What models have to offer: generators, writers and encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rag_lab.contracts.answers import Completion, Context, Passage
from rag_lab.contracts.arrays import IntArray, Span
from rag_lab.contracts.requests import Request


class Generator(Protocol):
    """Turns contexts into outcomes, a batch at a time.

    `version` changes whenever the output for the same input may; `window` is the most tokens that prompt and answer may
    have together (None: no limit); `calls` is how many language-model calls one answer takes.
    """

    name: str
    version: str
    window: int | None
    calls: int

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text in the generator's own tokenizer, ``[n]``."""
        ...

    def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Sequence[Passage]]) -> IntArray:
        """Tokens of each whole prompt (instructions, question, headers, passages), ``[n]``."""
        ...

    def generate(
        self, requests: Sequence[Request], contexts: Sequence[Context], output_tokens: IntArray
    ) -> list[Completion]:
        """One completion per request; `output_tokens` caps each answer, ``[n]``."""
        ...


@runtime_checkable
class Calibrated(Generator, Protocol):
    """A generator that abstains below a threshold of confidence, which is chosen on questions that are not scored."""

    def with_threshold(self, threshold: float | None) -> Generator:
        """The same generator with this threshold; None never abstains for want of confidence."""
        ...

    def with_background(self, texts: Sequence[str]) -> Calibrated:
        """The same generator with words weighed by how rare they are in `texts`."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """What a language model wrote for one text: tokens in and out, its share of the time; `cause`: why it failed."""

    text: str
    prompt_tokens: int
    output_tokens: int
    ms: float
    cause: str = ""


@runtime_checkable
class Writer(Protocol):
    """A language model that writes to order: queries, grades, orders of passages. One text is one call.

    `window` is the most tokens that a prompt and what is written may have together (None: no limit).
    """

    name: str
    version: str
    window: int | None

    def count_prompts(self, instructions: str, texts: Sequence[str]) -> IntArray:
        """Tokens of each whole prompt, ``[n]``."""
        ...

    def write(self, instructions: str, texts: Sequence[str], output_tokens: IntArray) -> list[Written]:
        """What it writes for each text, at most `output_tokens` ``[n]``; one that fails does not stop the others."""
        ...


class Encoder(Protocol):
    """Maps texts to unit vectors. `version` identifies weights and settings; vectors of two versions never meet."""

    name: str
    version: str
    dimension: int
    max_tokens: int
    languages: frozenset[str]

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors, ``[n, dimension]``."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Unit vectors, ``[n, dimension]``."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text without special tokens, ``[n]``."""
        ...

    def token_spans(self, text: str) -> list[Span]:
        """Code-point span of each token of a text, in order."""
        ...
