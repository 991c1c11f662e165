"""Cut documents into chunks. A chunk is a slice of the document's text, so its offsets are exact by construction.

`whole` keeps a document in one piece; `window` slides a window of tokens; `recursive` cuts at the coarsest separator
within reach; `blocks` packs headings, paragraphs, lists, tables and code within their section; `semantic` cuts where
the meaning turns; `parent_child` searches small chunks and shows the larger part around them. Tokens are the encoder's.

Chunkers other than `blocks` and `parent_child` know no structure: their chunks may reach over a place where the rights
of a document change, and then inherit the strictest right of all that they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rag_lab.contracts import RagLabError
from rag_lab.corpus.chunking.blocks import Blocks
from rag_lab.corpus.chunking.boundaries import crosses, rights_parts
from rag_lab.corpus.chunking.parent_child import ParentChild
from rag_lab.corpus.chunking.piece import Chunker, Piece, Tokens, TokenSpans
from rag_lab.corpus.chunking.recursive import Recursive
from rag_lab.corpus.chunking.semantic import Semantic
from rag_lab.corpus.chunking.whole import Whole
from rag_lab.corpus.chunking.window import Window

__all__ = [
    "CHUNKERS",
    "Blocks",
    "Chunker",
    "ParentChild",
    "Piece",
    "Recursive",
    "Semantic",
    "TokenSpans",
    "Tokens",
    "Whole",
    "Window",
    "crosses",
    "load_chunker",
    "rights_parts",
    "settings_of",
]

CHUNKERS: Mapping[str, type[Chunker]] = {
    chunker.name: chunker for chunker in (Whole, Window, Recursive, Blocks, Semantic, ParentChild)
}


def load_chunker(name: str, **settings: Any) -> Chunker:
    """A chunker by name with its settings; what is not given has its default, and None means not given.

    Raises RagLabError, with the field's name, for a name or setting that is not known and a value that cannot be.
    """
    if not isinstance(name, str) or name not in CHUNKERS:
        raise RagLabError(f"snapshot.chunker.name: {name!r} is unknown; use one of {', '.join(CHUNKERS)}")
    known = [setting.name for setting in fields(CHUNKERS[name])]
    given = {key: value for key, value in settings.items() if value is not None}
    for key in given:
        if key not in known:
            choice = f"use {' or '.join(known)}" if known else "it has no settings; remove it"
            raise RagLabError(f"snapshot.chunker.{key}: unknown field of chunker {name!r}; {choice}")
    try:
        return TypeAdapter(CHUNKERS[name]).validate_python(given)
    except ValidationError as error:
        fault = error.errors()[0]
        message = fault["msg"][0].lower() + fault["msg"][1:]
        raise RagLabError(f"snapshot.chunker.{fault['loc'][0]}: {message} (found {fault['input']!r})") from error


def settings_of(chunker: Chunker) -> dict[str, Any]:
    """Name and settings, as `load_chunker` takes them."""
    return {"name": chunker.name} | {setting.name: getattr(chunker, setting.name) for setting in fields(chunker)}
