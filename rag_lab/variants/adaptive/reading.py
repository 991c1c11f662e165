"""What of the corpus a question may look at: the text of rows in its own scope, and the titles that they name."""

from __future__ import annotations

from functools import cached_property

from rag_lab.contracts import Claim, RagLabError, Source, Span
from rag_lab.corpus.chunk_table import ChunkTable
from rag_lab.generation.adaptive.titles import Mention, Titles
from rag_lab.variants.stage import Batch


class Reader:
    """Reads for a batch. Every row that it is asked about has to lie in the question's scope."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.table: ChunkTable = batch.snapshot.chunks
        self._mentions: dict[int, list[Mention]] = {}

    @cached_property
    def _titles(self) -> Titles:
        return Titles(self.table.title)

    def text(self, question: int, row: int) -> str:
        """The text of a row."""
        self._check(question, row)
        return self.table.text[row]

    def whole(self, question: int, row: int) -> str:
        """What the indexes see of a row: title, headings and text."""
        self._check(question, row)
        return self.table.indexed_text(row)

    def title(self, question: int, row: int) -> str:
        """The title of a row's document."""
        self._check(question, row)
        return self.table.title[row]

    def document(self, question: int, row: int) -> str:
        """The id of a row's document."""
        self._check(question, row)
        return self.table.document_id[row]

    def chunk(self, question: int, row: int) -> str:
        """The chunk id of a row."""
        self._check(question, row)
        return self.table.chunk_id[row]

    def mentions(self, question: int, row: int) -> list[Mention]:
        """Titles of other documents in a row's text, as far as the question may read rows of them."""
        scope, own = self._batch.scopes.rows(question), self.document(question, row)
        if row not in self._mentions:
            self._mentions[row] = self._titles.mentions(self.table.text[row])
        found = []
        for mention in self._mentions[row]:
            rows = tuple(r for r in mention.rows if scope[r] and self.table.document_id[r] != own)
            if rows:
                found.append(Mention(mention.title, mention.span, rows))
        return found

    def claim(self, question: int, row: int, text: str, span: Span) -> Claim:
        """A statement with the part of a row's text that it comes from."""
        self._check(question, row)
        table, start = self.table, int(self.table.start[row])
        quote = table.text[row][slice(*span)]
        source = Source(
            table.document_id[row],
            table.source_version[row],
            table.chunk_id[row],
            (start + span[0], start + span[1]),
            quote,
            table.source_uri[row],
        )
        return Claim(text, (source,))

    def _check(self, question: int, row: int) -> None:
        if not self._batch.scopes.rows(question)[row]:
            raise RagLabError("adaptive: a row outside the caller's scope was about to be read; nothing was kept")
