"""Lucene's objects as an index of rows needs them: analysers, documents, queries, readers, and hits as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import IntArray, RagLabError
from rag_lab.retrieval.jvm import cast, java_class, java_error, java_exception, java_string

LANGUAGES = ("en", "zh", "multilingual")
IMPACT = "impact"
"""The analyser of texts whose words say how often they count: ``12|345 67|8``."""
DELIMITER = "|"
CONTENTS, SCOPE, DOCUMENT, POSITION, FINGERPRINT = "contents", "scope", "document", "position", "fingerprint"

RAM_BUFFER_MB = 256.0


def check_language(language: str) -> None:
    """Refuse a language that has no analyser."""
    if language not in LANGUAGES:
        raise RagLabError(f"language: {language!r} has no BM25 analyser; choose one of {', '.join(LANGUAGES)}")


@lru_cache(maxsize=len(LANGUAGES) + 1)
def analyser(language: str) -> Any:
    """The one object that analyses texts and queries of a language, or `IMPACT`.

    "en" and "zh" are Anserini's own. "multilingual" makes bigrams of Chinese, Japanese and Korean and treats all else
    as "en" does.
    """
    if language == "en":
        return java_class("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    if language == "zh":
        return java_class("org.apache.lucene.analysis.cjk.CJKAnalyzer")()
    builder = java_class("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
    if language == IMPACT:
        builder.withTokenizer("whitespace")
        builder.addTokenFilter("delimitedTermFrequency")
        return builder.build()
    builder.withTokenizer("standard")
    for step in ("cjkWidth", "englishPossessive", "lowercase", "cjkBigram", "stop", "porterStem"):
        builder.addTokenFilter(step)
    return builder.build()


# --- writing --------------------------------------------------------------------------------------------------------


def open_directory(folder: Path) -> Any:
    """Lucene's view of a folder."""
    path = java_class("java.nio.file.Paths").get(str(folder.absolute()))
    return java_class("org.apache.lucene.store.FSDirectory").open(path)


def open_writer(directory: Any, language: str) -> Any:
    """An index writer that keeps its documents sorted by document id and position, through every merge."""
    config = java_class("org.apache.lucene.index.IndexWriterConfig")(analyser(language))
    config.setMergePolicy(java_class("org.apache.lucene.index.LogDocMergePolicy")())
    config.setRAMBufferSizeMB(RAM_BUFFER_MB)
    config.setIndexSort(sort((DOCUMENT, "STRING"), (POSITION, "LONG")))
    return java_class("org.apache.lucene.index.IndexWriter")(directory, config)


def sort(*fields: tuple[str, str]) -> Any:
    """Lucene's order by the doc values of fields, each of a type that `SortField.Type` names."""
    types = java_class("org.apache.lucene.search.SortField$Type")
    made = [java_class("org.apache.lucene.search.SortField")(name, getattr(types, kind)) for name, kind in fields]
    return java_class("org.apache.lucene.search.Sort")(*made)


class RowFields:
    """The fields of one Lucene document, set anew for every row. Text, rights class and document id are searched by;
    document id and position sort the index; the fingerprint is for the check after building. Nothing is stored."""

    def __init__(self) -> None:
        unstored = java_class("org.apache.lucene.document.Field$Store").NO
        string, number = (
            java_class(f"org.apache.lucene.document.{kind}") for kind in ("StringField", "NumericDocValuesField")
        )
        self._contents = _text_field()
        self._scope, self._document = string(SCOPE, "", unstored), string(DOCUMENT, "", unstored)
        self._sorted = java_class("org.apache.lucene.document.SortedDocValuesField")(DOCUMENT, term_bytes(""))
        self._position, self._fingerprint = number(POSITION, 0), number(FINGERPRINT, 0)
        self.fields = java_class("java.util.ArrayList")()
        for one in (
            self._contents,
            self._scope,
            self._document,
            self._sorted,
            self._position,
            self._fingerprint,
        ):
            self.fields.add(one)

    def set_document(self, document_id: str) -> None:
        """The document that the next rows belong to."""
        self._document.setStringValue(java_string(document_id))
        self._sorted.setBytesValue(term_bytes(document_id))

    def set_scope(self, code: str) -> None:
        """The rights class of the next rows."""
        self._scope.setStringValue(java_string(code))

    def set_row(self, text: str, position: int, fingerprint: int) -> None:
        """Text, position in the document and fingerprint of the next row."""
        self._contents.setStringValue(java_string(text))
        self._position.setLongValue(position)
        self._fingerprint.setLongValue(fingerprint)


def _text_field() -> Any:
    """The field of the analysed text: term frequencies and lengths, no positions."""
    kind = java_class("org.apache.lucene.document.FieldType")()
    kind.setTokenized(True)
    kind.setIndexOptions(java_class("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
    kind.freeze()
    empty = cast("java.lang.CharSequence", java_string(""))
    return java_class("org.apache.lucene.document.Field")(CONTENTS, empty, kind)


def term_bytes(term: str) -> Any:
    """A term as Lucene stores it."""
    return java_class("org.apache.lucene.util.BytesRef")(term.encode("utf-8"))


def delete_documents(writer: Any, document_ids: Iterable[str]) -> None:
    """Delete all rows of these documents."""
    writer.deleteDocuments(term_filter(DOCUMENT, document_ids))


def set_commit_data(writer: Any, data: Mapping[str, str]) -> None:
    """Let the index say something about itself."""
    entries = java_class("java.util.HashMap")()
    for name, value in data.items():
        entries.put(name, value)
    writer.setLiveCommitData(entries.entrySet())


# --- reading --------------------------------------------------------------------------------------------------------


def open_reader(directory: Any, folder: Path) -> Any:
    """A reader of a complete index.

    Raises:
        RagLabError: the folder holds no index, or a damaged one.
    """
    try:
        return java_class("org.apache.lucene.index.DirectoryReader").open(directory)
    except java_exception() as error:
        raise RagLabError(f"{folder}: no readable Lucene index ({java_error(error)}); build it again") from error


def searcher(reader: Any) -> Any:
    """A searcher; the cast picks among constructors that jnius cannot tell apart."""
    return java_class("org.apache.lucene.search.IndexSearcher")(cast("org.apache.lucene.index.IndexReader", reader))


def terms(reader: Any, field: str) -> tuple[str, ...]:
    """All terms of a field, in order."""
    index = cast("org.apache.lucene.index.IndexReader", reader)
    found = java_class("org.apache.lucene.index.MultiTerms").getTerms(index, field)
    if found is None:
        return ()
    cursor = cast("org.apache.lucene.util.BytesRefIterator", found.iterator())
    return tuple(str(term.utf8ToString()) for term in iter(cursor.next, None))


def documents_by_fingerprint(reader: Any) -> IntArray:
    """Document numbers in the order of their fingerprints, ``[documents]``."""
    return _documents_by(reader, (FINGERPRINT, "LONG"))


def documents_by_position(reader: Any) -> IntArray:
    """Document numbers in the order of document id and position, ``[documents]``."""
    return _documents_by(reader, (DOCUMENT, "STRING"), (POSITION, "LONG"))


def _documents_by(reader: Any, *fields: tuple[str, str]) -> IntArray:
    count = reader.maxDoc()
    if count == 0:
        return np.empty(0, dtype=np.int32)
    everything = java_class("org.apache.lucene.search.MatchAllDocsQuery")()
    return read_documents(searcher(reader).search(everything, count, sort(*fields)))


# --- queries --------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _allow_long_queries() -> None:
    """Lucene allows 1,024 clauses by default, and a pasted page has more terms."""
    java_class("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(2**31 - 1)


@lru_cache(maxsize=1)
def query_generator() -> Any:
    """Anserini's bag of words: one optional clause per distinct term, weighted by its count in the query."""
    _allow_long_queries()
    return java_class("io.anserini.search.query.BagOfWordsQueryGenerator")()


def weighted_terms(terms: IntArray, weights: IntArray) -> Any:
    """One optional clause per term, ``[terms]``, weighted by a whole number."""
    _allow_long_queries()
    query, boosted, named = (
        java_class(f"org.apache.lucene.{kind}") for kind in ("search.TermQuery", "search.BoostQuery", "index.Term")
    )
    optional = java_class("org.apache.lucene.search.BooleanClause$Occur").SHOULD
    builder = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
    for term, weight in zip(terms.tolist(), weights.tolist(), strict=True):
        builder.add(boosted(query(named(CONTENTS, str(term))), float(weight)), optional)
    return builder.build()


def term_filter(field: str, found: Iterable[str]) -> Any:
    """A query that matches the rows which have one of these terms in the field."""
    listed = java_class("java.util.ArrayList")()
    for term in sorted(found):
        listed.add(term_bytes(term))
    return java_class("org.apache.lucene.search.TermInSetQuery")(field, cast("java.util.Collection", listed))


def within(query: Any, passing: Iterable[Any], barred: Iterable[Any]) -> Any:
    """The query, limited to what all of `passing` match and none of `barred`, with unchanged scores.

    The query is a MUST clause: beside a filter, optional clauses alone would match all that passes, with score 0.
    """
    occur = java_class("org.apache.lucene.search.BooleanClause$Occur")
    builder = java_class("org.apache.lucene.search.BooleanQuery$Builder")()
    builder.add(query, occur.MUST)
    for limit in passing:
        builder.add(limit, occur.FILTER)
    for limit in barred:
        builder.add(limit, occur.MUST_NOT)
    return builder.build()


# --- hits as arrays -------------------------------------------------------------------------------------------------


def read_documents(top: Any) -> IntArray:
    """Document numbers of Lucene's `TopDocs`, best first."""
    return np.array(_applied(_hit_reader("doc", "I"), top), dtype=np.int32)


def read_scores(top: Any) -> npt.NDArray[np.float32]:
    """Scores of Lucene's `TopDocs`, best first."""
    return np.array(_applied(_hit_reader("score", "F"), top), dtype=np.float32)


@lru_cache(maxsize=2)
def _hit_reader(member: str, code: str) -> Any:
    """A Java function from `TopDocs` to an array of one member of its hits; `code` is Java's letter for its type.

    jnius would wrap each hit in an object, which takes eight times as long as the search. The loop is composed of
    method handles instead and runs compiled, in Java's terms:
    ``hits = top.scoreDocs; out = new int[hits.length]; for (i = 0; i < hits.length; i++) out[i] = hits[i].doc``.
    """
    handles = java_class("java.lang.invoke.MethodHandles")
    lookup = handles.publicLookup()
    top, hit = _java_type("org.apache.lucene.search.TopDocs"), _java_type("org.apache.lucene.search.ScoreDoc")
    hits, values = _java_type("[Lorg.apache.lucene.search.ScoreDoc;"), _java_type(f"[{code}")
    value = values.getComponentType()
    length = handles.arrayLength(hits)
    read = handles.filterReturnValue(handles.arrayElementGetter(hits), lookup.findGetter(hit, member, value))
    # (out, i, hits, i) -> void, then (out, i, hits) -> void, then (out, i, hits) -> out
    copy = handles.collectArguments(handles.arrayElementSetter(values), 2, read)
    step = f"([{code}I[Lorg/apache/lucene/search/ScoreDoc;)"
    copy = handles.permuteArguments(copy, _signature(f"{step}V"), 0, 1, 2, 1)
    copy = handles.foldArguments(
        handles.permuteArguments(handles.identity(values), _signature(f"{step}[{code}"), 0), copy
    )
    empty = handles.filterReturnValue(length, handles.arrayConstructor(values))
    loop = handles.countedLoop(length, empty, copy)
    return handles.filterReturnValue(lookup.findGetter(top, "scoreDocs", hits), loop)


def _applied(function: Any, argument: Any) -> Any:
    """What a method handle of one argument returns. jnius cannot pass a single object where Java takes any number."""
    return function.invokeWithArguments(java_class("java.util.Collections").singletonList(argument))


def _java_type(name: str) -> Any:
    """The `java.lang.Class` of a name."""
    return java_class("java.lang.Class").forName(name)


def _signature(descriptor: str) -> Any:
    """The `MethodType` of a descriptor such as "()[I"."""
    return java_class("java.lang.invoke.MethodType").fromMethodDescriptorString(descriptor, None)
