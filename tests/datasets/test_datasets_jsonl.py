"""Lines of JSON and of judgments."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError
from rag_lab.datasets.jsonl import Judgment, read_judgments, read_records, whole_grade


def written(folder: Path, content: bytes, name: str = "corpus.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_s01_a_record_may_contain_a_line_separator(tmp_path):
    content = (
        b"\xef\xbb\xbf"
        + '{"_id":"d1","text":"alpha\u2028beta"}\r\n'.encode()
        + '{"_id":"d2","text":"gamma\u0085delta"}\n'.encode()
        + b'{"_id":"d3","text":"epsilon"}'
    )
    skipped: list[str] = []
    records = list(read_records(written(tmp_path, content), skipped))
    assert [r.fields["_id"] for r in records] == ["d1", "d2", "d3"]
    assert [len(r.fields["text"]) for r in records] == [10, 11, 7]
    assert skipped == []


@pytest.mark.parametrize(
    "line, why",
    [
        (b'{"_id": "d2", "text": ', "Expecting value"),
        (b'["d2"]', "object is expected, not list"),
        (b'{"_id": "\xff"}', "utf-8"),
        (b"\xef\xbb\xbf{}", "BOM"),
    ],
)
def test_s01_a_broken_line_is_reported_with_its_physical_number(tmp_path, line, why):
    path = written(tmp_path, b'{"_id": "d1"}\n\n' + line + b'\n{"_id": "d3"}\n')
    with pytest.raises(RagLabError, match=rf"corpus\.jsonl:3: broken line: .*{why}"):
        list(read_records(path))
    skipped: list[str] = []
    records = list(read_records(path, skipped))
    assert [(r.fields["_id"], r.line) for r in records] == [("d1", 1), ("d3", 4)]
    assert len(skipped) == 1
    assert skipped[0].startswith("corpus.jsonl:3: ")


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", exclude_categories=("Cs",))), max_size=8))
def test_every_text_survives_a_round_trip(tmp_path_factory, texts):
    import json

    lines = (json.dumps({"_id": str(i), "text": text}, ensure_ascii=False) for i, text in enumerate(texts))
    path = written(tmp_path_factory.mktemp("jsonl"), "\r\n".join(lines).encode())
    assert [r.fields["text"] for r in read_records(path)] == texts


@pytest.mark.parametrize(
    "content",
    [
        b"query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td 2\t0\n",
        b"\xef\xbb\xbfquery-id\tcorpus-id\tscore\r\nq1\td1\t2\r\nq1\td 2\t0",
        b"q1\td1\t2\nq1\td 2\t0\n",
        b"q1\t0\td1\t2\nq1\t0\td 2\t0.0\n",
    ],
    ids=["header", "windows", "no header", "trec"],
)
def test_judgments_in_every_usual_form(tmp_path, content):
    assert list(read_judgments(written(tmp_path, content, "test.tsv"))) == [
        Judgment("q1", "d1", 2),
        Judgment("q1", "d 2", 0),
    ]


def test_trec_judgments_with_spaces(tmp_path):
    path = written(tmp_path, b"101 0 FT-1 1\n101 0 FT-2 -1\n", "test.tsv")
    assert list(read_judgments(path)) == [Judgment("101", "FT-1", 1), Judgment("101", "FT-2", -1)]


@pytest.mark.parametrize(
    "line, why",
    [
        (b"q1\td1\thigh", "the grade 'high' is not a number"),
        (b"q1\td1\t0.5", "the grade '0.5' is not a whole number"),
        (b"q1\td1\tnan", "the grade 'nan' is not a whole number"),
        (b"q1\td1", "2 columns"),
        (b"q1\t\t1", "an id is empty"),
    ],
)
def test_family_9_a_broken_judgment_names_its_line(tmp_path, line, why):
    path = written(tmp_path, b"query-id\tcorpus-id\tscore\n" + line + b"\n", "test.tsv")
    with pytest.raises(RagLabError, match=rf"test\.tsv:2: broken line: {why}"):
        list(read_judgments(path))


@pytest.mark.parametrize("value", [1, 1.0, "1", "1.0", True])
def test_family_9_grades_become_integers(value):
    assert whole_grade(value) == 1
    assert type(whole_grade(value)) is int
