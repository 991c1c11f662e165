"""Hub datasets, read from local folders that `datasets` can load."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_lab.contracts import GoldSpan, RagLabError
from rag_lab.datasets import hub, load

CARD = """---
configs:
{configs}
---
"""


def table(folder: Path, tables: dict[tuple[str, str], list[dict]]) -> Path:
    """A folder with one JSON lines file per (configuration, split) and the card that names them."""
    folder.mkdir()
    configs: dict[str, list[str]] = {}
    for (config, split), rows in tables.items():
        name = f"{config}-{split}.jsonl"
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        configs.setdefault(config, []).append(f"  - split: {split}\n    path: {name}")
    listed = (f"- config_name: {config}\n  data_files:\n" + "\n".join(files) for config, files in configs.items())
    (folder / "README.md").write_text(CARD.format(configs="\n".join(listed)), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _own_hub_cache(monkeypatch, tmp_path):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hub_cache")
    datasets.disable_progress_bars()


DOCUMENTS = [{"_id": "d1", "title": "One", "text": "alpha"}, {"_id": "d2", "title": "Two", "text": "beta"}]
QUERIES = [{"_id": "q1", "text": "first?"}, {"_id": "q2", "text": "second?"}]
CORPUS = {("corpus", "corpus"): DOCUMENTS, ("queries", "queries"): QUERIES}


def test_the_layout_of_beir_on_the_hub(tmp_path):
    path = table(tmp_path / "scifact", CORPUS)
    judged = [{"query-id": 1, "corpus-id": "d1", "score": 1}]
    table(tmp_path / "scifact-qrels", {("default", "test"): judged})
    queries = [{"_id": "1", "text": "first?"}]
    (path / "queries-queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries))
    dataset = load(f"hf:{path}")
    assert dataset.name == "scifact"
    assert dataset.qrels == {"1": {"d1": 1}}
    assert [d.title for d in dataset.documents] == ["One", "Two"]
    assert dataset.source == f"hf:{path}"


def test_tables_with_names_of_their_own(tmp_path):
    path = table(
        tmp_path / "shop",
        {
            ("articles", "train"): [{"number": 4, "heading": "Four", "body": "alpha"}],
            ("asked", "train"): [{"qid": "a", "words": "what?"}],
            ("relevant", "test"): [{"q": "a", "d": 4, "r": 2.0}],
        },
    )
    columns = {
        "documents": {"config": "articles", "id": "number", "title": "heading", "text": "body"},
        "queries": {"config": "asked", "id": "qid", "text": "words"},
        "qrels": {"path": str(path), "config": "relevant", "query": "q", "document": "d", "grade": "r"},
    }
    dataset = load(f"hf:{path}", columns=columns)
    assert (dataset.documents[0].document_id, dataset.documents[0].text) == ("4", "alpha")
    assert dataset.qrels == {"a": {"4": 2}}
    columns["qrels"]["grade"] = "wrong"
    with pytest.raises(RagLabError, match=r"no column 'wrong'; name it under columns\.qrels"):
        load(f"hf:{path}", columns=columns)


CONTEXT = "Paris is the capital of France. It lies on the Seine."
SQUAD = [
    {
        "id": "s1",
        "title": "Paris",
        "context": CONTEXT,
        "question": "Which capital?",
        "answers": {"text": ["Paris", "Paris"], "answer_start": [0, 0]},
    },
    {
        "id": "s2",
        "title": "Paris",
        "context": CONTEXT,
        "question": "Which river? ",
        "answers": {"text": ["Seine", "the Seine"], "answer_start": [47, 43]},
    },
    {
        "id": "s3",
        "title": "Paris",
        "context": "Another paragraph.",
        "question": "Who is mayor?",
        "answers": {"text": [], "answer_start": []},
    },
]


def test_rows_of_question_context_and_answers(tmp_path):
    path = table(tmp_path / "squad", {("default", "validation"): SQUAD})
    dataset = load(f"hf:{path}", split="validation")
    assert [d.document_id for d in dataset.documents] == ["Paris-0", "Paris-1"]
    first, second, third = dataset.questions
    assert (first.answers, first.gold) == (("Paris",), (GoldSpan("Paris-0", (0, 5)),))
    assert second.gold == (GoldSpan("Paris-0", (47, 52)), GoldSpan("Paris-0", (43, 52)))
    assert (third.answerable, third.gold) == (False, ())
    assert dataset.qrels == {"s1": {"Paris-0": 1}, "s2": {"Paris-0": 1}}
    with pytest.raises(RagLabError, match="no split 'test'; its splits: validation"):
        load(f"hf:{path}")


def test_an_answer_that_is_not_at_its_offset_is_refused(tmp_path):
    row = {**SQUAD[0], "answers": {"text": ["Rome"], "answer_start": [0]}}
    path = table(tmp_path / "squad", {("default", "test"): [row]})
    with pytest.raises(RagLabError, match="'Rome' does not stand at character 0"):
        load(f"hf:{path}")


def test_rows_of_titled_sentences(tmp_path):
    row = {
        "id": "h1",
        "question": "Same country?",
        "answer": "yes",
        "type": "comparison",
        "level": "hard",
        "context": {"title": ["A", "B"], "sentences": [["A is in France.", " It is old."], ["B is in France."]]},
        "supporting_facts": {"title": ["A", "B", "A"], "sent_id": [1, 0, 9]},
    }
    path = table(tmp_path / "hotpot", {("distractor", "test"): [row]})
    dataset = load(f"hf:{path}?config=distractor")
    question = dataset.questions[0]
    texts = {d.document_id: d.text for d in dataset.documents}
    assert [texts[g.document_id][slice(*g.span)] for g in question.gold] == ["It is old.", "B is in France."]
    assert (question.evidence, question.answers, question.group) == ("all", ("yes",), "comparison")
    assert dataset.qrels == {"h1": {"A-0": 1, "B-0": 1}}


def test_a_public_name_is_kept_as_a_folder(tmp_path, monkeypatch):
    path = table(tmp_path / "squad", {("default", "validation"): SQUAD})
    monkeypatch.setattr(hub, "PUBLIC", {"little-squad": (f"hf:{path}", "validation")})
    cache = tmp_path / "kept"
    first = load("little-squad", cache=cache)
    assert [q.query_id for q in first.questions] == ["s1", "s2", "s3"]
    assert sorted(p.name for p in cache.iterdir()) == ["little-squad"]
    for file in path.iterdir():
        file.unlink()
    second = load("little-squad", cache=cache)
    assert second.fingerprint == first.fingerprint
    assert second.source == f"hf:{path}"


def test_what_cannot_be_loaded_is_one_line_and_leaves_nothing(tmp_path):
    with pytest.raises(RagLabError) as caught:
        load("squad2-dev", cache=tmp_path / "kept")
    message = str(caught.value)
    assert "\n" not in message
    assert "hf:rajpurkar/squad_v2: it cannot be loaded" in message
    assert f"put the BEIR folder of squad2-dev at {tmp_path / 'kept' / 'squad2-dev'} by hand" in message
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize(
    "address, columns, why",
    [
        ("hf:x/y?split=test", {}, "'split' is not understood"),
        ("hf:x/y", {"corpus": {}}, "columns: 'corpus' is not understood"),
        ("hf:x/y", {"rows": "question"}, "'question' is not a mapping"),
    ],
)
def test_what_is_not_understood_is_named(address, columns, why):
    with pytest.raises(RagLabError, match=why):
        load(address, columns=columns)


def test_a_missing_column_is_named(tmp_path):
    path = table(tmp_path / "rows", {("default", "test"): [{"prompt": "what?", "context": "x"}]})
    with pytest.raises(RagLabError, match=r"no column 'question'; name it under columns\.rows\.question"):
        load(f"hf:{path}")
