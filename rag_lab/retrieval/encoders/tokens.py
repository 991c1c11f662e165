"""Token counts and spans in a model's own tokenizer, over the text as it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_lab.contracts import IntArray, Span
from rag_lab.retrieval.encoders.texts import readable


class TokenMap:
    """Counts and locates tokens, without special tokens and without a length limit.

    `tokenizer` is a `tokenizers.Tokenizer`; it is copied, and NFKC is put before its own normaliser, because encoders
    normalise texts so. Spans refer to the text before any normalisation. `unknown` is the id of a token that stands for
    a whole run of unknown characters, where the model itself reads one token for each of them.
    """

    def __init__(self, tokenizer: Any, unknown: int | None = None) -> None:
        from tokenizers import Tokenizer, normalizers

        self._unknown = unknown
        self._tokenizer = Tokenizer.from_str(tokenizer.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        own = self._tokenizer.normalizer
        self._tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), *([own] if own is not None else [])])

    def count(self, texts: Sequence[str]) -> IntArray:
        """Tokens of each text, ``[n]``."""
        encodings = self._tokenizer.encode_batch_fast([readable(text) for text in texts], add_special_tokens=False)
        counts = np.fromiter((len(encoding) for encoding in encodings), dtype=np.int32, count=len(texts))
        if self._unknown is not None:
            for i, encoding in enumerate(encodings):
                if self._unknown in encoding.ids:
                    counts[i] = len(self.spans(texts[i]))
        return counts

    def spans(self, text: str) -> list[Span]:
        """Span of each token in code points of `text`, in order: one for each token that `count` counts.

        Every character but white space lies in a span, unless the tokenizer sees nothing at all in the text.
        """
        encoding = self._tokenizer.encode(readable(text), add_special_tokens=False)
        spans: list[Span] = []
        for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if token == self._unknown:
                spans.extend((i, i + 1) for i in range(start, end))
            else:
                spans.append((start, end))
        return _cover(text, spans)


def _cover(text: str, spans: list[Span]) -> list[Span]:
    """Give characters that normalisation swallowed, such as a combining accent, to the token before them."""
    if not spans:
        return spans
    starts = [start for start, _ in spans]
    limits = [*starts[1:], len(text)]
    ends = [
        end if end >= limit or not text[end:limit].strip() else end + len(text[end:limit].rstrip())
        for (_, end), limit in zip(spans, limits, strict=True)
    ]
    if text[: starts[0]].strip():
        starts[0] = 0
    return list(zip(starts, ends, strict=True))
