"""Markdown blocks, packed within their section."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rag_lab.contracts import Document, RagLabError, Span
from rag_lab.corpus.chunking.piece import Piece, Tokens, TokenSpans
from rag_lab.corpus.chunking.window import Window, windows


@dataclass(frozen=True)
class Blocks:
    """Markdown blocks packed up to `size` tokens within their section; a longer block falls back to windows."""

    size: int = 200

    def __post_init__(self) -> None:
        if self.size < 8:
            raise RagLabError(f"chunker blocks: size {self.size} is too small; use at least 8 tokens")

    @property
    def version(self) -> str:
        """Rule and parameters."""
        return f"blocks-1(size={self.size})"

    def cut(self, document: Document, token_spans: TokenSpans) -> list[Piece]:
        """Pack the document's blocks."""
        tokens = Tokens(document.text, token_spans)
        return [
            Piece(span, path)
            for path, blocks in _sections(document.text)
            for span in self._pack(tokens, blocks, self._split_block)
        ]

    def _pack(
        self, tokens: Tokens, spans: Iterable[Span], split: Callable[[Tokens, Span], Iterator[Span]]
    ) -> Iterator[Span]:
        """Join neighbours while they fit; a span that is too long by itself goes through `split`."""
        held: Span | None = None
        for span in spans:
            joined = (held[0], span[1]) if held else span
            if tokens.count(joined) <= self.size:
                held = joined
                continue
            if held:
                yield held
            held = span
            if tokens.count(span) > self.size:
                held = None
                yield from split(tokens, span)
        if held:
            yield held

    def _split_block(self, tokens: Tokens, block: Span) -> Iterator[Span]:
        """Cut an over-long block at sentence or line ends where that is possible, else at token edges."""
        return self._pack(tokens, _sentences(tokens.text, block), self._split_sentence)

    def _split_sentence(self, tokens: Tokens, sentence: Span) -> Iterator[Span]:
        return windows(tokens, sentence, Window(self.size))


_SENTENCE = re.compile(r"[^。！？\n]*?(?:[.!?](?=\s)|[。！？]|\n|$)")


def _sentences(text: str, span: Span) -> Iterator[Span]:
    """Spans of the sentences or lines of a block, without outer white space."""
    position = span[0]
    while position < span[1]:
        match = _SENTENCE.match(text, position, span[1])
        end = match.end() if match and match.end() > position else span[1]
        trimmed = _trim(text, (position, end))
        if trimmed:
            yield trimmed
        position = end


def _trim(text: str, span: Span) -> Span | None:
    """The span without white space at its ends, None when nothing is left."""
    piece = text[slice(*span)]
    stripped = piece.strip()
    if not stripped:
        return None
    start = span[0] + piece.index(stripped)
    return start, start + len(stripped)


def _sections(text: str) -> list[tuple[tuple[str, ...], list[Span]]]:
    """Blocks grouped by heading path. A heading belongs to its own section's first chunk."""
    from markdown_it import MarkdownIt

    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(text)
    sections: list[tuple[tuple[str, ...], list[Span]]] = [((), [])]
    path: list[tuple[int, str]] = []
    tokens = MarkdownIt("commonmark").enable("table").parse(text.replace("\r\n", " \n").replace("\r", " "))
    position = 0
    for i, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        if token.type == "heading_open":
            level = int(token.tag[1])
            path = [entry for entry in path if entry[0] < level] + [(level, tokens[i + 1].content)]
            sections.append((tuple(title for _, title in path), []))
        end = starts[min(token.map[1], len(starts) - 1)]
        block = _trim(text, (position, end))
        position = end
        if block:
            sections[-1][1].append(block)
    rest = _trim(text, (position, len(text)))
    if rest:
        sections[-1][1].append(rest)
    return [section for section in sections if section[1]]
