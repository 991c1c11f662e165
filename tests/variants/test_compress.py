from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rag_lab.budgets import Budget
from rag_lab.contracts import Acl, Answer, Document, Principal, RagLabError, Request, SectionRights
from rag_lab.corpus.chunking import Blocks
from rag_lab.corpus.publishing import publish
from rag_lab.generation.sentences import split_sentences
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.stage import Batch, State, trace

SENTENCES = ["The office is grey.", "Leave lasts thirty days.", "Cats sleep a lot.", "Leave days expire in March."]
SECRET = "Board leave lasts ninety days."
TEXTS = {
    "a": " ".join(SENTENCES),
    "b": f"# Rules\n\nThe canteen opens at noon.\n\n{SECRET}\n\nSick leave needs a note.",
}
QUESTION = "How many days does leave last?"


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, hash_encoder: Any, house: Any) -> Any:
    """Two documents, of one of which a part is for the board alone."""
    start = TEXTS["b"].index(SECRET)
    secret = (SectionRights((start, start + len(SECRET)), Acl(groups=("board",))),)
    documents = [
        Document(name, text, tenant="t", acl=Acl(public=True), language="en", sections=secret if name == "b" else ())
        for name, text in TEXTS.items()
    ]
    store = Store(tmp_path_factory.mktemp("office"))
    snapshot = publish(store, documents, Blocks(60), token_encoder=hash_encoder, corpus="office")
    return replace(house, documents=documents, snapshot=snapshot)


@pytest.fixture
def run(office: Any, ask: Callable[..., Request], store: Store) -> Callable[..., State]:
    def make(*stages: Any, budget: Budget | None = None, generates: bool = True, **fields: Any) -> State:
        request = ask(QUESTION, **fields)
        rows = np.flatnonzero(office.snapshot.scopes([request]).rows(0)).tolist()
        batch: Batch = replace(office.batch([request], store, gold=[rows]), generates=generates)
        variant = load_variant("v", ["gold", "assemble", *stages, "generate"])
        return run_variant(variant, batch, budget or Budget(), Memory())

    return make


def shown(state: State) -> list[str]:
    return [passage.text for passage in state.contexts[0].passages]


def test_the_relevant_sentences_stay_with_their_places_and_the_saving_is_told(run: Any) -> None:
    whole = run()
    state = run({"compress": {"sentences": 2}})
    assert not state.failures
    assert shown(state) == ["Leave lasts thirty days.", "Leave days expire in March."]
    for passage in state.contexts[0].passages:
        assert TEXTS[passage.document_id][slice(*passage.span)] == passage.text
    saved = whole.contexts[0].prompt_tokens - state.contexts[0].prompt_tokens
    (event,) = trace(state, 0).events
    assert (event.stage, event.kind, event.text, event.value) == ("compress", "compressed", "2 of 7 sentences", saved)
    assert state.ledger.spent["context_tokens"].tolist() == [state.contexts[0].prompt_tokens]
    assert state.looked_at.tolist() == whole.looked_at.tolist()
    outcome = state.completions[0].outcome
    assert isinstance(outcome, Answer)
    for source in (source for claim in outcome.claims for source in claim.sources):
        assert TEXTS[source.document_id][slice(*source.span)] == source.quote


def test_what_the_cap_would_have_kept_out_comes_in_shortened(run: Any) -> None:
    cap = run().contexts[0].prompt_tokens - 1
    whole = run(budget=Budget(context_tokens=cap))
    assert not any("Sick leave" in text for text in shown(whole))
    state = run({"compress": {"sentences": 4}}, budget=Budget(context_tokens=cap))
    assert shown(state) == [" ".join(SENTENCES[1:]), "Sick leave needs a note."]
    assert state.contexts[0].prompt_tokens <= cap
    assert state.ledger.curtailments[0] == []


@pytest.mark.parametrize("generates", [True, False])
def test_no_cap_is_ever_passed_and_a_cut_is_recorded(run: Any, generates: bool) -> None:
    wanted = run({"compress": {"sentences": 3}}).contexts[0].prompt_tokens
    for cap in range(wanted + 2):
        state = run({"compress": {"sentences": 3}}, budget=Budget(context_tokens=cap), generates=generates)
        assert not state.failures
        assert state.ledger.spent["context_tokens"][0] <= cap
        cuts = [(cut.stage, cut.resource, cut.wanted) for cut in state.ledger.curtailments[0]]
        assert cuts == ([("compress", "context_tokens", wanted)] if cap < wanted else [])


def test_the_window_of_the_generator_caps_it_too(run: Any, office: Any, ask: Any, store: Any) -> None:
    batch = office.batch([ask(QUESTION)], store, gold=[[0, 1, 2]])

    class Narrow(type(batch.generator)):
        window = 60

    narrow = replace(batch, generator=Narrow())
    variant = load_variant(
        "v", ["gold", "assemble", {"compress": {"sentences": 6}}, {"generate": {"output_tokens": 30}}]
    )
    state = run_variant(variant, narrow, Budget(), Memory())
    assert state.contexts[0].prompt_tokens <= 30


def test_no_text_of_others_is_among_the_sentences(run: Any) -> None:
    everything = run({"compress": {"sentences": 0.99}})
    assert SECRET not in " ".join(shown(everything))
    assert any(
        SECRET in text for text in shown(run({"compress": {"sentences": 0.99}}, principal=Principal("t", ("board",))))
    )


def test_an_encoder_helps_to_choose(run: Any, office: Any) -> None:
    state = run({"compress": {"sentences": 0.5, "by": "encoder"}})
    assert not state.failures
    sentences = {text[a:b] for text in TEXTS.values() for a, b in split_sentences(text)}
    kept = [text[a:b] for text in shown(state) for a, b in split_sentences(text)]
    assert len(kept) == 4
    assert set(kept) <= sentences
    by_terms = run({"compress": {"sentences": 0.5}})
    assert state.keys["contexts"] != by_terms.keys["contexts"]
    assert load_variant("v", ["gold", "assemble", {"compress": {"by": "encoder"}}]).needs == {"encoder"}


def test_nothing_to_read(run: Any) -> None:
    state = run("compress", principal=None)
    assert shown(state) == []
    assert not state.failures
    assert 0 not in state.events


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        (["gold", "compress"], "'compress' shortens what 'assemble' chose; put 'assemble' right before it"),
        (["gold", "compress", "assemble"], "put 'assemble' right before it"),
        (["gold", "assemble", {"compress": {"sentences": 2.5}}], r"compress\.sentences: .*must be a whole number"),
        (["gold", "assemble", {"compress": {"sentences": 0}}], r"compress\.sentences: .*greater than 0"),
        (["gold", "assemble", {"compress": {"by": "llm"}}], r"compress\.by: Input should be 'terms' or 'encoder'"),
        (["compress", "generate"], "put 'assemble' right before it"),
    ],
)
def test_settings_that_cannot_be_are_named(stages: list[Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("v", stages)
