import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
from example_results import example

from rag_lab.reports.figures import MARKERS, PALETTE, _look, draw
from rag_lab.reports.selection import select
from rag_lab.results import frame


def test_figures_are_whole_and_the_same_twice() -> None:
    sweep = example(n=30, budgets=("tight", "roomy"), variants=("bm25", "hybrid", "gold_context"))
    selection = select(sweep)
    before = dict(mpl.rcParams)
    first, second = draw(sweep, selection), draw(sweep, selection)
    assert list(first) == ["scores", "differences", "cost", "groups", "funnel"]
    assert first == second
    assert dict(mpl.rcParams) == before
    for svg, png in first.values():
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert png.startswith(b"\x89PNG")
        assert len(svg) < 200_000


def test_names_from_the_experiment_are_text_in_a_drawing() -> None:
    results = example(n=40, variants=("bm25", "<b>&$x^2$"), generation=False)
    results.metrics = results.metrics[results.metrics["group"] == "all"]
    results.funnel = frame("funnel", [])
    for svg, _ in draw(results, select(results)).values():
        assert not list(ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}b"))


def test_what_has_no_data_is_not_drawn() -> None:
    results = example(n=40, variants=("bm25",), generation=False)
    results.comparisons = frame("comparisons", [])
    results.funnel = frame("funnel", [])
    results.metrics = results.metrics[results.metrics["group"] == "all"]
    assert list(draw(results, select(results))) == ["scores"]


def test_a_variant_keeps_its_look_and_two_never_share_one() -> None:
    selection = select(
        example(n=20, variants=("bm25", *(f"v{i}" for i in range(20)), "gold_context"), generation=False)
    )
    looks = [_look(selection, v) for v in selection.variants]
    assert len(set(looks)) == len(looks)
    assert looks[0] == (PALETTE[0], MARKERS[0])
