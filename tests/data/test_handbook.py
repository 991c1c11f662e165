"""The embedded handbook dataset keeps its own rules, and its check notices when it does not."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HANDBOOK = Path(__file__).resolve().parents[2] / "data" / "handbook"
TRAVEL_QUESTION = "How much is the domestic travel allowance in China per day?"


def load_build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("handbook_build", HANDBOOK / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


build = load_build()


def records(name: str) -> dict[str, dict[str, Any]]:
    lines = (HANDBOOK / name).read_bytes().decode("utf-8").split("\n")[:-1]
    return {record["_id"]: record for record in map(json.loads, lines)}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HANDBOOK, tmp_path / "handbook", ignore=shutil.ignore_patterns(".*", "__pycache__")))


Complaints = Callable[[Path], list[str]]


@pytest.fixture
def complaints(capsys: pytest.CaptureFixture[str]) -> Complaints:
    def run(root: Path) -> list[str]:
        status = build.main(["--check", "--root", str(root)])
        lines = capsys.readouterr().out.splitlines()
        assert status == (0 if lines[-1].endswith("in order") else 1)
        return lines if status else []

    return run


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_sources_and_built_files_agree(complaints: Complaints) -> None:
    assert complaints(HANDBOOK) == []


def test_building_again_changes_nothing(copy: Path) -> None:
    for name in ("corpus.jsonl", "queries.jsonl", "answers.jsonl", "qrels/test.tsv", "qrels/dev.tsv"):
        (copy / name).unlink()
    assert build.main(["--root", str(copy)]) == 0
    for name in ("corpus.jsonl", "queries.jsonl", "answers.jsonl", "qrels/test.tsv", "qrels/dev.tsv", "README.md"):
        assert (copy / name).read_bytes() == (HANDBOOK / name).read_bytes(), name


@pytest.mark.parametrize(
    "time,answer,upcoming",
    [
        ("2026-08-20T09:00:00+00:00", "500", None),
        ("2026-09-10T09:00:00+00:00", "500", "600 from 15 September 2026"),
        ("2026-09-14T23:59:59+00:00", "500", "600 from 15 September 2026"),
        ("2026-09-15T00:00:00+00:00", "600", None),
        ("2026-09-20T09:00:00+00:00", "600", None),
    ],
)
def test_travel_allowance(time: str, answer: str, upcoming: str | None) -> None:
    queries, answers = records("queries.jsonl"), records("answers.jsonl")
    (name,) = [
        name
        for name, query in queries.items()
        if query["text"] == TRAVEL_QUESTION and query["metadata"]["time"] == time
    ]
    right = answers[name]
    assert f"CNY {answer}" in right["answers"]
    assert right["upcoming"] == upcoming
    policy = {"500": "mer-travel-policy-v3", "600": "mer-travel-policy-v4"}[answer]
    assert policy in right["gold"]


def test_travel_policies_meet_without_gap() -> None:
    corpus = records("corpus.jsonl")
    old, new = (corpus[f"mer-travel-policy-v{version}"]["metadata"] for version in (3, 4))
    assert old["valid_until"] == "2026-09-14"
    assert (new["valid_from"], new["published"]) == ("2026-09-15", "2026-09-01")
    assert build.instant(old["valid_until"], end=True) == build.instant(new["valid_from"])


def test_spans_are_code_points_of_the_text() -> None:
    corpus, answers = records("corpus.jsonl"), records("answers.jsonl")
    span = answers["qm-time-dependent-02"]["gold_spans"][0]
    text = corpus[span["document"]]["text"]
    assert text[span["start"] : span["end"]] == "The domestic travel allowance is CNY 500 per day."
    chinese = answers["qz-multilingual-03"]["gold_spans"][0]
    assert corpus[chinese["document"]]["text"][chinese["start"] : chinese["end"]].endswith("集合点为篮球场。")


def test_rights_limited_questions_come_in_pairs_with_opposite_answers() -> None:
    queries, answers = records("queries.jsonl"), records("answers.jsonl")
    by_text: dict[str, list[bool]] = {}
    for name, query in queries.items():
        if query["metadata"]["group"] == "rights-limited":
            by_text.setdefault(query["text"], []).append(answers[name]["answerable"])
    assert by_text
    assert all(sorted(pair) == [False, True] for pair in by_text.values())


def test_a_changed_sentence_breaks_its_quote(copy: Path, complaints: Complaints) -> None:
    policy = copy / "documents/meridian/en/mer-travel-policy-v3.md"
    edit(policy, "The domestic travel allowance is CNY 500 per day.", "The domestic travel allowance is CNY 500 a day.")
    found = complaints(copy)
    assert any(line.startswith("qm-time-dependent-02: quote found 0 times in mer-travel-policy-v3") for line in found)


def test_a_repeated_sentence_breaks_its_quote(copy: Path, complaints: Complaints) -> None:
    policy = copy / "documents/meridian/en/mer-travel-policy-v3.md"
    policy.write_text(policy.read_text(encoding="utf-8") + "\nThe domestic travel allowance is CNY 500 per day.\n")
    assert any("quote found 2 times in mer-travel-policy-v3" in line for line in complaints(copy))


def test_duplicate_question_id(copy: Path, complaints: Complaints) -> None:
    edit(copy / "questions/identifier_meridian.yaml", "qm-identifier-02", "qm-identifier-01")
    assert "questions/identifier_meridian.yaml: duplicate id qm-identifier-01" in complaints(copy)


def test_document_id_must_be_that_of_its_file(copy: Path, complaints: Complaints) -> None:
    edit(copy / "documents/meridian/en/mer-vpn-guide.md", "id: mer-vpn-guide", "id: mer-travel-uk")
    path = "documents/meridian/en/mer-vpn-guide.md"
    assert f"{path}: id, tenant and language must be those of the path" in complaints(copy)


def test_gold_that_the_principal_may_not_read(copy: Path, complaints: Complaints) -> None:
    edit(copy / "documents/meridian/en/mer-travel-policy-v3.md", "public: true", "groups: [legal]")
    line = "qm-time-dependent-02: gold document mer-travel-policy-v3 is not permitted to the principal"
    assert line in complaints(copy)


def test_gold_of_another_tenant(copy: Path, complaints: Complaints) -> None:
    edit(copy / "questions/identifier_meridian.yaml", "tenant: meridian", "tenant: kestrel")
    line = "qm-identifier-01: gold document mer-error-codes is not permitted to the principal"
    assert line in complaints(copy)


def test_gold_that_is_no_longer_in_force(copy: Path, complaints: Complaints) -> None:
    edit(copy / "documents/meridian/en/mer-travel-policy-v3.md", "valid_until: 2026-09-14", "valid_until: 2026-09-10")
    found = complaints(copy)
    stale = "gold document mer-travel-policy-v3 is not in force at"
    assert any(line.startswith(f"qm-time-dependent-04: {stale} 2026-09-14") for line in found)
    assert not any(line.startswith("qm-time-dependent-03") for line in found), "the last day is included"


def test_denied_document_that_is_permitted(copy: Path, complaints: Complaints) -> None:
    salary = copy / "documents/meridian/en/mer-salary-bands-2026.md"
    edit(salary, "groups: [hr, managers]", "groups: [staff]")
    line = "qm-rights-limited-02: denied document mer-salary-bands-2026 is permitted to the principal"
    assert line in complaints(copy)


def test_answer_outside_of_every_quote(copy: Path, complaints: Complaints) -> None:
    edit(copy / "questions/identifier_meridian.yaml", '"13.60", "GBP 13.60"', '"14.20"')
    line = "qm-identifier-02: no answer stands in a quote (a count or combination needs 'derived: true')"
    assert line in complaints(copy)


def test_near_duplicate_document(copy: Path, complaints: Complaints) -> None:
    original = copy / "documents/meridian/en/mer-vpn-guide.md"
    twin = original.with_name("mer-vpn-twin.md")
    twin.write_text(original.read_text(encoding="utf-8").replace("id: mer-vpn-guide", "id: mer-vpn-twin"))
    line = "documents/meridian/en/mer-vpn-guide.md: near duplicate of documents/meridian/en/mer-vpn-twin.md"
    assert line in complaints(copy)


@pytest.mark.parametrize(
    "old,new,message",
    [
        ("kind: guide", "kind: song", "kind 'song' is not one of policy, "),
        ('version: "5"', "version: 5", "version must be a non-empty string (quote numbers)"),
        ("groups: [staff]", "groups: [pilots]", "unknown groups ['pilots']"),
        ("groups: [staff]", "groups: []", "either 'public: true' or a list of groups"),
        ("published: 2026-05-11", "published: 2026-13-01", "published '2026-13-01' is no date"),
        ("handbook://meridian/", "handbook://kestrel/", "source_uri must start with handbook://<tenant>/"),
        ("---\nid", "id", "front matter between two lines '---' is missing"),
    ],
)
def test_front_matter(tmp_path: Path, old: str, new: str, message: str) -> None:
    name = "documents/meridian/en/mer-vpn-guide.md"
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    shutil.copy(HANDBOOK / name, path)
    edit(path, old, new)
    problems: list[str] = []
    assert build.read_documents(tmp_path, problems) == {}
    assert len(problems) == 1
    assert problems[0].startswith(f"{name}: {message}")


@pytest.mark.parametrize(
    "old,new,message",
    [
        ("split: test", "split: train", "split 'train' is not one of dev, test"),
        ("answerable: true", "answerable: false", "an answerable question needs answers and gold"),
        ('"2026-09-10T09:00:00+00:00"', '"2026-09-10T09:00:00"', "time needs a zone"),
        ('["13.60", "GBP 13.60"]', "[13.60]", "answers must be strings (quote numbers)"),
        ("groups: [staff]", "groups: [drivers]", "unknown groups ['drivers']"),
        ("quote:", "sentence:", "every piece of gold needs a document and a quote"),
    ],
)
def test_question_fields(tmp_path: Path, old: str, new: str, message: str) -> None:
    name = "questions/identifier_meridian.yaml"
    path = tmp_path / name
    path.parent.mkdir()
    shutil.copy(HANDBOOK / name, path)
    edit(path, old, new)
    problems: list[str] = []
    build.read_questions(tmp_path, problems)
    assert len(problems) == 1
    assert problems[0].startswith(f"{name}: qm-identifier-0")
    assert message in problems[0]


def test_built_file_that_was_edited_or_is_missing(copy: Path, complaints: Complaints) -> None:
    edit(copy / "qrels/test.tsv", "\t1\n", "\t2\n")
    (copy / "answers.jsonl").unlink()
    assert complaints(copy) == [
        "answers.jsonl: missing; run build.py",
        "qrels/test.tsv: lines 2 to 2 differ from the sources; run build.py",
    ]


def test_too_few_questions(copy: Path, complaints: Complaints) -> None:
    for path in (copy / "questions").glob("unanswerable_*.yaml"):
        path.unlink()
    found = complaints(copy)
    assert "0 unanswerable questions, at least 30 are needed" in found
    assert "group unanswerable has no question in split dev" in found


def test_nothing_is_written_while_a_rule_is_broken(copy: Path) -> None:
    edit(copy / "documents/meridian/en/mer-vpn-guide.md", "kind: guide", "kind: song")
    before = (copy / "corpus.jsonl").read_bytes()
    assert build.main(["--root", str(copy)]) == 1
    assert (copy / "corpus.jsonl").read_bytes() == before
