"""Parts of an Office Open XML file: XML without entities and within limits, and how parts refer to one another."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from rag_lab.corpus.parsing.archive import Archive
from rag_lab.corpus.parsing.layer import clean
from rag_lab.corpus.parsing.parsed import ParseError

DEEPEST = 200
"""Levels of XML; tables in tables in text boxes have some sixty."""
MOST_ELEMENTS = 5_000_000
_RELATIONSHIP = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"
_CORE = (
    ("title", "{http://purl.org/dc/elements/1.1/}title"),
    ("author", "{http://purl.org/dc/elements/1.1/}creator"),
    ("subject", "{http://purl.org/dc/elements/1.1/}subject"),
    ("description", "{http://purl.org/dc/elements/1.1/}description"),
    ("language", "{http://purl.org/dc/elements/1.1/}language"),
    ("keywords", "{http://schemas.openxmlformats.org/package/2006/metadata/core-properties}keywords"),
    ("created", "{http://purl.org/dc/terms/}created"),
    ("modified", "{http://purl.org/dc/terms/}modified"),
)


@dataclass(frozen=True, slots=True)
class Relationship:
    """What a part refers to. `kind` is the last step of the type's address ("slide", "footnotes")."""

    identity: str
    kind: str
    target: str


class Package:
    """The parts of an office file. Raises `ParseError` as `Archive` does, and for XML that is damaged or hostile."""

    def __init__(self, data: bytes, name: str) -> None:
        self._name = name
        self._archive = Archive(data, name)

    def has(self, part: str) -> bool:
        """Whether there is such a part."""
        return part in self._archive.names

    def xml(self, part: str) -> Any:
        """Root element of a part."""
        return _parse(self._archive.read(part), f"{self._name}: {part}")

    def relationships(self, part: str) -> list[Relationship]:
        """What a part ("" for the file itself) refers to inside of the file, in the order of the file."""
        folder, file = posixpath.split(part)
        path = posixpath.join(folder, "_rels", f"{file}.rels")
        if not self.has(path):
            return []
        found = []
        for element in self.xml(path).iter(_RELATIONSHIP):
            if element.get("TargetMode") != "External":
                target = posixpath.normpath(posixpath.join("/", folder, unquote(element.get("Target", ""))))
                kind = element.get("Type", "").rpartition("/")[2]
                found.append(Relationship(element.get("Id", ""), kind, target.lstrip("/")))
        return found

    def related(self, part: str, kind: str) -> list[str]:
        """Parts of a kind that a part refers to and that are there."""
        return [r.target for r in self.relationships(part) if r.kind == kind and self.has(r.target)]

    def main(self, default: str) -> str:
        """The part that the file is about."""
        return next(iter(self.related("", "officeDocument")), default)

    def properties(self) -> tuple[str, Mapping[str, str]]:
        """Title, and what else the file says of itself."""
        found: dict[str, str] = {}
        for part in self.related("", "core-properties"):
            root = self.xml(part)
            for key, tag in _CORE:
                text = clean(root.findtext(tag) or "")
                if text:
                    found[key] = text
        return found.pop("title", ""), found


def _parse(data: bytes, where: str) -> Any:
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, remove_comments=True, remove_pis=True
    )
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ParseError(f"{where} declares XML entities, which office files never do; leave it out")
    try:
        root: Any = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        message = " ".join(str(error).split())[:200]
        raise ParseError(f"{where} is damaged XML ({message}); save the file again") from None
    if root.getroottree().docinfo.doctype:
        raise ParseError(f"{where} declares XML entities, which office files never do; leave it out")
    _check_depth(root, where)
    return root


def _check_depth(root: Any, where: str) -> None:
    depth = deepest = count = 0
    for event in _events(root):
        depth += event
        deepest = max(deepest, depth)
        count += event > 0
        if deepest > DEEPEST:
            raise ParseError(f"{where} nests elements more than {DEEPEST} levels deep; leave it out")
        if count > MOST_ELEMENTS:
            raise ParseError(f"{where} holds more than {MOST_ELEMENTS} elements; split the file")


def _events(root: Any) -> Iterator[int]:
    """1 where an element starts and -1 where it ends."""
    from lxml import etree

    for event, _ in etree.iterwalk(root, events=("start", "end")):
        yield 1 if event == "start" else -1
