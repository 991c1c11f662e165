"""Extractive compression: the sentences of a context that say most about its question, whole and where they stood.

A sentence is chosen by its relevance to the question (`rag_lab.generation.support.measure`), a tie going to the one
that stands first. Neighbours that are chosen stay together: every run of them is a passage of its own, whose text is
the document's from the beginning of its first sentence to the end of its last, so spans stay exact and nothing is
glued together that did not stand together. What says in form what a run is about (a table's header, the line before a
list, a heading) and was not chosen itself is the passage's `lead`.

Where passages cut apart, each with a header of its own, would take as many tokens as the whole context, and that fits,
it stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import Context, Generator, IntArray, Passage, Request
from rag_lab.generation.support import Similarity, Support, measure

Ints: TypeAlias = npt.NDArray[np.int64]

LEFT_OUT = "compressed"
"""Why the row of a passage is dropped, of which no sentence was chosen."""


@dataclass(frozen=True, eq=False)
class Compression:
    """Contexts of sentences, by question.

    whole, wanted, granted: prompt tokens of the context as it came, of the sentences that were asked for, and of what
    the cap left of them; sentences, kept: how many there were and are; all ``[n]``.
    """

    contexts: list[Context]
    whole: IntArray
    wanted: IntArray
    granted: IntArray
    sentences: Ints
    kept: Ints


def compress(
    requests: Sequence[Request],
    contexts: Sequence[Context],
    generator: Generator,
    caps: Ints,
    sentences: float,
    similarity: Similarity | None = None,
) -> Compression:
    """Keep the best sentences of every context.

    Args:
        caps: most tokens of each whole prompt, ``[n]``. Sentences are left out, the least relevant first, until it
            fits; a very small cap leaves none.
        sentences: how many are kept of each context; below 1 a share of them, rounded up.
        similarity: an encoder's view of what supports the question, beside that of the terms.
    """
    support = measure([request.query for request in requests], contexts, similarity=similarity)
    cutter = _Cutter(requests, contexts, generator, support)
    held = np.diff(support.offsets)
    wish = np.ceil(held * sentences) if sentences < 1 else np.minimum(held, sentences)
    everyone, kept = np.arange(len(requests)), wish.astype(np.int64)
    passages, wanted = cutter.cut(everyone, kept)
    whole = _prompt_tokens(generator, requests, [context.passages for context in contexts])
    granted = wanted.copy()
    over = np.flatnonzero(wanted > caps)
    if len(over):
        kept[over] = cutter.fitting(over, kept[over], caps[over])
        fewer, granted[over] = cutter.cut(over, kept[over])
        for i, cut in zip(over.tolist(), fewer, strict=True):
            passages[i] = cut
    for i in np.flatnonzero((whole <= caps) & (whole <= granted)).tolist():
        passages[i], wanted[i], granted[i], kept[i] = contexts[i].passages, whole[i], whole[i], held[i]
    made = [_context(*one) for one in zip(contexts, _counted(generator, passages), granted.tolist(), strict=True)]
    return Compression(made, whole, wanted, granted, held, kept)


class _Cutter:
    """Cuts the contexts of a batch to their best sentences."""

    def __init__(
        self, requests: Sequence[Request], contexts: Sequence[Context], generator: Generator, support: Support
    ) -> None:
        self.requests, self.contexts, self.generator, self.support = requests, contexts, generator, support
        # The sentences by question and relevance; of two that are as relevant, the first.
        self.best = np.lexsort((-support.relevance.round(9), support.query))

    def cut(self, questions: Ints, counts: Ints) -> tuple[list[tuple[Passage, ...]], IntArray]:
        """Passages of the so many best sentences of some of the questions, and their prompt tokens, ``[questions]``."""
        made = []
        for i, count in zip(questions.tolist(), counts.tolist(), strict=True):
            first = int(self.support.offsets[i])
            made.append(_passages(self.contexts[i], self.support, np.sort(self.best[first : first + count])))
        return made, _prompt_tokens(self.generator, [self.requests[i] for i in questions.tolist()], made)

    def fitting(self, questions: Ints, counts: Ints, caps: Ints) -> Ints:
        """The most sentences, below `counts`, whose prompt is within its cap, ``[questions]``; by halving."""
        fits, over = np.zeros_like(counts), counts.copy()
        while len(unsure := np.flatnonzero(over - fits > 1)):
            middle = (fits[unsure] + over[unsure]) // 2
            _, tokens = self.cut(questions[unsure], middle)
            within = tokens <= caps[unsure]
            fits[unsure[within]], over[unsure[~within]] = middle[within], middle[~within]
        return fits


def _passages(context: Context, support: Support, chosen: Ints) -> tuple[Passage, ...]:
    """A passage for every run of neighbours among the chosen sentences, which ascend."""
    made: list[Passage] = []
    apart = np.flatnonzero((np.diff(chosen) != 1) | (np.diff(support.passage[chosen]) != 0)) + 1
    for run in np.split(chosen, apart) if len(chosen) else ():
        first, last = int(run[0]), int(run[-1])
        passage = context.passages[int(support.passage[first])]
        start, end = int(support.start[first]), int(support.end[last])
        begin = passage.span[0]
        made.append(
            replace(
                passage,
                number=len(made) + 1,
                text=passage.text[start:end],
                span=(begin + start, begin + end),
                lead=support.leads[first] if support.formal[first] else "",
            )
        )
    return tuple(made)


def _context(before: Context, passages: tuple[Passage, ...], tokens: int) -> Context:
    """The context with these passages; those of which nothing is left are dropped."""
    left = {passage.row for passage in passages}
    gone = tuple((passage.row, LEFT_OUT) for passage in before.passages if passage.row not in left)
    return replace(before, passages=passages, dropped=(*before.dropped, *gone), prompt_tokens=tokens)


def _counted(generator: Generator, passages: Sequence[tuple[Passage, ...]]) -> list[tuple[Passage, ...]]:
    """The passages with their tokens, every distinct text counted once."""
    texts = list(dict.fromkeys(passage.text for one in passages for passage in one))
    tokens = dict(zip(texts, map(int, generator.count_tokens(texts)), strict=True)) if texts else {}
    return [tuple(replace(passage, tokens=tokens[passage.text]) for passage in one) for one in passages]


def _prompt_tokens(
    generator: Generator, requests: Sequence[Request], passages: Sequence[tuple[Passage, ...]]
) -> IntArray:
    if not requests:
        return np.zeros(0, dtype=np.int32)
    return np.asarray(generator.prompt_tokens(requests, passages), dtype=np.int32)
