"""What a chunker made of documents with sections of their own rights: counts worked by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_lab.contracts import Acl, Document, GoldSpan, Question, SectionRights
from rag_lab.corpus.chunking import Blocks, Chunker, ParentChild, Whole, Window
from rag_lab.corpus.publishing import publish
from rag_lab.metrics.chunks import NO_BOUNDARY, NO_SPANS, Measure, chunk_measures
from rag_lab.metrics.evidence import Evidence
from rag_lab.metrics.summary import Settings
from rag_lab.store import Store

STAFF, BOARD = Acl(groups=("staff",)), Acl(groups=("board",))
TEXT = "one two three four\n\nfive six seven eight\n\nnine ten"
PLAIN = Document("plain", "red green blue black white grey", acl=STAFF)
SECRET = Document("secret", TEXT, acl=STAFF, sections=(SectionRights((20, 40), BOARD),))


def measures(
    tmp_path: Path, chunker: Chunker, encoder, documents: list[Document], gold: list[tuple[GoldSpan, ...]]
) -> dict[str, Measure]:
    questions = [Question(f"q{i}", "?", gold=pieces) for i, pieces in enumerate(gold)]
    chunks = publish(Store(tmp_path), documents, chunker, token_encoder=encoder).chunks
    evidence = Evidence.of(questions, {d.document_id: d.text for d in documents})
    tokens = encoder.count_tokens(chunks.text)
    found = chunk_measures(chunks, documents, questions, evidence, tokens, Settings(resamples=200))
    return {measure.name: measure for measure in found}


SPANS = [
    (GoldSpan("secret", (0, 7)),),
    (GoldSpan("secret", (4, 18)), GoldSpan("secret", (10, 18))),
    (GoldSpan("plain"),),
]


@pytest.mark.parametrize(
    ("chunker", "chunks", "longest", "whole", "crossing"),
    [
        # plain: 3 + 3 words; secret: one two three | four five six | seven eight nine | ten
        (Window(3), 6, 3, 1 / 3, 2),
        (Blocks(8), 4, 6, 1, 0),
        (Whole(), 2, 10, 1, 1),
    ],
    ids=["window", "blocks", "whole"],
)
def test_counts_of_each_chunker(
    tmp_path: Path, hash_encoder, chunker: Chunker, chunks: int, longest: int, whole: float, crossing: int
) -> None:
    found = measures(tmp_path, chunker, hash_encoder, [PLAIN, SECRET], SPANS)
    assert (found["chunks"].value, found["chunks"].n) == (chunks, 2)
    assert found["tokens_mean"].value == pytest.approx(16 / chunks)
    assert found["tokens_p95"].value is not None
    assert longest - 2 < found["tokens_p95"].value <= longest
    assert found["gold_whole"].value == pytest.approx(whole)
    assert found["gold_whole"].n == 3
    low, high = found["gold_whole"].low, found["gold_whole"].high
    assert low is not None and high is not None and low <= whole <= high  # noqa: PT018 - one fact
    assert (found["boundary_chunks"].value, found["boundary_chunks"].n) == (crossing, chunks)
    assert found["boundary_share"].value == pytest.approx(crossing / chunks)


def test_a_parent_keeps_whole_what_its_children_cut(tmp_path: Path, hash_encoder) -> None:
    text = "a b c d e f g h. i j k l m n o p."
    gold = [(GoldSpan("d", (12, 20)),)]
    documents = [Document("d", text, acl=STAFF)]
    found = measures(tmp_path, ParentChild(9, 40), hash_encoder, documents, gold)
    assert (found["gold_whole"].value, found["gold_whole_shown"].value) == (0.0, 1.0)
    assert found["shown_characters_mean"].value == len(text)


def test_what_cannot_be_measured_is_none_and_says_why(tmp_path: Path, hash_encoder) -> None:
    found = measures(tmp_path, Window(3), hash_encoder, [PLAIN], [(GoldSpan("plain"),)])
    assert (found["boundary_chunks"].value, found["boundary_chunks"].note) == (None, NO_BOUNDARY)
    assert (found["gold_whole"].value, found["gold_whole"].note) == (None, NO_SPANS)


def test_white_space_between_chunks_does_not_part_a_span(tmp_path: Path, hash_encoder) -> None:
    document = Document("d", "one two  \n\n three", acl=STAFF)
    found = measures(tmp_path, Window(2), hash_encoder, [document], [(GoldSpan("d", (0, 11)),)])
    assert found["gold_whole"].value == 1
    assert np.isfinite(found["tokens_mean"].value or np.nan)
