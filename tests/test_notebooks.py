"""Each notebook runs from top to bottom, and says what its text claims."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def text_of(notebook: nbformat.NotebookNode) -> str:
    """What the cells printed and showed."""
    parts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            parts.append(output.get("text", "") or output.get("data", {}).get("text/plain", ""))
    return "\n".join(parts)


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Execute a notebook, kept without outputs, in a folder beside which it may write; what it showed."""
    monkeypatch.setenv("RAG_LAB_HOME", os.environ["RAG_LAB_TEST_HOME"])
    at = folder / "notebooks"
    at.mkdir()
    shutil.copy(NOTEBOOKS / name, at)
    notebook = nbformat.read(at / name, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(at)}}).execute()
    return text_of(notebook)


@pytest.mark.slow(seconds=70)
def test_first_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("01_first_comparison.ipynb", tmp_path, monkeypatch)
    assert "10 Sep 2026" in shown
    assert "nDCG@10" in shown
    assert (tmp_path / "reports" / "first_comparison" / "report.pdf").is_file()


@pytest.mark.slow(seconds=45)
def test_long_context_or_rag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_LAB_DATA", raising=False)
    shown = run("04_long_context_or_rag.ipynb", tmp_path, monkeypatch)
    assert "[500, 2000, 8000, 32000]" in shown
    assert "GoldInContext" in shown
    assert "left_out" in shown
    assert "limit 1 of a room of 8000; about everything" in shown
    assert "gold_middle" in shown
    assert "squad2-dev-articles is not at hand: skipped" in shown
    assert "At 32,000 context tokens" in shown
    assert shown.count("<Figure") == 2


@pytest.mark.slow
def test_chunking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("06_chunking.ipynb", tmp_path, monkeypatch)
    assert "bm25@parent-child" in shown
    assert "no document has sections with rights of their own" in shown
    assert "gold_whole" in shown
    assert shown.count("<Figure") == 2


@pytest.mark.slow(seconds=45)
def test_adaptive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAG_LAB_SHARED", raising=False)
    shown = run("05_adaptive.ipynb", tmp_path, monkeypatch)
    assert "sufficiency" in shown
    assert "no_new_evidence" in shown
    assert "handbook: no difference to one search is shown" in shown
    assert "set RAG_LAB_SHARED" in shown
    assert shown.count("<Figure") == 1


@pytest.mark.slow
def test_rights_and_freshness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("07_rights_and_freshness.ipynb", tmp_path, monkeypatch)
    assert "60 reads: 0 forbidden, 0 permitted and not found" in shown
    assert "clean: True" in shown
    assert "Updates searchable within 60 s: yes." in shown
    assert "Revocations at once: yes" in shown
    assert shown.count("<Figure") == 1


@pytest.mark.slow(seconds=80)
def test_seven_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("02_seven_variants.ipynb", tmp_path, monkeypatch)
    assert "long_context" in shown
    assert "AbstentionRecall" in shown
    assert (tmp_path / "reports" / "seven_variants" / "report.pdf").is_file()


@pytest.mark.slow(seconds=70)
def test_ablation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("03_ablation.ipynb", tmp_path, monkeypatch)
    assert "without rerank" in shown
    assert "query count" in shown
    assert shown.count("SVG") == 1
