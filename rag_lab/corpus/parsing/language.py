"""Language of a text."""

from __future__ import annotations

from rag_lab.datasets.languages import language_of


def identify(text: str) -> str:
    """Language code of a text, "" when it has no letters."""
    return language_of(text)
