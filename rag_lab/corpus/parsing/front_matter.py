"""Front matter: what a Markdown file says of itself above its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

Value: TypeAlias = str | list[str]

_LONGEST = 65536
_YAML = re.compile(r"---[ \t]*(?:\r\n?|\n)(?=[^\r\n])")
_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*(?:\r\n?|\n)")
_TOML_END = re.compile(r"^\+\+\+[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z_][\w .-]*):(?:[ \t]+(.*))?")


def front_matter(text: str) -> tuple[int, dict[str, Value]]:
    """Where the text proper starts, and what is stated above it: text or lists of text by (dotted) name."""
    for opening, closing, read in ((_YAML, _YAML_END, _yaml), (_TOML, _TOML_END, _toml)):
        start = opening.match(text)
        if not start:
            continue
        # A lone carriage return ends a line too, which MULTILINE does not know.
        head = text[: start.end() + _LONGEST].replace("\r\n", " \n").replace("\r", "\n")
        end = closing.search(head, start.end())
        entries = read(head[start.end() : end.start()]) if end else None
        if end and entries:
            return end.end(), dict(_flat(entries))
    return 0, {}


def _yaml(source: str) -> dict[Any, Any] | None:
    import yaml

    if re.search(r"(?m)[:\-\[,]\s*[*&]\w", source):
        return _lines(source)
    try:
        entries = yaml.load(source, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return _lines(source)
    return entries if isinstance(entries, dict) else None


def _lines(source: str) -> dict[Any, Any] | None:
    """Plain `name: value` lines, for front matter that is no valid YAML (a colon in a title)."""
    lines = [line for line in source.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    matches = [_ENTRY.fullmatch(line.strip()) for line in lines]
    if not all(matches):
        return None
    return {match.group(1).strip(): (match.group(2) or "").strip() for match in matches if match}


def _toml(source: str) -> dict[str, Any] | None:
    import tomllib

    try:
        return tomllib.loads(source.replace(" \n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _flat(entries: dict[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Value]]:
    for key, value in entries.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and depth < 5:
            yield from _flat(value, f"{name}.", depth + 1)
        elif isinstance(value, list):
            yield name, [str(item) for item in value]
        else:
            yield name, "" if value is None else str(value)
