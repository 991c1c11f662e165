"""Front matter: what a Markdown file says of itself above its text.

Values stay as they are written ("1.10" is no number, "no" no truth value), but for ``true`` and ``false``, which say
who may read.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeAlias

Value: TypeAlias = str | bool | list[Any] | dict[str, Any]

_LONGEST = 65536
_DEEPEST = 5
_YAML = re.compile(r"---[ \t]*(?:\r\n?|\n)(?=[^\r\n])")
_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*(?:\r\n?|\n)")
_TOML_END = re.compile(r"^\+\+\+[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)
_ENTRY = re.compile(r"([A-Za-z_][\w .-]*):(?:[ \t]+(.*))?")


def front_matter(text: str) -> tuple[int, dict[str, Value]]:
    """Where the text proper starts, and what is stated above it, by name."""
    for opening, closing, read in ((_YAML, _YAML_END, _yaml), (_TOML, _TOML_END, _toml)):
        start = opening.match(text)
        if not start:
            continue
        # A lone carriage return ends a line too, which MULTILINE does not know.
        head = text[: start.end() + _LONGEST].replace("\r\n", " \n").replace("\r", "\n")
        end = closing.search(head, start.end())
        entries = read(head[start.end() : end.start()]) if end else None
        if end and entries:
            return end.end(), {str(name): _value(value) for name, value in entries.items()}
    return 0, {}


def _yaml(source: str) -> dict[Any, Any] | None:
    import yaml

    if re.search(r"(?m)[:\-\[,]\s*[*&]\w", source):
        return _lines(source)
    try:
        entries = yaml.load(source, Loader=_loader())
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


def _value(value: Any, depth: int = 0) -> Value:
    """Text, truth values, and lists and mappings of them; what is nested too deep as text."""
    if isinstance(value, dict | list) and depth > _DEEPEST:
        return str(value)
    if isinstance(value, dict):
        return {str(name): _value(inner, depth + 1) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner, depth + 1) for inner in value]
    if isinstance(value, bool):
        return value
    return "" if value is None else str(value)


@cache
def _loader() -> Any:
    """YAML in which everything is text but ``true`` and ``false``."""
    import yaml

    class Loader(yaml.BaseLoader):
        pass

    tag = "tag:yaml.org,2002:bool"
    Loader.add_implicit_resolver(tag, re.compile(r"(?:true|false)\Z"), ["t", "f"])
    Loader.add_constructor(tag, lambda _, node: node.value == "true")
    return Loader
