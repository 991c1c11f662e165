"""Source code: functions, classes and the like as blocks, their nesting as section path.

tree-sitter reads Python, JavaScript, TypeScript, Java, C, C++, Go, Rust, shell and SQL. Comments that stand directly
above a definition belong to its block, and so do decorators. The members of a class are blocks of their own. What lies
between definitions is cut at blank lines, and so is code in other languages, and files above 4 million characters.
The text is the source as it is, apart from what a text layer always makes plain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import BlockKind, Span
from rag_lab.corpus.parsing.decoding import declared_in, decode
from rag_lab.corpus.parsing.layer import LayerBuilder
from rag_lab.corpus.parsing.parsed import Parsed

_LONGEST = 4_000_000
_DEEPEST = 40
_LONGEST_NAME = 200
_BLANK_LINES = re.compile(r"(?:\r\n?|\n)(?:[^\S\r\n]*(?:\r\n?|\n))+")
_REST_OF_LINE = re.compile(r"[^\w\r\n]*(?=[\r\n]|\Z)")
_WORD = re.compile(r"\w")


def _nodes(text: str) -> frozenset[str]:
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Grammar:
    """A tree-sitter grammar and its kinds of nodes.

    `definitions` get a block. Those of `containers` are split into their members. `wrappers` stand around one
    definition and belong to it. `holders` have definitions in them and no name.
    """

    module: str
    definitions: frozenset[str]
    containers: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    function: str = "language"


_ABOVE = _nodes("comment line_comment block_comment attribute_item marginalia")
_FUNCTION_VALUES = _nodes("arrow_function function_expression class generator_function")
_PYTHON = Grammar(
    "tree_sitter_python",
    _nodes("function_definition class_definition"),
    _nodes("class_definition"),
    _nodes("decorated_definition"),
)
_SCRIPT = Grammar(
    "tree_sitter_javascript",
    _nodes("function_declaration generator_function_declaration class_declaration method_definition"),
    _nodes("class_declaration class"),
    _nodes("export_statement lexical_declaration variable_declaration"),
)
_TYPED = Grammar(
    "tree_sitter_typescript",
    _SCRIPT.definitions
    | _nodes(
        "abstract_class_declaration interface_declaration enum_declaration type_alias_declaration internal_module "
        "module"
    ),
    _SCRIPT.containers | _nodes("abstract_class_declaration internal_module module"),
    _SCRIPT.wrappers | _nodes("expression_statement ambient_declaration"),
    function="language_typescript",
)
_C = Grammar(
    "tree_sitter_c",
    _nodes("function_definition struct_specifier union_specifier enum_specifier type_definition"),
    holders=_nodes("preproc_ifdef preproc_if preproc_else preproc_elif linkage_specification declaration_list"),
)
_CPP = Grammar(
    "tree_sitter_cpp",
    _C.definitions | _nodes("class_specifier namespace_definition alias_declaration"),
    _nodes("class_specifier struct_specifier namespace_definition"),
    _nodes("template_declaration"),
    _C.holders,
)
_JAVA = Grammar(
    "tree_sitter_java",
    _nodes(
        "class_declaration interface_declaration enum_declaration record_declaration annotation_type_declaration "
        "method_declaration constructor_declaration"
    ),
    _nodes("class_declaration interface_declaration enum_declaration record_declaration"),
    holders=_nodes("enum_body_declarations"),
)
_GO = Grammar("tree_sitter_go", _nodes("function_declaration method_declaration type_declaration"))
_RUST = Grammar(
    "tree_sitter_rust",
    _nodes("function_item struct_item enum_item union_item trait_item impl_item mod_item macro_definition type_item"),
    _nodes("trait_item impl_item mod_item"),
)
_SHELL = Grammar("tree_sitter_bash", _nodes("function_definition"))
_SQL = Grammar(
    "tree_sitter_sql",
    _nodes(
        "create_table create_view create_materialized_view create_function create_procedure create_index "
        "create_trigger create_type create_schema create_sequence"
    ),
    wrappers=_nodes("statement"),
    holders=_nodes("transaction block"),
)
_ENDINGS: Mapping[str, Grammar] = {
    **dict.fromkeys((".py", ".pyi"), _PYTHON),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), _SCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPED),
    ".tsx": replace(_TYPED, function="language_tsx"),
    ".java": _JAVA,
    ".c": _C,
    **dict.fromkeys((".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx"), _CPP),
    ".go": _GO,
    ".rs": _RUST,
    **dict.fromkeys((".sh", ".bash", ".zsh"), _SHELL),
    ".sql": _SQL,
}
_INTERPRETERS = (("python", _PYTHON), ("node", _SCRIPT), ("sh", _SHELL))


@cache
def version() -> str:
    """Version of this parser and of its libraries."""
    from importlib.metadata import version as installed

    names = sorted({grammar.module.replace("_", "-") for grammar in _ENDINGS.values()})
    return " ".join(["code-1", *(f"{name}-{installed(name)}" for name in ("tree-sitter", *names))])


def parse(data: bytes, name: str, keep_hidden: bool = False) -> Parsed:  # noqa: ARG001 - one interface
    """A source file with its definitions as blocks."""
    decoded = decode(data, declared_in(data[:200]))
    builder = LayerBuilder(decoded.text)
    add_code(builder, 0, len(decoded.text), _grammar(name, decoded.text))
    layer = builder.build()
    return Parsed(*layer, version(), notes=decoded.notes)


def _grammar(name: str, text: str) -> Grammar | None:
    known = _ENDINGS.get(PurePath(name).suffix.lower())
    if known or not text.startswith("#!"):
        return known
    line = text[:200].split("\n", 1)[0]
    return next((grammar for interpreter, grammar in _INTERPRETERS if interpreter in line), None)


def grammar_of(language: str) -> Grammar | None:
    """The grammar of a language by its common name, as a notebook states it."""
    names = {"python": _PYTHON, "javascript": _SCRIPT, "typescript": _TYPED, "sql": _SQL, "rust": _RUST, "go": _GO}
    return names.get(language.lower())


def add_code(builder: LayerBuilder, start: int, end: int, grammar: Grammar | None, path: tuple[str, ...] = ()) -> None:
    """Take a stretch of the original as code, below the headings of `path`."""
    text = builder.original[start:end]
    stretches = [Stretch((0, len(text)), (), True)]
    if grammar and len(text) <= _LONGEST:
        stretches = _Splitter(text, grammar).stretches()
    for stretch in stretches:
        first, last = start + stretch.span[0], start + stretch.span[1]
        if stretch.loose:
            _add_loose(builder, (first, last), (*path, *stretch.path))
        else:
            _add(builder, (first, last), (*path, *stretch.path))


def _add(builder: LayerBuilder, span: Span, path: tuple[str, ...]) -> None:
    start = builder.position
    builder.take(*span)
    builder.block(BlockKind.CODE, start, section_path=path)


def _add_loose(builder: LayerBuilder, span: Span, path: tuple[str, ...]) -> None:
    """A block for each part without blank lines."""
    at = span[0]
    for gap in _BLANK_LINES.finditer(builder.original, *span):
        _add(builder, (at, gap.start()), path)
        builder.take(*gap.span())
        at = gap.end()
    _add(builder, (at, span[1]), path)


class Stretch(NamedTuple):
    """A part of a source and the names it lies in. `loose`: it is no definition, and may be cut at blank lines."""

    span: Span
    path: tuple[str, ...]
    loose: bool


class _Member(NamedTuple):
    """A definition inside another: where it starts and ends with what belongs to it, and its node."""

    start: int
    end: int
    node: Any


class _Splitter:
    """Cuts one source into stretches that follow one another without gaps."""

    def __init__(self, text: str, grammar: Grammar) -> None:
        self._text = text
        self._data = text.encode("utf-8", "replace")
        self._grammar = grammar
        self._place = _places(text, self._data)
        self._stretches: list[Stretch] = []

    def stretches(self) -> list[Stretch]:
        """All of them, in order."""
        from tree_sitter import Language, Parser

        language = Language(getattr(import_module(self._grammar.module), self._grammar.function)())
        tree = Parser(language).parse(self._data)
        self._cover((0, len(self._text)), self._members(tree.root_node, 0), (), 0)
        return self._stretches

    def _cover(self, span: Span, members: list[_Member], path: tuple[str, ...], depth: int) -> None:
        at = span[0]
        for member in members:
            if member.start < at:
                continue
            if member.start > at:
                self._stretches.append(Stretch((at, member.start), path, True))
            self._define(member, path, depth)
            at = member.end
        if at >= span[1]:
            return
        if at > span[0] and not _WORD.search(self._text, at, span[1]):
            last = self._stretches[-1]
            self._stretches[-1] = last._replace(span=(last.span[0], span[1]))
        else:
            self._stretches.append(Stretch((at, span[1]), path, True))

    def _define(self, member: _Member, path: tuple[str, ...], depth: int) -> None:
        names = self._names(member.node)
        own = (*path, *names)
        body = member.node.child_by_field_name("body") if member.node.type in self._grammar.containers else None
        members = self._members(body, depth + 1) if body is not None and depth < _DEEPEST else []
        if members:
            self._cover((member.start, member.end), members, own, depth + 1)
        else:
            self._stretches.append(Stretch((member.start, member.end), own, False))

    def _members(self, node: Any, depth: int) -> list[_Member]:
        """Definitions directly inside a node, each with the comments right above it."""
        found: list[_Member] = []
        above, row = -1, -2
        for child in node.named_children:
            if child.type in _ABOVE:
                if above < 0 or child.start_point.row > row + 1:
                    above = child.start_byte
                row = child.end_point.row - (child.end_point.column == 0)
                continue
            inner = self._definition(child, 0)
            if inner is not None:
                attached = above >= 0 and child.start_point.row <= row + 1
                found.append(self._member(above if attached else child.start_byte, child.end_byte, inner))
            elif child.type in self._grammar.holders and depth < _DEEPEST:
                found += self._members(child, depth + 1)
            above, row = -1, -2
        return found

    def _member(self, start_byte: int, end_byte: int, node: Any) -> _Member:
        """From the start of its line, if it is the first there, to the end of its line, if only signs follow."""
        start, end = self._place(start_byte), self._place(end_byte)
        line = max(self._text.rfind("\n", 0, start), self._text.rfind("\r", 0, start)) + 1
        start = line if not self._text[line:start].strip() else start
        rest = _REST_OF_LINE.match(self._text, end)
        return _Member(start, rest.end() if rest else end, node)

    def _definition(self, node: Any, depth: int) -> Any | None:
        """The definition that a node is, or that it wraps."""
        if node.type in self._grammar.definitions:
            return node
        if node.type == "variable_declarator":
            value = node.child_by_field_name("value")
            return node if value is not None and value.type in _FUNCTION_VALUES else None
        if (node.type in self._grammar.wrappers or depth) and depth < 4:
            for child in node.named_children[:8]:
                if child.type in self._grammar.definitions | self._grammar.wrappers | {"variable_declarator"}:
                    inner = self._definition(child, depth + 1)
                    if inner is not None:
                        return inner
        return None

    def _names(self, node: Any) -> tuple[str, ...]:
        """What a definition is called; for a method of Go, with the type it belongs to."""
        if node.type == "type_declaration" and node.named_children:
            node = node.named_children[0]
        named = node.child_by_field_name("name")
        if named is None and node.type == "impl_item":
            named = node.child_by_field_name("type")
        inner = node
        for _ in range(8):
            if named is not None or inner is None:
                break
            inner = inner.child_by_field_name("declarator")
            named = inner if inner is not None and inner.child_by_field_name("declarator") is None else None
        if named is None:
            named = next((child for child in node.named_children[:8] if child.type == "object_reference"), None)
        names = [] if named is None else [self._source(named)]
        receiver = node.child_by_field_name("receiver")
        if receiver is not None:
            names = re.findall(r"[^\W\d]\w*", self._source(receiver).partition("[")[0])[-1:] + names
        return tuple(name for name in names if name)

    def _source(self, node: Any) -> str:
        words = self._data[node.start_byte : node.end_byte].decode("utf-8", "replace")
        return " ".join(words.split())[:_LONGEST_NAME]


def _places(text: str, data: bytes) -> Callable[[int], int]:
    """From a byte of the UTF-8 form to a code point of the text."""
    if len(text) == len(data):
        return int
    starts = (np.frombuffer(data, dtype=np.uint8) & 0xC0) != 0x80
    points: npt.NDArray[np.int64] = np.append(np.cumsum(starts) - starts, len(text))
    return lambda byte: int(points[byte])
