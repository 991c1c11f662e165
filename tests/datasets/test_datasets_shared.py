"""The shared collections: counts as published."""

from __future__ import annotations

import pytest

from rag_lab.contracts import RagLabError
from rag_lab.datasets import load

pytestmark = pytest.mark.shared


@pytest.mark.parametrize(
    "name, documents, questions, judgments, languages",
    [
        ("adi", 82, 35, 170, ["en"]),
        ("cmrc2018-dev", 848, 3219, 3219, ["zh"]),
        ("cranfield", 1400, 225, 1837, ["en"]),
        ("hotpotqa-dev100", 991, 100, 200, ["en"]),
        ("multihop-rag-evidence", 438, 500, 1153, ["en"]),
        ("rgb-en-fact", 969, 100, 988, ["en"]),
        ("rgb-zh", 7285, 300, 7468, ["zh"]),
        ("rgb-zh-fact", 943, 100, 945, ["zh"]),
        ("scifact", 5183, 300, 339, ["en"]),
        ("squad2-dev", 1216, 6078, 2910, ["en"]),
        ("squad2-dev-articles", 16, 6078, 2910, ["en"]),
        ("vaswani", 11429, 93, 2083, ["en"]),
    ],
)
def test_counts(shared_data, name, documents, questions, judgments, languages):
    dataset = load(shared_data / name)
    found = dataset.integrity
    assert (found.documents, found.questions, found.judgments) == (documents, questions, judgments)
    assert (len(dataset.documents), len(dataset.questions)) == (documents, questions)
    assert dataset.languages == languages
    assert found.warnings() == []
    assert dataset.licence


def test_cranfield_has_two_empty_documents_and_a_graded_split(shared_data):
    dataset = load(shared_data / "cranfield", split="graded")
    assert dataset.splits == ("graded", "test")
    assert dataset.integrity.examples["empty_documents"] == ("471", "995")
    assert set(dataset.integrity.grades) == {0, 1, 2, 3, 4}


def test_every_answer_span_is_an_accepted_wording(shared_data):
    dataset = load(shared_data / "squad2-dev-articles")
    texts = {document.document_id: document.text for document in dataset.documents}
    answerable = [question for question in dataset.questions if question.answerable]
    assert len(answerable) == 2910
    for question in answerable:
        assert question.gold
        assert all(texts[g.document_id][slice(*g.span)] in question.answers for g in question.gold)


def test_two_hop_questions_need_every_document(shared_data):
    for name in ("hotpotqa-dev100", "multihop-rag-evidence"):
        dataset = load(shared_data / name)
        assert {question.evidence for question in dataset.questions} == {"all"}


def test_a_collection_without_a_test_split_names_what_it_has(shared_data):
    with pytest.raises(RagLabError, match="no split 'test'; its splits: adversarial"):
        load(shared_data / "poisonedrag-hotpotqa")
    assert len(load(shared_data / "poisonedrag-hotpotqa", split="adversarial").questions) == 100


def test_a_name_resolves_under_the_data_root(shared_data, monkeypatch):
    monkeypatch.setenv("RAG_LAB_DATA", str(shared_data))
    assert load("scifact", limit=7).name == "scifact"
