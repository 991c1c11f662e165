"""Arrays, spans, and the slices of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int32]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Span: TypeAlias = tuple[int, int]


def batches(n: int, size: int) -> Iterator[slice]:
    """Slices that cover ``range(n)`` in pieces of `size`."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
