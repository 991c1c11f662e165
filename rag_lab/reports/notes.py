"""The notes that the metrics left on their figures, sorted to the tables they belong under."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rag_lab.results import Results

FUNNEL = "funnel"


def score_notes(results: Results) -> tuple[str, ...]:
    """Notes on metrics: all that are not on the funnel alone."""
    return tuple(_sentence(note) for note in _notes(results) if _about(note) != [FUNNEL])


def funnel_notes(results: Results) -> tuple[str, ...]:
    """Notes on the loss funnel."""
    return tuple(_sentence(note) for note in _notes(results) if FUNNEL in _about(note))


def _notes(results: Results) -> list[str]:
    return [str(note).strip() for note in results.provenance.get("notes") or [] if str(note).strip()]


def _about(note: str) -> list[str]:
    """What a note of the form ``nDCG@10, funnel (bm25, dense): text`` is about."""
    return note.split(":")[0].split(" (")[0].split(", ")


def _sentence(note: str) -> str:
    text = note[0].upper() + note[1:] if note.startswith(FUNNEL) else note
    return text if text.endswith((".", "。")) else f"{text}."
