"""Errors that a user can act on."""

from __future__ import annotations


class RagLabError(Exception):
    """An error that its user can act on: one line that names the place, what is wrong, and the fix."""


class Unavailable(RagLabError):
    """What was named is not on this machine and cannot be fetched."""
