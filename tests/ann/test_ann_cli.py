"""``rag-lab ann``: what it is asked, writes, prints and refuses."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from example_ann import results

from rag_lab import cli
from rag_lab.ann.definition import AnnStudy

FILE = "dataset: handbook\nsizes: [1000, 50000]\nindexes: [Flat, {HNSW32: [64]}]\n"
Call = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """Run ``rag-lab ARGUMENTS`` in an empty folder that has a study file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(FILE)

    def run(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["rag-lab", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return (end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[AnnStudy]:
    """Stand in for the study itself, and keep what it was asked for."""
    studies: list[AnnStudy] = []
    monkeypatch.setattr("rag_lab.ann.sweep.ann_study", lambda study, progress: studies.append(study) or results())
    return studies


def test_results_and_report_are_written_and_shown(call: Call, asked: list[AnnStudy], tmp_path: Path) -> None:
    status, out, _ = call("ann", "mine.yaml")
    assert status == 0
    assert asked == [AnnStudy.load("mine.yaml")]
    assert {path.name for path in (tmp_path / "reports" / "mine").iterdir()} == {
        "results.json", "tables", "figures", "report.html", "report.pdf",
    }  # fmt: skip
    assert "Among 50,000 vectors, HNSW32 at efSearch 128" in " ".join(out.split())
    assert "reports/mine/report.pdf" in out
    page = (tmp_path / "reports" / "mine" / "report.html").read_bytes()
    status, out, _ = call("report", "reports/mine")
    assert (status, out) == (0, "reports/mine/report.html\nreports/mine/report.pdf\n")
    assert (tmp_path / "reports" / "mine" / "report.html").read_bytes() == page


def test_options_take_the_place_of_fields(call: Call, asked: list[AnnStudy], tmp_path: Path) -> None:
    status, out, _ = call("ann", "mine.yaml", "--sizes", "70,2_000", "--dataset", "d", "--out", "here", "--no-report")
    assert status == 0
    assert (asked[0].sizes, asked[0].dataset, asked[0].name) == ([70, 2000], "d", "mine")
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["results.json", "tables"]
    assert "report" not in out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("none.yaml",), "none.yaml: no such file; name an experiment file such as experiments/ann.yaml"),
        (("mine.yaml", "--sizes", "many"), "--sizes: 'many' is not a list of whole numbers such as 10000,100000"),
        (("mine.yaml", "--sizes", ""), "--sizes: '' is not a list of whole numbers such as 10000,100000"),
        (("mine.yaml", "--sizes", "1"), "--sizes: sizes.0: input should be greater than or equal to 2 (found 1)"),
        (("mine.yaml", "--out", "mine.yaml"), "--out mine.yaml: mine.yaml is a file; name a folder"),
    ],
)
def test_what_cannot_be_is_one_line(
    call: Call, asked: list[AnnStudy], arguments: tuple[str, ...], message: str
) -> None:
    assert call("ann", *arguments) == (2, "", f"rag-lab: {message}\n")
    assert asked == []
