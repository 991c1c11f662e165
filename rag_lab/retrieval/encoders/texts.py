"""What every encoder does to texts before its model sees them, and to vectors before anybody else does."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RagLabError

VectorArray = npt.NDArray[np.float32]

_UNENCODABLE = re.compile("[\x00\ud800-\udfff]")


def readable(text: str) -> str:
    """The text with NUL and lone surrogates, which no model can read, as spaces. Its length is unchanged."""
    return _UNENCODABLE.sub(" ", text)


def for_model(text: str) -> str:
    """The text as a model reads it: NFKC, so that a composed and a decomposed accent, or a full-width and an ASCII
    digit, give one vector. The stored text is left alone."""
    return unicodedata.normalize("NFKC", readable(text))


def distinct(texts: Sequence[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The different ones among `texts` as a model reads them, and for each text which of them it is, ``[n]``."""
    place: dict[str, int] = {}
    rows = np.fromiter((place.setdefault(for_model(text), len(place)) for text in texts), dtype=np.int64)
    return list(place), rows


def encode_distinct(
    texts: Sequence[str], encode: Callable[[list[str]], VectorArray], name: str, dimension: int
) -> VectorArray:
    """Vectors of `texts`, ``[n, dimension]``, from an `encode` that sees each distinct text once.

    Equal texts therefore get equal vectors to the last bit, whatever batch they come in, and tie exactly.
    Raises `RagLabError` when the model returns another shape, or a value that is not finite.
    """
    different, rows = distinct(texts)
    if not different:
        return np.zeros((0, dimension), dtype=np.float32)
    vectors = np.asarray(encode(different), dtype=np.float32)
    if vectors.shape != (len(different), dimension):
        raise RagLabError(
            f"encoder {name}: {vectors.shape} values for {len(different)} texts of {dimension} dimensions"
        )
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        first = int(np.flatnonzero(rows == broken[0])[0])
        raise RagLabError(
            f"encoder {name}: {len(broken)} vectors hold NaN or infinity, the first for text {first}; "
            "its weights are damaged or overflow in this precision"
        )
    return vectors[rows]
