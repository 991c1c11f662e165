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


@pytest.mark.slow
def test_first_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_LAB_HOME", os.environ["RAG_LAB_TEST_HOME"])
    at = tmp_path / "notebooks"
    at.mkdir()
    shutil.copy(NOTEBOOKS / "01_first_comparison.ipynb", at)
    notebook = nbformat.read(at / "01_first_comparison.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(at)}}).execute()
    shown = text_of(notebook)
    assert "10 Sep 2026" in shown
    assert "nDCG@10" in shown
    assert (tmp_path / "reports" / "first_comparison" / "report.pdf").is_file()
