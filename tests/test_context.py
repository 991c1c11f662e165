"""Assembly of contexts: budget, duplicates, overlaps, order and provenance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.context import EMPTY_SCOPE, assemble, has_empty_scope
from rag_lab.contracts import Completion, Context, IntArray, Passage, RagLabError, Ranking, Request
from rag_lab.generation.extractive import ExtractiveReader
from rag_lab.passages import renumbered, whole_documents

NOW = datetime(2026, 9, 10, tzinfo=UTC)


def words(text: str) -> int:
    return len(text.split())


@dataclass
class WordGenerator:
    """Counts white-space words: 10 of instructions, the question, and a header of two words for each passage."""

    name: str = "words"
    version: str = "1"
    window: int | None = None
    header: int = 2
    prompts_counted: int = 0
    texts_counted: list[str] = field(default_factory=list)

    def count_tokens(self, texts: Sequence[str]) -> IntArray:
        self.texts_counted.extend(texts)
        return np.array([words(text) for text in texts], dtype=np.int32)

    def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Sequence[Passage]]) -> IntArray:
        self.prompts_counted += len(requests)
        return np.array(
            [
                10 + words(r.query) + sum(self.header + words(p.lead) + words(p.text) for p in c)
                for r, c in zip(requests, contexts, strict=True)
            ],
            dtype=np.int32,
        )

    def generate(
        self, requests: Sequence[Request], contexts: Sequence[Context], output_tokens: IntArray
    ) -> list[Completion]:
        raise NotImplementedError


@dataclass
class Table:
    shown: list[str] = field(default_factory=list)
    lead: list[str] = field(default_factory=list)
    title: list[str] = field(default_factory=list)
    document_id: list[str] = field(default_factory=list)
    chunk_id: list[str] = field(default_factory=list)
    shown_start: list[int] = field(default_factory=list)
    shown_end: list[int] = field(default_factory=list)
    content_hash: list[str] = field(default_factory=list)
    language: list[str] = field(default_factory=list)
    source_uri: list[str] = field(default_factory=list)
    source_version: list[str] = field(default_factory=list)
    valid_from: list[datetime | None] = field(default_factory=list)
    valid_until: list[datetime | None] = field(default_factory=list)
    published_at: list[datetime | None] = field(default_factory=list)
    status: list[str] = field(default_factory=list)
    authority: list[str] = field(default_factory=list)
    tenant: list[str] = field(default_factory=list)
    source_trust: list[str] = field(default_factory=list)

    def add(
        self,
        document: str,
        full: str,
        start: int = 0,
        end: int | None = None,
        version: str = "1",
        lead: str = "",
        valid: tuple[datetime | None, datetime | None] = (None, None),
        published: datetime | None = None,
        standing: tuple[str, str, str, str] = ("active", "policy", "t", "primary"),
    ) -> int:
        end = len(full) if end is None else end
        row = len(self.shown)
        self.shown.append(full[start:end])
        self.lead.append(lead)
        self.title.append(f"Title of {document}")
        self.document_id.append(document)
        self.chunk_id.append(f"{document}#{start}-{end}")
        self.shown_start.append(start)
        self.shown_end.append(end)
        self.content_hash.append(str(hash(full[start:end])))
        self.language.append("en")
        self.source_uri.append(f"file:{document}")
        self.source_version.append(version)
        self.valid_from.append(valid[0])
        self.valid_until.append(valid[1])
        self.published_at.append(published)
        for column, value in zip((self.status, self.authority, self.tenant, self.source_trust), standing, strict=True):
            column.append(value)
        return row


def request(query: str = "one two three four five", request_id: str = "q1") -> Request:
    return Request(request_id, query, None, "t", NOW)


def ranking(*rows: Sequence[int]) -> Ranking:
    query = [i for i, ranked in enumerate(rows) for _ in ranked]
    chunk = [row for ranked in rows for row in ranked]
    score = [-float(place) for ranked in rows for place in range(len(ranked))]
    return Ranking.from_scores("test", len(rows), query, chunk, score)


def numbered(prefix: str, n: int = 12) -> str:
    return " ".join(f"{prefix}{i}" for i in range(n))


def three_passages() -> Table:
    table = Table()
    for name in "abc":
        table.add(name, numbered(name))
    return table


# --- budget ---------------------------------------------------------------------------------------------------------


def test_s16_budget_covers_the_whole_prompt() -> None:
    got = assemble([request()], ranking([0, 1, 2]), three_passages(), WordGenerator(window=60), 10**6, 20)
    (context,) = got.contexts
    assert [p.document_id for p in context.passages] == ["a"]
    assert context.prompt_tokens == 29
    assert context.dropped == ((1, "budget"), (2, "budget"))
    assert got.wanted.tolist() == [57]
    assert got.granted.tolist() == [29]
    assert got.curtailed.tolist() == [True]
    (cut,) = got.curtailments()
    assert cut is not None
    assert (cut.stage, cut.resource, cut.wanted, cut.granted) == ("assembly", "context_tokens", 57.0, 29.0)


@pytest.mark.parametrize(("header", "room", "expected"), [(0, 20, 2), (2, 0, 3), (2, 20, 1)])
def test_s16_what_headers_and_answer_room_change(header: int, room: int, expected: int) -> None:
    got = assemble(
        [request()], ranking([0, 1, 2]), three_passages(), WordGenerator(window=60, header=header), 999, room
    )
    assert len(got.contexts[0].passages) == expected


def test_caps_may_differ_by_query_and_the_smaller_of_cap_and_window_holds() -> None:
    requests = [request(request_id="a"), request(request_id="b")]
    got = assemble(
        requests, ranking([0, 1, 2], [2, 1, 0]), three_passages(), WordGenerator(window=500), [43, 60], [20, 20]
    )
    assert [len(c.passages) for c in got.contexts] == [2, 3]
    assert got.granted.tolist() == [43, 57]
    assert got.curtailments()[1] is None


def test_a_passage_that_does_not_fit_leaves_room_for_a_smaller_one() -> None:
    table = Table()
    table.add("big", numbered("b", 50))
    table.add("small", numbered("s", 5))
    (context,) = assemble([request()], ranking([0, 1]), table, WordGenerator(), 25, 0).contexts
    assert [p.document_id for p in context.passages] == ["small"]
    assert context.dropped == ((0, "budget"),)


def test_instructions_and_question_are_never_cut() -> None:
    got = assemble([request()], ranking([0, 1]), three_passages(), WordGenerator(), 3, 0)
    assert got.contexts[0].passages == ()
    assert got.granted.tolist() == [15]
    assert got.contexts[0].prompt_tokens == 15


def test_the_generator_has_the_last_word_on_the_size() -> None:
    class Surcharge(WordGenerator):
        """Two passages together cost more than each alone suggests."""

        def prompt_tokens(self, requests: Sequence[Request], contexts: Sequence[Sequence[Passage]]) -> IntArray:
            plain = super().prompt_tokens(requests, contexts)
            return plain + np.array([10 * (len(c) > 1) for c in contexts], dtype=np.int32)

    got = assemble([request()], ranking([0, 1, 2]), three_passages(), Surcharge(), 45, 0)
    assert [p.document_id for p in got.contexts[0].passages] == ["a"]
    assert got.contexts[0].dropped == ((2, "budget"), (1, "budget"))
    assert got.granted.tolist() == [29]


def test_every_text_is_counted_once_for_the_whole_batch() -> None:
    generator = WordGenerator()
    table = three_passages()
    requests = [request(request_id=str(i)) for i in range(20)]
    assemble(requests, ranking(*[[0, 1, 2]] * 20), table, generator, 999, 0)
    assert sorted(generator.texts_counted) == sorted(table.shown)
    assert generator.prompts_counted == 20


def test_passage_tokens_are_the_generators() -> None:
    (context,) = assemble([request()], ranking([0]), three_passages(), WordGenerator(), 999, 0).contexts
    assert context.passages[0].tokens == 12


# --- duplicates and overlaps ----------------------------------------------------------------------------------------


def test_equal_texts_are_kept_once() -> None:
    table = Table()
    for name in ("a", "copy"):
        table.add(name, "the same text")
    got = assemble([request()], ranking([1, 0]), table, WordGenerator(), 999, 0)
    assert [p.document_id for p in got.contexts[0].passages] == ["copy"]
    assert got.contexts[0].dropped == ((0, "duplicate"),)
    assert got.rows == [(1,)]


def test_overlapping_and_touching_chunks_become_one_passage_of_the_documents_own_text() -> None:
    full = numbered("w", 30)
    table = Table()
    for start, end in ((0, 40), (30, 70), (70, 90), (100, len(full))):
        table.add("d", full, start, end)
    got = assemble([request()], ranking([2, 0, 1, 3]), table, WordGenerator(), 999, 0)
    first, second = got.contexts[0].passages
    assert (first.text, first.span, first.row, first.chunk_id) == (full[0:90], (0, 90), 0, "d#0-40")
    assert (second.text, second.span, second.row) == (full[100:], (100, len(full)), 3)
    assert [first.number, second.number] == [1, 2]
    assert got.rows == [(2, 0, 1, 3)]
    assert got.contexts[0].dropped == ()


def test_a_chunk_inside_another_adds_nothing() -> None:
    full = numbered("w", 30)
    table = Table()
    table.add("d", full, 0, 80)
    table.add("d", full, 10, 40)
    got = assemble([request()], ranking([0, 1]), table, WordGenerator(), 999, 0)
    assert got.contexts[0].dropped == ((1, "contained"),)
    assert got.rows == [(0,)]


def test_a_contained_chunk_stands_in_for_one_that_does_not_fit() -> None:
    full = numbered("w", 60)
    table = Table()
    table.add("d", full)
    table.add("d", full, 0, 11)
    got = assemble([request()], ranking([0, 1]), table, WordGenerator(), 30, 0)
    assert got.rows == [(1,)]
    assert got.contexts[0].passages[0].text == full[:11]
    assert got.contexts[0].dropped == ((0, "budget"),)


def test_two_versions_of_a_document_have_offsets_of_their_own() -> None:
    table = Table()
    table.add("d", "old text of the rule", version="1")
    table.add("d", "new text of the rule", version="2")
    (context,) = assemble([request()], ranking([0, 1]), table, WordGenerator(), 999, 0).contexts
    assert [(p.source_version, p.text) for p in context.passages] == [
        ("1", "old text of the rule"),
        ("2", "new text of the rule"),
    ]


def test_no_more_rows_than_asked_for() -> None:
    got = assemble([request()], ranking([0, 1, 2]), three_passages(), WordGenerator(), 999, 0, passages=2)
    assert got.rows == [(0, 1)]
    assert got.contexts[0].dropped == ()


def test_source_order_puts_one_documents_passages_together() -> None:
    full = numbered("w", 40)
    table = Table()
    table.add("d", full, 0, 20)
    table.add("d", full, 60, 80)
    other = table.add("e", "another document")
    ranked = ranking([1, other, 0])
    by_rank = assemble([request()], ranked, table, WordGenerator(), 999, 0, order="rank").contexts[0]
    by_source = assemble([request()], ranked, table, WordGenerator(), 999, 0, order="source").contexts[0]
    assert [p.row for p in by_rank.passages] == [1, other, 0]
    assert [p.row for p in by_source.passages] == [0, 1, other]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 150), st.integers(1, 60)), min_size=1, max_size=8),
    st.integers(10, 120),
    st.sampled_from(["rank", "source"]),
)
def test_no_character_twice_and_every_passage_is_a_slice(
    pieces: list[tuple[int, int, int]], cap: int, order: str
) -> None:
    documents = [numbered("x", 50), numbered("y", 50)]
    table = Table()
    for document, start, length in pieces:
        full = documents[document]
        table.add(str(document), full, start, min(start + length, len(full)))
    rows = list(dict.fromkeys(range(len(pieces))))
    got = assemble([request()], ranking(rows), table, WordGenerator(), cap, 0, order=order)  # type: ignore[arg-type]
    context = got.contexts[0]
    assert context.prompt_tokens <= max(cap, 15)
    used: set[tuple[str, int]] = set()
    for passage in context.passages:
        assert passage.text == documents[int(passage.document_id)][slice(*passage.span)]
        characters = {(passage.document_id, i) for i in range(*passage.span)}
        assert not characters & used
        used |= characters
    for row in got.rows[0]:
        assert {(table.document_id[row], i) for i in range(table.shown_start[row], table.shown_end[row])} <= used
    dropped = [row for row, _ in context.dropped]
    assert sorted([*got.rows[0], *dropped]) == rows


# --- parents, leads and standing ------------------------------------------------------------------------------------


def test_two_children_of_one_parent_show_it_once() -> None:
    full = numbered("w", 30)
    table = Table()
    for document in ("d", "d", "e"):
        table.add(document, full if document == "d" else "another text")
    got = assemble([request()], ranking([1, 0, 2]), table, WordGenerator(), 999, 0)
    assert [p.text for p in got.contexts[0].passages] == [full, "another text"]
    assert got.contexts[0].dropped == ((0, "duplicate"),)
    assert got.rows == [(1, 2)]


def test_parents_that_overlap_become_one_passage() -> None:
    full = numbered("w", 40)
    table = Table()
    table.add("d", full, 0, 60)
    table.add("d", full, 50, 100)
    (context,) = assemble([request()], ranking([1, 0]), table, WordGenerator(), 999, 0).contexts
    assert [(p.text, p.span) for p in context.passages] == [(full[:100], (0, 100))]


def test_the_header_of_a_cut_table_is_shown_and_paid_for() -> None:
    full = "city rate\na 1\nb 2\nc 3"
    table = Table()
    table.add("d", full, 0, 13)
    table.add("d", full, 14, 17, lead="city rate")
    table.add("d", full, 18, 21, lead="city rate")
    (alone,) = assemble([request()], ranking([2]), table, WordGenerator(), 999, 0).contexts
    assert [(p.lead, p.text, p.span) for p in alone.passages] == [("city rate", "c 3", (18, 21))]
    assert alone.prompt_tokens == 10 + 5 + 2 + 2 + 2
    (apart,) = assemble([request()], ranking([2]), table, WordGenerator(), alone.prompt_tokens - 1, 0).contexts
    assert apart.passages == ()
    table.add("d", full, 13, 21, lead="city rate")
    (merged,) = assemble([request()], ranking([3, 0]), table, WordGenerator(), 999, 0).contexts
    assert [(p.lead, p.text) for p in merged.passages] == [("", full)]


def test_a_header_that_the_parent_shows_already_is_not_shown_twice() -> None:
    table = Table()
    table.add("d", "city rate\na 1\nb 2", lead="city rate")
    (context,) = assemble([request()], ranking([0]), table, WordGenerator(), 999, 0).contexts
    assert context.passages[0].lead == ""


def test_dates_and_precedence_reach_the_passage() -> None:
    day = datetime(2026, 1, 2, tzinfo=UTC)
    table = Table()
    table.add("a", "first text", published=day)
    table.add("b", "second text", standing=("retired", "article", "global", "copy"))
    table.add("c", "third text", valid=(day, NOW), standing=("active", "article", "t", "copy"))
    (context,) = assemble([request()], ranking([0, 1, 2]), table, WordGenerator(), 999, 0).contexts
    assert [(p.published_at, p.precedence, p.valid_from, p.valid_until) for p in context.passages] == [
        (day, 0, None, None),
        (None, 15, None, None),
        (None, 5, day, NOW),
    ]


def test_what_is_not_yet_in_force_is_marked_as_coming_and_stays_apart() -> None:
    later = datetime(2026, 10, 1, tzinfo=UTC)
    full = "The rate is one. The rate is two. "
    table = Table()
    table.add("d", full, 0, 17)
    table.add("d", full, 17, 34, valid=(later, None))
    requests = [request(request_id="a"), Request("b", "when", None, "t", later)]
    now, then = assemble(requests, ranking([1, 0], [0]), table, WordGenerator(), 999, 0).contexts
    assert [(p.text, p.coming, p.valid_from) for p in now.passages] == [
        ("The rate is two. ", True, later),
        ("The rate is one. ", False, None),
    ]
    assert [p.coming for p in then.passages] == [False]


def test_rows_that_overlap_have_the_narrowest_validity_of_all() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    full = numbered("w", 30)
    table = Table()
    table.add("d", full, 0, 40, valid=(early, None))
    table.add("d", full, 30, 60, valid=(late, NOW))
    (context,) = assemble([request()], ranking([0, 1]), table, WordGenerator(), 999, 0).contexts
    assert [(p.span, p.valid_from, p.valid_until) for p in context.passages] == [((0, 60), late, NOW)]


# --- whole documents ------------------------------------------------------------------------------------------------


def test_rows_go_together_over_white_space_and_over_nothing_else() -> None:
    full = "First part.\n\nSecond part. \t Third part.\u3000Fourth part."
    starts = [full.index(word) for word in ("First", "Second", "Third", "Fourth")]
    ends = [11, starts[1] + 12, starts[2] + 11, len(full)]
    table = Table()
    rows = [table.add("d", full, start, end) for start, end in zip(starts, ends, strict=True)]
    table.add("e", "another text")

    def texts_of(some: list[int], texts: dict[str, str] | None) -> list[list[str]]:
        found = whole_documents(np.array(some, dtype=np.int32), table, NOW, texts)
        return [[passage.text for passage in passages] for passages in found]

    assert texts_of([*rows, 4], {"d": full}) == [[full], ["another text"]]
    assert texts_of([0, 1, 3], {"d": full}) == [[full[: ends[1]], "Fourth part."]]
    assert texts_of([0, 2, 3], {"d": full}) == [["First part.", full[starts[2] :]]]
    assert texts_of(rows, None) == [["First part.", "Second part.", "Third part.", "Fourth part."]]
    assert texts_of(rows, {"e": "another text"}) == texts_of(rows, {}) == texts_of(rows, None)
    assert texts_of([], {"d": full}) == []
    passages = whole_documents(np.array([0, 1, 3], dtype=np.int32), table, NOW, {"d": full})[0]
    assert [(p.number, p.row, p.span) for p in passages] == [(1, 0, (0, ends[1])), (2, 3, (starts[3], ends[3]))]


def test_white_space_does_not_join_what_is_valid_at_other_times() -> None:
    later = datetime(2026, 10, 1, tzinfo=UTC)
    full = "The rate is one.\n\nThe rate is two."
    table = Table()
    table.add("d", full, 0, 16)
    table.add("d", full, 18, len(full), valid=(later, None))
    ((now, then),) = whole_documents(np.array([0, 1], dtype=np.int32), table, NOW, {"d": full})
    assert [(p.text, p.coming) for p in (now, then)] == [("The rate is one.", False), ("The rate is two.", True)]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(1, 25)), min_size=1, max_size=10),
    st.sets(st.integers(0, 9)),
    st.booleans(),
)
def test_whole_documents_hold_what_the_rows_show_and_white_space(
    pieces: list[tuple[int, int, int]], left_out: set[int], known: bool
) -> None:
    texts = {str(n): " ".join(f"{letter}{i}" for i in range(20)) + "." for n, letter in enumerate("xyz")}
    table = Table()
    for document, start, length in sorted(pieces):
        full = texts[str(document)]
        table.add(str(document), full, min(start, len(full) - 1), min(start + length, len(full)))
    rows = [row for row in range(len(pieces)) if row not in left_out]
    found = whole_documents(np.array(rows, dtype=np.int32), table, NOW, texts if known else None)
    assert [passages[0].document_id for passages in found] == sorted({table.document_id[row] for row in rows})
    shown = {(table.document_id[r], i) for r in rows for i in range(table.shown_start[r], table.shown_end[r])}
    held: list[tuple[str, int]] = []
    for passages in found:
        assert [passage.number for passage in passages] == list(range(1, len(passages) + 1))
        assert [passage.span for passage in passages] == sorted(passage.span for passage in passages)
        for passage in passages:
            assert passage.text == texts[passage.document_id][slice(*passage.span)]
            held += [(passage.document_id, i) for i in range(*passage.span)]
    assert len(held) == len(set(held))
    assert shown <= set(held)
    assert all(known and texts[name][i].isspace() for name, i in set(held) - shown)


def test_renumbered_passages_are_the_same_but_for_their_numbers() -> None:
    (context,) = assemble([request()], ranking([0, 1, 2]), three_passages(), WordGenerator(), 999, 0).contexts
    first, second, third = context.passages
    turned = renumbered([first, third, second])
    assert [p.number for p in turned] == [1, 2, 3]
    assert [replace(p, number=0) for p in turned] == [replace(p, number=0) for p in (first, third, second)]
    assert turned[0] is first


# --- edges ----------------------------------------------------------------------------------------------------------


def test_s15_braces_reach_the_context_byte_for_byte() -> None:
    text = 'Set {"retries": 3} and use ${HOME}/{user}. 100% {0} {{x}} {% raw %}'
    table = Table()
    table.add("d", text)
    (context,) = assemble(
        [request("What does {context} mean?")], ranking([0]), table, ExtractiveReader(), 999, 0
    ).contexts
    assert context.passages[0].text == text


def test_nothing_ranked_gives_an_empty_context_and_an_empty_scope_is_told_apart() -> None:
    requests = [request(request_id="a"), request(request_id="b")]
    got = assemble(requests, ranking([], []), Table(), WordGenerator(), 999, 0, empty_scope=[False, True])
    assert [c.passages for c in got.contexts] == [(), ()]
    assert got.contexts[1].dropped == (EMPTY_SCOPE,)
    assert [has_empty_scope(c) for c in got.contexts] == [False, True]
    assert not got.curtailed.any()


def test_no_requests() -> None:
    got = assemble([], Ranking.from_scores("t", 0, [], [], []), Table(), WordGenerator(), 999, 0)
    assert got.contexts == []
    assert got.wanted.shape == (0,)


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(RagLabError, match="2 queries, the batch 1 requests"):
        assemble([request()], ranking([0], [1]), three_passages(), WordGenerator(), 999, 0)
    with pytest.raises(RagLabError, match="passages must not be negative"):
        assemble([request()], ranking([0]), three_passages(), WordGenerator(), 999, 0, passages=-1)


def test_family_35_gold_rows_that_the_budget_dropped_are_on_record() -> None:
    gold = {0, 2}
    got = assemble([request()], ranking([0, 1, 2]), three_passages(), WordGenerator(), 43, 0)
    assert gold & set(got.rows[0]) == {0}
    assert [row for row, reason in got.contexts[0].dropped if reason == "budget"] == [2]
