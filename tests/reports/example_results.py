"""Results as an experiment leaves them, drawn from a seed: several variants, question groups, two languages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from rag_lab.contracts import RESOURCES
from rag_lab.results import COLUMNS, Results, frame

HOSTILE_ANSWER = "<script>alert(1)</script> a|b \\| c\n` x` **approved** ` [go](javascript:alert(1))"
HOSTILE_QUERY = "=1+1"
TYPST_TEXT = '#eval("1+1") $x^2$ *bold* _it_ @ref <label> \\ // comment https://example.org "q" \'s\' -- ... ~ `raw`'
LONG_STRING = "x" * 400 + "END"
RIGHT_TO_LEFT = "ما هو بدل السفر؟ שלום"
CONTROLS = "nul:\x00 bell:\x07 override:\u202egnp.exe\u202c end"
EMOJI = "travel 😀 approved"

METRICS = (
    "nDCG@10",
    "Recall@100",
    "RR",
    "AP",
    "P@5",
    "Hit@5",
    "EM",
    "F1",
    "AssembledRecall",
    "RelevantTokens",
    "CitationPrecision",
    "CitationRecall",
    "AbstentionPrecision",
    "AbstentionRecall",
    "Correct",
)
GROUPS = (
    "identifier",
    "paraphrase",
    "multilingual",
    "multi-step",
    "global",
    "just updated",
    "rights-limited",
    "time-dependent",
    "conflicting",
    "unanswerable",
)
STAGES = ("ingest", "scope", "candidates", "cut", "assembly", "generation", "citation", "answered")
QUALITY = {"bm25": 0.61, "dense": 0.59, "hybrid": 0.70, "no_retrieval": 0.0, "gold_context": 0.97}
ENGLISH = "What is the daily travel allowance for trips within the country in force on 10 September?"
CHINESE = "九月十日生效的国内出差每日津贴标准是多少？"
PASSAGE_EN = (
    "Travel allowance. From 1 January the daily allowance for domestic trips is 500. A notice of 1 September announces "
    "a rise to 600, in force from 15 September. Claims are filed within thirty days of the return."
)
PASSAGE_ZH = "出差津贴。自一月一日起，国内出差的每日津贴为500元。九月一日的通知宣布自九月十五日起提高至600元。"


def example(
    *,
    budgets: tuple[str, ...] = ("main",),
    variants: tuple[str, ...] = tuple(QUALITY),
    n: int = 240,
    seed: int = 7,
    generation: bool = True,
) -> Results:
    """A full set of results; the first questions carry the hostile texts."""
    rng = np.random.default_rng(seed)
    query_ids = [f"q{i:03d}" for i in range(n)]
    groups = [GROUPS[i % len(GROUPS)] for i in range(n)]
    names = METRICS if generation else METRICS[:6]
    questions = _questions(rng, query_ids, groups, variants, budgets, names)
    outcomes = _outcomes(rng, query_ids, groups, variants, budgets, questions, generation)
    metrics = _metrics(questions, groups)
    return Results(
        metrics=metrics,
        comparisons=_comparisons(questions, variants, budgets, names),
        budget_use=_budget_use(variants, budgets),
        curtailments=_curtailments(variants, budgets),
        funnel=_funnel(variants, budgets),
        questions=questions,
        outcomes=outcomes,
        events=frame("events", []),
        ablation=frame("ablation", []),
        snapshots=frame("snapshots", []),
        timings=_timings(variants, budgets),
        dataset={
            "name": "handbook",
            "fingerprint": "sha256:5f3a9c0d7be1420f8a6d1c3e5b7f90a1c2d4e6f8091a2b3c4d5e6f708192a3b4",
            "documents": 176,
            "queries": n,
            "languages": ["en", "zh"],
            "groups": {g: groups.count(g) for g in GROUPS if g in groups},
            "integrity": {
                "documents": 176,
                "questions": n,
                "empty_documents": 0,
                "duplicate_documents": 1,
                "dangling_judgments": 2,
                "questions_without_judgments": 0,
            },
            "not_measured": {"NeighbourRecall@10": "the dense index is exact, so there is nothing to compare it with"},
        },
        snapshot="9b1f0c77d2",
        seed=seed,
        experiment={
            "name": "Quick start",
            "question": "Does fusing BM25 with dense retrieval answer more handbook questions under the same budget?",
            "dataset": "handbook",
            "variants": list(variants),
            "baseline": "bm25",
            "note": "中文与英文混合数据集",
        },
        variants={v: _stages(v) for v in variants},
        budgets={
            b: {"candidates": 100, "context_tokens": 300 * (i + 1), "output_tokens": 64, "latency_ms": 400}
            for i, b in enumerate(budgets)
        },
        warnings=["encoder all-MiniLM-L6-v2 knows en; 48 questions and 60 documents are in zh"],
        calibration={
            "reader": "extractive",
            "threshold": 0.4173,
            "questions": 40,
            "rule": "best mean of answer and abstention F1 on questions that are not scored",
        },
        failures=[
            {
                "variant": variants[-1],
                "budget": budgets[-1],
                "stage": "generation",
                "cause": "RuntimeError: out of memory",
                "questions": 2,
            }
        ],
        provenance={
            "key": "5f3a9c0d7be1420f8a6d1c3e5b7f90a1",
            "code_version": "0.1.0+g1234abc",
            "started": "2025-01-02T03:04:05+00:00",
            "finished": "2025-01-02T03:07:41+00:00",
            "python": "3.11.2",
            "platform": "Linux-6.1-x86_64, 2 cores",
            "packages": {"faiss-cpu": "1.15.1", "pyserini": "1.6.0", "torch": "2.13.0", "transformers": "4.57.6"},
            "models": {"all-MiniLM-L6-v2": "sha256:0d1e5f", "extractive": "1"},
            "command": "rag-lab run experiments/quickstart.yaml --out reports/quickstart",
            "experiment_file": "experiments/quickstart.yaml",
            "price_file": "experiments/prices.yaml",
            "resamples": 10_000,
            "permutations": 10_000,
            "confidence": 0.95,
        },
    )


def _stages(variant: str) -> list[dict[str, Any]]:
    retrieve: dict[str, list[dict[str, Any]]] = {
        "bm25": [{"bm25": {"k1": 0.9, "b": 0.4}}],
        "dense": [{"dense": {"index": "Flat"}}],
        "hybrid": [
            {"bm25": {"k1": 0.9, "b": 0.4}},
            {"dense": {"index": "Flat"}},
            {"rrf": {"k": 60}},
        ],
        "gold_context": [{"gold": {}}],
        "no_retrieval": [],
    }
    return [*retrieve.get(variant, [{variant: {}}]), {"assemble": {}}, {"generate": {}}]


def _questions(
    rng: np.random.Generator,
    query_ids: list[str],
    groups: list[str],
    variants: tuple[str, ...],
    budgets: tuple[str, ...],
    names: tuple[str, ...],
) -> pd.DataFrame:
    difficulty = rng.normal(0, 0.25, len(query_ids))
    rows = []
    for b, budget in enumerate(budgets):
        for variant in variants:
            for m, metric in enumerate(names):
                if variant == "no_retrieval" and m < 6:
                    continue
                base = QUALITY.get(variant, 0.6) - 0.02 * m + 0.06 * b
                values = np.clip(base - difficulty + rng.normal(0, 0.2, len(query_ids)), 0, 1)
                if metric in ("EM", "Correct", "Hit@5"):
                    values = (values > 0.5).astype(float)
                for query_id, group, value in zip(query_ids, groups, values, strict=True):
                    if (group == "unanswerable") == metric.startswith("Abstention"):
                        rows.append((variant, budget, query_id, group, metric, round(float(value), 6)))
    return pd.DataFrame(rows, columns=["variant", "budget", "query_id", "group", "metric", "value"])


def _metrics(questions: pd.DataFrame, groups: list[str]) -> pd.DataFrame:
    rows = []
    for group in ("all", *dict.fromkeys(groups)):
        part = questions if group == "all" else questions[questions["group"] == group]
        for (variant, budget, metric), values in part.groupby(["variant", "budget", "metric"], sort=False)["value"]:
            half = 1.96 * float(values.std(ddof=0)) / np.sqrt(len(values))
            mean = float(values.mean())
            over = 0.021 if variant == "hybrid" and group == "all" else 0.0
            failed, abstained = (2 if variant == "gold_context" else 0), len(values) // 12
            low, high = max(0.0, mean - half), min(1.0, mean + half)
            rows.append(
                (variant, budget, group, metric, mean, low, high, len(values), failed, abstained, max(0.0, mean - over))
            )
    columns = [
        "variant",
        "budget",
        "group",
        "metric",
        "value",
        "ci_low",
        "ci_high",
        "n",
        "n_failed",
        "n_abstained",
        "value_within_budget",
    ]
    return pd.DataFrame(rows, columns=columns)


def _comparisons(
    questions: pd.DataFrame, variants: tuple[str, ...], budgets: tuple[str, ...], names: tuple[str, ...]
) -> pd.DataFrame:
    rows = []
    for budget in budgets:
        for metric in names:
            part = questions[(questions["budget"] == budget) & (questions["metric"] == metric)]
            table = part.pivot(index="query_id", columns="variant", values="value")
            for variant in variants[1:]:
                if variant not in table or variants[0] not in table:
                    continue
                delta = table[variant] - table[variants[0]]
                mean, half = float(delta.mean()), 1.96 * float(delta.std()) / np.sqrt(len(delta))
                z = abs(mean) / max(half / 1.96, 1e-9)
                p = max(float(np.exp(-0.717 * z - 0.416 * z * z)), 1e-4)
                effect = mean / max(float(delta.std()), 1e-9)
                low, high, p_holm = mean - half, mean + half, min(1.0, p * 4)
                rows.append(("bm25", variant, budget, metric, mean, low, high, p, p_holm, effect, len(delta), ""))
    columns = list(COLUMNS["comparisons"])
    return pd.DataFrame(rows, columns=columns[:12]).reindex(columns=columns)


def _budget_use(variants: tuple[str, ...], budgets: tuple[str, ...]) -> pd.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for b, budget in enumerate(budgets):
        for i, variant in enumerate(variants):
            retrieval = variant not in ("no_retrieval", "gold_context")
            mean = {
                "candidates": (100.0 if retrieval else 0.0, 100, 100),
                "rerank_pairs": (0.0, 0, None),
                "context_tokens": (
                    (180.0 + 20 * i) * (b + 1) if variant != "no_retrieval" else 0.0,
                    300 * (b + 1),
                    300 * (b + 1),
                ),
                "output_tokens": (18.4 + i, 64, 64),
                "llm_calls": (1.0, 1, None),
                "rounds": (1.0, 1, None),
                "usd": (0.00012 * (1 + 0.3 * i) * (b + 1), 0.0004, None),
                "latency_ms": (41.0 * (1 + i) * (b + 1), 512.0, 400),
            }
            for resource in RESOURCES:
                used, most, cap = mean[resource]
                over = 5 if resource == "latency_ms" and variant == "hybrid" else 0
                curtailed = 61 if resource == "context_tokens" and retrieval else 0
                rows.append((variant, budget, resource, cap, used, most if used else 0.0, curtailed, over))
    return pd.DataFrame(rows, columns=["variant", "budget", "resource", "cap", "mean", "max", "curtailed", "over"])


def _curtailments(variants: tuple[str, ...], budgets: tuple[str, ...]) -> pd.DataFrame:
    rows = [
        (variant, budget, "context", "context_tokens", 61, 388.2, 300.0)
        for budget in budgets
        for variant in variants
        if variant not in ("no_retrieval", "gold_context")
    ]
    return pd.DataFrame(rows, columns=["variant", "budget", "stage", "resource", "questions", "wanted", "granted"])


def _funnel(variants: tuple[str, ...], budgets: tuple[str, ...]) -> pd.DataFrame:
    lost = {
        "bm25": (0, 0, 38, 0, 31, 22, 4, 121),
        "dense": (0, 0, 41, 0, 33, 24, 3, 115),
        "hybrid": (0, 0, 21, 9, 24, 24, 4, 134),
        "no_retrieval": (0, 0, 216, 0, 0, 0, 0, 0),
        "gold_context": (0, 0, 0, 0, 2, 31, 4, 179),
    }
    rows = [
        (variant, budget, stage, count, count / 216)
        for budget in budgets
        for variant in variants
        for stage, count in zip(STAGES, lost.get(variant, lost["bm25"]), strict=True)
    ]
    return pd.DataFrame(rows, columns=["variant", "budget", "stage", "lost", "share"])


def _timings(variants: tuple[str, ...], budgets: tuple[str, ...]) -> pd.DataFrame:
    rows = []
    for budget in budgets:
        for i, variant in enumerate(variants):
            for j, stage in enumerate(("bm25", "dense", "rrf", "context", "generate")):
                ms = 1.5 + 3 * i + 9 * j
                shared = [v for v in variants if v != variant][:1] if stage == "bm25" else []
                rows.append((variant, budget, stage, ms, ms * 0.8, ms * 2, ms * 3, ms * 0.24, j == 0, shared))
    columns = [
        "variant",
        "budget",
        "stage",
        "ms_mean",
        "ms_p50",
        "ms_p95",
        "ms_p99",
        "total_s",
        "cached",
        "shared_with",
    ]
    return pd.DataFrame(rows, columns=columns)


def _outcomes(
    rng: np.random.Generator,
    query_ids: list[str],
    groups: list[str],
    variants: tuple[str, ...],
    budgets: tuple[str, ...],
    questions: pd.DataFrame,
    generation: bool,
) -> pd.DataFrame:
    hostile = [HOSTILE_QUERY, TYPST_TEXT, LONG_STRING, RIGHT_TO_LEFT, CONTROLS, EMOJI]
    answers = [HOSTILE_ANSWER, TYPST_TEXT, LONG_STRING, RIGHT_TO_LEFT, CONTROLS, EMOJI]
    rows: list[dict[str, Any]] = []
    for budget in budgets:
        for variant in variants:
            for i, (query_id, group) in enumerate(zip(query_ids, groups, strict=True)):
                chinese = group == "multilingual"
                found = bool(rng.random() < QUALITY.get(variant, 0.6))
                gold = [] if group == "unanswerable" else [f"travel-{i % 30:02d}"]
                documents = [*(gold if found else []), f"notice-{i % 17:02d}", f"product-{i % 11:02d}"]
                passage = PASSAGE_ZH if chinese else PASSAGE_EN
                texts = [passage, "word " * 2000 if i < 6 else passage, "Another passage."][: len(documents)]
                state = "failed" if variant == "gold_context" and i < 2 else "abstained" if i % 12 == 11 else "answered"
                if not generation:
                    state = "not_generated"
                plain = "每日500元。" if chinese else "The allowance is 500 a day."
                answer = answers[i] if i < len(answers) else plain
                rows.append(
                    {
                        "variant": variant,
                        "budget": budget,
                        "query_id": query_id,
                        "group": group,
                        "language": "zh" if chinese else "en",
                        "question": hostile[i] if i < len(hostile) else CHINESE if chinese else ENGLISH,
                        "state": state,
                        "reason": {"abstained": "insufficient", "failed": "RuntimeError: out of memory"}.get(state, ""),
                        "answer": answer
                        if state == "answered"
                        else "Not in the documents."
                        if state == "abstained"
                        else "",
                        "gold_answers": [] if group == "unanswerable" else ["500", "500 a day"],
                        "answerable": group != "unanswerable",
                        "correct": found if state == "answered" else False,
                        "cited": documents[:1] if state == "answered" else [],
                        "quotes": [passage[:60]] if state == "answered" else [],
                        "gold_documents": gold,
                        "context_documents": [] if variant == "no_retrieval" else documents,
                        "context_texts": [] if variant == "no_retrieval" else texts,
                        "lost_at": "" if group == "unanswerable" else "answered" if found else "candidates",
                        "over_budget": variant == "hybrid" and i % 48 == 0,
                        **dict.fromkeys(RESOURCES, 1.0),
                    }
                )
    return pd.DataFrame(rows)


def make_hostile_worst(results: Results) -> Results:
    """Let the last contender score 0 and the baseline 1 on the hostile questions, so that the report shows them."""
    frame = results.questions
    first = frame["query_id"].isin([f"q{i:03d}" for i in range(8)])
    frame.loc[first & (frame["variant"] == "hybrid"), "value"] = 0.0
    frame.loc[first & (frame["variant"] == "bm25"), "value"] = 1.0
    others = ~first & (frame["variant"] == "hybrid")
    frame.loc[others, "value"] = 1.0
    return results
