"""BM25 on Lucene: an index folder is built, or made from an older one, in row order, and searched by batches.

Analysis, query and scores are Anserini's: English text goes through its default analyser (Porter stems), Chinese
through Lucene's bigrams, and a query is the disjunction of its terms, weighted by their counts. Scores are Lucene's
BM25 (Robertson and Zaragoza 2009, with idf = ln(1 + (N - n + 0.5) / (n + 0.5)) and without the constant k1 + 1). Rows,
rights and ties are those of `row_index`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_lab.contracts import RagLabError
from rag_lab.retrieval import lucene, row_index
from rag_lab.retrieval.jvm import java_class, java_string, lucene_version, serialised
from rag_lab.retrieval.row_index import Analysis, Code, Entries, Hits, RowIndex

ANALYSIS = "2"
"""Changes whenever `normalise`, an analyser or the fields do: an index built under another value is refused."""

WIDTH_FORMS = re.compile("[\uff01-\uffef]+")


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


def build(folder: Path, entries: Entries, language: str) -> None:
    """Write an index into `folder`, as `row_index.build` does.

    Raises:
        RagLabError: the language is unknown (`lucene.LANGUAGES`; "multilingual" is for corpora that mix English and
            Chinese), the folder holds files, rows are out of order, or Lucene refuses a text.
    """
    row_index.build(folder, entries, analysis_of(language))


def update(
    folder: Path,
    base: Path,
    without: Collection[str],
    entries: Entries,
    fingerprints: npt.NDArray[np.int64],
    language: str,
) -> None:
    """Write what `base`, an index of the same language, becomes into `folder`, as `row_index.update` does."""
    row_index.update(folder, base, without, entries, fingerprints, analysis_of(language))


def analysis_of(language: str) -> Analysis:
    """How texts of a language become terms. Raises RagLabError for a language without an analyser."""
    lucene.check_language(language)
    return Analysis(language, ANALYSIS, normalise)


class Bm25Index(RowIndex):
    """An index of texts, opened for reading; see `RowIndex`. `language` is what it was built for."""

    def __init__(self, folder: Path) -> None:
        """Open an index.

        Raises:
            RagLabError: there is none, it is damaged, or another version of the analysis wrote it.
        """
        super().__init__(folder)
        self.check(ANALYSIS, lucene.LANGUAGES)

    @property
    def language(self) -> str:
        """What the index was built for; queries go through the same analyser."""
        return self.analyser

    @serialised
    def search(
        self,
        queries: Sequence[str],
        depth: int | npt.NDArray[Any],
        allowed_scopes: Sequence[Sequence[Code]] | None,
        k1: float = 0.9,
        b: float = 0.4,
        *,
        only: Sequence[Collection[str] | None] | None = None,
        without: Sequence[Collection[str] | None] | None = None,
    ) -> Hits:
        """The best rows of each query, of those in its scope; the other arguments are those of `RowIndex.found`.

        A query without a known term, or with an empty scope, finds nothing. A row without a term of the query is not
        returned.

        Args:
            queries: plain text; no character has a special meaning.
            k1: saturation of term frequency, 0 or more.
            b: weight of the document's length, from 0 to 1.

        Raises:
            RagLabError: lengths differ, or a parameter is out of range.
        """
        made = [partial(self._query, text) for text in queries]
        return self.found(made, _similarity(k1, b), depth, allowed_scopes, only, without)

    def _query(self, text: str) -> Any:
        """The bag of words of a question."""
        analyser = lucene.analyser(self.language)
        return lucene.query_generator().buildQuery(lucene.CONTENTS, analyser, java_string(normalise(text)))


def _similarity(k1: float, b: float) -> Any:
    """Lucene's BM25 with these parameters."""
    if not (np.isfinite(k1) and k1 >= 0):
        raise RagLabError(f"k1: {k1} is not a number of at least 0")
    if not 0 <= b <= 1:
        raise RagLabError(f"b: {b} is not between 0 and 1")
    return java_class("org.apache.lucene.search.similarities.BM25Similarity")(float(k1), float(b))
