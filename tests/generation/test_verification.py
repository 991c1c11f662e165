"""Claims are checked against the passages before an answer leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag_lab.contracts import Passage
from rag_lab.generation.verification import supports, verify

TRAVEL = "This policy covers journeys. The travel allowance is 500 per day. Alcohol is not paid for by the company."
BRIDGE = "The bridge was opened on 3 May 1932 by the mayor."


def passage(number: int, text: str, start: int = 0) -> Passage:
    return Passage(
        number, number, f"d{number}#0", f"d{number}", "1", "", "Rules", text, (start, start + len(text)), "en"
    )


BOTH = (passage(1, TRAVEL, start=100), passage(2, BRIDGE))


def test_a_supported_claim_is_sourced_by_the_sentence_that_holds_it() -> None:
    got = verify("The travel allowance is 500 per day [1].", BOTH)
    (claim,) = got.claims
    (source,) = claim.sources
    assert claim.text == got.text == "The travel allowance is 500 per day."
    assert source.quote == "The travel allowance is 500 per day."
    assert TRAVEL[source.span[0] - 100 : source.span[1] - 100] == source.quote
    assert (got.dropped, got.invalid) == ((), 0)


def test_every_number_must_stand_in_the_cited_passage() -> None:
    assert not supports("The travel allowance is 600 per day.", BOTH)
    assert verify("The travel allowance is 500 per day [2].", BOTH).claims == ()


def test_unsupported_sentences_are_dropped_from_the_text_too() -> None:
    got = verify("The bridge was opened by the mayor [2]. It is the longest in Europe [2].", BOTH)
    assert got.text == "The bridge was opened by the mayor."
    assert got.dropped == ("It is the longest in Europe.",)


def test_invalid_citations_are_counted_and_credit_nothing() -> None:
    got = verify("The travel allowance is 500 per day [7].", BOTH)
    assert (got.claims, got.invalid) == ((), 1)
    mixed = verify("The travel allowance is 500 per day [1, 7].", BOTH)
    assert [s.document_id for s in mixed.claims[0].sources] == ["d1"]
    assert mixed.invalid == 1


def test_a_sentence_without_a_marker_is_attributed_only_when_it_verifies() -> None:
    got = verify("The bridge was opened by the mayor. The moon is made of cheese.", BOTH)
    assert [claim.sources[0].document_id for claim in got.claims] == ["d2"]
    assert got.dropped == ("The moon is made of cheese.",)


def test_family_27_the_marker_behind_the_full_stop_verifies_its_own_sentence() -> None:
    got = verify("The travel allowance is 500 per day. [1] The bridge was opened by the mayor. [2]", BOTH)
    assert [c.sources[0].document_id for c in got.claims] == ["d1", "d2"]


@pytest.mark.parametrize(
    ("claim", "passes"),
    [
        ('The rules say "Alcohol is not paid for by the company".', True),
        ('The rules say "Alcohol is ... paid for by the company".', False),
        ('The rules say "Alcohol is paid for by the company".', False),
        ("The rules say “alcohol is free”.", False),
        ("Alcohol is paid for by the company.", False),
        ("Alcohol is not paid for by the company.", True),
    ],
)
def test_a_quotation_is_verbatim_and_a_negation_is_not_lost(claim: str, passes: bool) -> None:
    assert supports(claim, BOTH[:1]) is passes


def test_two_cited_passages_may_support_a_claim_together() -> None:
    got = verify("The travel allowance is 500 per day and the bridge was opened in 1932 [1][2].", BOTH)
    assert [s.document_id for s in got.claims[0].sources] == ["d1", "d2"]


def test_a_partial_answer_is_judged_by_what_it_answers() -> None:
    got = verify("The text does not name the architect, but the bridge was opened on 3 May 1932 [2].", BOTH)
    assert len(got.claims) == 1


def test_chinese() -> None:
    rule = Passage(1, 0, "c", "d", "1", "", "", "出差补贴为每天500元。", (0, 12), "zh")
    assert verify("补贴为每天500元[1]。", [rule]).claims[0].sources[0].quote == "出差补贴为每天500元。"
    assert verify("补贴为每天600元[1]。", [rule]).claims == ()


def test_nothing_to_verify() -> None:
    assert verify("[1]", BOTH).claims == ()
    assert verify("Anything at all.", ()).claims == ()


# --- standing and time ----------------------------------------------------------------------------------------------

COMING = replace(passage(1, "The travel allowance is 600 per day. Receipts are kept for a year."), coming=True)
IN_FORCE = passage(2, "The travel allowance is 500 per day. Receipts are kept for a year.")


@pytest.mark.parametrize(
    ("text", "kinds", "documents"),
    [
        ("The travel allowance is 500 per day [2].", ["answer"], [["d2"]]),
        ("The travel allowance is 600 per day [1].", ["upcoming"], [["d1"]]),
        ("The travel allowance is 600 per day.", ["upcoming"], [["d1"]]),
        ("The travel allowance is 500 per day [1][2].", ["answer"], [["d2"]]),
        ("The travel allowance is 500, then 600 per day [1][2].", ["upcoming"], [["d1", "d2"]]),
        ("Receipts are kept for a year.", ["answer"], [["d2"]]),
        (
            "The travel allowance is 500 per day [2]. It is a travel allowance of 600 per day later [1].",
            ["answer", "upcoming"],
            [["d2"], ["d1"]],
        ),
    ],
)
def test_what_needs_a_coming_passage_is_upcoming(text: str, kinds: list[str], documents: list[list[str]]) -> None:
    claims = verify(text, (COMING, IN_FORCE)).claims
    assert [claim.kind for claim in claims] == kinds
    assert [[source.document_id for source in claim.sources] for claim in claims] == documents


def test_of_equal_support_the_lower_precedence_is_credited() -> None:
    article, policy = replace(passage(1, TRAVEL), precedence=4), passage(2, TRAVEL)
    (claim,) = verify("The travel allowance is 500 per day.", (article, policy)).claims
    assert [source.document_id for source in claim.sources] == ["d2"]


def test_the_header_of_a_cut_table_counts_as_shown() -> None:
    row = replace(passage(1, "| Paris | 140 |", start=80), lead="| City | Daily rate in EUR |")
    (claim,) = verify("The daily rate in EUR for Paris is 140 [1].", (row,)).claims
    assert (claim.sources[0].quote, claim.sources[0].span) == ("| Paris | 140 |", (80, 95))
    assert not supports("The daily rate in EUR for Paris is 140.", (replace(row, lead=""),))
