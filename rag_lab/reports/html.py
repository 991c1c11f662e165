"""The report as one HTML file: no script, no request, every text escaped."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rag_lab.reports.blocks import Document
from rag_lab.reports.literal import heading_pieces, visible


def render(document: Document, figures: Mapping[str, bytes]) -> str:
    """The page. `figures` holds SVG by the name of the figure; a figure without a drawing shows its words."""
    environment = Environment(
        loader=PackageLoader("rag_lab.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.filters["breakable"] = _breakable
    environment.tests["block"] = lambda block, kind: type(block).__name__ == kind
    sources = {name: _data_url(svg) for name, svg in figures.items()}
    return environment.get_template("report.html.j2").render(document=document, figures=sources)


def _data_url(svg: bytes) -> str:
    """An image by value: its ids cannot meet those of another drawing, and an image runs nothing."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def _breakable(label: str) -> Markup:
    """A heading that may break between its words."""
    return Markup("<wbr>").join(heading_pieces(visible(label)))
