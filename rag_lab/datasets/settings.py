"""What holds for a collection as a whole, and for some well-known ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from rag_lab.contracts import RagLabError


@dataclass(frozen=True, slots=True)
class Settings:
    """Per-collection settings.

    `zone` is where dates without an offset are meant; `evidence` says whether every gold passage of a question is
    needed ("all") or one is enough ("any"), None where each question says; `remove_identical_ids` takes the document
    whose id equals the question's id out of its ranking.
    """

    zone: str = "UTC"
    evidence: Literal["any", "all"] | None = None
    remove_identical_ids: bool = False
    licence: str = ""
    source: str = ""


# ArguAna's questions are documents of the corpus, so each would find itself first. Two-hop collections need every hop.
KNOWN: Mapping[str, Settings] = {
    "arguana": Settings(remove_identical_ids=True),
    "handbook": Settings(licence="CC BY 4.0", source="made up for rag_lab"),
    "hotpotqa": Settings(evidence="all"),
    "multihop-rag-evidence": Settings(evidence="all"),
}

_TYPES: Mapping[str, type] = {"remove_identical_ids": bool}


def known_settings(name: str) -> Settings:
    """Settings of a collection by its name; the defaults for an unknown one."""
    return KNOWN.get(name, Settings())


def override(settings: Settings, stated: Mapping[str, Any], place: str) -> Settings:
    """`settings` with what a file or a caller states; None and unknown keys are left alone."""
    names = {f.name for f in fields(Settings)}
    given = {key: value for key, value in stated.items() if key in names and value is not None}
    for key, value in given.items():
        if not isinstance(value, _TYPES.get(key, str)):
            raise RagLabError(f"{place}: {key} is {value!r}; it must be of type {_TYPES.get(key, str).__name__}")
    if given.get("evidence", "any") not in ("any", "all"):
        raise RagLabError(f"{place}: evidence is {given['evidence']!r}; it must be 'any' or 'all'")
    return replace(settings, **given)
