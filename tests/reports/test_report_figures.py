import math
import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
from example_results import example

from rag_lab.reports.canvas import MARKERS, PALETTE, look, plain_number
from rag_lab.reports.figures import _cap_axis, draw
from rag_lab.reports.losses import funnel_budgets
from rag_lab.reports.selection import select
from rag_lab.results import frame


def test_figures_are_whole_and_the_same_twice() -> None:
    sweep = example(n=30, budgets=("tight", "roomy"), variants=("bm25", "hybrid", "gold_context"))
    selection = select(sweep)
    before = dict(mpl.rcParams)
    first, second = draw(sweep, selection), draw(sweep, selection)
    assert list(first) == ["scores", "differences", "budgets", "cost", "groups", "funnel"]
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
    looks = [look(selection, v) for v in selection.variants]
    assert len(set(looks)) == len(looks)
    assert looks[0] == (PALETTE[0], MARKERS[0])


def test_the_frontier_is_drawn_at_the_caps() -> None:
    results = example(n=20, budgets=("a", "b", "c"), variants=("bm25", "hybrid"))
    for name, cap in (("a", 800), ("b", 200), ("c", 400)):
        results.budgets[name] = {"context_tokens": cap}
    assert _cap_axis(results, select(results)) == ([math.log(c) for c in (200, 400, 800)], ["200", "400", "800"])
    results.budgets["b"] = {"context_tokens": 500}
    assert _cap_axis(results, select(results)) == ([400.0, 500.0, 800.0], ["400", "500", "800"])
    results.budgets["a"] = {}
    assert _cap_axis(results, select(results)) == ([0.0, 1.0, 2.0], ["400", "500", "open"])
    results.budgets["a"] = {"candidates": 10}
    assert _cap_axis(results, select(results))[1] == ["a", "b", "c"]


def test_the_funnel_has_a_panel_for_each_budget_only_where_they_differ() -> None:
    results = example(n=20, budgets=("tight", "roomy"))
    assert funnel_budgets(results, select(results)) == ("roomy",)
    chosen = (results.funnel["variant"] == "no_retrieval") & (results.funnel["budget"] == "tight")
    results.funnel.loc[chosen, "lost"] += 1
    assert funnel_budgets(results, select(results)) == ("roomy",)
    results.funnel.loc[(results.funnel["variant"] == "bm25") & (results.funnel["budget"] == "tight"), "lost"] += 1
    assert funnel_budgets(results, select(results)) == ("tight", "roomy")


def test_ticks_have_no_powers_of_ten() -> None:
    assert [plain_number(x) for x in (0.0, 8e-05, 0.1, -0.5, 12000.0, 250.0)] == [
        "0", "0.00008", "0.1", "−0.5", "12,000", "250",
    ]  # fmt: skip
