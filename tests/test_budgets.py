from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rag_lab.budgets import Budget, Ledger, Price, Prices, token_count
from rag_lab.contracts import RESOURCES, RagLabError


def test_a_grant_is_cut_at_the_cap_and_recorded() -> None:
    ledger = Ledger(Budget(candidates=100), 3)
    ledger.spend("candidates", np.array([0, 60, 100]))
    assert ledger.grant("candidates", 50).tolist() == [50, 40, 0]
    ledger.curtail("dense", "candidates", 50, ledger.grant("candidates", 50))
    assert ledger.curtailments[0] == []
    assert [(c.stage, c.resource, c.wanted, c.granted) for c in ledger.curtailments[1]] == [
        ("dense", "candidates", 50, 40)
    ]
    assert ledger.curtailments[2][0].granted == 0


def test_an_open_resource_grants_what_is_wanted() -> None:
    ledger = Ledger(Budget(), 2)
    assert ledger.grant("candidates", [7, 9]).tolist() == [7, 9]
    assert ledger.curtailments == [[], []]


def test_channels_share_the_room() -> None:
    ledger = Ledger(Budget(candidates=101), 1)
    first = ledger.grant("candidates", 1000, share=1 / 2)
    ledger.spend("candidates", first)
    assert first.tolist() == [50]
    assert ledger.grant("candidates", 1000).tolist() == [51]


@pytest.mark.parametrize(
    "resource", ["candidates", "rerank_pairs", "context_tokens", "output_tokens", "llm_calls", "rounds"]
)
def test_spending_above_a_cap_raises(resource: str) -> None:
    ledger = Ledger(Budget(**{resource: 2}), 2)
    ledger.spend(resource, np.array([2, 2]))
    with pytest.raises(RagLabError, match=f"budget.{resource}: a stage spent 3, above the cap of 2"):
        ledger.spend(resource, np.array([0, 1]))


def test_late_resources_are_marked() -> None:
    ledger = Ledger(Budget(latency_ms=10, usd=0.5), 2)
    ledger.spend("latency_ms", np.array([10.0, 10.5]))
    ledger.spend("usd", np.array([0.6, 0.1]))
    assert {name: over.tolist() for name, over in ledger.over().items()} == {
        "usd": [True, False],
        "latency_ms": [False, True],
    }


@pytest.mark.parametrize("cap", [-1, float("nan"), float("inf"), "many", True, 1.5, 1e16])
def test_bad_caps_name_the_field(cap: object) -> None:
    with pytest.raises(RagLabError, match=r"budget\.candidates"):
        Budget.from_mapping({"candidates": cap})


def test_unknown_resource_names_the_known_ones() -> None:
    with pytest.raises(RagLabError, match=r"budget\.tokens: unknown resource; use one of candidates"):
        Budget.from_mapping({"tokens": 1})
    assert Budget.from_mapping(dict.fromkeys(RESOURCES, 1)).caps() == dict.fromkeys(RESOURCES, 1)


S21_PRICES = Prices("prices.yaml", 0.0, {"m": Price(input=3.0, output=15.0, cached_input=0.3)})


@pytest.mark.parametrize(
    "usage",
    [
        {
            "prompt_tokens": 1000,
            "completion_tokens": 200,
            "prompt_tokens_details": {"cached_tokens": 800},
            "completion_tokens_details": {"reasoning_tokens": 150},
        },
        {"input_tokens": 200, "cache_read_input_tokens": 800, "output_tokens": 200},
    ],
)
def test_s21_tokens_are_counted_once_in_both_styles(usage: dict[str, object]) -> None:
    count = token_count(usage)
    assert count.prompt + count.output == 1200
    usd = S21_PRICES.tokens("m", np.array([count.prompt]), np.array([count.output]), np.array([count.cached]))
    assert usd[0] == pytest.approx(0.003840, abs=1e-12)


def test_s21_every_call_is_on_the_bill() -> None:
    ledger = Ledger(Budget(llm_calls=4), 1)
    for prompt, output in [(30, 10), (200, 1), (500, 50), (60, 0)]:
        assert ledger.grant("llm_calls", 1).tolist() == [1]
        ledger.spend("llm_calls", np.array([1]))
        ledger.spend("context_tokens", np.array([prompt]))
        ledger.spend("output_tokens", np.array([output]))
    usage = ledger.usage(0)
    assert (usage.llm_calls, usage.context_tokens, usage.output_tokens) == (4, 790, 61)
    assert ledger.grant("llm_calls", 1).tolist() == [0]


def test_local_compute_is_priced_by_the_hour(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("compute_usd_per_hour: 3.6\nmodels:\n  m: {input: 2, output: 4}\n")
    prices = Prices.load(file)
    assert prices.compute(np.array([1000.0])).tolist() == [0.001]
    assert prices.tokens("m", np.array([1e6]), np.array([5e5])).tolist() == [4.0]
    assert prices.tokens("unknown", np.array([1e6]), np.array([5e5])).tolist() == [0.0]


@pytest.mark.parametrize(
    "text",
    ["", "compute_usd_per_hour: -1\nmodels: {}", "models: {}", "a: [", "compute_usd_per_hour: 1\nmodels: {m: {in: 1}}"],
)
def test_a_broken_price_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(RagLabError, match=r"mine\.yaml"):
        Prices.load(file)
