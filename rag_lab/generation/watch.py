"""Watching a running generation: scores that are not numbers, and time."""

from __future__ import annotations

import time
from typing import Any


class NanWatch:
    """A logits processor that notes the rows whose scores hold a NaN, and changes nothing."""

    def __init__(self) -> None:
        self.rows: set[int] = set()

    def __call__(self, input_ids: Any, scores: Any) -> Any:  # noqa: ARG002 - the interface of transformers
        bad = scores.isnan().any(dim=-1)
        if bool(bad.any()):
            self.rows.update(bad.nonzero().flatten().tolist())
        return scores


class Deadline:
    """A stopping criterion that ends every row of a batch when its time is up."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self.passed = False

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:  # noqa: ARG002 - the interface of transformers
        import torch

        self.passed = self._end is not None and time.monotonic() >= self._end
        return torch.full((input_ids.shape[0],), self.passed, dtype=torch.bool, device=input_ids.device)
