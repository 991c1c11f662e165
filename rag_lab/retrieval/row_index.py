"""An index of rows on Lucene: built in row order, or made from an older one, and searched by batches within rights.

The rights of a request are FILTER clauses of its query, and what it must not see in spite of them MUST_NOT clauses:
Lucene never collects, scores or returns a row outside the scope, and the scores of the rows inside are those of the
whole index.

An index is sorted by document id and position, and merged into one segment without deleted rows. So Lucene's document
number equals the row, however the index came about; its own order (score, then document number) is the tie rule of
`contracts`; and the statistics that scores rest on are those of the rows that are there.

How texts become terms, and how terms score, is the business of `bm25` and `sparse.index`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import FloatArray, IntArray, RagLabError, Ranking
from rag_lab.retrieval import lucene
from rag_lab.retrieval.jvm import java_error, java_exception, serialised

Code: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Analysis:
    """How texts become terms: by `prepare`, then by Lucene's `analyser` of that name. An index written under another
    `version` is refused."""

    analyser: str
    version: str
    prepare: Callable[[str], str]


@dataclass(frozen=True, eq=False)
class Hits:
    """What a search found, in the layout of a `Ranking`: one entry per hit, grouped by query, best first.

    query, row: int32; score: float32, as Lucene computed it; ms: what each query took, ``[queries]``.
    """

    query: IntArray
    row: IntArray
    score: npt.NDArray[np.float32]
    ms: FloatArray

    def ranking(self, channel: str) -> Ranking:
        """The hits as a ranking."""
        return Ranking(channel, len(self.ms), self.query, self.row, self.score.astype(np.float64))


@dataclass(frozen=True, eq=False)
class Entries:
    """Rows to index, one value of each a row, in the order of (document id, position).

    texts: what the analysis reads; scopes: codes of rights classes; positions: numbers within the document, ascending;
    fingerprints: 64 bits that tell rows apart, for the check after building.
    """

    texts: Sequence[str]
    scopes: Sequence[Code]
    document_ids: Sequence[str]
    positions: Sequence[int] | IntArray
    fingerprints: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        given = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(given.values())) > 1:
            listed = ", ".join(f"{count} {name}" for name, count in given.items())
            raise RagLabError(f"Lucene index: {listed}; give one of each per row")


@serialised
def build(folder: Path, entries: Entries, analysis: Analysis) -> None:
    """Write an index into `folder`, which must be empty or absent; what is left there after an error is no index.

    Raises:
        RagLabError: the folder holds files, rows are out of order, or Lucene refuses a text.
    """
    _make(folder, analysis, entries.fingerprints, lambda writer: _add(writer, folder, entries, analysis))


@serialised
def update(
    folder: Path,
    base: Path,
    without: Collection[str],
    entries: Entries,
    fingerprints: npt.NDArray[np.int64],
    analysis: Analysis,
) -> None:
    """Write the index that `base` becomes without some documents and with `entries` into `folder`.

    The files of `base` are linked, not copied: Lucene never writes into a file that is there. Of the deleted documents
    nothing is left in the new folder. Time goes into one merge, which is linear in the size of the index, and small.

    Args:
        folder: empty or absent.
        base: an index of the same analysis, which stays as it is.
        without: ids of documents whose rows are deleted; those in `entries` need not be named if new.
        entries: rows of documents that `base` does not hold, or that are in `without`.
        fingerprints: those of all rows that shall be there, in order.
        analysis: what `base` was built with.

    Raises:
        RagLabError: as `build`; or the result is not what `fingerprints` says.
    """

    def write(writer: Any) -> None:
        if without:
            lucene.delete_documents(writer, without)
        _add(writer, folder, entries, analysis)

    _make(folder, analysis, fingerprints, write, base)


def _make(
    folder: Path,
    analysis: Analysis,
    fingerprints: npt.NDArray[np.int64],
    write: Callable[[Any], None],
    base: Path | None = None,
) -> None:
    """Open a writer, let `write` use it, merge, close and check."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RagLabError(f"{folder}: not empty; build the index in a new folder")
    if base is not None:
        _link_index(base, folder)
    directory = lucene.open_directory(folder)
    try:
        writer = _open_writer(directory, folder, analysis)
        try:
            write(writer)
            _finish(writer, folder, analysis)
        except BaseException:
            # Rolling back closes the writer and gives up its lock, whatever went wrong.
            with suppress(java_exception()):
                writer.rollback()
            raise
        _check(directory, folder, fingerprints)
    finally:
        directory.close()
    # Lucene releases the lock but keeps its file, which says nothing about the index.
    (folder / "write.lock").unlink(missing_ok=True)


def _link_index(base: Path, folder: Path) -> None:
    """Put the files of an index into another folder, without copying their bytes where the file system allows it."""
    if not base.is_dir():
        raise RagLabError(f"{base}: no such folder, and so no index to go on from; build the index instead")
    for path in base.glob("*"):
        if path.name.startswith(("_", "segments_")):
            try:
                os.link(path, folder / path.name)
            except OSError:
                shutil.copy2(path, folder / path.name)


def _open_writer(directory: Any, folder: Path, analysis: Analysis) -> Any:
    try:
        return lucene.open_writer(directory, analysis.analyser)
    except java_exception() as error:
        raise RagLabError(f"{folder}: Lucene cannot go on from the index: {java_error(error)}") from error


def _add(writer: Any, folder: Path, entries: Entries, analysis: Analysis) -> None:
    """Add one Lucene document per row, by one thread."""
    row = lucene.RowFields()
    document = scope = None
    place = "before the first row"
    try:
        for text, code, name, position, fingerprint in zip(
            entries.texts,
            map(str, entries.scopes),
            entries.document_ids,
            np.asarray(entries.positions).tolist(),
            entries.fingerprints.tolist(),
            strict=True,
        ):
            place = f"at chunk {position} of document {name}"
            if name != document:
                document = name
                row.set_document(name)
            if code != scope:
                scope = code
                row.set_scope(code)
            row.set_row(analysis.prepare(text), position, fingerprint)
            writer.addDocument(row.fields)
    except java_exception() as error:
        raise RagLabError(f"{folder}: Lucene stopped {place}: {java_error(error)}") from error


def _finish(writer: Any, folder: Path, analysis: Analysis) -> None:
    """Merge into one segment, which drops what was deleted, and commit."""
    try:
        lucene.set_commit_data(writer, {"language": analysis.analyser, "analysis": analysis.version})
        writer.forceMerge(1)
        writer.close()
    except java_exception() as error:
        raise RagLabError(f"{folder}: Lucene stopped while merging: {java_error(error)}") from error


def _check(directory: Any, folder: Path, fingerprints: npt.NDArray[np.int64]) -> None:
    """Read the index back: one segment without deleted rows, in order, and each row the one that is expected there."""
    reader = lucene.open_reader(directory, folder)
    try:
        rows, alive, segments = reader.maxDoc(), reader.numDocs(), reader.leaves().size()
        ordered = lucene.documents_by_position(reader)
        told_apart = lucene.documents_by_fingerprint(reader)
    finally:
        reader.close()
    if (
        segments > 1
        or not rows == alive == len(fingerprints)
        or not np.array_equal(ordered, np.arange(rows))
        or not np.array_equal(told_apart, np.argsort(fingerprints, kind="stable"))
    ):
        raise RagLabError(
            f"{folder}: Lucene holds {alive} of {rows} documents in {segments} segments, not {len(fingerprints)} rows "
            "in order"
        )


class RowIndex:
    """An index folder, opened for reading. Any number of processes may read one folder at a time; the threads of a
    process take turns.

    Attributes:
        analyser: what the index was built with; queries go through the same.
        size: number of rows.
        scopes: the rights classes that occur in it.
    """

    @serialised
    def __init__(self, folder: Path) -> None:
        """Open an index of whatever analysis. Raises RagLabError when there is none, or it is damaged."""
        if not folder.is_dir():
            raise RagLabError(f"{folder}: no such folder, and so no Lucene index; build it first")
        self.folder = folder
        self._directory = lucene.open_directory(folder)
        try:
            self._reader = lucene.open_reader(self._directory, folder)
        except RagLabError:
            self._directory.close()
            raise
        data = self._reader.getIndexCommit().getUserData()
        self.analyser, self.version = str(data.get("language")), str(data.get("analysis"))
        self.size = int(self._reader.maxDoc())
        self.scopes = lucene.terms(self._reader, lucene.SCOPE)

    def check(self, version: str, analysers: Collection[str]) -> None:
        """Close the index and refuse it unless this version of one of these analysers wrote it."""
        if self.version != version or self.analyser not in analysers:
            self.close()
            raise RagLabError(f"{self.folder}: the index was written by another version; build it again")

    @serialised
    def found(
        self,
        queries: Sequence[Callable[[], Any]],
        similarity: Any,
        depth: int | npt.NDArray[Any],
        allowed_scopes: Sequence[Sequence[Code]] | None,
        only: Sequence[Collection[str] | None] | None = None,
        without: Sequence[Collection[str] | None] | None = None,
    ) -> Hits:
        """The best rows of each query, of those in its scope.

        A query with an empty scope finds nothing. A row without a term of the query is not returned.

        Args:
            queries: what makes each of Lucene's queries, which is part of the query's time.
            similarity: how Lucene scores.
            depth: most hits per query, one for all or ``[queries]``.
            allowed_scopes: for each query the rights classes it may see; None searches the whole index for all.
            only: for each query the ids of the documents it is limited to, on top of its rights classes; None: all.
            without: for each query the ids of documents that it must not see; None: there are none.

        Raises:
            RagLabError: lengths differ.
        """
        limits = np.minimum(_depths(depth, len(queries)), self.size)
        scopes = self._known_scopes(allowed_scopes, len(queries))
        searcher = lucene.searcher(self._reader)
        searcher.setSimilarity(similarity)
        narrowing = _Narrowing(scopes, only, without)
        rows: list[IntArray] = []
        scores: list[npt.NDArray[np.float32]] = []
        ms = np.zeros(len(queries))
        for position, (make, limit, scope) in enumerate(zip(queries, limits, scopes, strict=True)):
            began = time.perf_counter()
            if limit > 0 and scope != frozenset():
                top = searcher.search(narrowing.applied(position, make()), int(limit))
                rows.append(lucene.read_documents(top))
                scores.append(lucene.read_scores(top))
            else:
                rows.append(np.empty(0, dtype=np.int32))
            ms[position] = (time.perf_counter() - began) * 1000
        counts = [len(some) for some in rows]
        return Hits(
            np.repeat(np.arange(len(queries), dtype=np.int32), counts),
            np.concatenate([np.empty(0, dtype=np.int32), *rows]),
            np.concatenate([np.empty(0, dtype=np.float32), *scores]),
            ms,
        )

    @serialised
    def documents(self) -> tuple[str, ...]:
        """Ids of all documents that the index lists, in order."""
        return lucene.terms(self._reader, lucene.DOCUMENT)

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Narrowing:
    """Filters of the queries of one search; those with the same scope, or the same list of documents, share one."""

    def __init__(
        self,
        scopes: Sequence[frozenset[str] | None],
        only: Sequence[Collection[str] | None] | None,
        without: Sequence[Collection[str] | None] | None,
    ) -> None:
        for name, given in (("only", only), ("without", without)):
            if given is not None and len(given) != len(scopes):
                raise RagLabError(f"{name}: {len(given)} entries for {len(scopes)} queries; give one for each")
            if wrong := [entry for entry in given or () if isinstance(entry, str)]:
                raise RagLabError(f"{name}: {wrong[0]!r} is one document id; give a list of ids for each query")
        nothing: list[None] = [None] * len(scopes)
        self._scopes, self._only, self._without = scopes, only or nothing, without or nothing
        self._filters: dict[tuple[str, Any], Any] = {}

    def applied(self, position: int, query: Any) -> Any:
        """The query at this position in its limits."""
        scope, only, without = self._scopes[position], self._only[position], self._without[position]
        passing = [] if scope is None else [self._filter(lucene.SCOPE, scope, scope)]
        if only is not None:
            passing.append(self._filter(lucene.DOCUMENT, id(only), only))
        barred = [self._filter(lucene.DOCUMENT, id(without), without)] if without else []
        return lucene.within(query, passing, barred) if passing or barred else query

    def _filter(self, field: str, name: Any, terms: Collection[str]) -> Any:
        if (field, name) not in self._filters:
            self._filters[field, name] = lucene.term_filter(field, terms)
        return self._filters[field, name]


def _depths(depth: int | npt.NDArray[Any], queries: int) -> npt.NDArray[np.int64]:
    """The depth of each query, ``[queries]``."""
    given = np.asarray(depth)
    if given.shape not in ((), (queries,)) or (given < 0).any():
        raise RagLabError(f"depth: give one number of at least 0, or one for each of {queries} queries; got {depth}")
    return np.broadcast_to(given.astype(np.int64), (queries,))
