"""Ranking metrics against values worked by hand and against trec_eval itself."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import RagLabError, Ranking
from rag_lab.metrics.ranking import (
    RankingMetric,
    check_overlap,
    documents_of,
    ranked_documents,
    score_rankings,
    without_duplicates,
)
from rag_lab.metrics.trec import read_trec, write_trec

NAMES = ["nDCG@10", "nDCG", "Recall@100", "P@5", "Hit@5", "RR", "RR@2", "AP", "AP@2"]


def score(
    name: str, run: dict[str, list[str]], qrels: dict[str, dict[str, int]], queries: list[str] | None = None
) -> float:
    return score_rankings([name], run, qrels, queries or list(qrels))[name].value


@pytest.mark.parametrize("name", [*NAMES, "Recall@7", "P@1000", "nDCG@3"])
def test_names_parse_and_print(name: str) -> None:
    assert str(RankingMetric.parse(name)) == name


@pytest.mark.parametrize("name", ["nDCG@0", "ndcg@10", "Recall", "P", "Hit", "nDCG@", "nDCG@1.5", "EM", "", "P@05"])
def test_other_names_are_not_ranking_metrics(name: str) -> None:
    assert RankingMetric.parse(name) is None


def test_unknown_name_is_an_error() -> None:
    with pytest.raises(RagLabError, match="unknown ranking metric 'ERR@20'"):
        score_rankings(["AP", "ERR@20"], {}, {}, [])


@pytest.mark.parametrize(
    "name, value",
    [
        ("nDCG@10", (1 / math.log2(3) + 2 / 2) / (2 + 1 / math.log2(3))),
        ("Recall@100", 1),
        ("P@5", 2 / 5),
        ("Hit@5", 1),
        ("Hit@1", 0),
        ("RR", 1 / 2),
        ("RR@1", 0),
        ("RR@2", 1 / 2),
        ("AP", (1 / 2 + 2 / 3) / 2),
        ("AP@2", 1 / 4),
    ],
)
def test_values_by_hand(name: str, value: float) -> None:
    """Ranking n, b (grade 1), a (grade 2)."""
    assert score(name, {"q": ["n", "b", "a"]}, {"q": {"a": 2, "b": 1}}) == pytest.approx(value)


def test_ideal_comes_from_the_judgments_not_the_run() -> None:
    assert score("nDCG@10", {"q": ["a"]}, {"q": {"a": 1, "b": 1}}) == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_cranfield_grades_have_linear_gain() -> None:
    """Grades 4 and 1 in the wrong order: (1 + 4 / log2 3) / (4 + 1 / log2 3)."""
    expected = (1 + 4 / math.log2(3)) / (4 + 1 / math.log2(3))
    assert score("nDCG@10", {"1": ["b", "a"]}, {"1": {"a": 4, "b": 1, "c": 0}}) == pytest.approx(expected)


@pytest.mark.parametrize("grade", [0, -1, -2])
def test_grades_below_one_are_not_relevant(grade: int) -> None:
    """RGB judges negatives as 0; trec_eval writes -1 and -2. They take a rank like any other document."""
    run, qrels = {"q": ["n", "a"]}, {"q": {"a": 1, "n": grade}}
    assert score("RR", run, qrels) == 0.5
    assert score("nDCG@10", run, qrels) == pytest.approx(1 / math.log2(3))
    assert score("P@2", run, qrels) == 0.5


def test_missing_query_scores_zero_and_is_counted() -> None:
    """Denominator: the judged questions."""
    found = score_rankings(["RR"], {"q1": ["a"]}, {"q1": {"a": 1}, "q2": {"b": 1}}, ["q1", "q2"])["RR"]
    assert found.value == 0.5
    assert found.missing.tolist() == [False, True]
    assert found.notes == ("1 judged questions are missing from the run and score 0",)


def test_an_empty_result_zeroes_nothing_but_itself() -> None:
    qrels = {f"q{i}": {"a": 1} for i in range(4)}
    found = score_rankings(["RR"], {"q0": ["a"], "q1": [], "q2": ["a"], "q3": ["a"]}, qrels, list(qrels))["RR"]
    assert found.value == 0.75
    assert found.values.tolist() == [1, 0, 1, 1]
    assert not found.missing.any()


def test_nothing_relevant_found_is_zero() -> None:
    assert score("nDCG@10", {"q": ["x", "y"]}, {"q": {"a": 1}}) == 0.0


def test_question_without_positive_judgment_is_not_in_the_denominator() -> None:
    found = score_rankings(["RR"], {"q1": ["a"], "q2": ["a"]}, {"q1": {"a": 1}, "q2": {"a": 0}}, ["q1", "q2", "q3"])[
        "RR"
    ]
    assert found.value == 1
    assert found.eligible.tolist() == [True, False, False]
    assert found.notes == ("2 questions without a positive judgment are not in the denominator",)


def test_no_judged_question_at_all() -> None:
    found = score_rankings(NAMES, {"q": ["a"]}, {}, ["q"])
    assert all(scores.value == 0 and not scores.eligible.any() for scores in found.values())


def test_duplicates_count_once_at_their_best_rank() -> None:
    run, qrels = {"q": ["a", "a", "b", "a"]}, {"q": {"a": 1, "b": 1}}
    found = score_rankings(["nDCG@10", "AP"], run, qrels, ["q"])
    assert found["nDCG@10"].value == found["AP"].value == 1
    assert found["AP"].notes == ("2 results repeated a document and count at its best rank",)
    assert without_duplicates(run) == ({"q": ["a", "b"]}, 2)
    assert run == {"q": ["a", "a", "b", "a"]}


def test_order_follows_the_query_ids_asked_for() -> None:
    qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    found = score_rankings(["RR"], {"q1": ["a"], "q2": ["x", "b"]}, qrels, ["q2", "q1"])["RR"]
    assert found.values.tolist() == [0.5, 1]


@pytest.mark.parametrize(
    "run, qrels, message",
    [
        ({"q": ["a"]}, {"q": {17: 1}}, "qrels, query 'q': document id 17 is a int"),
        ({"q": ["a"]}, {3: {"a": 1}}, "qrels: query id 3 is a int"),
        ({"q": ["a"]}, {"q": {"a": 1.0}}, "document 'a': grade 1.0 is a float"),
        ({"q": ["a"]}, {"q": {"a": True}}, "document 'a': grade True is a bool"),
        ({"q": ["a"]}, {"q": {"a": None}}, "document 'a': grade None is a NoneType"),
        ({"q": [17]}, {"q": {"a": 1}}, "run, query 'q': document id 17 is a int"),
    ],
)
def test_wrong_types_name_the_field(run, qrels, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RagLabError, match=message):
        score_rankings(["RR"], run, qrels, ["q"])


def test_numpy_grades_are_whole_numbers() -> None:
    assert score("RR", {"q": ["a"]}, {"q": {"a": np.int64(1)}}) == 1


def test_ids_that_never_meet_are_an_error() -> None:
    check_overlap(["a", "b"], ["b"])
    check_overlap([], ["b"])
    with pytest.raises(RagLabError, match="none of its 2 document ids is known \\('doc-1' against '1'\\)"):
        check_overlap(["doc-1", "doc-2"], ["1", "2"])


@given(st.permutations(list(range(8))), st.lists(st.integers(0, 2), min_size=8, max_size=8))
@settings(max_examples=50, deadline=None)
def test_ties_are_permutation_invariant(order: list[int], levels: list[int]) -> None:
    """Rows of equal score come in any order; a constant scorer is no exception."""
    qrels, query_ids, documents = {"q": {"d3": 2, "d5": 1}}, ["q"], [f"d{i}" for i in range(8)]
    values = []
    for rows in (list(range(8)), order):
        ranking = Ranking.from_scores("x", 1, np.zeros(8), rows, [levels[row] for row in rows])
        ranked = ranked_documents(ranking, documents, query_ids)
        run = {query_id: [document for document, _ in pairs] for query_id, pairs in ranked.items()}
        values.append([scores.value for scores in score_rankings(NAMES, run, qrels, query_ids).values()])
    assert values[0] == values[1]


@given(
    st.lists(st.sampled_from("abcdefgh"), max_size=12),
    st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-2, 3), max_size=8),
)
@settings(max_examples=80, deadline=None)
def test_every_metric_lies_between_zero_and_one(ranked: list[str], judged: dict[str, int]) -> None:
    for scores in score_rankings(NAMES, {"q": ranked}, {"q": judged}, ["q"]).values():
        assert 0 <= scores.value <= 1 + 1e-12


def test_documents_at_their_best_chunk() -> None:
    """Rows 0-1 are a, 2 is b, 3-4 are c. Query 0: c(.9), a(.8), c(.8), a(.1); query 2: b alone; query 1: nothing."""
    chunks = ["a", "a", "b", "c", "c"]
    ranking = Ranking.from_scores("x", 3, [0, 0, 0, 0, 2], [0, 1, 3, 4, 2], [0.1, 0.8, 0.8, 0.9, 0.5])
    best = documents_of(ranking, chunks)
    assert best.chunk.tolist() == [4, 1, 2]
    assert best.query.tolist() == [0, 0, 2]
    assert ranked_documents(ranking, chunks, ["q0", "q1", "q2"]) == {
        "q0": [("c", 0.9), ("a", 0.8)],
        "q1": [],
        "q2": [("b", 0.5)],
    }


def test_documents_of_keeps_contributing_ranks() -> None:
    ranks = {"bm25": np.array([1, 2], dtype=np.int32)}
    ranking = Ranking.from_scores("x", 1, [0, 0], [0, 1], [2.0, 1.0], ranks)
    assert documents_of(ranking, ["a", "a"]).ranks["bm25"].tolist() == [1]


def judged_sets() -> list[tuple[str, str]]:
    return [
        ("adi", "test"),
        ("cmrc2018-dev", "test"),
        ("cranfield", "test"),
        ("cranfield", "graded"),
        ("hotpotqa-dev100", "test"),
        ("hotpotqa-dev100", "adversarial"),
        ("multihop-rag-evidence", "test"),
        ("poisonedrag-hotpotqa", "adversarial"),
        ("rgb-en-fact", "test"),
        ("rgb-zh", "test"),
        ("rgb-zh-fact", "test"),
        ("scifact", "test"),
        ("squad2-dev", "test"),
        ("squad2-dev-articles", "test"),
        ("vaswani", "test"),
    ]


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for line in path.read_text(encoding="utf-8").split("\n")[1:]:
        if line:
            query, document, grade = line.split("\t")
            qrels.setdefault(query, {})[document] = int(grade)
    return qrels


def noisy_run(qrels: dict[str, dict[str, int]], seed: int) -> dict[str, list[tuple[str, float]]]:
    """Judged documents among others, by a noisy score of few levels (so with ties), ordered by score, then id.

    Every tenth query is missing, and every seventh has no result.
    """
    generator = np.random.default_rng(seed)
    known = sorted({document for judged in qrels.values() for document in judged})
    run: dict[str, list[tuple[str, float]]] = {}
    for i, (query, judged) in enumerate(qrels.items()):
        others = generator.choice(known, size=min(60, len(known)), replace=False).tolist()
        pool = sorted({*judged, *others})
        noise = generator.normal(0, 1.2, len(pool))
        levels = {d: round((judged.get(d, 0) + noise[j]) * 3) / 3 for j, d in enumerate(pool)}
        if i % 10 != 3:
            ranked = sorted(levels.items(), key=lambda entry: (-entry[1], entry[0]))
            run[query] = [] if i % 7 == 5 else ranked
    return run


@pytest.mark.shared
@pytest.mark.parametrize("name, split", judged_sets())
def test_agrees_with_trec_eval_on_the_run_file(name: str, split: str, shared_data: Path, tmp_path: Path) -> None:
    """The run file, read back as text and given to trec_eval with its own tie rule, has our figures."""
    import pytrec_eval

    qrels = read_qrels(shared_data / name / "qrels" / f"{split}.tsv")
    run = noisy_run(qrels, seed=len(name))
    write_trec(tmp_path / "run.trec", name, run)
    with (tmp_path / "run.trec").open(encoding="utf-8") as file:
        read = pytrec_eval.parse_run(file)
    measures = {"ndcg_cut_10", "ndcg", "recall_100", "P_5", "success_5", "recip_rank", "map", "map_cut_2"}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(read)
    ours = score_rankings(NAMES, {q: [d for d, _ in ranked] for q, ranked in run.items()}, qrels, list(qrels))
    for metric in NAMES:
        if metric == "RR@2":
            continue
        parsed = RankingMetric.parse(metric)
        assert parsed is not None
        expected = [theirs.get(query, {}).get(parsed.trec_name, 0.0) for query in qrels]
        assert ours[metric].values.tolist() == pytest.approx(expected, abs=1e-12), metric
        judged = [max(grades.values()) > 0 for grades in qrels.values()]
        assert ours[metric].value == pytest.approx(sum(expected) / sum(judged), abs=1e-12)


@pytest.mark.shared
def test_agrees_with_ir_measures(shared_data: Path, tmp_path: Path) -> None:
    """An independent evaluator on graded judgments, from the written file."""
    ir_measures = pytest.importorskip("ir_measures")
    qrels = read_qrels(shared_data / "cranfield" / "qrels" / "graded.tsv")
    run = noisy_run(qrels, seed=9)
    path = tmp_path / "run.trec"
    write_trec(path, "cranfield", run)
    wanted = {name: ir_measures.parse_measure(name) for name in ("nDCG@10", "RR", "AP", "P@5")} | {
        "Recall@100": ir_measures.parse_measure("R@100"),
        "Hit@5": ir_measures.parse_measure("Success@5"),
    }
    theirs = ir_measures.calc_aggregate(list(wanted.values()), qrels, ir_measures.read_trec_run(str(path)))
    ours = score_rankings(list(wanted), {q: [d for d, _ in ranked] for q, ranked in run.items()}, qrels, list(qrels))
    assert {name: ours[name].value for name in wanted} == pytest.approx({n: theirs[m] for n, m in wanted.items()})


@pytest.mark.shared
def test_written_runs_are_read_back_in_order(shared_data: Path, tmp_path: Path) -> None:
    run = noisy_run(read_qrels(shared_data / "rgb-zh" / "qrels" / "test.tsv"), seed=1)
    write_trec(tmp_path / "run.trec", "zh", run)
    read = read_trec(tmp_path / "run.trec")
    assert {q: [d for d, _ in ranked] for q, ranked in read.items()} == {
        q: [d for d, _ in ranked] for q, ranked in run.items() if ranked
    }
