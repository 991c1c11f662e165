"""What is brought along with a found chunk, and what is left of a context, is the caller's to read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_no_leaks import check_nothing_forbidden_leaves, run_trial

from rag_lab.variants import load_variant
from rag_lab.variants.expand import BROUGHT

ASSEMBLED = [{"assemble": {"passages": 3}}, {"compress": {"sentences": 0.5}}, "generate"]
UNITS: dict[str, Any] = {
    "section": {},
    "document": {"to": "document", "depth": 2},
    "neighbours": {"to": "neighbours", "distance": 2},
}
VARIANTS = {
    name: load_variant(name, ["bm25", "dense", "weighted_sum", "mmr", {"expand": settings}, *ASSEMBLED])
    for name, settings in UNITS.items()
}


@pytest.mark.parametrize("seed", range(2000, 2008))
def test_only_what_is_permitted_is_brought_along_and_shown(
    seed: int, tmp_path: Any, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any
) -> None:
    """Sections with rights of their own, deny list, all chunkers, callers of all kinds."""
    trial = run_trial(seed, tmp_path, (hash_encoder, hash_late_encoder, hash_sparse_encoder), 60, VARIANTS)
    check_nothing_forbidden_leaves(trial)
    texts = trial.batch.texts()
    for state in trial.states.values():
        for context in state.contexts:
            for passage in context.passages:
                assert passage.text == texts[passage.document_id][slice(*passage.span)]


@pytest.mark.parametrize("seed", range(2000, 2004))
def test_all_that_is_permitted_of_a_unit_is_brought_along(
    seed: int, tmp_path: Any, hash_encoder: Any, hash_late_encoder: Any, hash_sparse_encoder: Any
) -> None:
    trial = run_trial(seed, tmp_path, (hash_encoder, hash_late_encoder, hash_sparse_encoder), 40, VARIANTS)
    table = trial.batch.snapshot.chunks

    def unit(name: str, row: int) -> set[int]:
        mine = table.documents[table.document_id[row]]
        if name == "neighbours":
            return set(range(max(mine.start, row - 2), min(mine.stop, row + 3)))
        if name == "document":
            return set(range(mine.start, mine.stop))
        low = high = row
        while low > mine.start and table.section_path[low - 1] == table.section_path[row]:
            low -= 1
        while high + 1 < mine.stop and table.section_path[high + 1] == table.section_path[row]:
            high += 1
        return set(range(low, high + 1))

    for name, state in trial.states.items():
        depth = UNITS[name].get("depth", 10)
        found = {
            row
            for channel in state.channels.values()
            for row in zip(channel.query.tolist(), channel.chunk.tolist(), strict=True)
        }
        for number in range(40):
            mine = state.ranking.query == number
            rows, brought = state.ranking.chunk[mine].tolist(), state.ranking.ranks[BROUGHT][mine].tolist()
            assert len(rows) == len(set(rows))
            assert all((number, row) in found for row, by in zip(rows, brought, strict=True) if by == 0)
            permitted = set(np.flatnonzero(trial.allowed[number]).tolist())
            heads = [row for row, by in zip(rows, brought, strict=True) if by == 0]
            # A head that an earlier one brought along is listed as brought; its unit is there all the same.
            if heads:
                assert unit(name, heads[0]) & permitted <= set(rows)
            assert max(brought, default=0) <= depth
