"""BM25 on Lucene: an index folder is built once, in row order, and searched by batches of queries.

Analysis, query and scores are Anserini's: English text goes through its default analyser (Porter stems), Chinese
through Lucene's bigrams, and a query is the disjunction of its terms, weighted by their counts. Scores are Lucene's
BM25 (Robertson and Zaragoza 2009, with idf = ln(1 + (N - n + 0.5) / (n + 0.5)) and without the constant k1 + 1).

The rights of a request are a FILTER clause of its query: Lucene never collects, scores or returns a row outside the
scope, and the scores of the rows inside are those of the whole index.

Lucene's document number equals the row, so its own order (score, then document number) is the tie rule of `contracts`.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, IntArray, RagLabError, Ranking
from rag_lab.retrieval import lucene
from rag_lab.retrieval.jvm import java_class, java_error, java_exception, java_string, lucene_version, serialised

Code: TypeAlias = int | str

ANALYSIS = "1"
"""Changes whenever `normalise` or an analyser does: an index built under another value is refused."""

WIDTH_FORMS = re.compile("[\uff01-\uffef]+")


@dataclass(frozen=True, eq=False)
class Hits:
    """What a search found, in the layout of a `Ranking`: one entry per hit, grouped by query, best first.

    query, row: int32; score: float32, as Lucene computed it; ms: what each query took, ``[queries]``.
    """

    query: IntArray
    row: IntArray
    score: npt.NDArray[np.float32]
    ms: FloatArray

    def ranking(self, channel: str = "bm25") -> Ranking:
        """The hits as a ranking."""
        return Ranking(channel, len(self.ms), self.query, self.row, self.score.astype(np.float64))


def index_version(language: str) -> str:
    """Identifies how texts of a language are indexed; two indexes of one version give the same scores."""
    lucene.check_language(language)
    return f"lucene-{lucene_version()}/{language}/{ANALYSIS}"


def normalise(text: str) -> str:
    """The form of a text that is indexed and searched: canonical composition (NFC), full-width and half-width forms
    folded. Other compatibility characters stay: folding them all (NFKC) would move Anserini's published scores.
    """
    folded = WIDTH_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)
    return unicodedata.normalize("NFC", folded)


@serialised
def build(folder: Path, texts: Sequence[str], scope_codes: Sequence[Code], language: str, ids: Sequence[str]) -> None:
    """Write an index of `texts` into `folder`, which must be empty or absent.

    Args:
        folder: what is left there after an error is not an index.
        texts: one per row, in row order; a text may be empty.
        scope_codes: the rights class of each row.
        language: one of `lucene.LANGUAGES`; "multilingual" for corpora that mix English and Chinese.
        ids: the chunk id of each row, for error messages; not stored.

    Raises:
        RagLabError: lengths differ, the language is unknown, the folder holds files, or Lucene refuses a text.
    """
    lucene.check_language(language)
    if not len(texts) == len(scope_codes) == len(ids):
        raise RagLabError(
            f"{folder}: {len(texts)} texts, {len(scope_codes)} scope codes and {len(ids)} ids; give one of each per row"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RagLabError(f"{folder}: not empty; build the index in a new folder")
    directory = lucene.open_directory(folder)
    try:
        _write(directory, folder, texts, scope_codes, language, ids)
        _check(directory, folder, len(texts))
    finally:
        directory.close()
    # Lucene releases the lock but keeps its file, which says nothing about the index.
    (folder / "write.lock").unlink(missing_ok=True)


def _write(
    directory: Any,
    folder: Path,
    texts: Sequence[str],
    scope_codes: Sequence[Code],
    language: str,
    ids: Sequence[str],
) -> None:
    """Add one Lucene document per row, by one thread, and merge them into one segment."""
    writer = lucene.open_writer(directory, language)
    contents, number = lucene.text_field(), lucene.row_field()
    documents: dict[str, Any] = {}
    place = "before the first chunk"
    try:
        for row, (text, scope, chunk_id) in enumerate(zip(texts, scope_codes, ids, strict=True)):
            place, code = f"at chunk {chunk_id}", str(scope)
            if code not in documents:
                documents[code] = lucene.document(contents, number, code)
            contents.setStringValue(java_string(normalise(text)))
            number.setLongValue(row)
            writer.addDocument(documents[code])
        place = "while merging"
        lucene.set_commit_data(writer, {"language": language, "analysis": ANALYSIS})
        writer.forceMerge(1)
        writer.close()
    except BaseException as error:
        # Rolling back closes the writer and gives up its lock, whatever went wrong.
        with suppress(java_exception()):
            writer.rollback()
        if isinstance(error, java_exception()):
            raise RagLabError(f"{folder}: Lucene stopped {place}: {java_error(error)}") from error
        raise


def _check(directory: Any, folder: Path, rows: int) -> None:
    """Read the index back: one segment, in which document number and row agree."""
    reader = lucene.open_reader(directory, folder)
    try:
        order = lucene.documents_by_row(reader)
        segments = reader.leaves().size()
    finally:
        reader.close()
    if segments > 1 or not np.array_equal(order, np.arange(rows)):
        raise RagLabError(
            f"{folder}: Lucene holds {len(order)} documents in {segments} segments, not {rows} rows in order"
        )


class Bm25Index:
    """An index folder, opened for reading. Any number of processes may read one folder at a time; the threads of a
    process take turns.

    Attributes:
        language: what the index was built for; queries go through the same analyser.
        size: number of rows.
        scopes: the rights classes that occur in it.
    """

    @serialised
    def __init__(self, folder: Path) -> None:
        """Open an index.

        Raises:
            RagLabError: there is none, it is damaged, or another version of the analysis wrote it.
        """
        if not folder.is_dir():
            raise RagLabError(f"{folder}: no such folder, and so no BM25 index; build it first")
        self._directory = lucene.open_directory(folder)
        try:
            self._reader = lucene.open_reader(self._directory, folder)
        except RagLabError:
            self._directory.close()
            raise
        data = self._reader.getIndexCommit().getUserData()
        self.language = str(data.get("language"))
        if data.get("analysis") != ANALYSIS or self.language not in lucene.LANGUAGES:
            self.close()
            raise RagLabError(f"{folder}: the index was written by another version; build it again")
        self.size = int(self._reader.maxDoc())
        self.scopes = lucene.terms(self._reader, lucene.SCOPE)

    @serialised
    def search(
        self,
        queries: Sequence[str],
        depth: int | npt.NDArray[Any],
        allowed_scopes: Sequence[Sequence[Code]] | None,
        k1: float = 0.9,
        b: float = 0.4,
    ) -> Hits:
        """The best rows of each query, of those in its scope.

        A query without a known term, or with an empty scope, finds nothing. A row without a term of the query is not
        returned.

        Args:
            queries: plain text; no character has a special meaning.
            depth: most hits per query, one for all or ``[queries]``.
            allowed_scopes: for each query the rights classes it may see; None searches the whole index for all.
            k1: saturation of term frequency, 0 or more.
            b: weight of the document's length, from 0 to 1.

        Raises:
            RagLabError: lengths differ, or a parameter is out of range.
        """
        limits = np.minimum(_depths(depth, len(queries)), self.size)
        scopes = self._known_scopes(allowed_scopes, len(queries))
        searcher = lucene.searcher(self._reader)
        searcher.setSimilarity(_similarity(k1, b))
        filters: dict[frozenset[str], Any] = {}
        rows: list[IntArray] = []
        scores: list[npt.NDArray[np.float32]] = []
        ms = np.zeros(len(queries))
        for position, (text, limit, scope) in enumerate(zip(queries, limits, scopes, strict=True)):
            began = time.perf_counter()
            if limit > 0 and scope != frozenset():
                query = self._query(text)
                if scope is not None:
                    if scope not in filters:
                        filters[scope] = lucene.scope_filter(scope)
                    query = lucene.within(query, filters[scope])
                top = searcher.search(query, int(limit))
                rows.append(lucene.read_documents(top))
                scores.append(lucene.read_scores(top))
            else:
                rows.append(np.empty(0, dtype=np.int32))
            ms[position] = (time.perf_counter() - began) * 1000
        counts = [len(found) for found in rows]
        return Hits(
            np.repeat(np.arange(len(queries), dtype=np.int32), counts),
            np.concatenate([np.empty(0, dtype=np.int32), *rows]),
            np.concatenate([np.empty(0, dtype=np.float32), *scores]),
            ms,
        )

    def _query(self, text: str) -> Any:
        """The bag of words of a question."""
        analyser = lucene.analyser(self.language)
        return lucene.query_generator().buildQuery(lucene.CONTENTS, analyser, java_string(normalise(text)))

    def _known_scopes(self, allowed: Sequence[Sequence[Code]] | None, queries: int) -> list[frozenset[str] | None]:
        """The rights classes of the index that each query may see; None where it may see them all."""
        if allowed is None:
            return [None] * queries
        if len(allowed) != queries:
            raise RagLabError(f"allowed_scopes: {len(allowed)} entries for {queries} queries; give one for each")
        everything = frozenset(self.scopes)
        scopes: list[frozenset[str] | None] = []
        for entry in allowed:
            if isinstance(entry, str):
                raise RagLabError(f"allowed_scopes: {entry!r} is one code; give a list of codes for each query")
            known = everything.intersection(str(code) for code in entry)
            scopes.append(None if known == everything else known)
        return scopes

    @serialised
    def close(self) -> None:
        """Release the files. The index cannot be searched afterwards."""
        self._reader.close()
        self._directory.close()

    def __enter__(self) -> Bm25Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _depths(depth: int | npt.NDArray[Any], queries: int) -> npt.NDArray[np.int64]:
    """The depth of each query, ``[queries]``."""
    given = np.asarray(depth)
    if given.shape not in ((), (queries,)) or (given < 0).any():
        raise RagLabError(f"depth: give one number of at least 0, or one for each of {queries} queries; got {depth}")
    return np.broadcast_to(given.astype(np.int64), (queries,))


def _similarity(k1: float, b: float) -> Any:
    """Lucene's BM25 with these parameters."""
    if not (np.isfinite(k1) and k1 >= 0):
        raise RagLabError(f"k1: {k1} is not a number of at least 0")
    if not 0 <= b <= 1:
        raise RagLabError(f"b: {b} is not between 0 and 1")
    return java_class("org.apache.lucene.search.similarities.BM25Similarity")(float(k1), float(b))
