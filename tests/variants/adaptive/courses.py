"""What tests read of a state: what was found, told, and why it ended."""

from __future__ import annotations

from rag_lab.variants.stage import State


def documents(state: State, question: int = 0) -> list[str]:
    """Ids of what a question's ranking holds, best first."""
    assert not state.failures, state.failures
    table = state.batch.snapshot.chunks
    return [table.document_id[row] for row in state.channels["adaptive"].of(question).tolist()]


def told(state: State, kind: str, question: int = 0) -> list[tuple[int, str]]:
    """Round and text of a question's events of one kind."""
    return [(event.round, event.text) for event in state.events[question] if event.kind == kind]


def stop(state: State, question: int = 0) -> str:
    """Why a question got no further round."""
    last = state.events[question][-1]
    assert last.kind == "stop"
    return last.text
