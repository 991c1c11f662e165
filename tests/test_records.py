from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from rag_lab import records
from rag_lab.contracts import (
    Abstention,
    Answer,
    Claim,
    Completion,
    Context,
    Failure,
    Passage,
    Reason,
    Source,
)

SOURCE = Source("d", "2", "d#0", (3, 9), "五百 {x}", "handbook://d")


def test_every_record_comes_back_equal() -> None:
    passage = Passage(
        1, 7, "d#0", "d", "2", "u", "t", "text\u2028", (0, 5), "zh", datetime(2026, 9, 1, tzinfo=UTC), None, 4
    )
    kept = (
        Context("q", (passage,), ((3, "budget"),), 12),
        Completion(
            Answer("q", "500", (Claim("500", (SOURCE,)), Claim("600", (SOURCE,), "upcoming")), 1, 0.5), 9, 3, 0, 1.5
        ),
        Completion(Abstention("q", Reason.CONFLICTING, "?", (SOURCE,), None), 0, 0, 1, 0.0),
        Completion(Failure("q", "generate", "OutOfMemory"), 0, 0, 0, 0.0),
    )
    assert records.loads(records.dumps(kept)) == kept


def test_numpy_numbers_and_lone_surrogates_are_kept() -> None:
    kept = (np.int32(4), np.float64(0.5), "a\ud800b")
    assert records.loads(records.dumps(kept)) == (4, 0.5, "a\ud800b")
