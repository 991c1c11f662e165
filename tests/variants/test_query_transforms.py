"""Query transforms: what is searched by, what it costs, and what happens when a model writes nonsense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_writer import ScriptedWriter

from rag_lab.budgets import Budget
from rag_lab.contracts import Acl, Document, Principal, Queries, RagLabError, Request, Written
from rag_lab.corpus.chunking import Whole
from rag_lab.corpus.publishing import publish
from rag_lab.retrieval.encoders import Embeddings
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, dump_output, load_output, run_variant
from rag_lab.variants.handing_out import candidates
from rag_lab.variants.query_encoding import encoded
from rag_lab.variants.query_vectors import QueryVectors
from rag_lab.variants.stage import Batch, Output, State
from rag_lab.variants.transforms.translate import spoken_languages

Ask = Callable[..., Request]


def rows(state: State, question: int = 0) -> list[tuple[str, str, str]]:
    """Text, kind and channel of each query of a question."""
    queries = state.queries
    found = zip(queries.of.tolist(), queries.texts, queries.kinds, queries.channels, strict=True)
    return [row[1:] for row in found if row[0] == question]


def told(state: State, stage: str, question: int = 0) -> list[tuple[str, str, float]]:
    return [(e.kind, e.text, e.value) for e in state.events.get(question, ()) if e.stage == stage]


def run(
    batch: Batch, stage: dict[str, Any] | str, *more: Any, say: Callable[[str, str], Any] | None = None, **caps: float
) -> State:
    writer = ScriptedWriter(say) if say else None
    name = stage if isinstance(stage, str) else next(iter(stage))
    variant = load_variant(name, [stage, *(more or ("bm25",))])
    return run_variant(variant, replace(batch, writer=writer), Budget.from_mapping(caps), Memory())


LLM = {
    "rewrite": {"rewrite": {"by": "llm"}},
    "multi_query": {"multi_query": {"by": "llm"}},
    "hyde": "hyde",
    "step_back": {"step_back": {"by": "llm"}},
    "decompose": {"decompose": {"by": "llm"}},
}


# --- rules ------------------------------------------------------------------------------------------------------------


def test_a_rewrite_searches_and_the_users_own_words_stay_the_query(house: Any, store: Store, ask: Ask) -> None:
    history = ("Who makes the Pump?", "The Pump is made by Valve Works.")
    batch = house.batch([ask("Where is it made?", history=history), ask("sensor lamp", 1)], store)
    state = run(batch, "rewrite")
    assert rows(state) == [("Where is Pump made?", "rewrite", "")]
    assert rows(state, 1) == [("sensor lamp", "question", "")]
    assert state.batch.requests[0].query == "Where is it made?"
    assert told(state, "rewrite") == [("query", "Where is Pump made?", 0.0)]
    alone = run(house.batch([ask("Where is Pump made?")], store), "rewrite")
    assert state.channels["bm25"].of(0).tolist() == alone.channels["bm25"].of(0).tolist() != []


def test_both_texts_search_when_told_so(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("Is it a valve?", history=("Who makes the Pump?",))], store)
    state = run(batch, {"rewrite": {"keep_question": True}})
    assert rows(state) == [("Is Pump a valve?", "rewrite", ""), ("Is it a valve?", "question", "")]


def test_without_a_history_nothing_is_rewritten(house: Any, store: Store, ask: Ask) -> None:
    state = run(house.batch([ask("Where is it made?")], store), LLM["rewrite"], say=lambda *_: "never")
    assert rows(state) == [("Where is it made?", "question", "")]
    assert state.ledger.usage(0).llm_calls == 0


def test_several_wordings_are_fused_and_candidates_name_theirs(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("What is the pump of the valve?")], store)
    state = run(batch, {"multi_query": {"n": 2}}, {"bm25": {"depth": 9}})
    texts = ["What is the pump of the valve?", "pump valve", "the pump of the valve"]
    assert [text for text, *_ in rows(state)] == texts
    assert state.ledger.spent["candidates"].tolist() == [9]
    found = candidates(state, 0)
    assert {one.query for one in found} <= set(texts)
    credited = {text: value for kind, text, value in told(state, "bm25") if kind == "found"}
    assert list(credited) == texts
    assert sum(credited.values()) == len(state.channels["bm25"].chunk)
    counted = [sum(one.query == text for one in candidates(state, 0, 1000)) for text in texts]
    assert list(credited.values()) == counted


def test_fusion_is_by_reciprocal_rank(house: Any, store: Store, ask: Ask) -> None:
    state = run(house.batch([ask("What is the pump of the valve?")], store), {"multi_query": {"n": 1}})
    parts = [
        run(house.batch([ask(text)], store), "step_back", {"bm25": {"depth": 500}}).channels["bm25"]
        for text in ("What is the pump of the valve?", "pump valve")
    ]
    expected: dict[int, float] = {}
    for part in parts:
        for rank, row in enumerate(part.of(0).tolist(), 1):
            expected[row] = expected.get(row, 0) + 1 / (60 + rank)
    fused = state.channels["bm25"]
    assert dict(zip(fused.chunk.tolist(), fused.score.tolist(), strict=True)) == pytest.approx(expected)


def test_the_question_goes_when_told_so(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("What is the pump of the valve?"), ask("pump", 1)], store)
    state = run(batch, {"multi_query": {"n": 1, "keep_question": False}})
    assert rows(state) == [("pump valve", "multi_query", "")]
    assert rows(state, 1) == [("pump", "question", "")]


def test_a_more_general_query_beside_the_question(house: Any, store: Store, ask: Ask) -> None:
    question = "What is the size of the pump for lamps in 2024?"
    state = run(house.batch([ask(question)], store), "step_back")
    assert rows(state) == [(question, "question", ""), ("size of the pump", "step_back", "")]


def test_parts_that_stand_alone_search_and_the_others_are_told(house: Any, store: Store, ask: Ask) -> None:
    question = "Who is older, the director of Jaws or Tom Hanks?"
    state = run(house.batch([ask(question)], store), "decompose")
    assert [text for text, *_ in rows(state)] == [
        question,
        "Who is the director of Jaws?",
        "When was Tom Hanks born?",
    ]
    assert told(state, "decompose")[0] == ("dependent", "When was #1 born?", 0.0)


def test_too_many_parts_are_cut_and_told(house: Any, store: Store, ask: Ask) -> None:
    question = "Which city has more people, Lagos, Cairo, Lima or Nairobi?"
    state = run(house.batch([ask(question)], store), {"decompose": {"parts": 2}})
    assert len(rows(state)) == 3
    assert ("capped", "", 2.0) in told(state, "decompose")


def test_transforms_follow_one_another(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("What is the size of it?", history=("Who makes the Pump?",))], store)
    state = run(batch, "rewrite", {"multi_query": {"n": 1}}, "bm25")
    assert rows(state) == [("What is the size of Pump?", "rewrite", ""), ("size Pump", "multi_query", "")]


def test_rules_take_no_call_and_no_round(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("What is the pump of the valve?")], store)
    state = run(batch, "multi_query", "step_back", "decompose", "bm25", llm_calls=0, rounds=0, context_tokens=0)
    assert len(rows(state)) == 3
    usage = state.ledger.usage(0)
    assert (usage.llm_calls, usage.rounds, usage.context_tokens, usage.output_tokens) == (0, 0, 0, 0)
    assert state.ledger.curtailments == [[]]


# --- a language model -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(LLM))
def test_one_call_and_one_round_for_each_question(house: Any, store: Store, ask: Ask, name: str) -> None:
    asked = [ask("pump valve?", history=("lamp",)), ask("sensor?", 1, history=("lamp",))]
    state = run(house.batch(asked, store), LLM[name], "dense", say=lambda _, text: f"other {text.split()[-1]}")
    for question in (0, 1):
        usage = state.ledger.usage(question)
        assert (usage.llm_calls, usage.rounds) == (1, 1)
        assert usage.context_tokens > 10
        assert usage.output_tokens == 2
    assert [e.kind for e in state.events[0] if e.stage == name] == ["query"]
    assert any(kind == name for _, kind, _ in rows(state))


@pytest.mark.parametrize("name", list(LLM))
@pytest.mark.parametrize(
    ("caps", "resource"),
    [
        ({"llm_calls": 0}, "llm_calls"),
        ({"rounds": 0}, "rounds"),
        ({"context_tokens": 5}, "context_tokens"),
        ({"output_tokens": 0}, "output_tokens"),
    ],
)
def test_a_question_that_the_budget_does_not_cover_keeps_its_own_words(
    house: Any, store: Store, ask: Ask, name: str, caps: dict[str, float], resource: str
) -> None:
    batch = house.batch([ask("pump valve", history=("lamp",))], store)
    state = run(batch, LLM[name], "dense", say=lambda *_: "never", **caps)
    assert rows(state) == [("pump valve", "question", "")]
    assert state.channels["dense"].of(0).tolist() != []
    cut = next(cut for cut in state.ledger.curtailments[0] if cut.stage == name)
    assert (cut.resource, cut.granted) == (resource, 0)
    if resource in ("llm_calls", "rounds"):
        assert cut.wanted == 1
    assert all(value == 0 for value in (state.ledger.usage(0).llm_calls, state.ledger.usage(0).rounds))


@pytest.mark.parametrize("name", list(LLM))
@pytest.mark.parametrize(("calls", "made"), [(0, 0), (1, 0), (2, 1)])
def test_the_answer_keeps_its_call(house: Any, store: Store, ask: Ask, name: str, calls: int, made: int) -> None:
    class Caller:
        """The extractive reader, as if it took a call."""

        calls = 1

        def __init__(self, reader: Any) -> None:
            self._reader = reader

        def __getattr__(self, name: str) -> Any:
            return getattr(self._reader, name)

        def generate(self, *given: Any) -> Any:
            return [replace(one, llm_calls=1) for one in self._reader.generate(*given)]

    batch = house.batch([ask("pump valve", history=("lamp",))], store)
    batch = replace(batch, generator=Caller(batch.generator))
    state = run(batch, LLM[name], "dense", "assemble", "generate", say=lambda *_: "other words", llm_calls=calls)
    assert state.ledger.usage(0).llm_calls == calls
    assert sum(e.kind == "query" for e in state.events.get(0, ())) == made


NOTHING = {
    "nothing": ("", "empty"),
    "white space": (" \n ", "empty"),
    "an empty list": ("[]", "empty"),
    "broken JSON": ('["other", "wor', "unreadable"),
    "a time-out": (Written("", 20, 0, 1.0, "not finished after 1 s"), "failed"),
    "the question again": ("pump valve?", "repeated"),
    "a number that nobody said": ("pump valve 42", "rejected"),
}


@pytest.mark.parametrize("name", ["multi_query", "step_back", "decompose"])
@pytest.mark.parametrize("case", list(NOTHING))
def test_nonsense_is_told_and_the_question_stays(house: Any, store: Store, ask: Ask, name: str, case: str) -> None:
    said, kind = NOTHING[case]
    batch = house.batch([ask("pump valve"), ask("sensor lamp", 1)], store)

    def say(_: str, text: str) -> Any:
        return said if "pump" in text else "lamp sensor"

    state = run(batch, LLM[name], say=say)
    assert rows(state) == [("pump valve", "question", "")]
    assert [e.kind for e in state.events[0] if e.stage == name] == [kind]
    assert ("lamp sensor", name, "") in rows(state, 1)
    assert state.failures == {}
    assert state.ledger.usage(0).llm_calls == 1


@pytest.mark.parametrize(
    ("case", "kind"), [("nothing", "empty"), ("a time-out", "failed"), ("the question again", "repeated")]
)
def test_hyde_without_a_passage_searches_by_the_question(
    house: Any, store: Store, ask: Ask, case: str, kind: str
) -> None:
    state = run(house.batch([ask("pump valve")], store), "hyde", "dense", say=lambda *_: NOTHING[case][0])
    assert rows(state) == [("pump valve", "question", "")]
    assert [e.kind for e in state.events[0] if e.stage == "hyde"] == [kind]


@pytest.mark.parametrize(
    ("question", "rewrite", "kept"),
    [
        ("When was it sold for $500?", "When was the Pump sold for $500?", True),
        ("When was it sold for $500?", "When was the Pump sold?", False),
        ("What of HR-204 in May 2021?", "What does HR-204 say on 2021-05?", True),
        ("What of HR-204 in May 2021?", "What does HR-205 say in May 2021?", False),
        ("What of HR-204 in May 2021?", "What does HR-204 say in June 2021?", False),
        ('Who said "go away"?', "Who at the Pump said go away?", True),
        ('Who said "go away"?', "Who at the Pump said leave?", False),
        ("Who runs it?", "Who ran the Pump in 1999?", False),
        ("它在2024年3月卖了多少？", "水泵在２０２４年３月卖了多少？", True),
        ("它在2024年3月卖了多少？", "水泵在2024年卖了多少？", False),
    ],
)
def test_a_rewrite_that_drops_or_adds_a_fact_is_refused(
    house: Any, store: Store, ask: Ask, question: str, rewrite: str, kept: bool
) -> None:
    batch = house.batch([ask(question, history=("Who makes the Pump?",), language="")], store)
    state = run(batch, LLM["rewrite"], say=lambda *_: rewrite)
    assert rows(state) == [(rewrite, "rewrite", "") if kept else (question, "question", "")]
    assert told(state, "rewrite") == [("query" if kept else "rejected", rewrite, 0.0)]


def test_what_the_history_states_may_be_said(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("Who ran it then?", history=("Was the Pump sold in 1999?",))], store)
    state = run(batch, LLM["rewrite"], say=lambda *_: "Who ran the Pump in 1999?")
    assert rows(state) == [("Who ran the Pump in 1999?", "rewrite", "")]


def test_a_rewrite_that_comes_back_as_it_was_is_no_event(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("Who makes the Pump?", history=("lamp",))], store)
    state = run(batch, LLM["rewrite"], say=lambda *_: "Who makes the Pump?")
    assert rows(state) == [("Who makes the Pump?", "question", "")]
    assert told(state, "rewrite") == []


def test_a_model_that_loops_says_each_query_once(house: Any, store: Store, ask: Ask) -> None:
    said = "\n".join(["lamp pump"] * 5 + ["Lamp pump?", "pump valve", "valve lamp"])
    state = run(house.batch([ask("pump valve")], store), LLM["multi_query"], say=lambda *_: said)
    assert [text for text, *_ in rows(state)] == ["pump valve", "lamp pump", "valve lamp"]
    assert ("repeated", "", 6.0) in told(state, "multi_query")


def test_more_queries_than_were_asked_for_are_cut(house: Any, store: Store, ask: Ask) -> None:
    said = "\n".join(f"{word} pump" for word in ("lamp", "wheel", "axle", "brake"))
    stage = {"multi_query": {"by": "llm", "n": 2}}
    state = run(house.batch([ask("pump valve")], store), stage, say=lambda *_: said)
    assert [text for text, *_ in rows(state)] == ["pump valve", "lamp pump", "wheel pump"]
    assert ("capped", "", 2.0) in told(state, "multi_query")


def test_dependent_parts_of_a_model_are_told(house: Any, store: Store, ask: Ask) -> None:
    said = "1. Which pump has a lamp?\n2. Who makes #1?"
    state = run(house.batch([ask("Who makes the pump with a lamp?")], store), LLM["decompose"], say=lambda *_: said)
    assert [text for text, *_ in rows(state)] == ["Who makes the pump with a lamp?", "Which pump has a lamp?"]
    assert ("dependent", "Who makes #1?", 0.0) in told(state, "decompose")


def test_the_model_is_asked_in_the_language_of_the_question(house: Any, store: Store, ask: Ask) -> None:
    writer = ScriptedWriter(lambda *_: "")
    batch = replace(house.batch([ask("水泵是什么？", language=""), ask("pump", 1)], store), writer=writer)
    run_variant(load_variant("x", [LLM["multi_query"], "bm25"]), batch, Budget(), Memory())
    assert [text for _, text in writer.asked] == ["Question: pump", "问题：水泵是什么？"]
    assert "检索" in writer.asked[1][0]
    assert "search queries" in writer.asked[0][0]


def test_the_model_sees_the_conversation(house: Any, store: Store, ask: Ask) -> None:
    writer = ScriptedWriter(lambda *_: "")
    batch = replace(house.batch([ask("And {it}?", history=("pump", "valve"))], store), writer=writer)
    run_variant(load_variant("x", [LLM["rewrite"], "bm25"]), batch, Budget(), Memory())
    assert writer.asked[0][1] == "Conversation:\n- pump\n- valve\n\nLast question: And {it}?"


def test_a_time_out_is_tried_again_by_the_next_run(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("pump valve")], store)
    run(batch, LLM["multi_query"], say=lambda *_: NOTHING["a time-out"][0])
    again = run(batch, LLM["multi_query"], say=lambda *_: "lamp pump")
    assert [text for text, *_ in rows(again)] == ["pump valve", "lamp pump"]
    kept = run(batch, LLM["multi_query"], say=lambda *_: "never asked")
    assert rows(kept) == rows(again)
    assert kept.ledger.usage(0) == again.ledger.usage(0)
    assert kept.events == again.events


def test_a_stage_that_writes_says_so() -> None:
    stages = [load_variant("x", [stage, "dense"]).stages[0] for stage in LLM.values()]
    assert all(stage.writes for stage in stages)
    assert not any(stage.writes for stage in load_variant("multi_query").stages)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"hyde": {"by": "rules"}}, "dense"], r"x\[1\]\.hyde\.by: Input should be 'llm'"),
        ([{"multi_query": {"n": 0}}, "dense"], r"x\[1\]\.multi_query\.n: .*greater than or equal to 1"),
        ([{"multi_query": {"n": 17}}, "dense"], r"x\[1\]\.multi_query\.n: .*less than or equal to 16"),
        ([{"decompose": {"parts": -1}}, "dense"], r"x\[1\]\.decompose\.parts: .*greater than or equal to 1"),
        ([{"rewrite": {"by": "magic"}}, "dense"], r"x\[1\]\.rewrite\.by: Input should be 'rules' or 'llm'"),
        (["multi_query", "generate"], r"x: nothing retrieves"),
        (["hyde", "bm25"], r"x: only 'dense' searches by what 'hyde' makes; add it, or remove that one"),
        ([{"translate": {"by": "llm"}}, "dense"], r"x: only 'bm25' searches by what 'translate' makes"),
        (["translate", "bm25"], r"x\.translate: give a glossary such as {年假: annual leave}, or set 'by: llm'"),
        ([{"translate": {"by": "llm", "glossary": {"a": "b"}}}, "bm25"], r"x\.translate: give a glossary"),
    ],
)
def test_bad_settings_are_one_line(stages: Sequence[Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("x", stages)


# --- HyDE -------------------------------------------------------------------------------------------------------------


class TwoSided:
    """An encoder whose passages and queries differ, so that a test sees which was asked for."""

    name, version, dimension, max_tokens, languages = "two", "two-1", 3, 100, frozenset({"en"})

    def encode_queries(self, texts: Sequence[str]) -> Any:
        return np.array([[1, 0, 0] for _ in texts], dtype=np.float32).reshape(-1, 3)

    def encode_passages(self, texts: Sequence[str]) -> Any:
        return np.array([[0, 0.6, 0.8] for _ in texts], dtype=np.float32).reshape(-1, 3)


@pytest.mark.parametrize(
    ("question", "vectors", "texts"),
    [
        ("averaged", [[0.5, 0.3, 0.4]], ["made up"]),
        ("beside", [[1, 0, 0], [0, 0.6, 0.8]], ["pump valve", "made up"]),
        ("none", [[0, 0.6, 0.8]], ["made up"]),
    ],
)
def test_a_passage_is_encoded_as_one(
    house: Any, store: Store, ask: Ask, question: str, vectors: list[list[float]], texts: list[str]
) -> None:
    state = run(
        house.batch([ask("pump valve")], store),
        {"hyde": {"question": question}},
        "bm25",
        "dense",
        "rrf",
        say=lambda *_: "made up",
    )
    assert state.searched["bm25"].texts == ("pump valve",)
    queries = state.searched["dense"]
    assert list(queries.texts) == texts
    encoder = TwoSided()

    def as_queries(given: Sequence[str]) -> QueryVectors:
        made = encoder.encode_queries(given)
        return QueryVectors(Embeddings(made, "two", "two-1"), np.full(len(given), 2.0))

    batch = replace(state.batch, encoder=lambda: encoder, query_vectors=as_queries)
    found = encoded(batch, queries)
    unit = np.array(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(found.vectors.vectors, unit, atol=1e-6)
    assert (found.ms > (1.9 if question == "averaged" else 0)).all()


def test_hyde_keeps_other_wordings_for_the_dense_channel(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("What is the pump?")], store)
    state = run(batch, {"multi_query": {"n": 1}}, "hyde", "bm25", "dense", "rrf", say=lambda *_: "made up")
    assert state.searched["bm25"].texts == ("What is the pump?", "pump")
    assert state.searched["dense"].texts == ("pump", "made up")
    assert state.searched["dense"].averaged == ("", "What is the pump?")


def test_a_made_up_passage_finds_what_it_reads_like(house: Any, store: Store, ask: Ask) -> None:
    batch = house.batch([ask("brake")], store)
    wanted = batch.snapshot.chunks.text[int(np.flatnonzero(batch.scopes.rows(0))[3])]
    state = run(batch, {"hyde": {"question": "none"}}, "dense", say=lambda *_: wanted)
    found = candidates(state, 0, 1)[0]
    assert found.chunk.text == wanted
    assert found.query == wanted


# --- translation ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bilingual(tmp_path_factory: pytest.TempPathFactory, hash_encoder: Any) -> Any:
    """Two English documents and a Chinese one for everybody, three Chinese ones for hr."""

    def document(name: str, text: str, language: str, acl: Acl) -> Document:
        return Document(name, text, tenant="t", acl=acl, language=language)

    everybody, hr = Acl(public=True), Acl(groups=("hr",))
    return publish(
        Store(tmp_path_factory.mktemp("bilingual")),
        [
            document("e1", "annual leave is thirty days", "en", everybody),
            document("e2", "the pump has a lamp", "en-GB", everybody),
            document("z1", "年假三十天", "zh", everybody),
            *(document(f"z{n}", f"病假{n}天", "zh", hr) for n in (2, 3, 4)),
        ],
        Whole(),
        analyzer="multilingual",
        encoder=hash_encoder,
        factories=["Flat"],
        corpus="bilingual",
    )


@pytest.fixture
def chinese(house: Any, bilingual: Any, store: Store, ask: Ask) -> Callable[..., Batch]:
    def make(query: str, *groups: str) -> Batch:
        request = ask(query, principal=Principal("t", groups), language="")
        return replace(
            house.batch([request], store),
            snapshot=bilingual,
            scopes=bilingual.scopes([request], house.batch([], store).book),
        )

    return make


GLOSSARY = {"translate": {"glossary": {"年假": "annual leave", "天": "days"}}}


def test_the_language_is_that_of_what_the_caller_may_read(chinese: Callable[..., Batch]) -> None:
    assert spoken_languages(chinese("年假")) == [("en", "zh")]
    assert spoken_languages(chinese("年假", "hr")) == [("zh", "en")]


def test_bm25_searches_by_the_translation_and_the_others_by_the_question(chinese: Callable[..., Batch]) -> None:
    state = run(chinese("年假有多少天？"), GLOSSARY, "bm25", "dense", "rrf")
    assert state.searched["bm25"].texts == ("annual leave days", "年假有多少天？")
    assert state.searched["dense"].texts == ("年假有多少天？",)
    table = state.batch.snapshot.chunks
    assert {table.document_id[row] for row in state.channels["bm25"].of(0).tolist()} == {"e1", "z1"}
    assert state.batch.requests[0].query == "年假有多少天？"


@pytest.mark.parametrize(
    ("query", "groups", "events"),
    [
        ("annual leave", (), []),
        ("年假", ("hr",), []),
        ("病假", (), [("empty", "", 0.0)]),
        ("年假2天", (), [("query", "annual leave 2 days", 0.0)]),
    ],
)
def test_only_another_language_is_translated(
    chinese: Callable[..., Batch], query: str, groups: tuple[str, ...], events: list[tuple[str, str, float]]
) -> None:
    state = run(chinese(query, *groups), GLOSSARY, "bm25")
    assert told(state, "translate") == events
    assert (len(rows(state)) == 1) == (not events or events[0][0] == "empty")


def test_a_translation_by_a_model_must_keep_the_facts(chinese: Callable[..., Batch]) -> None:
    stage = {"translate": {"by": "llm"}}
    kept = run(chinese("2024年3月的年假"), stage, "bm25", say=lambda *_: "annual leave in March 2024")
    assert kept.searched["bm25"].texts[0] == "annual leave in March 2024"
    lost = run(chinese("2024年3月的病假"), stage, "bm25", say=lambda *_: "sick leave")
    assert lost.searched["bm25"].texts == ("2024年3月的病假",)
    assert told(lost, "translate") == [("rejected", "sick leave", 0.0)]


def test_nobody_is_asked_where_nothing_is_to_be_translated(chinese: Callable[..., Batch]) -> None:
    state = run(chinese("annual leave"), {"translate": {"by": "llm"}}, "bm25", say=lambda *_: "never", rounds=0)
    assert state.ledger.curtailments == [[]]


# --- properties -------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    said=st.lists(
        st.sampled_from(["lamp", "pump\n", "[", '"', "]", "42", "HR-9", "\n", "#1", "{", "1. ", " valve"]), max_size=12
    ),
    name=st.sampled_from(list(LLM)),
    caps=st.fixed_dictionaries(
        {},
        optional={
            "llm_calls": st.integers(0, 2),
            "rounds": st.integers(0, 2),
            "context_tokens": st.integers(0, 120),
            "output_tokens": st.integers(0, 8),
            "candidates": st.integers(0, 9),
        },
    ),
)
def test_whatever_a_model_writes_the_question_is_searched_for_and_no_cap_is_passed(
    house: Any, tmp_path_factory: pytest.TempPathFactory, said: list[str], name: str, caps: dict[str, float]
) -> None:
    request = Request("r", "pump valve", Principal("t"), "t", datetime(2026, 6, 1, tzinfo=UTC), history=("lamp",))
    batch = house.batch([request], Store(tmp_path_factory.mktemp("any")))
    state = run(batch, LLM[name], "dense", say=lambda *_: "".join(said), **caps)
    assert state.failures == {}
    assert len(rows(state)) >= 1
    usage = state.ledger.usage(0)
    assert all(getattr(usage, resource) <= cap for resource, cap in caps.items())
    found = load_output(dump_output(Output(state.queries, np.zeros(1), {}, state.events)))
    assert isinstance(found.payload, Queries)
    assert (found.payload.texts, found.payload.averaged) == (state.queries.texts, state.queries.averaged)
    assert found.events == state.events
