from pathlib import Path

import pytest

from rag_lab import reports
from rag_lab.contracts import RagLabError
from rag_lab.reports.document import build
from rag_lab.results import Results

FIGURES = {"scores", "differences", "cost", "groups", "funnel"}


def test_all_files_are_written_and_nothing_is_left_over(results: Results, tmp_path: Path) -> None:
    written = reports.write(results, tmp_path)
    assert set(written) == {"html", "pdf", *(f"figures/{name}" for name in FIGURES)}
    assert written["html"] == tmp_path / "report.html"
    assert written["pdf"].read_bytes().startswith(b"%PDF")
    found = {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()}
    drawn = {f"figures/{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
    assert found == {"report.html", "report.pdf", *drawn}


def test_saved_results_give_the_same_report(results: Results, tmp_path: Path) -> None:
    """Frames that went through Parquet hold arrays and missing values; the report does not change."""
    results.save(tmp_path / "run")
    loaded = Results.load(tmp_path / "run")
    assert build(loaded) == build(results)


def test_an_unknown_format_is_named(results: Results, tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match="format 'docx' is not known; use html or pdf"):
        reports.write(results, tmp_path, formats=("docx",))


def test_a_file_that_cannot_be_replaced_keeps_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report.html").write_text("old")

    def fail(self: Path, target: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        reports._put(tmp_path / "report.html", b"new")
    assert (tmp_path / "report.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
