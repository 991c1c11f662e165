"""Another embedding model: a second index beside the first, both asked the same questions, then the switch.

Both are asked by dense retrieval alone, with the rights, the policies and the deny list of the corpus. Questions whose
reader may read nothing, or nothing that is relevant, score 0 under any model: they would hide what the others lose, and
are left out. So are judgments of documents that the corpus lacks or the reader may not read.

The rule for switching by itself is non-inferiority: the interval of every metric's paired difference lies above
``-MARGIN``. All metrics must pass, so none is corrected for the others. That no difference is significant would be no
such evidence. An interval cannot show losses that too few questions are too few to meet: a loss that one question in 30
has is met by `ENOUGH` questions with a probability of 97 %, and on fewer nothing is concluded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from rag_lab.contracts import BoolArray, Principal, Question, RagLabError, Ranking, Request
from rag_lab.corpus.publisher import build_beside
from rag_lab.corpus.rights import Scopes
from rag_lab.corpus.snapshot import Snapshot
from rag_lab.metrics.ranking import check_overlap, ranked_documents, score_rankings
from rag_lab.metrics.scores import Scores
from rag_lab.metrics.stats import holm
from rag_lab.metrics.summary import Difference, Summary, differences, summarise
from rag_lab.retrieval.encoders import embed_queries

if TYPE_CHECKING:
    from rag_lab.corpus.corpus import Corpus
    from rag_lab.datasets import Dataset

METRICS = ("nDCG@10", "Recall@100")
DEPTH = 1000
ATTEMPTS = 3
MARGIN = 0.01
ENOUGH = 100


@dataclass(frozen=True, slots=True)
class Row:
    """One metric under both models. `before` and `after` have intervals; `p_holm` is corrected over the metrics."""

    metric: str
    before: Summary
    after: Summary
    difference: Difference
    p_holm: float


@dataclass(frozen=True, slots=True)
class Migration:
    """The new generation of a corpus, what was compared on how many questions, and whether it was switched to.

    `questions` were asked by somebody who may read something, `unread` by others and left out; so are `out_of_reach` of
    the `questions`, whose relevant documents the corpus lacks or their reader may not read; `enough`: so many are
    compared that `not_worse` can be concluded.
    """

    corpus: str
    generation: int
    encoder: tuple[str, str]
    dataset: str
    questions: int
    rows: Sequence[Row]
    not_worse: bool
    switched: bool
    unread: int = 0
    out_of_reach: int = 0

    @property
    def enough(self) -> bool:
        """Whether every metric was compared on so many questions that losses would have been met."""
        return _enough(self.rows)


def migrate(
    corpus: Corpus,
    encoder: str,
    dataset: str,
    split: str,
    limit: int | None,
    switch: bool,
    if_not_worse: bool,
    progress: bool,
) -> Migration:
    """Build, compare, and switch if told to. The caller holds the right to publish.

    Raises RagLabError when nothing is published, when the model is the present one, when the corpus has no vectors,
    and when the questions have no judgment about a document of the corpus, or no reader who may read anything there, or
    none who may read a relevant document.
    """
    from rag_lab.datasets import load

    active = corpus.catalogue.active
    if active is None:
        raise RagLabError(f"corpus {corpus.name}: nothing is published yet; add documents")
    present = str(active.settings["encoder"])
    if not active.settings["factories"]:
        raise RagLabError(f"corpus {corpus.name}: has no vectors, so there is nothing to migrate")
    if present == encoder:
        raise RagLabError(f"--encoder {encoder}: is the present one; name another")
    asked = load(dataset, split, limit)
    judged = {document for judgments in asked.qrels.values() for document in judgments}
    if not judged:
        raise RagLabError(f"--questions {dataset}: split '{split}' has no judgments to compare with")
    check_overlap(judged, corpus.catalogue.live(), f"judgments of {dataset}")
    now = datetime.now(UTC)
    requests = [_request(corpus, question, asked.rights == "open", now) for question in asked.questions]
    readers = _readers(corpus, requests)
    if not readers.any():
        raise RagLabError(
            f"--questions {dataset}: none of their readers may read anything in corpus {corpus.name}; give them the "
            "field principal, with tenant and groups"
        )
    qrels = _in_reach(corpus, asked, requests)
    of_readers = [question.query_id for question, reads in zip(asked.questions, readers, strict=True) if reads]
    out_of_reach = sum(_relevant(asked.qrels, name) and not _relevant(qrels, name) for name in of_readers)
    if not any(_relevant(qrels, name) for name in of_readers):
        raise RagLabError(
            f"--questions {dataset}: none of their readers may read a document of corpus {corpus.name} that is "
            "relevant to the question; name other questions"
        )
    number, snapshot = build_beside(corpus, {"encoder": encoder}, f"encoder {encoder} instead of {present}", progress)
    before = _scores(corpus, corpus.snapshot(), present, asked, requests, qrels)
    after = _scores(corpus, snapshot, encoder, asked, requests, qrels)
    rows = _rows(before, after, [question.query_id for question in asked.questions], readers)
    not_worse = _enough(rows) and all(row.difference.low > -MARGIN for row in rows)
    switched = switch or (if_not_worse and not_worse)
    if switched:
        corpus.catalogue.activate(number)
    n = int(readers.sum())
    return Migration(
        corpus=corpus.name,
        generation=number,
        encoder=(present, encoder),
        dataset=asked.name,
        questions=n,
        rows=rows,
        not_worse=not_worse,
        switched=switched,
        unread=len(readers) - n,
        out_of_reach=out_of_reach,
    )


def _enough(rows: Sequence[Row]) -> bool:
    return min(row.difference.n for row in rows) >= ENOUGH


def _readers(corpus: Corpus, requests: Sequence[Request]) -> BoolArray:
    """Which requests may read anything of the active generation, ``[n]``."""
    scopes = corpus.scopes(corpus.snapshot(), requests)
    some = np.array([scope.rows.any() for scope in scopes.scopes], dtype=bool)
    return some[scopes.of]


def _in_reach(corpus: Corpus, asked: Dataset, requests: Sequence[Request]) -> dict[str, dict[str, int]]:
    """The judgments of documents of the active generation of which the question's own reader may read something."""
    snapshot = corpus.snapshot()
    scopes = corpus.scopes(snapshot, requests)
    rows = snapshot.chunks.documents
    return {
        question.query_id: {
            document: grade
            for document, grade in asked.qrels.get(question.query_id, {}).items()
            if document in rows and scopes.rows(i)[rows[document]].any()
        }
        for i, question in enumerate(asked.questions)
    }


def _relevant(qrels: Mapping[str, Mapping[str, int]], query_id: str) -> bool:
    return any(grade > 0 for grade in qrels.get(query_id, {}).values())


def _scores(
    corpus: Corpus,
    snapshot: Snapshot,
    encoder: str,
    asked: Dataset,
    requests: Sequence[Request],
    qrels: Mapping[str, Mapping[str, int]],
) -> dict[str, Scores]:
    questions = asked.questions
    ids = [question.query_id for question in questions]
    ranking = _dense(corpus, snapshot, encoder, questions, requests)
    found = ranked_documents(ranking, snapshot.chunks.document_id, ids)
    run = {
        query_id: [document for document, _ in documents if not (asked.remove_identical_ids and document == query_id)]
        for query_id, documents in found.items()
    }
    return score_rankings(METRICS, run, qrels, ids)


def _dense(
    corpus: Corpus, snapshot: Snapshot, encoder: str, questions: Sequence[Question], requests: Sequence[Request]
) -> Ranking:
    """The best chunks of the questions' own scopes, without what was denied while they were searched for."""
    for _ in range(ATTEMPTS):
        scopes = corpus.scopes(snapshot, requests)
        ranking = scopes.check(_search(snapshot, encoder, questions, scopes))
        with snapshot.reading() as denied:
            if denied <= scopes.denied:
                return ranking
    raise RagLabError(f"corpus {corpus.name}: documents are denied faster than models are compared; migrate again")


def _search(snapshot: Snapshot, encoder: str, questions: Sequence[Question], scopes: Scopes) -> Ranking:
    """One search for all questions that share a scope."""
    from rag_lab.retrieval import encoders

    factory = snapshot.facts["factories"][0]
    vectors = embed_queries(encoders.load_encoder(encoder), [question.text for question in questions])
    index = snapshot.dense(factory)
    queries, rows, values = [], [], []
    for number, scope in enumerate(scopes.scopes):
        members = scopes.members(number)
        some = type(vectors)(vectors.vectors[members], vectors.encoder, vectors.version)
        ranking = index.search(some, DEPTH, scope.rows).ranking
        queries.append(members[ranking.query])
        rows.append(ranking.chunk)
        values.append(ranking.score)
    return Ranking.from_scores(
        "dense", len(questions), np.concatenate(queries), np.concatenate(rows), np.concatenate(values)
    )


def _request(corpus: Corpus, question: Question, open_rights: bool, now: datetime) -> Request:
    principal = question.principal or (Principal("default") if open_rights else None)
    return corpus.request(principal, question.time or now)


def _rows(
    before: Mapping[str, Scores], after: Mapping[str, Scores], ids: Sequence[str], readers: BoolArray
) -> list[Row]:
    changes = [differences(before[metric], [after[metric]], ids, readers)[0] for metric in METRICS]
    corrected = holm([change.p for change in changes]).tolist()
    old = summarise([before[metric] for metric in METRICS], ids, readers)
    new = summarise([after[metric] for metric in METRICS], ids, readers)
    return [Row(*values) for values in zip(METRICS, old, new, changes, corrected, strict=True)]
