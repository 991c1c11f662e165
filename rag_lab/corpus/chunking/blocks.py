"""Structure-aware chunks: blocks packed within their section, and what belongs together kept together.

The blocks are those that the parser gave, else those of the text read as Markdown. They are packed in order up to the
size, by these rules:

* A chunk never reaches over a place where the rights of the document change, nor over a heading. A heading goes with
  what follows it; one that has nothing of its own goes with the next section.
* A block that fits, with the heading above it, is never cut. One that does not is cut at its seams: a table at rows, a
  list and code at lines, other text at sentences, and a seamless part at the coarsest separator within reach (see
  `recursive`). What remains of a table carries the header row as `lead`; a header that is longer than half the size is
  left out.
* A condition stays with its conclusion. A paragraph or sentence stays with the next one when it ends with a colon,
  when it introduces a list, or when it opens with a condition (`OPENERS`: if, unless, provided that, 如果, 除非,
  以下情况 and the like); it stays with the one before when it opens with an exception or its counterpart
  (`FOLLOWERS`: otherwise, except, however, 否则, 但 and the like). Where both do not fit into one chunk they part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass as record
from dataclasses import replace
from typing import ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from rag_lab.contracts import Block, BlockKind, Document, Span
from rag_lab.corpus.chunking.boundaries import rights_parts
from rag_lab.corpus.chunking.breaks import sentences
from rag_lab.corpus.chunking.piece import SETTINGS, Piece, TokenChunker, Tokens
from rag_lab.corpus.chunking.recursive import recursive
from rag_lab.corpus.markdown import markdown_blocks
from rag_lab.text import trim

OPENERS = re.compile(
    r"\s*[*_>]*(?:(?:only |even |and |but )?(?:if|when|where|whenever|unless|once)\b|provided(?: that)?\b|"
    r"in (?:the )?(?:event|case)\b|in the following cases\b|under the following\b|as long as\b|"
    r"如果|若(?!干)|倘若|假如|要是|除非|只要|只有|一旦|当(?![地前年天代局然事今])|以下情况|下列情况|有下列|在以下|在下列)",
    re.IGNORECASE,
)
"""What a condition opens with; its conclusion follows."""

FOLLOWERS = re.compile(
    r"\s*[*_>]*(?:otherwise\b|except\b|however\b|in that case\b|in this case\b|this does not apply\b|then\b|"
    r"否则|但|不过|然而|例外|则|那么|此时|在此情况下)",
    re.IGNORECASE,
)
"""What an exception or a conclusion opens with; it says something about what stands before."""

_TABLE_RULE = re.compile(r"\s*\n[ \t]*\|?[ \t:|+-]*-[ \t:|+-]*(?=\r?\n|$)")
_COLON = re.compile(r"[:：][\s*_]*$")
_LINES = (BlockKind.TABLE, BlockKind.LIST, BlockKind.CODE)
_PROSE = (BlockKind.PARAGRAPH, BlockKind.QUOTE)


@record(frozen=True, slots=True)
class _Atom:
    """A part that is not cut again. `joined`: it stays with the one before; `row`: it continues a cut table."""

    span: Span
    block: Block
    joined: bool = False
    row: bool = False


@dataclass(frozen=True, config=SETTINGS)
class Blocks(TokenChunker):
    """Chunks of whole blocks, of at most `size` tokens with their lead."""

    name: ClassVar[str] = "blocks"
    rule: ClassVar[int] = 4
    size: int = Field(200, ge=8)

    def pieces(self, document: Document, tokens: Tokens) -> list[Piece]:
        """Pack the document's blocks."""
        blocks = document_blocks(document)
        return [piece for part in rights_parts(document) for piece in self.within(tokens, blocks, part)]

    def within(self, tokens: Tokens, blocks: Sequence[Block], part: Span) -> Iterator[Piece]:
        """Pieces of one part of the document."""
        for section in _sections(_inside(tokens.text, blocks, part)):
            yield from self._packed(tokens, section)

    def _packed(self, tokens: Tokens, section: Sequence[Block]) -> Iterator[Piece]:
        """Pieces of one section."""
        held: list[_Atom] = []
        for atom in self._atoms(tokens, section):
            if held and self._count(tokens, [*held, atom]) > self.size:
                kept = self._joined_tail(tokens, held, atom)
                yield self._piece(tokens, held[: len(held) - kept])
                held = held[len(held) - kept :]
            held.append(atom)
        if held:
            yield self._piece(tokens, held)

    def _joined_tail(self, tokens: Tokens, held: Sequence[_Atom], atom: _Atom) -> int:
        """How many of the held atoms go with the next one: as many as belong to it and fit, and no heading is left."""
        chain = 0
        following = atom
        for before in reversed(held):
            if not following.joined:
                break
            chain += 1
            following = before
        while chain and not self._may_part(tokens, held, chain, atom):
            chain -= 1
        return chain

    def _may_part(self, tokens: Tokens, held: Sequence[_Atom], chain: int, atom: _Atom) -> bool:
        if chain == len(held) or held[-chain - 1].block.kind is BlockKind.HEADING:
            return False
        return self._count(tokens, [*held[-chain:], atom]) <= self.size

    def _atoms(self, tokens: Tokens, section: Sequence[Block]) -> Iterator[_Atom]:
        """The blocks of a section, those that are too long in parts."""
        before: Block | None = None
        above = 0
        for block in section:
            joined = before is not None and _belong_together(tokens.text, before, block)
            room = self.size - above if above <= self.size // 2 else self.size
            whole = tokens.count(block.span) <= room
            parts = [block.span] if whole else list(self._parts(tokens, block, room))
            for number, span in enumerate(parts):
                if number:
                    joined = _parts_belong_together(tokens.text, block, parts[number - 1], span)
                yield _Atom(span, block, joined, number > 0 and span[0] >= _head_end(tokens.text, block) > 0)
            before = block
            above = above + tokens.count(block.span) if block.kind is BlockKind.HEADING else 0

    def _parts(self, tokens: Tokens, block: Block, room: int) -> Iterator[Span]:
        """The seams of a block that is too long; a part that is still too long is cut where it can be."""
        head = _head_end(tokens.text, block)
        for seam in _seams(tokens.text, block):
            span = trim(tokens.text, seam)
            if span is None:
                continue
            most = room - self._lead_tokens(tokens, block) if span[0] >= head > 0 else room
            if tokens.count(span) <= most:
                yield span
            else:
                yield from recursive(tokens, span, most)

    def _lead_tokens(self, tokens: Tokens, block: Block) -> int:
        """Tokens of the header row as later parts of the table carry it, 0 where it is too long for that."""
        count = tokens.count(block.lead) if block.lead else 0
        return count if count <= self.size // 2 else 0

    def _count(self, tokens: Tokens, atoms: Sequence[_Atom]) -> int:
        lead = self._lead_tokens(tokens, atoms[0].block) if atoms[0].row else 0
        return lead + tokens.count((atoms[0].span[0], atoms[-1].span[1]))

    def _piece(self, tokens: Tokens, atoms: Sequence[_Atom]) -> Piece:
        first = atoms[0]
        told = next((atom.block for atom in atoms if atom.block.kind is not BlockKind.HEADING), atoms[-1].block)
        lead = first.block.lead if first.row and self._lead_tokens(tokens, first.block) else None
        return Piece((first.span[0], atoms[-1].span[1]), told.section_path, lead=lead, page=first.block.page)


def document_blocks(document: Document) -> list[Block]:
    """The document's blocks, with what lies between them as paragraphs: nothing is lost."""
    if not document.blocks:
        return list(markdown_blocks(document.text))
    found: list[Block] = []
    position = 0
    for block in document.blocks:
        found.extend(_gap(document.text, (position, block.span[0]), found))
        if span := trim(document.text, (max(position, block.span[0]), block.span[1])):
            found.append(replace(block, span=span))
        position = max(position, block.span[1])
    found.extend(_gap(document.text, (position, len(document.text)), found))
    return found


def _gap(text: str, span: Span, before: Sequence[Block]) -> Iterator[Block]:
    if inside := trim(text, span):
        last = before[-1] if before else Block(BlockKind.PARAGRAPH, span)
        yield Block(BlockKind.PARAGRAPH, inside, last.section_path, page=last.page)


def _inside(text: str, blocks: Sequence[Block], part: Span) -> Iterator[Block]:
    """The blocks, or what of them lies in one part of the document; the lead of a table only if it is there too."""
    for block in blocks:
        span = trim(text, (max(block.span[0], part[0]), min(block.span[1], part[1])))
        if span and block.span[0] < part[1] and part[0] < block.span[1]:
            lead = block.lead if block.lead and part[0] <= block.lead[0] and block.lead[1] <= part[1] else None
            yield replace(block, span=span, lead=lead)


def _sections(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Blocks by section: a new one begins with a heading, or where the path changes, unless only headings stand."""
    section: list[Block] = []
    for block in blocks:
        bare = all(held.kind is BlockKind.HEADING for held in section)
        new = block.kind is BlockKind.HEADING or (section and block.section_path != section[-1].section_path)
        if new and not bare:
            yield section
            section = []
        section.append(block)
    if section:
        yield section


def _belong_together(text: str, before: Block, block: Block) -> bool:
    """Whether two blocks stay in one chunk when both fit."""
    if before.kind is BlockKind.HEADING:
        return True
    if before.kind not in _PROSE:
        return False
    introduces = block.kind is BlockKind.LIST
    return introduces or _stay_together(text, before.span, block.span, prose=block.kind in _PROSE)


def _stay_together(text: str, before: Span, after: Span, prose: bool = True) -> bool:
    """Whether the first of two paragraphs or sentences announces the second, or the second speaks of the first."""
    said = text[slice(*before)]
    announced = _COLON.search(said) is not None or OPENERS.match(said) is not None
    return announced or (prose and FOLLOWERS.match(text, *after) is not None)


def _parts_belong_together(text: str, block: Block, before: Span, after: Span) -> bool:
    """Whether two parts of a cut block stay in one chunk when both fit: also a table's header and its first row."""
    if block.kind is BlockKind.TABLE:
        return before[0] < _head_end(text, block)
    return block.kind in _PROSE and _stay_together(text, before, after)


def _head_end(text: str, block: Block) -> int:
    """Where a table's header ends, with the rule below it in Markdown; 0 for any block without a header."""
    if block.kind is not BlockKind.TABLE or block.lead is None:
        return 0
    rule = _TABLE_RULE.match(text, block.lead[1], block.span[1])
    return rule.end() if rule else block.lead[1]


def _seams(text: str, block: Block) -> Iterator[Span]:
    """Parts at which a block may be cut: a table's header and rows, lines of lists and code, else sentences."""
    if block.kind not in _LINES:
        yield from sentences(text, block.span)
        return
    start = max(block.span[0], _head_end(text, block))
    if start > block.span[0]:
        yield block.span[0], start
    while start < block.span[1]:
        end = text.find("\n", start, block.span[1])
        end = end + 1 if end >= 0 else block.span[1]
        yield start, end
        start = end
