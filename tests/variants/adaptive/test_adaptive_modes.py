"""The modes: grades, the second source, reasoning by sentences; by rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from courses import documents, stop, told

from rag_lab.contracts import GoldSpan, Question, RagLabError
from rag_lab.datasets import Dataset, Integrity
from rag_lab.variants.adaptive import Adaptive
from rag_lab.variants.learning import Lesson
from rag_lab.variants.stage import State

Search = Callable[..., State]

BORN = "Where was the director of Harbour Light born?"
PEOPLE = "How many inhabitants has the town in which the director of Harbour Light was born?"


def verdicts(state: State, kind: str, question: int = 0) -> list[tuple[int, str, float]]:
    return [(e.round, e.text, e.value) for e in state.events[question] if e.kind == kind]


def test_self_rag_grades_what_it_reads(search: Search) -> None:
    state = search(BORN, mode="self_rag", look_at=2)
    assert documents(state)[:2] == ["a01", "a02"]
    graded = verdicts(state, "relevant")
    assert graded[0][:2] == (1, "a01#0: yes")
    assert {1, 2} <= {number for number, *_ in graded}
    assert len(verdicts(state, "supported")) == state.ledger.usage(0).rounds


def test_irrelevant_passages_come_last(search: Search) -> None:
    state = search("Which photographer comes from Delft?", mode="self_rag", look_at=4)
    grades = {text.split("#")[0]: text.endswith("yes") for _, text, _ in verdicts(state, "relevant")}
    order = documents(state)
    assert order[0] == "a05"
    irrelevant = [order.index(name) for name, good in grades.items() if not good]
    relevant = [order.index(name) for name, good in grades.items() if good]
    assert irrelevant
    assert min(irrelevant) > max(relevant)
    assert sorted(irrelevant) == list(range(len(order) - len(irrelevant), len(order)))


def test_self_rag_goes_on_while_nothing_supports_an_answer(search: Search) -> None:
    # A passage covers something of it, but no sentence names a date.
    question = "When did Pim de Vries take his photographs?"
    enough = {"classifier": [9, 0, 0, 0, 0, 0, 0], "sufficient": 0.0, "look_at": 1}
    assert stop(search(question, **enough)) == "sufficient"
    graded = search(question, mode="self_rag", **enough)
    assert verdicts(graded, "supported")[0][:2] == (1, "no")
    assert graded.ledger.usage(0).rounds > 1


def test_nothing_relevant_is_insufficient(search: Search) -> None:
    state = search("zyx qwv vwx", mode="self_rag", channels=["bm25"])
    assert stop(state) == "insufficient"
    assert 0 in state.decided


@pytest.mark.parametrize(
    ("question", "verdict", "rounds"),
    [
        ("Which town has a cathedral of concrete?", "right", 1),
        ("Who paints concrete ferries on lamps?", "ambiguous", 2),
    ],
)
def test_corrective_turns_to_the_second_source_where_the_first_is_not_right(
    search: Search, question: str, verdict: str, rounds: int
) -> None:
    state = search(question, mode="corrective")
    assert verdicts(state, "grade")[0][:2] == (1, verdict)
    assert state.ledger.usage(0).rounds == rounds
    kinds = [text.split(":")[0] for _, text in told(state, "query")]
    assert kinds == ["question", "keywords"][:rounds]


def test_the_second_source_comes_first_where_the_first_found_nothing(search: Search) -> None:
    state = search(
        "zyx Bodo", mode="corrective", channels=["bm25", "dense"], request={"query": "zyx Bodo"} if False else None
    )
    assert documents(state)[0] == "a03"
    nothing = search("zyx qwv", mode="corrective")
    assert verdicts(nothing, "grade")[0][:2] == (1, "wrong")
    assert len(documents(nothing)) > 0  # from vectors alone
    one_source = search("zyx qwv", mode="corrective", channels=["bm25"])
    assert documents(one_source) == []
    assert stop(one_source) == "insufficient"


def test_both_sources_take_turns(search: Search) -> None:
    question = "Who paints concrete ferries on lamps?"
    state = search(question, mode="corrective", look_at=1)
    lexical = search(question, channels=["bm25"], classifier=[-9, 0, 0, 0, 0, 0, 0])
    assert documents(state)[0] == documents(lexical)[0]
    keywords = told(state, "query")[-1][1].removeprefix("keywords: ")
    assert keywords == "paints concrete ferries lamps"


def test_interleaved_searches_by_the_best_sentence(search: Search) -> None:
    state = search(PEOPLE, mode="interleaved")
    queries = state.searched["adaptive"]
    assert queries.texts[1:] == ("Harbour Light is a 1962 film.",)
    assert told(state, "query")[1] == (2, "sentence: [a01#0:0-29]")
    assert documents(state).index("a02") <= 3
    claims = state.sub_answers.get(0, ())
    assert all(claim.sources[0].quote == claim.text for claim in claims)


# --- what training questions teach -----------------------------------------------------------------------------------

EASY = [f"Which paragraph is about plant {n}, with plant number {n}?" for n in range(8)]
HARD = [f"In what town was the director of Harbour Light, who is {word}, born?" for word in "abcdefgh"]


def lesson(state: State, gold: dict[int, tuple[str, ...]]) -> Lesson:
    questions = [
        Question(
            request.request_id,
            request.query,
            gold=tuple(GoldSpan(name) for name in gold.get(i, ())),
            evidence="all",
        )
        for i, request in enumerate(state.batch.requests)
    ]
    dataset = Dataset("d", "train", [], questions, {}, Integrity(), "open", ["en"], "f", "c")
    return Lesson(dataset, state)


def test_a_classifier_is_trained_on_what_one_search_did_not_find(search: Search) -> None:
    texts = [*EASY, *HARD]
    state = search(texts, then=(), classifier=[-9, 0, 0, 0, 0, 0, 0])
    state.channels_left = 1
    state.ledger.spent["candidates"][:] = 0
    gold = {i: tuple(documents(state, i)[:1]) for i in range(len(EASY))}
    gold |= dict.fromkeys(range(len(EASY), len(texts)), ("a01", "f29"))
    learned = Adaptive.model_validate({"classifier": "trained"}).learn(lesson(state, gold))
    assert learned.facts["questions"] == len(texts)
    assert learned.facts["several"] == len(HARD)
    assert learned.facts["agrees"] == 1
    stage = learned.stage
    assert isinstance(stage, Adaptive)
    assert list(learned.facts["weights"].values()) == list(stage.classifier)
    assert stage.training_split is None
    trained = search([EASY[0], HARD[0]], classifier=list(stage.classifier))
    assert [told(trained, "complexity", i)[0][1] for i in range(2)] == ["one", "several"]


def test_what_teaches_nothing_is_said(search: Search) -> None:
    state = search(EASY, then=(), classifier=[-9, 0, 0, 0, 0, 0, 0])
    state.channels_left = 1
    stage = Adaptive.model_validate({"classifier": "trained"})
    assert stage.training_split == "train"
    assert Adaptive.model_validate({"classifier": "trained", "learned_on": "dev"}).training_split == "dev"
    with pytest.raises(RagLabError, match="names its evidence"):
        stage.learn(lesson(state, {}))
    with pytest.raises(RagLabError, match="at least 5 of each"):
        stage.learn(lesson(state, {i: (f"f{i:02}",) for i in range(len(EASY))}))


def test_pieces_that_are_spans_have_to_be_touched(search: Search) -> None:
    from rag_lab.variants.adaptive.lessons import _holds

    table = search(BORN).batch.snapshot.chunks
    row = table.document_id.index("a01")

    def holds(evidence: Any, *pieces: GoldSpan) -> bool:
        return _holds(Question("q", "", gold=pieces, evidence=evidence), [row], table)

    assert holds("all", GoldSpan("a01", (0, 5)))
    assert not holds("all", GoldSpan("a01", (900, 905)))
    assert not holds("all", GoldSpan("a01"), GoldSpan("a02"))
    assert holds("any", GoldSpan("a02"), GoldSpan("a01"))
