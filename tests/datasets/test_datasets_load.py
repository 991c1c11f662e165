"""What a load checks, counts and keeps."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from rag_lab.contracts import Acl, GoldSpan, Principal, RagLabError
from rag_lab.datasets import Integrity, load

MANY = [{"_id": f"q{i}", "text": f"question {i}?"} for i in range(40)]
MANY_JUDGED = {"test": [(f"q{i}", "d1", 1) for i in range(40)]}


def test_a_whole_dataset(written):
    dataset = load(written())
    assert [document.document_id for document in dataset.documents] == ["d1", "d2", "d3"]
    assert [question.query_id for question in dataset.questions] == ["q1", "q2", "q3"]
    assert dataset.qrels == {"q1": {"d1": 1}, "q2": {"d2": 2}, "q3": {"d3": 1}}
    assert dataset.integrity == Integrity(documents=3, queries=3, questions=3, judgments=3, grades={1: 2, 2: 1})
    assert dataset.integrity.warnings() == []
    assert (dataset.name, dataset.split, dataset.splits, dataset.languages) == ("tiny", "test", ("test",), ["en"])


def test_family_7_a_missing_title_is_empty(written):
    documents = [{"_id": "d1", "title": None, "text": "alpha"}, {"_id": "d2", "text": None, "title": "Two"}]
    dataset = load(written(documents=documents))
    assert [(d.title, d.text) for d in dataset.documents] == [("", "alpha"), ("Two", "")]


def test_ids_are_strings(written):
    folder = written(
        documents=[{"_id": 7, "text": "alpha"}],
        queries=[{"_id": 12, "text": "why?"}],
        judgments={"test": [(12, 7, 1)]},
        answers=[{"_id": 12, "answers": ["x"], "gold": [7]}],
    )
    dataset = load(folder)
    assert dataset.qrels == {"12": {"7": 1}}
    assert dataset.questions[0].gold == (GoldSpan("7"),)


@pytest.mark.parametrize("bad", [None, "", " ", 1.5, True, ["d1"]])
def test_an_id_that_is_none_is_refused(written, bad):
    with pytest.raises(RagLabError, match=r"corpus\.jsonl:1: the id is"):
        load(written(documents=[{"_id": bad, "text": "alpha"}]))


def test_a_record_without_an_id_is_refused(written):
    with pytest.raises(RagLabError, match=r"corpus\.jsonl:1: the record has no _id"):
        load(written(documents=[{"text": "alpha"}]))


def test_family_8_duplicates_are_dropped_and_counted(written):
    one = {"_id": "d1", "text": "alpha"}
    folder = written(
        documents=[one, one, {"_id": "d1", "text": "other"}, {"_id": "d2", "text": ""}],
        queries=[{"_id": "q1", "text": "a?"}, {"_id": "q1", "text": "a?"}, {"_id": "q1", "text": "b?"}],
        judgments={"test": [("q1", "d1", 1), ("q1", "d1", 1), ("q1", "d1", 3), ("q1", "d2", 0)]},
    )
    dataset = load(folder)
    found = dataset.integrity
    assert (found.duplicate_document_ids, found.conflicting_document_ids) == (1, 1)
    assert (found.duplicate_query_ids, found.conflicting_query_ids) == (1, 1)
    assert (found.duplicate_judgments, found.conflicting_judgments) == (1, 1)
    assert found.empty_documents == 1
    assert found.examples["empty_documents"] == ("d2",)
    assert dataset.documents[0].text == "alpha"
    assert dataset.questions[0].text == "a?"
    assert dataset.qrels == {"q1": {"d1": 3, "d2": 0}}
    assert (found.judgments, found.grades) == (2, {0: 1, 3: 1})
    assert len(found.warnings()) == 3


def test_family_2_judgments_that_point_nowhere_are_reported_and_kept(written):
    judged = {"test": [("q1", "d1", 1), ("q1", "gone", 1), ("nobody", "d1", 1)]}
    dataset = load(written(judgments=judged))
    assert dataset.qrels == {"q1": {"d1": 1, "gone": 1}}
    assert dataset.integrity.dangling_judgments == 1
    assert dataset.integrity.judgments_to_missing_queries == 1
    assert dataset.integrity.examples["dangling_judgments"] == ("q1 gone",)
    assert any("full recall is out of reach" in warning for warning in dataset.integrity.warnings())


def test_family_1_identical_ids_follow_the_collection(written):
    documents = [{"_id": "a", "text": "alpha"}, {"_id": "b", "text": "beta"}]
    parts = {"documents": documents, "queries": documents, "judgments": {"test": [("a", "b", 1), ("b", "b", 1)]}}
    plain = load(written("plain", **parts))
    assert not plain.remove_identical_ids
    assert plain.integrity.identical_ids == 2
    assert plain.qrels == {"a": {"b": 1}, "b": {"b": 1}}
    arguana = load(written("arguana", **parts))
    assert arguana.remove_identical_ids
    assert arguana.qrels == {"a": {"b": 1}}
    assert arguana.integrity.identical_judgments_removed == 1
    assert not load(written("kept/arguana", **parts), remove_identical_ids=False).remove_identical_ids


def test_questions_without_judgments(written):
    queries = [{"_id": f"q{i}", "text": "why?"} for i in range(4)]
    answers = [{"_id": "q1", "answers": [], "answerable": False}, {"_id": "lost", "answers": ["x"]}]
    dataset = load(written(queries=queries, judgments={"test": [("q0", "d1", 1)]}, answers=answers))
    assert [question.query_id for question in dataset.questions] == ["q0", "q1"]
    assert dataset.integrity.questions_without_judgments == 1
    assert dataset.integrity.queries_in_no_split == 2
    assert dataset.integrity.answers_to_missing_queries == 1


def test_a_split_is_chosen_and_dev_is_for_calibration(written):
    folder = written(judgments={"test": [("q1", "d1", 1)], "dev": [("q2", "d2", 1), ("q1", "d1", 1)]})
    test = load(folder)
    assert [q.query_id for q in test.questions] == ["q1"]
    assert [q.query_id for q in test.calibration] == ["q2"]
    assert test.calibration[0].gold == (GoldSpan("d2"),)
    dev = load(folder, split="dev")
    assert [q.query_id for q in dev.questions] == ["q1", "q2"]
    assert dev.calibration == []
    with pytest.raises(RagLabError, match="no split 'train'; its splits: dev, test"):
        load(folder, split="train")


def test_an_answers_record_may_state_the_split(written):
    answers = [{"_id": "q1", "answers": ["x"], "split": "dev"}, {"_id": "q2", "answers": ["y"], "split": "test"}]
    dataset = load(written(judgments={}, answers=answers))
    assert [q.query_id for q in dataset.questions] == ["q2"]
    assert [q.query_id for q in dataset.calibration] == ["q1"]
    assert not dataset.has_qrels
    assert dataset.not_measured()["nDCG@10"] == "the dataset has no relevance judgments"


def test_limit_draws_by_the_seed(written):
    folder = written(queries=MANY, judgments=MANY_JUDGED)
    drawn = [q.query_id for q in load(folder, limit=5, seed=3).questions]
    assert len(drawn) == 5
    assert drawn == sorted(drawn)
    assert drawn == [q.query_id for q in load(folder, limit=5, seed=3).questions]
    assert drawn != [q.query_id for q in load(folder, limit=5, seed=4).questions]
    assert drawn != sorted(q["_id"] for q in MANY)[:5]
    reversed_folder = written("reversed", queries=MANY[::-1], judgments=MANY_JUDGED)
    assert drawn == [q.query_id for q in load(reversed_folder, limit=5, seed=3).questions]
    code = "import sys; from rag_lab.datasets import load; print(*load(sys.argv[1], limit=5, seed=3).qrels)"
    run = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PATH": ""},
    )
    assert run.stdout.split() == drawn


def test_limit_keeps_the_judgments_of_what_is_drawn(written):
    dataset = load(written(queries=MANY, judgments=MANY_JUDGED), limit=5)
    assert list(dataset.qrels) == [q.query_id for q in dataset.questions]
    assert dataset.integrity.judgments == 40
    assert len(load(written("all", queries=MANY, judgments=MANY_JUDGED), limit=1000).questions) == 40
    with pytest.raises(RagLabError, match="limit: 0 questions"):
        load(written("none"), limit=0)


def test_calibration_questions_are_set_apart_and_never_scored(written):
    folder = written(queries=MANY, judgments=MANY_JUDGED)
    whole, small = load(folder, calibration=10), load(folder, calibration=10, limit=5)
    held = {q.query_id for q in whole.calibration}
    assert len(held) == 10
    assert held == {q.query_id for q in small.calibration}
    assert held.isdisjoint(q.query_id for q in whole.questions)
    assert len(whole.questions) == 30
    assert len(load(folder, calibration=1000).calibration) == 20


def test_open_rights_admit_everybody(written):
    dataset = load(written())
    assert dataset.rights == "open"
    assert {(d.tenant, d.acl) for d in dataset.documents} == {("default", Acl(public=True))}
    assert {q.principal for q in dataset.questions} == {Principal("default")}


def test_declared_rights_admit_only_whom_they_name(written):
    documents = [
        {"_id": "d1", "text": "a", "metadata": {"tenant": "acme", "public": True}},
        {"_id": "d2", "text": "b", "metadata": {"tenant": "acme", "groups": ["Zu\u0308rich", "board", "board"]}},
        {"_id": "d3", "text": "c", "metadata": {"tenant": "acme"}},
        {"_id": "d4", "text": "d", "metadata": {"public": True}},
        {"_id": "d5", "text": "e"},
    ]
    principal = {"tenant": "acme", "groups": ["board"]}
    queries = [{"_id": "q1", "text": "x?", "metadata": {"principal": principal}}, {"_id": "q2", "text": "y?"}]
    dataset = load(written(documents=documents, queries=queries))
    assert dataset.rights == "declared"
    assert [(d.tenant, d.acl) for d in dataset.documents] == [
        ("acme", Acl(public=True)),
        ("acme", Acl(groups=("Z\u00fcrich", "board"))),
        ("acme", Acl()),
        ("", Acl()),
        ("", Acl()),
    ]
    assert [q.principal for q in dataset.questions] == [Principal("acme", ("board",)), None]


@pytest.mark.parametrize(
    "metadata, field",
    [
        ({"tenant": 3}, "tenant"),
        ({"tenant": "acme", "public": "yes"}, "public"),
        ({"tenant": "acme", "groups": "board"}, "groups"),
        ({"tenant": "acme", "groups": [""]}, "groups"),
        ({"tenant": "acme", "valid_until": "2025-13-01"}, "valid_until"),
        ({"tenant": "acme", "valid_from": "soon"}, "valid_from"),
    ],
)
def test_s12_bad_rights_and_times_are_refused_by_document_and_field(written, metadata, field):
    with pytest.raises(RagLabError, match=rf"corpus\.jsonl:1: document 'g', field {field}: "):
        load(written(documents=[{"_id": "g", "text": "x", "metadata": metadata}]))


def test_an_interval_that_never_holds_is_refused(written):
    metadata = {"valid_from": "2025-02-01", "valid_until": "2025-01-31"}
    with pytest.raises(RagLabError, match="document 'd': valid_until is not after valid_from"):
        load(written(documents=[{"_id": "d", "text": "x", "metadata": metadata}]))


def test_times_are_meant_in_the_zone_of_the_corpus(written):
    documents = [{"_id": "d", "text": "x", "metadata": {"valid_from": "2025-07-01", "valid_until": "2025-07-31"}}]
    queries = [{"_id": "q", "text": "x?", "metadata": {"time": "2025-07-10", "group": "just updated"}}]
    folder = written(
        documents=documents, queries=queries, judgments={"test": [("q", "d", 1)]}, stated={"zone": "Asia/Shanghai"}
    )
    dataset = load(folder)
    assert dataset.documents[0].valid_from == datetime(2025, 6, 30, 16, tzinfo=UTC)
    assert dataset.documents[0].valid_until == datetime(2025, 7, 31, 16, tzinfo=UTC)
    assert dataset.questions[0].time == datetime(2025, 7, 9, 16, tzinfo=UTC)
    assert dataset.groups == {"just updated": 1}
    assert load(folder, zone="UTC").documents[0].valid_from == datetime(2025, 7, 1, tzinfo=UTC)


def test_nul_leaves_the_text_and_offsets_follow(written):
    documents = [{"_id": "d1", "title": "T\0", "text": "al\0pha be\0ta"}, {"_id": "d2", "text": "bad \ud800 half"}]
    answers = [
        {"_id": "q1", "answers": ["beta"], "gold": ["d1"], "gold_spans": [{"document": "d1", "start": 7, "end": 12}]}
    ]
    dataset = load(written(documents=documents, answers=answers))
    first, second = dataset.documents
    assert (first.title, first.text, second.text) == ("T", "alpha beta", "bad \ufffd half")
    span = next(q for q in dataset.questions if q.query_id == "q1").gold[0].span
    assert first.text[slice(*span)] == "beta"
    assert (dataset.integrity.removed_nuls, dataset.integrity.replaced_surrogates) == (3, 1)


def test_evidence_in_its_various_forms(written):
    answers = [
        {"_id": "q1", "answers": ["beta"], "answerable": True, "gold": ["d1"], "answer_spans": [[6, 10], [6, 10]]},
        {"_id": "q2", "answers": ["x"], "gold": ["d1", "d2"], "supporting_facts": [["d1", 0]]},
        {
            "_id": "q3",
            "answers": ["x"],
            "gold": ["d1", "gone"],
            "evidence": "all",
            "gold_spans": [{"document": "d1", "start": 0, "end": 5}],
        },
    ]
    dataset = load(written(answers=answers))
    first, second, third = dataset.questions
    assert (first.gold, first.evidence, first.answerable) == ((GoldSpan("d1", (6, 10)),), "any", True)
    assert (second.gold, second.evidence) == ((GoldSpan("d1"), GoldSpan("d2")), "all")
    assert second.metadata["supporting_facts"] == [["d1", 0]]
    assert (third.gold, third.evidence) == ((GoldSpan("d1", (0, 5)), GoldSpan("gone")), "all")
    assert dataset.integrity.dangling_gold == 1


@pytest.mark.parametrize(
    "record, why",
    [
        (
            {"gold_spans": [{"document": "d1", "start": 5, "end": 99}]},
            r"does not lie in document 'd1' \(10 characters\)",
        ),
        ({"gold_spans": [{"document": "d1", "start": 5, "end": 5}]}, "does not lie"),
        ({"gold_spans": [{"document": "d1", "start": "a", "end": 5}]}, "not a pair of offsets"),
        ({"gold_spans": [["d1", 0, 5]]}, "gold_spans needs document, start and end"),
        ({"answerable": "yes"}, "answerable is 'yes'"),
        ({"evidence": "some"}, "evidence is 'some'"),
        ({"answers": "Paris"}, "answers must be a list of texts"),
        ({"answers": ["The", "..."]}, "question 'q1' has only empty answers"),
    ],
)
def test_a_bad_answers_record_is_refused_with_its_line(written, record, why):
    with pytest.raises(RagLabError, match=rf"answers\.jsonl:1: .*{why}"):
        load(written(answers=[{"_id": "q1", **record}]))


def test_family_28_an_empty_wording_among_others_is_dropped_and_counted(written):
    answers = [
        {"_id": "q1", "answers": [".", "Paris", "Paris", "The"], "gold": ["d1"]},
        {"_id": "q2", "answers": ["C++", "\u201c\u5df4\u9ece\u201d"], "gold": ["d1"]},
    ]
    dataset = load(written(answers=answers))
    assert dataset.questions[0].answers == ("Paris",)
    assert dataset.questions[1].answers == ("C++", "\u201c\u5df4\u9ece\u201d")
    assert dataset.integrity.empty_answers == 2


def test_an_unanswerable_question_has_no_accepted_wording(written):
    dataset = load(written(answers=[{"_id": "q1", "answers": ["NOT_ENOUGH_INFO"], "answerable": False, "gold": []}]))
    first = dataset.questions[0]
    assert (first.answers, first.answerable, first.gold) == ((), False, ())
    assert first.metadata["answers"] == ["NOT_ENOUGH_INFO"]
    assert dataset.has_answerable


def test_without_an_answers_record_the_judged_documents_are_the_evidence(written):
    dataset = load(written(judgments={"test": [("q1", "d1", 1), ("q1", "d2", 0), ("q1", "d3", 2)]}))
    assert dataset.questions[0].gold == (GoldSpan("d1"), GoldSpan("d3"))
    assert dataset.not_measured() == {
        "EM": "the dataset has no answers",
        "F1": "the dataset has no answers",
        "Correct": "the dataset has no answers",
        "AbstentionPrecision": "no question is known to be unanswerable",
        "AbstentionRecall": "no question is known to be unanswerable",
    }


def test_labels_are_not_wordings(written):
    answers = [{"_id": f"q{i}", "answers": ["SUPPORT" if i % 2 else "CONTRADICT"], "gold": ["d1"]} for i in range(40)]
    dataset = load(written(queries=MANY, judgments=MANY_JUDGED, answers=answers))
    assert dataset.answer_labels == ("CONTRADICT", "SUPPORT")
    assert "labels (CONTRADICT, SUPPORT)" in dataset.not_measured()["EM"]


def test_the_fingerprint_follows_the_content_and_not_the_order(written, tmp_path):
    first = load(written("a"))
    documents, queries = (
        [json.loads(line) for line in (tmp_path / "a" / f"{name}.jsonl").read_text().splitlines()]
        for name in ("corpus", "queries")
    )
    turned = load(written("b", documents=documents[::-1], queries=queries[::-1]))
    assert first.fingerprint == turned.fingerprint
    assert len(first.fingerprint) == 64
    changed = load(written("c", judgments={"test": [("q1", "d1", 2), ("q2", "d2", 2), ("q3", "d3", 1)]}))
    assert changed.fingerprint != first.fingerprint
    assert changed.corpus_fingerprint == first.corpus_fingerprint
    private = load(written("d", documents=[{**d, "metadata": {"tenant": "x"}} for d in documents]))
    assert private.corpus_fingerprint != first.corpus_fingerprint
    assert load(written("e"), limit=2).fingerprint != first.fingerprint


def test_broken_lines_are_skipped_on_request_and_counted(written):
    folder = written()
    with (folder / "corpus.jsonl").open("a") as handle:
        handle.write('{"_id": "d4", "text"\n')
    with pytest.raises(RagLabError, match=r"corpus\.jsonl:4: broken line"):
        load(folder)
    dataset = load(folder, skip_broken=True)
    assert dataset.integrity.skipped_lines == 1
    assert dataset.integrity.warnings()[0].startswith("1 broken lines were skipped (corpus.jsonl:4")


def test_settings_of_a_folder(written):
    stated = {"evidence": "all", "remove_identical_ids": True, "licence": "CC0", "source": "made up", "extra": 1}
    folder = written(stated=stated, answers=[{"_id": "q1", "answers": ["x"], "gold": ["d1"]}])
    dataset = load(folder)
    assert (dataset.licence, dataset.source, dataset.remove_identical_ids) == ("CC0", "made up", True)
    assert dataset.questions[0].evidence == "all"


@pytest.mark.parametrize(
    "content, why",
    [
        ("{", "it is not JSON"),
        ("[]", "must hold an object"),
        ('{"zone": 3}', "zone is 3"),
        ('{"evidence": "no"}', "evidence"),
    ],
)
def test_bad_settings_of_a_folder_are_named(written, content, why):
    folder = written()
    (folder / "dataset.json").write_text(content)
    with pytest.raises(RagLabError, match=rf"dataset\.json: .*{why}"):
        load(folder)


def test_licence_and_source_from_a_readme(written):
    folder = written()
    (folder / "README.md").write_text("# x\n\nSource: somewhere\n\nLicense: CC BY 4.0\n")
    dataset = load(folder)
    assert (dataset.licence, dataset.source) == ("CC BY 4.0", "somewhere")


def test_the_summary_is_json(written):
    import json

    summary = load(written()).summary()
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["documents"], summary["queries"], summary["languages"]) == (3, 3, ["en"])


def test_a_question_without_text_is_refused(written):
    with pytest.raises(RagLabError, match="question 'q1' has no text"):
        load(written(queries=[{"_id": "q1", "text": " "}]))


@pytest.mark.parametrize("fields", [{"text": 5}, {"title": ["x"], "text": "x"}, {"text": "x", "metadata": "y"}])
def test_a_field_of_another_type_is_refused(written, fields):
    with pytest.raises(RagLabError, match=r"corpus\.jsonl:1: "):
        load(written(documents=[{"_id": "d", **fields}]))


def test_a_public_collection_may_use_the_words_of_standing_for_something_else(written):
    record = {"_id": "d1", "text": "text", "status": "published", "trust": "copy"}
    judgments = {"test": [("q1", "d1", 1)]}
    (document,) = load(written("open", documents=[record], judgments=judgments)).documents
    assert (document.status, document.source_trust) == ("active", "copy")
    declared = record | {"tenant": "t", "public": True}
    with pytest.raises(RagLabError, match="field status: 'published' is not known; give active or retired"):
        load(written("declared", documents=[declared], judgments=judgments))
