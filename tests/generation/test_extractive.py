"""The extractive reader."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from rag_lab.context import EMPTY_SCOPE
from rag_lab.contracts import (
    Abstention,
    Answer,
    Completion,
    Context,
    IntArray,
    Passage,
    RagLabError,
    Reason,
    Request,
    Span,
)
from rag_lab.generation.answer_types import answer_type, comparable, differ, fit, quantities
from rag_lab.generation.calibration import calibrate
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.generation.prompts import block, language
from rag_lab.generation.support import background_idf, measure
from rag_lab.generation.terms import count_tokens
from rag_lab.metrics.answers import answer_text

NOW = datetime(2026, 9, 10, 9, tzinfo=UTC)

POLICY = "This policy covers journeys on business. The travel allowance is 500 per day. Receipts are kept for a year."
NOTICE = "The travel allowance is 600 per day from 15 September 2026. Questions go to the finance desk."


def passage(
    text: str, number: int = 1, document: str = "d", title: str = "", start: int = 0, version: str = "1"
) -> Passage:
    span = (start, start + len(text))
    return Passage(number, number, f"{document}#{number}", document, version, f"file:{document}", title, text, span, "")


def ask(
    query: str, *passages: Passage, reader: ExtractiveReader | None = None, room: int = 200, time: datetime = NOW
) -> Completion:
    request = Request("q", query, None, "t", time)
    (made,) = (reader or ExtractiveReader()).generate(
        [request], [Context("q", passages)], np.array([room], dtype=np.int32)
    )
    return made


def answer(query: str, *passages: Passage, **options: object) -> Answer:
    outcome = ask(query, *passages, **options).outcome  # type: ignore[arg-type]
    assert isinstance(outcome, Answer), outcome
    return outcome


# --- quoting --------------------------------------------------------------------------------------------------------


def test_it_quotes_the_sentence_that_covers_the_question() -> None:
    document = "Preface. " + POLICY
    got = answer("How much is the travel allowance?", passage(document[9:], start=9, version="3"))
    (claim,) = got.claims
    (source,) = claim.sources
    assert got.text == claim.text == source.quote == "The travel allowance is 500 per day."
    assert document[slice(*source.span)] == source.quote
    assert (source.document_id, source.source_version, source.chunk_id, source.uri) == ("d", "3", "d#1", "file:d")
    assert got.confidence is not None
    assert 0 < got.confidence <= 1


def test_chinese() -> None:
    text = "本制度适用于所有员工。出差补贴为每天500元。发票保存一年。"
    assert answer("出差每天补贴多少钱？", passage(text)).text == "出差补贴为每天500元。"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What is the daily rate for Berlin?", "| Berlin | 120 EUR |"),
        ("What do visitors have to bring?", "- a passport"),
        ("How long may I park?", "Two hours."),
    ],
)
def test_tables_lists_and_questions_lead_to_what_follows_them(query: str, expected: str) -> None:
    text = (
        "| City | Daily rate |\n|---|---|\n| Berlin | 120 EUR |\n| Paris | 140 EUR |\n\n"
        "Visitors have to bring:\n- a passport\n- a badge\n\nHow long may I park? Two hours."
    )
    assert answer(query, passage(text)).text == expected


def test_the_kind_of_answer_asked_for_decides_between_equals() -> None:
    text = "The bridge was opened by the mayor of the town. The bridge was opened in 1932 after much delay."
    assert answer("When was the bridge opened?", passage(text)).text.startswith("The bridge was opened in 1932")


def test_a_result_does_not_depend_on_the_rest_of_the_batch() -> None:
    queries = ["How much is the travel allowance?", "How long are receipts kept?", "Where do questions go?"]
    requests = [Request(str(i), query, None, "t", NOW) for i, query in enumerate(queries)]
    contexts = [Context(str(i), (passage(POLICY), passage(NOTICE, 2, "n"))) for i in range(3)]
    room = np.full(3, 100, dtype=np.int32)
    together = [c.outcome for c in ExtractiveReader().generate(requests, contexts, room)]
    alone = [
        ExtractiveReader().generate([r], [c], room[:1])[0].outcome for r, c in zip(requests, contexts, strict=True)
    ]
    assert together == alone


def test_background_weights_are_used() -> None:
    idf = background_idf(["zebra crossing", "zebra stripes", "zebra"])
    assert idf[""] == pytest.approx(np.log(1 + 3 / 0.5))
    assert idf["zebra"] == pytest.approx(np.log(1 + 3 / 3.5))
    text = "A zebra is an animal. The stripes are black."
    got = measure(["zebra stripes"], [Context("q", (passage(text),))], idf)
    assert got.confidence[1] > got.confidence[0]
    assert ExtractiveReader(idf=idf).version != ExtractiveReader().version


# --- abstaining -----------------------------------------------------------------------------------------------------


def test_it_abstains_below_its_threshold_and_says_how_sure_it_was() -> None:
    reader = ExtractiveReader(threshold=0.5)
    outcome = ask("Who painted the ceiling of the chapel?", passage(POLICY), reader=reader).outcome
    assert isinstance(outcome, Abstention)
    assert outcome.reason is Reason.INSUFFICIENT
    assert outcome.confidence is not None
    assert outcome.confidence < 0.5
    assert isinstance(ask("How much is the travel allowance?", passage(POLICY), reader=reader).outcome, Answer)
    never = reader.with_threshold(None)
    assert isinstance(ask("Who painted the ceiling?", passage(POLICY), reader=never).outcome, Answer)
    assert len({never.version, reader.version, ExtractiveReader(threshold=0.4).version}) == 3


def test_nothing_to_read() -> None:
    request = Request("q", "How much?", None, "t", NOW)
    room = np.array([9, 9], dtype=np.int32)
    contexts = [Context("q"), Context("q", (), (EMPTY_SCOPE,))]
    insufficient, unauthorised = (c.outcome for c in ExtractiveReader().generate([request, request], contexts, room))
    assert isinstance(insufficient, Abstention)
    assert isinstance(unauthorised, Abstention)
    assert insufficient.reason is Reason.INSUFFICIENT
    assert unauthorised.reason is Reason.NO_AUTHORISED_EVIDENCE


def test_a_blank_passage_and_a_question_without_terms() -> None:
    assert isinstance(ask("How much?", passage(" \n ")).outcome, Abstention)
    assert isinstance(ask("what?", passage(POLICY)).outcome, Answer)


def test_the_threshold_must_be_a_number() -> None:
    with pytest.raises(RagLabError, match="threshold"):
        ExtractiveReader(threshold=float("nan"))


# --- time and conflict ----------------------------------------------------------------------------------------------


def travel() -> tuple[Passage, Passage]:
    return passage(NOTICE, 1, "notice", "Notice of 1 September"), passage(
        POLICY, 2, "policy", "Travel policy", version="3"
    )


def test_an_announced_change_is_not_the_answer_yet_but_is_named() -> None:
    got = answer("How much is the travel allowance per day?", *travel())
    main, coming = got.claims
    assert got.text == main.text == "The travel allowance is 500 per day."
    assert main.kind == "answer"
    assert coming.kind == "upcoming"
    assert coming.text == "The travel allowance is 600 per day from 15 September 2026."
    assert coming.sources[0].document_id == "notice"


def test_once_it_holds_or_when_asked_for_it_the_change_is_the_answer() -> None:
    query = "How much is the travel allowance per day?"
    later = answer(query, travel()[0], time=datetime(2026, 9, 15, tzinfo=UTC))
    assert "600" in later.text
    assert later.claims[0].kind == "answer"
    ahead = answer("How much is the travel allowance per day from 15 September 2026?", *travel())
    assert "600" in ahead.claims[0].text


def abstention(query: str, *passages: Passage, **options: object) -> Abstention:
    outcome = ask(query, *passages, **options).outcome  # type: ignore[arg-type]
    assert isinstance(outcome, Abstention), outcome
    return outcome


def test_an_announcement_alone_is_told_and_does_not_answer() -> None:
    got = abstention("How much is the travel allowance per day?", travel()[0])
    assert got.reason is Reason.INSUFFICIENT
    assert got.text == "Not in force yet: The travel allowance is 600 per day from 15 September 2026."
    assert [source.quote for source in got.sources] == ["The travel allowance is 600 per day from 15 September 2026."]
    assert answer_text(got) == ""


COMING = {"valid_from": datetime(2026, 9, 15, tzinfo=UTC), "coming": True}


@pytest.mark.parametrize(
    ("query", "now", "then", "told"),
    [
        (
            "How much is the travel allowance per day from 15 September 2026?",
            "On journeys 500 EUR per day are paid as travel allowance.",
            "The travel allowance is 600 EUR per day.",
            "Not in force yet: The travel allowance is 600 EUR per day.",
        ),
        (
            "即将执行的出差补贴每天多少元？",
            "出差期间每天的补贴为500元。",
            "出差补贴为每天600元。",
            "尚未生效：出差补贴为每天600元。",
        ),
    ],
)
def test_a_passage_that_is_coming_never_answers_even_when_asked_for(query: str, now: str, then: str, told: str) -> None:
    coming = replace(passage(then, 1, "new"), **COMING)
    got = answer(query, coming, passage(now, 2, "old"))
    assert [(c.kind, c.text) for c in got.claims] == [("answer", now), ("upcoming", then)]
    assert answer_text(got) == now
    alone = ask(query, coming)
    assert isinstance(alone.outcome, Abstention)
    assert (alone.outcome.reason, alone.outcome.text) == (Reason.INSUFFICIENT, told)
    assert alone.outcome.sources[0].quote == then
    assert alone.output_tokens == int(ExtractiveReader().count_tokens([told])[0])
    short = ask(query, coming, room=4)
    assert short.output_tokens == 4
    assert isinstance(short.outcome, Abstention)
    assert short.outcome.sources == alone.outcome.sources


def test_a_validity_that_has_not_begun_is_enough_to_be_coming() -> None:
    early = replace(passage("The travel allowance is 600 EUR per day.", 1, "new"), valid_from=COMING["valid_from"])
    assert isinstance(ask("How much is the travel allowance?", early).outcome, Abstention)
    later = answer("How much is the travel allowance?", early, time=datetime(2026, 9, 15, tzinfo=UTC))
    assert later.claims[0].kind == "answer"


def test_chinese_announcement_and_title() -> None:
    notice = passage("自2026年9月15日起，出差补贴为每天600元。", 1, "notice")
    policy = passage("出差补贴为每天500元。", 2, "policy")
    got = answer("出差补贴每天多少元？", notice, policy)
    assert [(c.kind, c.text[-5:]) for c in got.claims] == [("answer", "500元。"), ("upcoming", "600元。")]
    titled = passage("The travel allowance is 600 per day.", 1, "n", "Rules from 15 September 2026")
    assert "500" in answer("How much is the travel allowance per day?", titled, travel()[1]).text


def test_a_conflict_stays_visible() -> None:
    one = passage("The visitor badge fee is 20 EUR.", 1, "a")
    other = passage("The visitor badge fee is 25 EUR.", 2, "b")
    got = answer("How much is the visitor badge fee?", one, other)
    assert [c.text for c in got.claims] == ["The visitor badge fee is 20 EUR.", "The visitor badge fee is 25 EUR."]
    assert got.text == "The visitor badge fee is 20 EUR.\nAlso stated: The visitor badge fee is 25 EUR."
    same = passage("The visitor badge fee is 20 EUR in all offices.", 2, "b")
    assert len(answer("How much is the visitor badge fee?", one, same).claims) == 1


def test_a_conflict_of_names_stays_visible() -> None:
    one = passage("The visitor badge is signed by Mr Okafor.", 1, "a")
    other = passage("The visitor badge is signed by Ms Marlow.", 2, "b")
    got = answer("Who signs the visitor badge?", one, other)
    assert [c.text for c in got.claims] == [one.text, other.text]
    same = passage("At noon the visitor badge is signed by Dr Okafor.", 2, "b")
    assert len(answer("Who signs the visitor badge?", one, same).claims) == 1
    assert len(answer("Why is the visitor badge signed by anybody?", one, other).claims) == 1


def test_the_later_publication_does_not_settle_a_conflict() -> None:
    old = replace(passage("The visitor badge fee is 20 EUR.", 1, "a"), published_at=datetime(2020, 1, 1, tzinfo=UTC))
    new = replace(passage("The visitor badge fee is 25 EUR.", 2, "b"), published_at=datetime(2026, 9, 1, tzinfo=UTC))
    for equal in (0, 5):
        pair = [replace(p, precedence=equal) for p in (old, new)]
        got = answer("How much is the visitor badge fee?", *pair)
        assert [source.document_id for claim in got.claims for source in claim.sources] == ["a", "b"]


def test_a_conflict_without_room_for_both_is_not_hidden() -> None:
    one = passage("The visitor badge fee is 20 EUR.", 1, "a")
    other = passage("The visitor badge fee is 25 EUR.", 2, "b")
    made = ask("How much is the visitor badge fee?", one, other, room=17)
    assert isinstance(made.outcome, Abstention)
    assert made.outcome.reason is Reason.CONFLICTING
    assert [source.document_id for source in made.outcome.sources] == ["a", "b"]
    assert made.output_tokens == 0
    assert isinstance(ask("How much is the visitor badge fee?", one, other, room=19).outcome, Answer)


BADGE = "How much is the visitor badge fee?"
ARTICLE = "How much is the visitor badge fee? The visitor badge fee is 20 EUR."
BADGE_POLICY = "Reception hands out a badge to each visitor against payment of 25 EUR."


@pytest.mark.parametrize(("stronger", "weaker"), [(0, 1), (0, 2), (1, 2), (3, 4), (4, 8), (7, 8), (8, 12), (0, 15)])
@pytest.mark.parametrize("strong_first", [True, False])
def test_the_lower_precedence_answers_however_alike_the_other_is(
    stronger: int, weaker: int, strong_first: bool
) -> None:
    strong = replace(passage(BADGE_POLICY, 1 if strong_first else 2, "strong"), precedence=stronger)
    weak = replace(passage(ARTICLE, 2 if strong_first else 1, "weak"), precedence=weaker)
    context = (strong, weak) if strong_first else (weak, strong)
    measured = measure([BADGE], [Context("q", context)])
    confidence = dict(zip(measured.texts, measured.confidence, strict=True))
    assert confidence["The visitor badge fee is 20 EUR."] > confidence[BADGE_POLICY] + 0.15
    got = answer(BADGE, *context)
    assert got.text == BADGE_POLICY
    assert [source.document_id for claim in got.claims for source in claim.sources] == ["strong"]


@pytest.mark.parametrize(
    ("query", "article", "policy"),
    [
        (BADGE, "The visitor badge fee is 20 EUR.", "For a visitor the badge costs €25."),
        ("How many years is the warranty?", "The warranty is 24 months.", "A warranty of three years is given."),
        ("When does the counter close?", "The counter does close at 17:00.", "We close each counter at 18:00."),
    ],
)
def test_values_in_other_units_and_words_are_compared(query: str, article: str, policy: str) -> None:
    weak = replace(passage(article, 1, "article"), precedence=4)
    assert [c.text for c in answer(query, weak, passage(policy, 2, "policy")).claims] == [policy]


def test_precedence_decides_in_chinese_tables_too() -> None:
    card = replace(passage("| 设备 | 校准周期 |\n|---|---|\n| 恒温槽 | 12 个月 |", 1, "card"), precedence=4)
    rule = passage("| 设备 | 校准周期 |\n|---|---|\n| 湿度发生器 | 3 个月 |\n| 恒温槽 | 6 个月 |", 2, "rule")
    assert [c.text for c in answer("恒温槽的校准周期是多久？", card, rule).claims] == ["| 恒温槽 | 6 个月 |"]


def test_a_title_may_name_the_subject() -> None:
    article = replace(passage("The visitor badge fee is 20 EUR.", 1, "article"), precedence=4)
    policy = passage("It is 25 EUR.", 2, "policy", title="Visitor badge fee")
    assert answer(BADGE, article, policy).text == "It is 25 EUR."


@pytest.mark.parametrize(
    "unrelated",
    [
        "The locker fee is 5 EUR a week.",
        "A visitor badge is valid for 3 days.",
        "The visitor badge has the colour of the day.",
    ],
)
def test_a_higher_standing_does_not_answer_another_question(unrelated: str) -> None:
    article = replace(passage("The visitor badge fee is 20 EUR.", 2, "article"), precedence=4)
    assert answer(BADGE, passage(unrelated, 1, "policy"), article).text == "The visitor badge fee is 20 EUR."


def test_what_is_no_value_is_decided_by_precedence_too() -> None:
    article = replace(passage("The visitor badge is signed by Ms Marlow.", 1, "article"), precedence=4)
    policy = passage("The badge of a visitor is signed by Mr Okafor at noon.", 2, "policy")
    got = answer("Who signs the visitor badge?", article, policy)
    assert [c.sources[0].document_id for c in got.claims] == ["policy"]


def test_below_the_threshold_a_sentence_supports_nothing() -> None:
    weak = replace(passage("The visitor badge fee is 20 EUR.", 1, "weak"), precedence=4)
    strong = passage(BADGE_POLICY, 2, "strong")
    reader = ExtractiveReader(threshold=0.9)
    assert answer(BADGE, weak, strong, reader=reader).text == "The visitor badge fee is 20 EUR."


def test_of_two_announcements_the_lower_precedence_is_told() -> None:
    article = replace(passage("The travel allowance is 650 EUR per day.", 1, "article"), precedence=4, **COMING)
    policy = replace(passage("The allowance for travel will be 600 EUR per day.", 2, "policy"), **COMING)
    got = abstention("How much is the travel allowance per day?", article, policy)
    assert [source.document_id for source in got.sources] == ["policy"]


def test_across_languages_the_sentences_own_terms_name_the_subject() -> None:
    reader = ExtractiveReader(encoder=TopicEncoder())
    article = replace(passage("The allowance is 600 EUR per day.", 1, "article"), precedence=4)
    policy = passage("The allowance is 500 EUR per day.", 2, "policy")
    assert answer("补贴是多少？", article, policy, reader=reader).claims[0].sources[0].document_id == "policy"


# --- tables that were cut -------------------------------------------------------------------------------------------


def test_the_rows_of_a_cut_table_are_read_under_its_header() -> None:
    rows = "| Berlin | 120 EUR |\n| Paris | 140 EUR |\n\nBreakfast is paid extra."
    cut = replace(passage(rows, start=70), lead="| City | Daily rate |\n|---|---|")
    got = answer("What is the daily rate for Berlin?", cut)
    (source,) = got.claims[0].sources
    assert (got.text, source.span) == ("| Berlin | 120 EUR |", (70, 90))
    found = measure(["What is the daily rate for Berlin?"], [Context("q", (cut,))])
    assert found.leads == [cut.lead, cut.lead, "| Paris | 140 EUR |"]
    assert found.confidence[0] > found.confidence[1] > 0
    headless = measure(["What is the daily rate for Berlin?"], [Context("q", (replace(cut, lead=""),))])
    assert headless.confidence[0] == 0


# --- tokens ---------------------------------------------------------------------------------------------------------


def test_tokens_are_accounted_for() -> None:
    made = ask("How much is the travel allowance?", passage(POLICY, title="Travel"))
    assert made.llm_calls == 0
    assert made.output_tokens == 8
    question, header = 7, int(ExtractiveReader().count_tokens(["[1] Travel"])[0])
    assert made.prompt_tokens == question + header + int(ExtractiveReader().count_tokens([POLICY])[0])


def test_the_answer_fits_its_cap_and_stays_verbatim() -> None:
    got = answer("How much is the travel allowance?", passage(POLICY), room=5)
    assert got.text == "The travel allowance is 500"
    assert POLICY[slice(*got.claims[0].sources[0].span)] == got.text
    assert ask("How much is the visitor badge fee?", passage(POLICY), room=5).output_tokens <= 5
    refused = ask("How much is the travel allowance?", passage(POLICY), room=0).outcome
    assert isinstance(refused, Abstention)
    assert refused.reason is Reason.OVER_BUDGET


# --- with an encoder ------------------------------------------------------------------------------------------------


class TopicEncoder:
    """Two topics, money and animals, in any language."""

    name, version, dimension, max_tokens = "topics", "topics-1", 3, 64
    languages = frozenset({"en", "zh"})

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def _vectors(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        topics = (("allowance", "补贴", "per diem"), ("zebra", "斑马"))
        rows = [[float(any(w in text for w in words)) for words in topics] for text in texts]
        vectors = np.array([[*row, 0.0 if any(row) else 1.0] for row in rows], dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def encode_queries(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._vectors(texts)

    def encode_passages(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.encoded.extend(texts)
        return self._vectors(texts)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        return np.array([len(text.split()) for text in texts], dtype=np.int32)

    def token_spans(self, text: str) -> list[Span]:
        return []


def test_an_encoder_bridges_languages_and_encodes_each_sentence_once() -> None:
    encoder = TopicEncoder()
    reader = ExtractiveReader(encoder=encoder)
    text = "The zebra is an animal. The allowance is 500 per day. It is late."
    assert "500" in answer("补贴是多少？", passage(text), reader=reader).text
    assert "500" in answer("what per diem?", passage(text), reader=reader).text
    sentences = [sentence for sentence in encoder.encoded if sentence in text]
    assert len(sentences) == len(set(sentences)) == 3
    assert reader.version != ExtractiveReader().version


# --- kinds and values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How many rooms are there?", "number"),
        ("When did it open?", "date"),
        ("Who signed it?", "person"),
        ("Why was it closed?", "reason"),
        ("Where is the office?", "place"),
        ("Which error code means no paper?", "code"),
        ("What is a badge?", None),
        ("有多少个房间？", "number"),
        ("什么时候开放？", "date"),
        ("谁签署的？", "person"),
        ("为什么关闭？", "reason"),
        ("办公室在哪里？", "place"),
    ],
)
def test_kind_of_question(question: str, kind: str | None) -> None:
    assert answer_type(question) == kind


def test_whether_a_sentence_names_the_kind() -> None:
    assert fit("number", "", "There are three.") == 1
    assert fit("number", "", "There are some.") == 0
    assert fit("person", "Who led Rome?", "In time Caesar led Rome.") == 1
    assert fit("person", "Who led Rome?", "He led Rome.") == 0
    assert fit("person", "谁？", "他。") == 0.5
    assert fit(None, "", "") == 0.5


def test_values_by_unit() -> None:
    assert quantities("€1,200 or 5% of 3 days") == {"€": {"1200"}, "%": {"5"}, "day": {"3"}}
    assert quantities("每天500元") == {"元": {"500"}}
    assert quantities("09:00 to 17：30 on 2 days or at 1:02:03") == {":": {"9:00", "17:30", "1:02:03"}, "day": {"2"}}
    assert differ("20 EUR", "25 EUR")
    assert not differ("20 EUR", "20 EUR and 3 days")
    assert not differ("20 EUR", "3 days")
    assert quantities("三年 12 个月 3 个小时 2 个 6 个工作日 9月") == {
        "个月": {"12"},
        "小时": {"3"},
        "个": {"2"},
        "工作日": {"6"},
        "月": {"9"},
    }
    assert quantities("Two years, three for one") == {"year": {"2"}, "for": {"3"}}
    assert comparable("25 EUR", "a fee of €20")
    assert comparable("24 months", "two years")
    assert comparable("12 个月", "1 年")
    assert not comparable("24 months", "20 EUR")
    assert differ("closes at 17:00 on Friday", "closes at 18:00 on Friday")


# --- on real questions ----------------------------------------------------------------------------------------------


def _gold_paragraphs(folder: Path, limit: int) -> tuple[list[Request], list[Context], list[dict[str, object]]]:
    def rows(name: str) -> list[dict[str, object]]:
        text = (folder / name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n") if line]

    documents = {str(row["_id"]): row for row in rows("corpus.jsonl")}
    questions = {str(row["_id"]): str(row["text"]) for row in rows("queries.jsonl")}
    # Every k-th question, so that all articles take part.
    every = rows("answers.jsonl")
    facts = every[:: max(1, len(every) // limit)]
    requests, contexts = [], []
    for fact in facts:
        query_id = str(fact["_id"])
        place = str(fact.get("context") or fact["gold"][0])  # type: ignore[index]
        text, title = str(documents[place]["text"]), str(documents[place]["title"])
        requests.append(Request(query_id, questions[query_id], None, "t", NOW))
        contexts.append(Context(query_id, (passage(text, 1, place, title),)))
    return requests, contexts, facts


def _right(completion: Completion, fact: dict[str, object]) -> bool:
    outcome = completion.outcome
    gold = [str(text).lower() for text in fact["answers"]]  # type: ignore[attr-defined]
    return isinstance(outcome, Answer) and any(text in outcome.claims[0].text.lower() for text in gold)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "least"), [("squad2-dev", 0.84), ("cmrc2018-dev", 0.77)])
def test_the_quoted_sentence_of_the_gold_paragraph_holds_the_answer(shared_data: Path, name: str, least: float) -> None:
    requests, contexts, facts = _gold_paragraphs(shared_data / name, 1200)
    made = ExtractiveReader().generate(requests, contexts, np.full(len(requests), 1000, dtype=np.int32))
    right = np.array([_right(c, f) for c, f in zip(made, facts, strict=True)])
    answerable = np.array([bool(fact["answerable"]) for fact in facts])
    assert right[answerable].mean() >= least
    for completion, context in zip(made, contexts, strict=True):
        assert isinstance(completion.outcome, Answer)
        source = completion.outcome.claims[0].sources[0]
        assert context.passages[0].text[slice(*source.span)] == source.quote
    if not answerable.all():
        confidences = [c.outcome.confidence for c in made]  # type: ignore[union-attr]
        assert calibrate(confidences, right, answerable).auc > 0.57  # type: ignore[arg-type]


def test_the_time_of_encoding_is_charged_to_whoever_uses_a_text(hash_encoder) -> None:
    class Slow(type(hash_encoder)):
        def encode_passages(self, texts):
            time.sleep(0.02 * len(texts))
            return super().encode_passages(texts)

    reader = ExtractiveReader(encoder=Slow())
    lamp = passage("The lamp is red. The door is blue.")
    first, second = (ask("What colour is the lamp?", lamp, reader=reader) for _ in range(2))
    assert first.outcome == second.outcome
    assert first.ms >= 40
    assert second.ms >= 40


@pytest.mark.parametrize("options", [{"threshold": "high"}, {"encoder": 5}, {"idf": 0.5}])
def test_an_option_of_the_wrong_type_is_refused(options: dict[str, Any]) -> None:
    from rag_lab.generation import load_generator

    with pytest.raises(RagLabError, match="generator extractive: "):
        load_generator("extractive", **options)


def test_a_prompt_has_the_tokens_of_its_question_and_of_each_passage_as_it_stands_there() -> None:
    passages = [
        replace(passage(text, number, title=title), lead=lead, valid_from=NOW)
        for number, (text, lead, title) in enumerate(
            [(POLICY, "", "Travel"), (NOTICE, "city | rate\n", ""), ("出差津贴为500元。", "", "津贴")], 1
        )
    ]
    requests = [Request("a", "What is paid?", None, "t", NOW), Request("b", "津贴是多少？", None, "t", NOW)]
    contexts = [passages, passages[:1], (), passages[1:]]
    asked = [requests[0], requests[1], requests[0], requests[1]]
    expected = [
        sum(count_tokens([text])[0] for text in (r.query, *(block(p, language(r)) for p in c)))
        for r, c in zip(asked, contexts, strict=True)
    ]
    assert ExtractiveReader().prompt_tokens(asked, contexts).tolist() == expected
    both = ExtractiveReader().prompt_tokens(requests, [passages, passages])
    assert both[0] - count_tokens([requests[0].query])[0] != both[1] - count_tokens([requests[1].query])[0]
