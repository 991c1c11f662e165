"""Results -> figures, one HTML file and one PDF with the same content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rag_lab.contracts import RagLabError
from rag_lab.store import write_atomically

if TYPE_CHECKING:
    from rag_lab.ann.results import AnnResults
    from rag_lab.reports.blocks import Document
    from rag_lab.results import Results

FORMATS = ("html", "pdf")


def write(results: Results | AnnResults, folder: str | Path, formats: Sequence[str] = FORMATS) -> dict[str, Path]:
    """Write ``figures/*.svg`` and ``*.png``, ``report.html`` and ``report.pdf`` into the folder of a run or a study.

    Returns the reports' paths by format, and each figure's SVG under ``figures/NAME``. Every file appears whole or not
    at all. Raises RagLabError when a format is not known.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise RagLabError(f"report: format {unknown[0]!r} is not known; use {' or '.join(FORMATS)}")
    from rag_lab.reports import html, pdf

    target = Path(folder)
    document, drawn = _content(results)
    vectors = {name: svg for name, (svg, _) in drawn.items()}
    written: dict[str, Path] = {}
    for name, (svg, png) in drawn.items():
        written[f"figures/{name}"] = _put(target / "figures" / f"{name}.svg", svg)
        _put(target / "figures" / f"{name}.png", png)
    if "html" in formats:
        written["html"] = _put(target / "report.html", html.render(document, vectors).encode("utf-8"))
    if "pdf" in formats:
        written["pdf"] = _put(target / "report.pdf", pdf.render(document, vectors))
    return written


def _content(results: Results | AnnResults) -> tuple[Document, dict[str, tuple[bytes, bytes]]]:
    """The report as data, and its drawings by name as SVG and PNG."""
    from rag_lab.ann.results import AnnResults

    if isinstance(results, AnnResults):
        from rag_lab.reports import ann, ann_figures

        return ann.build(results), ann_figures.draw(results)
    from rag_lab.reports import document, figures
    from rag_lab.reports.selection import select

    selection = select(results)
    return document.build(results, selection), figures.draw(results, selection)


def _put(path: Path, content: bytes) -> Path:
    write_atomically(path, content)
    return path
