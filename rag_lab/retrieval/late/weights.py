"""How much each token of a query counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rag_lab.retrieval.late.vectors import TokenVectors


def document_frequencies(passages: TokenVectors) -> npt.NDArray[np.int64]:
    """In how many passages each vocabulary id stands, ``[highest id + 1]``."""
    if not len(passages.tokens):
        return np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(len(passages), dtype=np.int64), passages.lengths)
    size = int(passages.tokens.max()) + 1
    pairs = np.unique(row * size + passages.tokens)
    return np.bincount(pairs % size, minlength=size)


def inverse_document_frequency(
    tokens: npt.NDArray[np.int32], frequencies: npt.NDArray[np.int64], passages: int
) -> npt.NDArray[np.float64]:
    """``ln(1 + (N - df + 0.5) / (df + 0.5))`` of each token, as in Lucene's BM25; an unknown token has df 0."""
    df = np.zeros(len(tokens), dtype=np.float64)
    known = tokens < len(frequencies)
    df[known] = frequencies[tokens[known]]
    return np.log1p((passages - df + 0.5) / (df + 0.5))
