"""Titles in texts, what passages cover, chains of them, and what to ask next: values worked by hand."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.generation.adaptive.chains import Chain, best_first, merged
from rag_lab.generation.adaptive.evidence import Asked
from rag_lab.generation.adaptive.follow_ups import Bridge, best_sentence, bridges, content_words, missing_words, says
from rag_lab.generation.adaptive.titles import Titles, plain_title

TITLES = Titles(
    ["Harbour Light (film)", "Graz", "Graz", "Graz University", "pump", "The", "Otto Brandt", "", "红楼梦", "C", "Cats"]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He saw Harbour Light.", [("Harbour Light", (7, 20), (0,))]),
        ("He saw “Harbour Light”.", [("Harbour Light", (8, 21), (0,))]),
        ("Graz University in Graz", [("Graz University", (0, 15), (3,)), ("Graz", (19, 23), (1, 2))]),
        ("The pump of C and Graze and Grazer", []),  # too common, too short, parts of words
        ("harbour light, GRAZ", []),  # in another case
        ("Cats; Otto  Brandt", [("Cats", (0, 4), (10,))]),  # other white space is another text
        ("他读红楼梦。", [("红楼梦", (2, 5), (8,))]),
        ("", []),
    ],
)
def test_titles_stand_word_by_word(text: str, expected: list[tuple[str, tuple[int, int], tuple[int, ...]]]) -> None:
    assert [(m.title, m.span, m.rows) for m in TITLES.mentions(text)] == expected


@pytest.mark.parametrize(
    ("title", "plain"),
    [("Sinister (2012 film)", "Sinister"), ("(untitled)", "(untitled)"), ("A\n b （上）", "A b"), ("", "")],
)
def test_what_tells_titles_apart_is_left_out(title: str, plain: str) -> None:
    assert plain_title(title) == plain


@given(st.lists(st.text(max_size=12), max_size=6), st.text(max_size=60))
def test_mentions_are_in_the_text_in_order(titles: list[str], text: str) -> None:
    after = 0
    for mention in Titles(titles).mentions(text):
        assert text[slice(*mention.span)] == mention.title
        assert mention.span[0] >= after
        assert all(plain_title(titles[row]) == mention.title for row in mention.rows)
        after = mention.span[1]


def test_terms_weigh_by_how_few_of_the_first_passages_hold_them() -> None:
    asked = Asked.of("Which valves leak?", ["A valve.", "The valve leaks.", "A pump."])
    assert asked.terms == ("valv", "leak")
    raw = [log(4 / 2.5), log(4 / 1.5)]  # of three passages two hold the one, one the other
    assert asked.weights.tolist() == pytest.approx([w / sum(raw) for w in raw])
    assert [asked.mask(text) for text in ("a leaking valve", "valves", "leaks", "pump")] == [3, 1, 2, 0]
    assert asked.coverage(1) == round(raw[0] / sum(raw), 6)
    assert (asked.coverage(0), asked.coverage(3)) == (0, 1)
    assert asked.missing(2) == ("valv",)
    assert (asked.share(0), asked.share(2), asked.share(3)) == (0, 0.5, 1)


def test_words_that_only_ask_are_nothing_to_cover() -> None:
    assert Asked.of("What is the name of the pump?", []).terms == ("pump",)
    assert Asked.of("Which year?", []).terms == ("year",)  # there is nothing else
    assert Asked.of("", []).coverage(0) == Asked.of("", []).share(0) == 0


ASKED = Asked.of("pump valve sensor lamp", [])  # four terms, a quarter each


def test_a_chain_grows_by_what_adds_to_it() -> None:
    chain = Chain((7,), 0b0011)
    assert chain.extended(8, 0b0110, ASKED) == Chain((7, 8), 0b0111)
    assert chain.extended(8, 0b0001, ASKED) is None
    assert chain.extended(7, 0b1111, ASKED) is None


def test_chains_are_ordered_by_what_they_cover_then_shorter_then_earlier() -> None:
    found = [
        Chain((1, 2), 0b0011),
        Chain((3,), 0b0011),
        Chain((4,), 0b0101),
        Chain((5, 6), 0b1110),
        Chain((3,), 0b0011),
    ]
    assert [chain.rows for chain in best_first(found, ASKED)] == [(5, 6), (3,), (4,), (1, 2)]


def test_evidence_is_merged_once_and_by_turns() -> None:
    chains = [Chain((10, 20), 0), Chain((10, 30), 0), Chain((1, 40), 0)]
    # First 10, then the chains: 20, not 10 again; then 1, which the chains have too; and so on.
    assert merged([10, 1, 2, 3], chains, [3, 50, 20]) == [10, 20, 1, 30, 2, 40, 3, 50]
    assert merged([], [Chain((4, 5), 0)]) == [4, 5]
    assert merged([1, 2], []) == [1, 2]
    assert merged([], [], [9]) == [9]


@given(st.lists(st.integers(0, 9)), st.lists(st.lists(st.integers(0, 9), min_size=1)), st.lists(st.integers(0, 9)))
def test_nothing_is_lost_or_doubled(first: list[int], chains: list[list[int]], others: list[int]) -> None:
    found = merged(first, [Chain(tuple(rows), 0) for rows in chains], others)
    assert sorted(found) == sorted({*first, *others, *(row for rows in chains for row in rows)})
    if first:
        assert found[0] == first[0]
        distinct = list(dict.fromkeys(first))
        for n in range(1, len(distinct) + 1):  # the user's words keep every second place
            assert set(distinct[:n]) <= set(found[: 2 * n])


QUESTION = "Where was the director of Harbour Light born?"
TEXT = "Harbour Light is a film. It was directed by Mara Lindqvist and shot in Graz by Otto Brandt."


def test_links_come_first_then_the_title_and_names_only_without_links() -> None:
    asked = Asked.of(QUESTION, [])
    linked = Titles(["Graz", "Harbour Light"]).mentions(TEXT)
    # Harbour Light is in the question, and is the passage's own title.
    assert bridges(QUESTION, "Harbour Light (film)", TEXT, linked, asked) == [Bridge("Graz", (71, 75))]
    assert TEXT[71:75] == "Graz"
    assert bridges(QUESTION, "Films of 1962", TEXT, linked, asked)[1:] == [Bridge("Films of 1962")]
    assert bridges(QUESTION, "Films of 1962", TEXT, [], asked) == [Bridge("Films of 1962")]
    second = "What did Mara Lindqvist direct in Graz?"
    assert bridges(second, "", TEXT, [], Asked.of(second, [])) == [Bridge("Otto Brandt", (79, 90))]
    assert bridges("", "", "", [], asked) == []


def test_the_best_sentence_is_the_first_that_covers_most() -> None:
    asked = Asked.of("pump valve", [])
    assert best_sentence("A lamp. A pump. The valve. A pump.", asked) == (8, 15)
    assert best_sentence("A lamp.", asked) is None
    assert best_sentence("", asked) is None


@pytest.mark.parametrize(
    ("name", "there"), [("harbour light", True), ("Light", True), ("Harbour", True), ("Lights", False), ("...", True)]
)
def test_what_a_question_says(name: str, there: bool) -> None:
    assert says(QUESTION, name) is there


def test_the_questions_own_words_are_what_is_missing() -> None:
    assert missing_words(QUESTION, ("director", "born")) == "director born"
    assert missing_words(QUESTION, ()) == ""
    assert content_words(QUESTION) == "director Harbour Light born"
    assert content_words("《红楼梦》的作者") == "红楼梦 的作者"
