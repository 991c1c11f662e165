"""What is announced and not in force at the request's time.

It is told and never answers: a statement that rests only on passages still to come, or that announces a later day, is
a claim of the kind *upcoming* beside the answer. When nothing else supports an answer there is none for now, so the
outcome is an abstention (*insufficient*) that says what is to come and cites it. An answer made of upcoming claims
alone would be counted, and read, as if the question had been answered.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_lab.contracts import Abstention, Reason, Source

NOT_YET = {"en": "Not in force yet: ", "zh": "尚未生效："}
"""What stands before a statement that is told although it does not answer yet."""


def only_coming(request_id: str, text: str, sources: Sequence[Source], confidence: float | None = None) -> Abstention:
    """The outcome of a question that only coming statements answer; `text` tells them, `sources` are theirs."""
    return Abstention(request_id, Reason.INSUFFICIENT, text, tuple(sources), confidence)
