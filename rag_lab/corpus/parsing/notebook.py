"""Jupyter notebooks: Markdown cells as Markdown, code cells as code, outputs as far as they are text.

`original` is not the file, whose JSON spells every line end and quote in another way, but its text layer: the sources
of all cells and the texts of their outputs in order, blank lines between. Offsets point into it. Headings of Markdown
cells are the section paths of the cells below them. Of outputs stay what a program printed, results as plain text or
Markdown, and errors; images and other data, widgets, and the escape codes of terminals do not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from rag_lab.contracts import BlockKind
from rag_lab.corpus.parsing import code, markdown
from rag_lab.corpus.parsing.decoding import decode
from rag_lab.corpus.parsing.layer import LayerBuilder
from rag_lab.corpus.parsing.parsed import Parsed, ParseError

_ESCAPE_CODE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_PLACEHOLDER = re.compile(r"\s*<[\w.]+(?: [^<>\n]*)?>\s*")
_SEPARATOR = "\n\n"


@cache
def version() -> str:
    """Version of this parser and of those it uses."""
    return f"notebook-1 {markdown.version()} {code.version()}"


class _Piece(NamedTuple):
    """A text of the notebook: "markdown", "code", "output" or "raw"."""

    kind: str
    text: str


def parse(data: bytes, name: str, keep_hidden: bool = False) -> Parsed:
    """The cells of a notebook. Raises `ParseError` for what is no notebook."""
    decoded = decode(data)
    notebook = _load(decoded.text, name)
    pieces = [piece for piece in _pieces(notebook) if piece.text.strip()]
    builder = LayerBuilder(_SEPARATOR.join(piece.text for piece in pieces))
    grammar = code.grammar_of(_language(notebook))
    seen = markdown.Seen()
    at = 0
    for piece in pieces:
        end = at + len(piece.text)
        if piece.kind == "markdown":
            markdown.add_markdown(builder, at, end, seen)
        else:
            _add(builder, piece, (at, end), seen.headings.path, grammar)
        builder.take(end, min(end + len(_SEPARATOR), len(builder.original)))
        at = end + len(_SEPARATOR)
    layer = builder.build()
    metadata = notebook.get("metadata")
    title = metadata.get("title") if isinstance(metadata, dict) else None
    return Parsed(
        *layer,
        version(),
        title=title if isinstance(title, str) else "",
        removed=dict(sorted(seen.removed.items())),
        hidden=tuple(seen.hidden) if keep_hidden else (),
        notes=decoded.notes,
    )


def _add(
    builder: LayerBuilder, piece: _Piece, span: tuple[int, int], path: tuple[str, ...], grammar: code.Grammar | None
) -> None:
    if piece.kind == "code":
        magic = piece.text.lstrip().startswith(("%%", "!"))
        code.add_code(builder, *span, None if magic else grammar, path)
        return
    start = builder.position
    builder.take(*span)
    builder.block(BlockKind.PARAGRAPH if piece.kind == "raw" else BlockKind.CODE, start, section_path=path)


def _load(text: str, name: str) -> Mapping[str, Any]:
    """The notebook in format 4."""
    try:
        notebook = json.loads(text)
    except RecursionError:
        raise ParseError(f"{name}: the notebook is nested too deeply; write it again with Jupyter") from None
    except ValueError as error:
        raise ParseError(f"{name}: is no JSON, and so no notebook ({error}); write it again with Jupyter") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise ParseError(
            f"{name}: field nbformat is missing, so this is no notebook; name the file .json if it is data"
        )
    if notebook["nbformat"] < 4:
        return _upgraded(notebook, name)
    return notebook


def _upgraded(notebook: dict[str, Any], name: str) -> Mapping[str, Any]:
    import nbformat

    try:
        upgraded = nbformat.convert(nbformat.from_dict(notebook), 4)  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 - the converter raises whatever a broken notebook leads to
        raise ParseError(
            f"{name}: nbformat {notebook['nbformat']} cannot be converted ({type(error).__name__}); "
            "write it again with Jupyter"
        ) from None
    return dict(upgraded)


def _language(notebook: Mapping[str, Any]) -> str:
    """Name of the programming language, "" when the notebook does not state it."""
    metadata = notebook.get("metadata")
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        stated = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(stated, dict) and isinstance(stated.get(name), str):
            return str(stated[name])
    return ""


def _pieces(notebook: Mapping[str, Any]) -> Iterator[_Piece]:
    for cell in _dicts(notebook.get("cells")):
        kind = cell.get("cell_type")
        if kind in ("markdown", "code", "raw"):
            yield _Piece(str(kind), _joined(cell.get("source")))
        if kind == "code":
            for output in _dicts(cell.get("outputs")):
                yield _output(output)


def _output(output: Mapping[str, Any]) -> _Piece:
    kind = output.get("output_type")
    if kind == "stream":
        return _Piece("output", _plain(_joined(output.get("text"))))
    if kind == "error":
        trace = output.get("traceback")
        lines = [line for line in trace if isinstance(line, str)] if isinstance(trace, list) else []
        return _Piece("output", _plain("\n".join(lines) or f"{output.get('ename', '')}: {output.get('evalue', '')}"))
    data = output.get("data")
    if not isinstance(data, dict):
        return _Piece("output", "")
    if "text/markdown" in data:
        return _Piece("markdown", _joined(data["text/markdown"]))
    text = _plain(_joined(data.get("text/plain")))
    return _Piece("output", "" if _PLACEHOLDER.fullmatch(text) else text)


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _joined(source: Any) -> str:
    """A multi-line string, which notebooks store as one string or as its lines."""
    if isinstance(source, str):
        return source
    return "".join(line for line in source if isinstance(line, str)) if isinstance(source, list) else ""


def _plain(text: str) -> str:
    """Printed text without escape codes; of a line that was written over with carriage returns, the last state."""
    text = _ESCAPE_CODE.sub("", text).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
