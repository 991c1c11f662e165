"""Records: JSON Lines and JSON. A record is one block with a line "key: value" for each field.

Lines end at LF alone: U+2028, U+0085 and the like may stand in a string. What is nested gets a dotted key, plain values
of a list stand on one line. A line that is no JSON is left out and noted with its number; the others are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath
from typing import TypeAlias

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing.decoding import VERSION as DECODING_VERSION
from rag_lab.corpus.parsing.decoding import decode
from rag_lab.corpus.parsing.layer import LayerBuilder
from rag_lab.corpus.parsing.parsed import Parsed, ParseError

VERSION = "records-1"

DEEPEST = 100
_MOST_NOTED = 10
_TOKEN = re.compile(r'\s*+([{}\[\],:]|"(?:[^"\\]++|\\.)*+"|[^\s{}\[\],:"]++)')
_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]')
_ESCAPE = re.compile(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[0-9a-fA-F]{4}|\\.")

Token: TypeAlias = tuple[str, int, int]
Field: TypeAlias = tuple[str, list[Token]]


@cache
def version() -> str:
    """Version of this parser."""
    return f"{VERSION} {DECODING_VERSION}"


def parse(data: bytes, name: str, keep_hidden: bool) -> Parsed:  # noqa: ARG001 - one interface
    """All records. Raises `ParseError` when none can be read."""
    decoded = decode(data)
    text = decoded.text
    spans = _whole(text, name) if PurePath(name).suffix.lower() == ".json" else None
    notes = list(decoded.notes)
    if spans is None:
        spans, broken = _lines(text)
        if broken and not spans:
            raise ParseError(f"{name}: no line holds JSON ({broken[0]}); give JSON Lines, one record a line")
        more = [f"{len(broken) - _MOST_NOTED} more lines are no JSON"] if len(broken) > _MOST_NOTED else []
        notes += broken[:_MOST_NOTED] + more
    builder = LayerBuilder(text)
    for start, end in spans:
        _write_record(builder, start, end)
    layer = builder.build()
    return Parsed(*layer, version(), notes=tuple(notes))


def _lines(text: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Spans of the lines that hold JSON, and a note for each that does not."""
    spans, broken = [], []
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        start, at = at, at + len(line) + 1
        if not line.strip(" \t\r"):
            continue
        problem = _problem(line.removesuffix("\r"))
        if problem:
            broken.append(f"line {number} is no JSON: {problem}")
        else:
            spans.append((start, start + len(line)))
    return spans, broken


def _problem(text: str) -> str:
    """What is wrong with a JSON text, "" if nothing."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"{error.msg} at character {error.pos + 1}"
    except (RecursionError, ValueError):
        return "nested too deeply, or a number too long"
    if text.count("{") + text.count("[") <= DEEPEST:
        return ""
    depth = 0
    for match in _BRACKET.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(match.group(), 0)
        if depth > DEEPEST:
            return f"nested more than {DEEPEST} levels deep"
    return ""


def _whole(text: str, name: str) -> list[tuple[int, int]] | None:
    """Spans of the records of a JSON text: the elements of a list, or all of it. None: it is JSON Lines."""
    problem = _problem(text)
    if problem.startswith("Extra data"):
        return None
    if problem:
        raise ParseError(f"{name}: is no JSON: {problem}; correct the file")
    if not text.lstrip().startswith("["):
        return [(0, len(text))]
    spans, depth, first = [], 0, -1
    for token, start, _ in _tokens(text, 0, len(text)):
        if depth == 1 and token in (",", "]"):
            if first >= 0:
                spans.append((first, start))
            first = -1
        elif depth == 1 and first < 0:
            first = start
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token, 0)
    return spans


def _tokens(text: str, start: int, end: int) -> Iterator[Token]:
    """Tokens of a JSON text that is right; strings with their quotes."""
    at = start
    while match := _TOKEN.match(text, at, end):
        yield match.group(1), *match.span(1)
        at = match.end()


def _write_record(builder: LayerBuilder, start: int, end: int) -> None:
    fields = [field for field in _fields(builder.original, start, end) if field[1]]
    if not fields:
        return
    builder.insert("\n\n" if builder.position else "")
    first = builder.position
    for i, (key, values) in enumerate(fields):
        builder.insert(("\n" if i else "") + (f"{key}: " if key else ""))
        for j, value in enumerate(values):
            builder.insert(", " if j else "")
            _write_value(builder, value)
    builder.block(BlockKind.PARAGRAPH, first)


def _fields(text: str, start: int, end: int) -> list[Field]:
    """(dotted key, values) in the order of the text; nulls and empty strings have no value."""
    tokens = list(_tokens(text, start, end))
    fields: list[Field] = []
    if tokens:
        _add_value(fields, tokens, 0, "")
    return fields


def _add_value(fields: list[Field], tokens: list[Token], at: int, key: str) -> int:
    """Add the fields of the value at a token; the position after it."""
    token = tokens[at][0]
    if token == "{":
        at += 1
        while tokens[at][0] != "}":
            name = tokens[at][0]
            name = json.loads(name) if "\\" in name else name[1:-1]
            at = _add_value(fields, tokens, at + 2, f"{key}.{name}" if key else name)
            at += tokens[at][0] == ","
        return at + 1
    if token == "[":
        return _add_list(fields, tokens, at + 1, key)
    fields.append((key, _said(tokens[at])))
    return at + 1


def _add_list(fields: list[Field], tokens: list[Token], at: int, key: str) -> int:
    plain: list[Token] = []
    number = 0
    while tokens[at][0] != "]":
        if tokens[at][0] in ("{", "["):
            fields.append((key, plain))
            plain = []
            at = _add_value(fields, tokens, at, f"{key}[{number}]")
        else:
            plain += _said(tokens[at])
            at += 1
        number += 1
        at += tokens[at][0] == ","
    fields.append((key, plain))
    return at + 1


def _said(token: Token) -> list[Token]:
    return [] if token[0] in ("null", '""') else [token]


def _write_value(builder: LayerBuilder, token: Token) -> None:
    """A value as it reads: strings without quotes, escapes as what they stand for."""
    text, start, end = token
    if not text.startswith('"'):
        builder.take(start, end)
        return
    at = start + 1
    if "\\" in text:
        for match in _ESCAPE.finditer(builder.original, at, end - 1):
            builder.take(at, match.start())
            builder.put(json.loads(f'"{match.group()}"'), *match.span())
            at = match.end()
    builder.take(at, end - 1)
