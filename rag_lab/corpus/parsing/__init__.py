"""Parsers: from the bytes of a source to text, structure and offsets, one file per format.

>>> from rag_lab.corpus.parsing import parse
>>> parse(b"# Scope\\n\\nStaff only.\\n", "policy.md").blocks[0].section_path
('Scope',)

A new format is one file with `version()` and `parse(data, name, keep_hidden)`, and one line in `FORMATS`.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import Protocol, cast

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing.parsed import Parsed as Parsed
from rag_lab.corpus.parsing.parsed import ParseError as ParseError


class Parser(Protocol):
    """What the module of a format offers."""

    def version(self) -> str:
        """Another version may give another result; versions of libraries are part of it."""
        ...

    def parse(self, data: bytes, name: str, keep_hidden: bool) -> Parsed:
        """Read one source. Raises `ParseError`, whose message names it."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """The module that reads a format, the endings of its files, and what its bytes look like.

    `magic` is a regular expression for the first kilobyte and `member` a file that its ZIP archive holds; either is
    believed before the ending. `sniff` is one for the first kilobyte of text, asked only where the ending says nothing.
    """

    module: str
    endings: tuple[str, ...]
    magic: bytes = b""
    member: bytes = b""
    sniff: bytes = b""


CODE_ENDINGS = (
    *(".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".java", ".c", ".h", ".cc", ".cpp"),
    *(".cxx", ".hh", ".hpp", ".hxx", ".go", ".rs", ".sh", ".bash", ".sql", ".cs", ".kt", ".scala", ".swift", ".rb"),
    *(".php", ".lua", ".r", ".jl", ".pl", ".zsh", ".ps1", ".css", ".toml", ".yaml", ".yml", ".ini", ".cfg", ".xml"),
)

FORMATS: Mapping[str, Format] = {
    "pdf": Format("pdf", (".pdf",), magic=rb"\A(?:\xef\xbb\xbf)?\s*%PDF-\d"),
    "docx": Format("docx", (".docx",), member=b"word/document.xml"),
    "pptx": Format("pptx", (".pptx",), member=b"ppt/presentation.xml"),
    "html": Format("html", (".html", ".htm", ".xhtml"), sniff=rb"(?i)\A\s*(<!doctype html|<html|<head|<body)"),
    "markdown": Format("markdown", (".md", ".markdown", ".mdown", ".mkd")),
    "notebook": Format("notebook", (".ipynb",)),
    "table": Format("table", (".csv", ".tsv")),
    "records": Format("records", (".jsonl", ".ndjson", ".json")),
    "code": Format("code", CODE_ENDINGS, sniff=rb"\A#!\s*/"),
    "text": Format("text", (".txt", ".text", ".log", ".rst", ".tex", "")),
}

_SNIFFED = 1024
_BINARY = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_BINARY_MARKS = (b"\x89PNG", b"\x7fELF", b"PK\x03\x04", b"\x1f\x8b", b"GIF8", b"\xff\xd8\xff", b"\xd0\xcf\x11\xe0")
_TEXT_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def format_of(data: bytes, name: str) -> str:
    """Key of `FORMATS` for a source: by unmistakable content, then by the ending of its name, then by its first bytes.

    Raises `ParseError` for bytes that are of no known format.
    """
    head = data[:_SNIFFED]
    for key, candidate in FORMATS.items():
        if candidate.magic and re.search(candidate.magic, head, re.DOTALL):
            return key
        if candidate.member and data.startswith(b"PK\x03\x04") and candidate.member in data:
            return key
    ending = PurePath(name).suffix.lower()
    named = next((key for key, candidate in FORMATS.items() if ending in candidate.endings), "")
    if named and (FORMATS[named].magic or FORMATS[named].member):
        return named
    if not _is_text(data):
        raise ParseError(
            f"{name}: is binary and of no known format; give one of {', '.join(FORMATS)}, or leave the file out"
        )
    if named and named != "text":
        return named
    plain = head.removeprefix(codecs.BOM_UTF8)
    sniffed = (key for key, candidate in FORMATS.items() if candidate.sniff and re.search(candidate.sniff, plain))
    return next(sniffed, "text")


def parser_version(format_name: str) -> str:
    """Version of the parser of a format, a key of `FORMATS`, with all that has a part in its results."""
    return f"{_parser(format_name).version()} {_shared_version()}"


@cache
def _shared_version() -> str:
    from importlib.metadata import version

    from rag_lab.corpus.parsing import decoding, language, layer

    libraries = (f"{name}-{version(name)}" for name in ("turbohtml", "py3langid"))
    ours = (layer.VERSION, decoding.VERSION, language.VERSION)
    return " ".join((*ours, *libraries, f"unicode-{unicodedata.unidata_version}"))


def parse(data: bytes, name: str, *, keep_hidden: bool = False) -> Parsed:
    """Read one source. `name` is its file name or address: its ending helps to tell the format, errors name it.

    `keep_hidden` also hands out, apart from the text, what the source hides from its readers. A title and a language
    that the source does not state are filled: the first heading of level 1, and the language that the text looks like.
    Raises `ParseError`.
    """
    return completed(read(data, name, keep_hidden=keep_hidden))


def read(data: bytes, name: str, *, keep_hidden: bool = False) -> Parsed:
    """What `parse` does before `completed`: the part that untrusted bytes should see only in a process of its own."""
    format_name = format_of(data, name)
    parsed = _parser(format_name).parse(data, name, keep_hidden)
    return replace(parsed, parser=parser_version(format_name))


def completed(parsed: Parsed) -> Parsed:
    """With title and language filled. The language is that of the prose; code without prose goes by its script."""
    from rag_lab.corpus.parsing.language import identify
    from rag_lab.datasets.languages import language_of

    headings = (b.section_path[-1] for b in parsed.blocks if b.kind is BlockKind.HEADING and b.level == 1)
    title = parsed.title or next(headings, "")
    language = parsed.language
    if not language:
        prose = _prose(parsed)
        language = identify(prose) if prose else language_of(parsed.text)
    return replace(parsed, title=title, language=language)


def _prose(parsed: Parsed) -> str:
    if not any(block.kind is BlockKind.CODE for block in parsed.blocks):
        return parsed.text
    return "\n".join(parsed.text[slice(*block.span)] for block in parsed.blocks if block.kind is not BlockKind.CODE)


def _parser(format_name: str) -> Parser:
    return cast(Parser, import_module(f"{__name__}.{FORMATS[format_name].module}"))


def _is_text(data: bytes) -> bool:
    """False where control characters show that the bytes are no text, in UTF-16 either."""
    if data.startswith(_TEXT_MARKS):
        return True
    if data.startswith(_BINARY_MARKS):
        return False
    sample = data[:65536]
    return any(len(_BINARY.findall(part)) * 100 <= len(part) for part in (sample, sample[::2], sample[1::2]))
