"""The stage that shortens contexts to the sentences that say most about their questions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from rag_lab.context import prompt_limits
from rag_lab.contracts import Event, RagLabError
from rag_lab.generation.compression import Compression, compress
from rag_lab.generation.support import Similarity
from rag_lab.variants.assembling import Assembling
from rag_lab.variants.stage import LARGEST, Batch, Output, Plan, Stage, State, register


@register
class Compress(Assembling):
    """Keep the `sentences` of each context that are most relevant to the question; below 1 that is a share of them.

    It works on all that `assemble` wants, before anything is left out for want of tokens, and then sees to it that the
    prompt fits: the least relevant sentences go first. Sentences stay whole, with their place in the document
    (`rag_lab.generation.compression`). Relevance goes by weighted terms, and with ``by: encoder`` also by the encoder
    of the snapshot, which finds paraphrases and sentences in another language. The event `compressed` says how many
    sentences were kept and how many prompt tokens that saved.
    """

    name: ClassVar[str] = "compress"
    reads_ranking: ClassVar[bool] = True
    cuts_context: ClassVar[bool] = True
    sentences: float = Field(0.5, gt=0, le=LARGEST)
    by: Literal["terms", "encoder"] = "terms"

    @field_validator("sentences")
    @classmethod
    def _whole_or_share(cls, given: float) -> float:
        if given > 1 and not given.is_integer():
            raise ValueError("must be a whole number of sentences, or a share of them below 1")
        return given

    def needs(self) -> frozenset[str]:
        """The encoder, where relevance goes by it."""
        return frozenset({"encoder"}) if self.by == "encoder" else frozenset()

    def check(self, place: str, before: Sequence[Stage]) -> None:
        """It shortens what `assemble` gives it."""
        if not before or before[-1].name != "assemble":
            raise RagLabError(f"{place}: '{self.name}' shortens what 'assemble' chose; put 'assemble' right before it")

    def identity(self, batch: Batch) -> list[Any]:
        """Settings, the generator that counts, and the encoder."""
        return [*super().identity(batch), batch.encoder().version if self.by == "encoder" else ""]

    def inputs(self, state: State) -> list[str]:
        """The contexts."""
        return [state.keys["contexts"]]

    def compute(self, state: State, plan: Plan, key: str) -> Output:  # noqa: ARG002 - one interface
        """Shorten all contexts of the batch."""
        batch, contexts = state.batch, state.contexts
        assert contexts is not None
        similarity = Similarity(batch.encoder()) if self.by == "encoder" else None
        if similarity is not None:
            _ = similarity.zero  # loading the model is no question's time
        started = time.perf_counter()
        caps = prompt_limits(batch.size, plan["context_tokens"], plan["output_tokens"], batch.generator.window)
        found = compress(batch.requests, contexts, batch.generator, caps, self.sentences, similarity)
        ms = np.full(batch.size, (time.perf_counter() - started) * 1000 / max(1, batch.size))
        facts: dict[str, npt.NDArray[Any]] = {"wanted": found.wanted, "granted": found.granted}
        if state.looked_at is not None:
            facts["looked_at"] = state.looked_at
        return Output(tuple(found.contexts), ms, facts, _told(self.name, found))


def _told(stage: str, found: Compression) -> dict[int, tuple[Event, ...]]:
    """What was kept and saved, by question, for those that lost a sentence."""
    saved = found.whole.astype(np.int64) - found.granted
    return {
        i: (Event(stage, "compressed", f"{found.kept[i]} of {found.sentences[i]} sentences", float(saved[i])),)
        for i in np.flatnonzero(found.kept < found.sentences).tolist()
    }
