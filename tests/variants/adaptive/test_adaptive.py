"""The adaptive stage: rounds, caps, stops, rights, and what it hands on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from courses import documents, stop, told

from rag_lab.budgets import Budget
from rag_lab.contracts import Abstention, Answer, Claim, Completion, Curtailment, Principal, RagLabError, Reason
from rag_lab.variants import load_variant
from rag_lab.variants.adaptive import Adaptive
from rag_lab.variants.execute import Memory, dump_output, load_output, run_variant
from rag_lab.variants.handing_out import candidates, withhold
from rag_lab.variants.stage import State
from rag_lab.variants.variant import Variant

Search = Callable[..., State]

BORN = "Where was the director of Harbour Light born?"
PEOPLE = "How many inhabitants has the town in which the director of Harbour Light was born?"
BOTH = "Were Harbour Light and Quiet Canal both directed in Delft?"
SIMPLE = "Which town has a cathedral?"
SEVERAL = [9, 0, 0, 0, 0, 0, 0]
"""A classifier that lets every question take several rounds."""
ONE = [-9, 0, 0, 0, 0, 0, 0]


def test_a_bridge_leads_from_one_article_to_the_next(search: Search) -> None:
    state = search(PEOPLE)
    assert documents(state)[:4] == ["a01", "a02", "a05", "a03"]
    asked = told(state, "query")
    assert asked[:2] == [(1, f"question: {PEOPLE}"), (1, "part: Who is the director of Harbour Light?")]
    assert (2, "link: In which town [a01] was?") in asked
    assert (3, "link: How many inhabitants has [a02] born?") in asked
    (claims,) = state.sub_answers.values()
    assert [claim.text for claim in claims] == ["Mara Lindqvist", "Bodo"]
    sources = [source for claim in claims for source in claim.sources]
    assert [source.document_id for source in sources] == ["a01", "a02"]
    by_id = {document.document_id: document.text for document in state.batch.requests and _articles()}
    assert all(by_id[s.document_id][slice(*s.span)] == s.quote for s in sources)
    assert state.ledger.usage(0).rounds == 3


def _articles() -> list[Any]:
    from conftest import make_articles  # type: ignore[attr-defined]

    return make_articles()


def test_things_that_are_compared_are_searched_beside_each_other(search: Search) -> None:
    state = search(BOTH)
    assert documents(state)[:2] == ["a01", "a04"]
    assert [text for _, text in told(state, "query")][1:] == [
        "part: Was Harbour Light directed in Delft?",
        "part: Was Quiet Canal directed in Delft?",
    ]
    assert stop(state) == "sufficient"
    assert state.ledger.usage(0).rounds == 1


def test_one_step_is_the_hybrid_variant(search: Search, library: Any) -> None:
    questions = [SIMPLE, "plant number 7", "lamps"]
    state = search(questions, {"candidates": 31}, classifier=ONE)
    batch = state.batch
    hybrid = run_variant(load_variant("hybrid"), batch, Budget(candidates=31), Memory())
    assert hybrid.ranking is not None
    for i in range(len(questions)):
        assert state.channels["adaptive"].of(i).tolist() == hybrid.ranking.of(i).tolist()
    assert state.ledger.spent["candidates"].tolist() == hybrid.ledger.spent["candidates"].tolist()
    assert state.ledger.spent["rounds"].tolist() == [1, 1, 1]
    assert {stop(state, i) for i in range(len(questions))} <= {"one_step", "sufficient"}


# --- every stop ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "question", "settings", "budget"),
    [
        ("one_step", "Which town has an airport?", {}, {}),
        ("sufficient", BOTH, {}, {}),
        ("insufficient", "Who is the zyx of the qwv?", {"channels": ["bm25"]}, {}),
        ("rounds", PEOPLE, {"rounds": 2}, {}),
        ("rounds", PEOPLE, {}, {"rounds": 2}),
        ("latency", PEOPLE, {}, {"latency_ms": 299}),
        ("fan_out", PEOPLE, {"fan_out": 3}, {}),
        ("candidates", PEOPLE, {"fan_out": 100}, {"candidates": 3}),
        ("drift", PEOPLE, {"drift": 0.0}, {}),
        ("no_new_evidence", BORN, {}, {}),
        (
            "nothing_to_ask",
            "What does Paragraph 7 of plant 7 say?",
            {"classifier": SEVERAL, "look_at": 1, "channels": ["bm25"]},
            {},
        ),
    ],
)
def test_every_stop_is_reached(
    search: Search, reason: str, question: str, settings: dict[str, Any], budget: dict[str, float]
) -> None:
    assert stop(search(question, budget, **settings)) == reason


def test_without_a_memory_nothing_is_answered_without_evidence(search: Search) -> None:
    state = search("Hello!")
    assert told(state, "complexity") == [(0, "none"), (0, "one: the generator has no memory to answer from")]
    assert state.ledger.usage(0).rounds == 1


class Remembering:
    """A generator with a memory: it says whether it was shown anything, and refuses an empty assembled context."""

    name, version, window, calls = "remembering", "1", None, 1

    def count_tokens(self, texts: Any) -> Any:
        return np.array([len(text.split()) for text in texts], dtype=np.int32)

    def prompt_tokens(self, requests: Any, contexts: Any) -> Any:
        return np.array([4 + sum(len(p.text.split()) for p in passages) for passages in contexts], dtype=np.int32)

    def generate(self, requests: Any, contexts: Any, output_tokens: Any) -> list[Completion]:
        made = []
        for request, context in zip(requests, contexts, strict=True):
            bare = not context.passages and not context.dropped and context.prompt_tokens == 0
            text = "from memory" if bare else f"from {len(context.passages)} passages"
            made.append(Completion(Answer(request.request_id, text, (Claim(text),)), 4, 2, 1, 1.0))
        return made


def test_a_greeting_is_answered_from_memory(search: Search) -> None:
    state = search(["Hello!", BORN], generator=Remembering())
    assert stop(state) == "no_retrieval"
    assert documents(state, 0) == []
    assert state.ledger.usage(0).candidates == state.ledger.usage(0).rounds == 0
    assert state.completions is not None
    assert [c.outcome.text for c in state.completions] == ["from memory", "from 5 passages"]  # type: ignore[union-attr]


def test_insufficient_is_an_abstention_that_cites_what_was_looked_at(search: Search) -> None:
    state = search(
        "What do lamps and the zyx of the qwv of the vwx have in common?", insufficient=0.9, channels=["bm25"]
    )
    assert state.completions is not None
    outcome = state.completions[0].outcome
    assert isinstance(outcome, Abstention)
    assert (outcome.reason, outcome.confidence) == (
        Reason.INSUFFICIENT,
        pytest.approx(state.events[0][-1].value, abs=1e-4),
    )
    assert len(outcome.sources) == 3
    assert all("lamps" in source.quote for source in outcome.sources)
    assert state.contexts is not None
    assert len(state.contexts[0].passages) == 5  # what was found is kept
    assert state.completions[0].output_tokens == 0
    assert told(state, "limit") == [(1, "one_step")]


def test_who_may_read_nothing_is_told_so(search: Search) -> None:
    state = search(BORN, request={"principal": Principal("other"), "tenant": "other"})
    assert state.completions is not None
    outcome = state.completions[0].outcome
    assert isinstance(outcome, Abstention)
    assert outcome.reason == Reason.NO_AUTHORISED_EVIDENCE
    assert stop(state) == "insufficient"


# --- every cap -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [0, 1, 2, 3, 5, 8, 13, 40, 100, 150])
@pytest.mark.parametrize("mode", ["steps", "self_rag", "corrective", "interleaved"])
def test_candidates_are_never_overspent(search: Search, cap: int, mode: str) -> None:
    state = search([PEOPLE, BOTH, SIMPLE, "Hello!"], {"candidates": cap}, mode=mode)
    assert not state.failures
    spent = state.ledger.spent["candidates"]
    assert (spent <= cap).all()
    assert mode == "corrective" or cap < 2 or (spent[:3] > 0).all()
    told = [cut for cuts in state.ledger.curtailments for cut in cuts if cut.resource == "candidates"]
    assert all(cut.wanted == 2000 and cut.granted == cap for cut in told)
    assert told or cap >= 40


def test_without_candidates_a_question_is_over_budget(search: Search) -> None:
    state = search([PEOPLE], {"candidates": 0})
    assert state.completions is not None
    assert state.completions[0].outcome == Abstention("r0", Reason.OVER_BUDGET)
    assert stop(state) == "candidates"
    assert state.ledger.curtailments[0][0] == Curtailment("adaptive", "candidates", 2000, 0)


def test_without_rounds_a_question_is_over_budget(search: Search) -> None:
    state = search([PEOPLE, SIMPLE], {"rounds": 0})
    assert state.completions is not None
    assert [c.outcome for c in state.completions] == [Abstention(f"r{i}", Reason.OVER_BUDGET) for i in range(2)]
    assert state.ledger.spent["rounds"].tolist() == state.ledger.spent["candidates"].tolist() == [0, 0]
    assert Curtailment("adaptive", "rounds", 3, 0) in state.ledger.curtailments[0]


def test_a_cap_on_rounds_is_told(search: Search) -> None:
    state = search(PEOPLE, {"rounds": 2})
    assert state.ledger.spent["rounds"].tolist() == [2]
    assert [cut for cut in state.ledger.curtailments[0] if cut.resource == "rounds"] == [
        Curtailment("adaptive", "rounds", 3, 2)
    ]
    assert not any(cut.resource == "rounds" for cut in search(PEOPLE, {"rounds": 3}).ledger.curtailments[0])


def test_a_cap_on_latency_limits_rounds_by_what_they_are_declared_to_take(search: Search) -> None:
    state = search(PEOPLE, {"latency_ms": 299})
    assert state.ledger.spent["rounds"].tolist() == [2]  # two of the three rounds of 100 ms fit
    assert Curtailment("adaptive", "latency_ms", 300, 200) in state.ledger.curtailments[0]
    assert search(PEOPLE, {"latency_ms": 300}).ledger.spent["rounds"].tolist() == [3]
    assert search(PEOPLE, {"latency_ms": 0.5}).ledger.spent["rounds"].tolist() == [1]  # one round there always is


def test_context_and_output_tokens_are_those_of_the_answer(search: Search) -> None:
    state = search(PEOPLE, {"context_tokens": 60, "output_tokens": 4})
    assert 0 < state.ledger.spent["context_tokens"][0] <= 60
    assert 0 < state.ledger.spent["output_tokens"][0] <= 4
    assert {cut.resource for cut in state.ledger.curtailments[0]} == {"context_tokens", "output_tokens"}


def test_candidates_are_shared_out_round_by_round(search: Search) -> None:
    # Of 100, half are kept for other queries (9 x 2 channels x 10 would be 180). The question draws 50. A third of the
    # rest, 16, goes to the part of the first round, whose two channels draw 8 each; and so on.
    state = search(PEOPLE, {"candidates": 100}, fan_out=10)
    first = state.channels["adaptive"]
    assert state.ledger.spent["candidates"][0] <= 100
    queries = state.searched["adaptive"]
    assert queries.texts[0] == PEOPLE
    assert first.found_by is not None
    assert len(first.found_by) == len(first.chunk)


# --- rights ----------------------------------------------------------------------------------------------------------


def test_a_forbidden_article_is_no_bridge_and_names_none(search: Search) -> None:
    secret = "What is the secret name of the director of Harbour Light?"
    closed = search([secret, "Who may describe what Kestrel Studio made documentaries about?"], classifier=SEVERAL)
    for i in range(2):
        assert not {"a06", "a07", "a09"} & set(documents(closed, i))
    assert "Karl Ohm" not in repr([closed.events, closed.searched["adaptive"].texts, closed.sub_answers])
    # A permitted text names the Blue Vault. It is a name like any other: that there is an article on it cannot be told.
    assert [kind for kind, text in _asked(closed, 1) if "Blue Vault" in text] == ["word"]
    press = search([secret], request={"principal": Principal("t", ("press",))}, classifier=SEVERAL)
    assert {"a06", "a07"} <= set(documents(press))


def _asked(state: State, question: int = 0) -> list[tuple[str, str]]:
    queries = state.searched["adaptive"]
    return [(k, t) for of, k, t in zip(queries.of, queries.kinds, queries.texts, strict=True) if of == question]


def test_questions_with_other_rights_learn_nothing_from_each_other(
    library: Any, search: Search, ask: Any, store: Any
) -> None:
    question = "What is the secret name of the director of Harbour Light?"
    alone = search([question], classifier=SEVERAL)
    requests = [ask(question, 0, principal=Principal("t", ("press",))), ask(question, 1)]
    stage = Adaptive.model_validate({"drift": None, "classifier": SEVERAL})
    both = run_variant(Variant("adaptive", (stage,)), library.batch(requests, store), Budget(), Memory())
    assert documents(both, 1) == documents(alone)
    assert both.events[1] == alone.events[0]
    assert "Karl Ohm" in both.searched["adaptive"].texts[-1] or any(
        "Karl" in t for t in both.searched["adaptive"].texts
    )
    mine = [t for of, t in zip(both.searched["adaptive"].of, both.searched["adaptive"].texts, strict=True) if of == 1]
    assert not any("Karl" in text for text in mine)


def test_the_trace_names_documents_by_id_and_quotes_none(search: Search) -> None:
    for mode in ("steps", "interleaved", "self_rag", "corrective"):
        state = search(PEOPLE, mode=mode)
        said = repr(state.events)
        assert "Lindqvist" not in said
        assert "Kestrel" not in said


def test_what_is_denied_meanwhile_is_withheld_with_the_texts_made_of_it(search: Search) -> None:
    state = search([PEOPLE, "pumps"])
    checked = withhold(state, frozenset({"a02"}))
    assert set(checked.failures) >= {0}
    assert (checked.sub_answers, checked.events.get(0), checked.decided) == ({}, None, {})
    texts = dict.fromkeys(range(2), "")
    for of, text in zip(checked.searched["adaptive"].of.tolist(), checked.searched["adaptive"].texts, strict=True):
        texts[of] += text
    assert texts[0] == ""
    assert texts[1] or 1 in checked.failures


# --- one output ------------------------------------------------------------------------------------------------------


def test_an_output_is_the_same_alone_in_company_and_read_back(search: Search) -> None:
    together = search([BOTH, PEOPLE, SIMPLE, BORN])
    for i, question in enumerate([BOTH, PEOPLE, SIMPLE, BORN]):
        alone = search(question)
        assert documents(alone) == documents(together, i)
        assert alone.events[0] == together.events[i]
    memory = Memory()
    first = search(PEOPLE, memory=memory)
    output = next(iter(memory.outputs.values()))
    again = load_output(dump_output(output))
    assert again.events == output.events
    assert all(np.array_equal(again.facts[name], values) for name, values in output.facts.items())
    second = search(PEOPLE, memory=Memory())
    assert all(ran.cached for ran in second.ran)
    assert second.sub_answers == first.sub_answers
    assert second.searched["adaptive"].texts == first.searched["adaptive"].texts


def test_no_row_is_listed_twice_and_scores_fall(search: Search) -> None:
    for mode in ("steps", "self_rag", "corrective", "interleaved"):
        ranking = search([PEOPLE, BOTH], mode=mode).channels["adaptive"]
        for i in range(2):
            rows = ranking.of(i).tolist()
            assert len(rows) == len(set(rows)) > 4
            mine = ranking.score[ranking.query == i]
            assert mine.tolist() == [1 / place for place in range(1, len(rows) + 1)]


def test_candidates_name_the_query_that_found_them(search: Search) -> None:
    found = {c.chunk.document_id: c.query for c in candidates(search(PEOPLE), 0, 4)}
    assert found["a03"] == "In which town Bodo was?"
    assert found["a01"] in (PEOPLE, "Who is the director of Harbour Light?")


def test_a_question_without_a_text_to_search_by_is_left_alone(
    search: Search, library: Any, ask: Any, store: Any
) -> None:
    batch = library.batch([ask(PEOPLE), ask("lamps", 1)], store)
    variant = load_variant("routed", ["route", {"adaptive": {"drift": None}}, "assemble"])
    state = run_variant(variant, batch, Budget(), Memory())  # without a cap everything goes directly to the corpus
    assert not state.failures
    assert documents(state, 0) == documents(state, 1) == []
    assert state.ledger.spent["candidates"].tolist() == [0, 0]
    assert state.ledger.curtailments == [[], []]


def test_it_fuses_with_other_channels_and_shares_the_candidates(library: Any, ask: Any, store: Any) -> None:
    batch = library.batch([ask(PEOPLE)], store)
    variant = load_variant("both", [{"adaptive": {"drift": None}}, "bm25", "rrf", "assemble"])
    state = run_variant(variant, batch, Budget(candidates=60), Memory())
    assert not state.failures
    assert state.ledger.spent["candidates"][0] <= 60
    assert state.channels["adaptive"].of(0)[0] in state.fused.of(0)[:3]  # type: ignore[union-attr]


# --- settings --------------------------------------------------------------------------------------------------------


def test_settings_survive_yaml() -> None:
    given = [{"adaptive": {"channels": ["bm25", {"dense": {"index": "HNSW8"}}], "mode": "corrective", "rounds": 2}}]
    variant = load_variant("mine", given)
    assert load_variant("mine", variant.to_yaml()) == variant
    assert variant.to_yaml()[0]["adaptive"]["channels"] == [
        {"bm25": {"k1": 0.9, "b": 0.4}},
        {"dense": {"index": "HNSW8"}},
    ]
    assert variant.needs == {"lucene", "faiss:HNSW8", "encoder"}
    assert load_variant("adaptive").needs == {"lucene", "faiss:Flat", "encoder"}
    assert load_variant("words", [{"adaptive": {"channels": ["bm25"], "drift": None}}]).needs == {"lucene"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"channels": []}, "must be a list of channels"),
        ({"channels": "bm25"}, "must be a list of channels"),
        ({"channels": ["bm52"]}, "'bm52' is no channel; use bm25, "),
        ({"channels": ["gold"]}, "'gold' is no channel"),
        ({"channels": ["rrf"]}, "'rrf' is no channel"),
        ({"channels": [{"bm25": {"depth": 5}}]}, "depth: candidates are shared out"),
        ({"channels": ["bm25", "bm25"]}, "'bm25' appears twice"),
        ({"mode": "guess"}, "mode"),
        ({"rounds": 0}, "rounds"),
        ({"fan_out": 0}, "fan_out"),
        ({"drift": -1}, "drift"),
        ({"classifier": [1, 2]}, "must be a bias and 6 weights"),
        ({"learned_on": "train"}, "nothing is learned"),
        ({"classifier": "trained", "by": "llm"}, "the model estimates"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(RagLabError, match=r"variants\.mine") as error:
        load_variant("mine", [{"adaptive": settings}])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_is_not_trained_yet_does_not_run(search: Search) -> None:
    state = search(PEOPLE, classifier="trained")
    assert "still to be trained" in state.failures[0].cause


def test_a_row_outside_the_scope_cannot_be_read(search: Search) -> None:
    from rag_lab.variants.adaptive.reading import Reader

    batch = search(PEOPLE).batch
    row = batch.snapshot.chunks.document_id.index("a06")
    with pytest.raises(RagLabError, match="outside the caller's scope"):
        Reader(batch).text(0, row)


def test_another_encoder_or_writer_is_another_output(search: Search) -> None:
    batch = search(PEOPLE).batch
    stage = Adaptive.model_validate({"drift": 0.9})
    other = replace(batch, encoder=lambda: type("E", (), {"version": "other"})())
    assert stage.identity(batch) != stage.identity(other)
    assert Adaptive.model_validate({"drift": None, "channels": ["bm25"]}).identity(batch) == Adaptive.model_validate(
        {"drift": None, "channels": ["bm25"]}
    ).identity(other)
