from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.budgets import Budget
from rag_lab.contracts import Acl, Document, Principal, RagLabError, Ranking, Request, SectionRights
from rag_lab.corpus.chunking import Blocks, Chunker, ParentChild, Window
from rag_lab.corpus.publishing import publish
from rag_lab.corpus.rights import Scope, Scopes
from rag_lab.store import Store
from rag_lab.variants import load_variant
from rag_lab.variants.execute import Memory, run_variant
from rag_lab.variants.expand import BROUGHT, expanded
from rag_lab.variants.stage import State

PARTS = [f"{word} one two three four five six." for word in ("Alpha", "Beta", "Gamma", "Delta", "Omega", "Sigma")]
TEXT = (
    "# Leave\n\n" + "\n\n".join(PARTS[:3]) + "\n\n## Abroad\n\n" + PARTS[3] + "\n\n# Leave\n\n" + "\n\n".join(PARTS[4:])
)
OTHER = "# Pay\n\n" + "\n\n".join(PARTS[:2])


def document(name: str, text: str, *secret: str) -> Document:
    """A public document in which some parts are for the board alone."""
    spans = [(text.index(part), text.index(part) + len(part)) for part in secret]
    sections = tuple(SectionRights(span, Acl(groups=("board",))) for span in spans)
    return Document(name, text, tenant="t", acl=Acl(public=True), language="en", sections=sections)


@pytest.fixture
def ranked(tmp_path: Any, hash_encoder: Any, house: Any, ask: Callable[..., Request]) -> Callable[..., State]:
    """What a variant makes of rows that were found, best first, for one caller."""

    def run(
        documents: Sequence[Document], chunker: Chunker, found: Sequence[int], stages: Sequence[Any], **fields: Any
    ) -> State:
        store = Store(tmp_path / "expand")
        snapshot = publish(store, documents, chunker, token_encoder=hash_encoder, corpus="expand")
        home = replace(house, documents=list(documents), snapshot=snapshot)
        batch = home.batch([ask(**fields)], store, gold=[found])
        object.__setattr__(batch, "texts", lambda: {one.document_id: one.text for one in documents})
        return run_variant(load_variant("v", ["gold", *stages]), batch, Budget(), Memory())

    return run


def listed(state: State) -> list[tuple[str, int]]:
    """The beginnings of the chunks of the ranking, and the rank of what brought each along."""
    chunks = state.batch.snapshot.chunks
    words = [chunks.text[row].replace("#", "").split()[0] for row in state.ranking.chunk.tolist()]
    return list(zip(words, state.ranking.ranks[BROUGHT].tolist(), strict=True))


def test_the_section_comes_along_nearest_first_and_ends_where_the_heading_path_does(ranked: Any) -> None:
    # Rows: Leave (Alpha), Beta, Gamma, Abroad (Delta), the second Leave (Omega), Sigma.
    state = ranked([document("d", TEXT)], Blocks(12), [1], ["expand", "assemble"])
    assert not state.failures
    assert listed(state) == [("Beta", 0), ("Gamma", 1), ("Leave", 1)]
    assert set(state.ranking.score.tolist()) == {1.0}
    state = ranked([document("d", TEXT)], Blocks(12), [3, 5], ["expand", "assemble"])
    assert listed(state) == [("Abroad", 0), ("Sigma", 0), ("Leave", 2)]


def test_documents_and_neighbours(ranked: Any) -> None:
    both = [document("d", TEXT), document("e", OTHER)]
    state = ranked(both, Blocks(12), [6], [{"expand": {"to": "document"}}, "assemble"])
    assert listed(state) == [("Pay", 0), ("Beta", 1)]
    state = ranked(both, Blocks(12), [3], [{"expand": {"to": "document"}}, "assemble"])
    assert [word for word, _ in listed(state)] == ["Abroad", "Leave", "Gamma", "Sigma", "Beta", "Leave"]
    state = ranked(both, Blocks(12), [5], [{"expand": {"to": "neighbours"}}, "assemble"])
    assert listed(state) == [("Sigma", 0), ("Leave", 1)]
    state = ranked(both, Blocks(12), [2], [{"expand": {"to": "neighbours", "distance": 2}}, "assemble"])
    assert [word for word, _ in listed(state)] == ["Gamma", "Abroad", "Beta", "Leave", "Leave"]


def test_what_was_found_as_well_stands_once_and_only_the_first_bring_something(ranked: Any) -> None:
    both = [document("d", TEXT), document("e", OTHER)]
    state = ranked(both, Blocks(12), [0, 2, 6, 7], [{"expand": {"depth": 1}}, "assemble"])
    assert listed(state) == [("Leave", 0), ("Beta", 1), ("Gamma", 1), ("Pay", 0), ("Beta", 0)]


def test_what_the_caller_may_not_read_is_never_brought_along(ranked: Any) -> None:
    hidden = [document("d", TEXT, PARTS[1])]
    state = ranked(hidden, Blocks(12), [0], [{"expand": {"to": "document"}}, {"assemble": {"passages": 1}}])
    assert [word for word, _ in listed(state)] == ["Leave", "Gamma", "Abroad", "Leave", "Sigma"]
    assert "Beta" not in "".join(passage.text for passage in state.contexts[0].passages)
    board = {"principal": Principal("t", ("board",))}
    state = ranked(hidden, Blocks(12), [0], [{"expand": {"to": "document"}}, {"assemble": {"passages": 1}}], **board)
    assert [word for word, _ in listed(state)] == ["Leave", "Beta", "Gamma", "Abroad", "Leave", "Sigma"]


def test_a_document_without_headings_is_one_section(ranked: Any) -> None:
    state = ranked([document("d", " ".join(PARTS))], Window(8, 2), [2], ["expand", "assemble"])
    assert len(state.ranking.chunk) == len(state.batch.snapshot.chunks)
    assert state.contexts[0].passages[0].text == " ".join(PARTS)
    assert len(state.contexts[0].passages) == 1


def test_sections_of_parents_are_shown_once(ranked: Any) -> None:
    state = ranked([document("d", TEXT)], ParentChild(12, 20), [1], ["expand", "assemble"])
    assert [passage.text for passage in state.contexts[0].passages] == [TEXT[: TEXT.index("\n\n## Abroad")]]


def test_the_section_is_one_passage_beside_the_next_one_found(ranked: Any) -> None:
    other = OTHER.replace("one", "seven")
    both = [document("d", TEXT), document("e", other)]
    state = ranked(both, Blocks(12), [1, 7], ["expand", {"assemble": {"passages": 2}}])
    context = state.contexts[0]
    assert [passage.text for passage in context.passages] == [TEXT[: TEXT.index("\n\n## Abroad")], other]
    for passage in context.passages:
        text = {"d": TEXT, "e": other}[passage.document_id]
        assert text[slice(*passage.span)] == passage.text
    assert state.looked_at.tolist() == [5]


def test_a_chunk_that_says_what_is_there_already_brings_nothing_along(ranked: Any) -> None:
    both = [document("d", TEXT), document("e", OTHER)]  # rows 1 and 7 are the same words
    state = ranked(both, Blocks(12), [1, 7], ["expand", {"assemble": {"passages": 3}}])
    assert state.contexts[0].dropped == ((7, "duplicate"), (6, "duplicate"))
    assert [passage.document_id for passage in state.contexts[0].passages] == ["d"]


def test_under_a_cap_what_is_farthest_from_the_found_chunk_is_left_out_first(ranked: Any, ask: Any) -> None:
    whole = ranked([document("d", TEXT)], Blocks(12), [1], ["expand", "assemble"])
    cap = whole.contexts[0].prompt_tokens - 1
    batch, variant = whole.batch, load_variant("v", ["gold", "expand", "assemble"])
    state = run_variant(variant, batch, Budget(context_tokens=cap), Memory())
    assert state.contexts[0].prompt_tokens <= cap
    assert state.contexts[0].dropped == ((0, "budget"),)
    assert state.contexts[0].passages[0].text == f"{PARTS[1]}\n\n{PARTS[2]}"
    assert [cut.resource for cut in state.ledger.curtailments[0]] == ["context_tokens"]


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{"expand": {"distance": 2}}], r"variants\.v\.expand\.distance: belongs to 'to: neighbours'"),
        ([{"expand": {"to": "chapter"}}], r"variants\.v\[2\]\.expand\.to: Input should be 'section', 'document' or"),
        ([{"expand": {"depth": 0}}], r"expand\.depth: Input should be greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_be_are_named(stages: list[Any], message: str) -> None:
    with pytest.raises(RagLabError, match=message):
        load_variant("v", ["gold", *stages])


rows = st.lists(st.integers(0, 11), unique=True, max_size=12)


@given(
    st.lists(rows, min_size=1, max_size=4),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.integers(1, 5),
    st.integers(0, 9),
)
def test_the_ranking_is_the_one_that_loops_make(
    lists: list[list[int]], open_to_one: list[bool], depth: int, seed: int
) -> None:
    """Two callers; found rows are in their scope, as a channel's are."""
    random = np.random.default_rng(seed)
    edges = np.unique(np.concatenate([[0, 12], random.integers(0, 12, 3)]))
    unit = np.searchsorted(edges, np.arange(12), side="right") - 1
    first, last = edges[unit].astype(np.int64), edges[unit + 1].astype(np.int64)
    scope = np.array(open_to_one)
    scopes = Scopes(
        np.array([i % 2 for i in range(len(lists))], dtype=np.int32),
        (Scope(np.ones(1, dtype=bool), np.ones(12, dtype=bool)), Scope(np.ones(1, dtype=bool), scope)),
        "1",
    )
    lists = [[row for row in found if i % 2 == 0 or scope[row]] for i, found in enumerate(lists)]
    query = [i for i, found in enumerate(lists) for _ in found]
    found_rows = [row for found in lists for row in found]
    scores = [-float(place) for found in lists for place in range(len(found))]
    given_ranks = {"a": np.arange(1, len(query) + 1, dtype=np.int32)}
    ranking = Ranking.from_scores("a", len(lists), query, found_rows, scores, given_ranks)
    wide = expanded(ranking, first, last, scopes, depth)
    assert scopes.check(wide) is wide
    for number, found in enumerate(lists):
        expected: dict[int, int] = {}
        for rank, row in enumerate(found, 1):
            expected.setdefault(row, 0)
            if rank <= depth:
                near = [r for r in range(first[row], last[row]) if r != row]
                for r in sorted(near, key=lambda r: (abs(r - row), r < row)):
                    if number % 2 == 0 or scope[r]:
                        expected.setdefault(r, rank)
        mine = wide.query == number
        assert wide.chunk[mine].tolist() == list(expected)
        assert wide.ranks[BROUGHT][mine].tolist() == list(expected.values())
        assert (np.diff(wide.score[mine]) <= 0).all()
        first_rank = {row: given_ranks["a"][query.index(number) + place] for place, row in enumerate(found)}
        assert wide.ranks["a"][mine].tolist() == [first_rank.get(row, 0) for row in expected]
