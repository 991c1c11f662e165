from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Context, Passage, Principal, Request
from rag_lab.generation.compression import Compression, compress
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.generation.sentences import split_sentences
from rag_lab.generation.support import Similarity

READER = ExtractiveReader()
OPEN = 1 << 30
LEAVE = "The office is grey. Leave lasts thirty days a year. Managers sign the form. Unused leave days expire in March."
PAY = "Wages come monthly. The canteen opens at noon."
TABLE = "Rates follow.\n\n| grade | days of leave |\n| - | - |\n| junior | 20 |\n| senior | 30 |\n\nEnd of the table."


def request(query: str = "How many days of leave?", number: int = 0, language: str = "en") -> Request:
    return Request(f"q{number}", query, Principal("t"), "t", datetime(2026, 1, 1, tzinfo=UTC), language=language)


def passage(text: str, number: int = 1, start: int = 0, **fields: object) -> Passage:
    name = f"d{number}"
    given = {"title": "", "language": "en", "tokens": len(text.split())} | fields
    return Passage(number, number - 1, f"{name}#0", name, "1", "", text=text, span=(start, start + len(text)), **given)  # type: ignore[arg-type]


def context(*passages: Passage, number: int = 0) -> Context:
    return Context(f"q{number}", passages, (), int(READER.prompt_tokens([request()], [passages])[0]))


def one(found: Compression) -> list[str]:
    return [passage.text for passage in found.contexts[0].passages]


def run(sentences: float, *passages: Passage, cap: int = OPEN, query: str = "How many days of leave?") -> Compression:
    return compress([request(query)], [context(*passages)], READER, np.array([cap]), sentences)


def test_the_best_sentences_stay_whole_and_keep_their_spans() -> None:
    found = run(2, passage(LEAVE, start=100), passage(PAY, 2))
    assert one(found) == ["Leave lasts thirty days a year.", "Unused leave days expire in March."]
    begin = LEAVE.index("Leave"), LEAVE.index("Unused")
    kept = found.contexts[0].passages
    assert [p.span for p in kept] == [(100 + begin[0], 100 + begin[0] + 31), (100 + begin[1], 100 + len(LEAVE))]
    assert [(p.number, p.document_id, p.row, p.tokens) for p in kept] == [(1, "d1", 0, 7), (2, "d1", 0, 7)]
    assert found.contexts[0].dropped == ((1, "compressed"),)
    assert (found.sentences.tolist(), found.kept.tolist()) == ([6], [2])
    # Question: 6. Whole: [1] (3) + 24 and [2] (3) + 10. Two runs of 7 under headers of 3.
    assert found.whole.tolist() == [46]
    assert found.granted.tolist() == found.wanted.tolist() == [26]
    assert found.contexts[0].prompt_tokens == 26


def test_neighbours_are_one_passage() -> None:
    text = "Leave days last. Leave days expire. The door is red. The office is grey. Leave days need a form."
    assert one(run(3, passage(text))) == ["Leave days last. Leave days expire.", "Leave days need a form."]


def test_a_share_is_rounded_up() -> None:
    assert run(0.01, passage(LEAVE)).kept.tolist() == [1]
    assert run(0.26, passage(LEAVE)).kept.tolist() == [2]


def test_more_sentences_than_there_are_is_the_whole_context() -> None:
    found = run(9, passage(LEAVE, start=7), passage(PAY, 2, lead="x"))
    assert found.contexts[0] == context(passage(LEAVE, start=7, tokens=24), passage(PAY, 2, lead="x", tokens=10))
    assert found.kept.tolist() == [6]
    assert found.granted.tolist() == found.whole.tolist()


def test_what_would_not_save_a_token_stays_whole() -> None:
    # Three sentences of one word, of which the first and the last are chosen: two headers for one word saved.
    found = run(2, passage("Leave. Pay. Leave."), query="Leave?")
    assert one(found) == ["Leave. Pay. Leave."]
    assert found.granted.tolist() == found.whole.tolist()


def test_a_table_row_keeps_its_header_as_lead() -> None:
    found = run(1, passage(TABLE), query="How many days of leave for a senior?")
    assert [(p.text, p.lead) for p in found.contexts[0].passages] == [("| senior | 30 |", "| grade | days of leave |")]
    cut = run(1, passage("| junior | 20 |\n| senior | 30 |", lead="| grade | days |"), query="What does a senior get?")
    assert [(p.text, p.lead) for p in cut.contexts[0].passages] == [("| senior | 30 |", "| grade | days |")]


def test_a_list_item_keeps_the_line_before_the_list() -> None:
    text = "Staff rules are old.\n\nThese are paid:\n- sick leave\n- parental leave\n- jury duty"
    found = run(1, passage(text), query="Is parental leave paid?")
    assert [(p.text, p.lead) for p in found.contexts[0].passages] == [("- parental leave", "These are paid:")]


def test_chinese_sentences() -> None:
    text = "办公室是灰色的。员工每年有三十天年假。食堂中午开门。"
    found = run(1, passage(text, language="zh"), query="员工有多少天年假？")
    assert one(found) == ["员工每年有三十天年假。"]
    assert found.contexts[0].passages[0].span == (8, 19)


def test_the_cap_is_never_passed_and_the_least_relevant_go_first() -> None:
    whole = passage(LEAVE), passage(PAY, 2)
    for cap in range(60):
        found = run(3, *whole, cap=cap)
        assert found.contexts[0].prompt_tokens <= max(cap, 6)  # the question itself is never cut
        assert found.contexts[0].prompt_tokens == READER.prompt_tokens([request()], [found.contexts[0].passages])[0]
    assert one(run(3, *whole, cap=26)) == ["Leave lasts thirty days a year.", "Unused leave days expire in March."]
    assert len(one(run(3, *whole, cap=25))) == 1
    assert one(run(3, *whole, cap=15)) == []
    found = run(3, *whole, cap=15)
    assert found.contexts[0].dropped == ((0, "compressed"), (1, "compressed"))
    assert found.wanted[0] > found.granted[0] == 6


def test_a_context_that_fits_only_when_compressed_is_compressed() -> None:
    assert one(run(2, passage("Leave. Pay. Leave."), cap=7, query="Leave?")) == ["Leave."]


def test_nothing_to_compress() -> None:
    found = compress(
        [request(), request("", 1)], [Context("q0"), context(passage("```\n```"))], READER, np.array([9, 9]), 0.5
    )
    assert [c.passages for c in found.contexts] == [(), ()]
    assert found.sentences.tolist() == [0, 0]
    assert compress([], [], READER, np.zeros(0, dtype=np.int64), 0.5).contexts == []


def test_an_encoder_finds_what_shares_no_word() -> None:
    class Topics:
        name, version, dimension, max_tokens, languages = "topics", "1", 2, 100, frozenset({"en"})

        def encode_queries(self, texts):
            return self.encode_passages(texts)

        def encode_passages(self, texts):
            holiday = [any(w in text.lower() for w in ("leave", "vacation")) for text in texts]
            return np.array([[1.0, 0.0] if found else [0.0, 1.0] for found in holiday], dtype=np.float32)

    text = passage("The office is grey. Vacation lasts thirty. The canteen opens late.")
    assert one(run(1, text, query="Leave?")) == ["The office is grey."]
    found = compress([request("Leave?")], [context(text)], READER, np.array([OPEN]), 1, Similarity(Topics()))  # type: ignore[arg-type]
    assert one(found) == ["Vacation lasts thirty."]


sentence = st.sampled_from(
    [
        "Leave lasts long.",
        "Days pass. ",
        "- an item\n",
        "| a | b |\n",
        "Pay is due!",
        "\n\n",
        "休假三十天。",
        "# Head\n",
        "  x",
    ]
)


@given(
    st.lists(st.lists(sentence, min_size=1, max_size=8).map("".join), max_size=4),
    st.sampled_from([0.3, 0.5, 1, 2, 5]),
    st.integers(0, 60),
)
def test_every_piece_is_a_run_of_whole_sentences_of_its_passage(texts: list[str], sentences: float, cap: int) -> None:
    before = context(*(passage(text, number, 10 * number) for number, text in enumerate(texts, 1)))
    found = compress([request()], [before], READER, np.array([cap]), sentences)
    after = found.contexts[0]
    whole = {p.document_id: p for p in before.passages}
    assert after.prompt_tokens == READER.prompt_tokens([request()], [after.passages])[0] <= max(cap, 6)
    assert [p.number for p in after.passages] == list(range(1, len(after.passages) + 1))
    spans = [(p.document_id, *p.span) for p in after.passages]
    assert spans == sorted(set(spans))
    if found.kept[0] == found.sentences[0] and after.prompt_tokens == found.whole[0]:
        assert [(p.text, p.span) for p in after.passages] == [(p.text, p.span) for p in before.passages]
        return
    count = 0
    for piece in after.passages:
        source = whole[piece.document_id]
        start, end = piece.span[0] - source.span[0], piece.span[1] - source.span[0]
        assert source.text[start:end] == piece.text
        bounds = split_sentences(source.text)
        assert start in {a for a, _ in bounds}
        assert end in {b for _, b in bounds}
        count += sum(start <= a and b <= end for a, b in bounds)
    assert count == found.kept[0]
    assert {p.row for p in after.passages} | {row for row, _ in after.dropped} == {p.row for p in before.passages}
