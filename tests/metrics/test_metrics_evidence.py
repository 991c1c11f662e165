"""Coverage of gold spans, assembled recall, relevant tokens, citations: values worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.contracts import (
    Abstention,
    Answer,
    Claim,
    Context,
    Failure,
    GoldSpan,
    Passage,
    Question,
    RagLabError,
    Reason,
    Source,
    Span,
)
from rag_lab.metrics import Observation, evaluate
from rag_lab.metrics.context import assembled_recall, gold_in_context, relevant_tokens
from rag_lab.metrics.evidence import Evidence

spans = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def passage(document: str, span: Span, tokens: int = 0) -> Passage:
    return Passage(1, 0, "c", document, "1", "", "", "x" * (span[1] - span[0]), span, "en", tokens=tokens)


def context(*passages: Passage) -> Context:
    return Context("q", passages)


def answer(*sources: tuple[str, Span], upcoming: tuple[tuple[str, Span], ...] = ()) -> Answer:
    claims = [Claim("now", tuple(Source(d, "1", "c", span, "") for d, span in sources))]
    if upcoming:
        claims.append(Claim("later", tuple(Source(d, "1", "c", span, "") for d, span in upcoming), "upcoming"))
    return Answer("q", "text", tuple(claims))


def any_of(*gold: GoldSpan) -> Question:
    return Question("q", "?", gold=gold)


def all_of(*gold: GoldSpan) -> Question:
    return Question("q", "?", gold=gold, evidence="all")


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), spans), max_size=12),
    st.lists(spans, min_size=3, max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_coverage_equals_counting_characters(got: list[tuple[int, str, Span]], gold: list[Span]) -> None:
    questions = [any_of(GoldSpan("a", gold[i])) for i in range(3)]
    evidence = Evidence.of(questions)
    passages = evidence.passages([i for i, _, _ in got], evidence.code([d for _, d, _ in got]), [s for _, _, s in got])
    for i, share in enumerate(evidence.coverage(passages)):
        seen = {c for j, d, span in got if (j, d) == (i, "a") for c in range(*span)} & set(range(*gold[i]))
        assert share == pytest.approx(len(seen) / (gold[i][1] - gold[i][0]))


def test_a_span_is_there_when_passages_together_cover_it() -> None:
    evidence = Evidence.of([any_of(GoldSpan("d", (10, 30)))] * 4)
    contexts = [
        context(passage("d", (0, 20)), passage("d", (20, 40))),
        context(passage("d", (0, 20)), passage("d", (21, 40))),
        context(passage("e", (0, 40))),
        None,
    ]
    assert evidence.coverage(evidence.of_contexts(contexts)).tolist() == [1, 19 / 20, 0, 0]
    assert assembled_recall(evidence, contexts).tolist() == [1, 0, 0, 0]


def test_gold_is_in_the_context_when_all_that_is_needed_is() -> None:
    gold = (GoldSpan("a", (0, 5)), GoldSpan("b", (3, 9)))
    questions = [any_of(*gold), all_of(*gold), all_of(*gold), Question("q", "?"), all_of(*gold)]
    contexts = [
        context(passage("a", (0, 5))),
        context(passage("a", (0, 5)), passage("b", (3, 8))),
        context(passage("b", (0, 6)), passage("a", (0, 9)), passage("b", (6, 9))),
        context(passage("a", (0, 5))),
        None,
    ]
    assert gold_in_context(Evidence.of(questions), contexts).tolist() == [1, 0, 1, 0, 0]
    assert assembled_recall(Evidence.of(questions), contexts)[1] == 0.5
    found = evaluate(["GoldInContext"], Observation(questions, contexts=contexts))["GoldInContext"]
    assert found.value == 0.5
    assert found.eligible.tolist() == [True, True, True, False, True]
    assert found.missing.tolist() == [False, False, False, False, True]


def test_white_space_between_chunks_need_not_be_covered() -> None:
    text = "One fact.\n\n\u3000Another fact."
    question = any_of(GoldSpan("d", (0, len(text))))
    contexts = [context(passage("d", (0, 9)), passage("d", (12, len(text))))]
    assert assembled_recall(Evidence.of([question], {"d": text}), contexts).tolist() == [1]
    assert assembled_recall(Evidence.of([question]), contexts).tolist() == [0]
    holed = [context(passage("d", (0, 8)), passage("d", (12, len(text))))]
    assert assembled_recall(Evidence.of([question], {"d": text}), holed).tolist() == [0]


def test_a_variant_without_any_passage_covers_nothing() -> None:
    evidence = Evidence.of([any_of(GoldSpan("d", (0, 3)))], {"d": "one two"})
    assert evidence.coverage(evidence.of_contexts([context()])).tolist() == [0]
    assert evidence.coverage(evidence.of_sources([()])).tolist() == [0]


def test_any_and_all_pieces() -> None:
    gold = (GoldSpan("a", (0, 5)), GoldSpan("b"), GoldSpan("a", (0, 5)))
    held = [context(passage("b", (3, 4)))]
    assert assembled_recall(Evidence.of([any_of(*gold)]), held).tolist() == [1]
    assert assembled_recall(Evidence.of([all_of(*gold)]), held).tolist() == [0.5]


def test_chunk_size_does_not_decide() -> None:
    """The same 40 characters as one passage and as eight."""
    evidence = Evidence.of([any_of(GoldSpan("d", (10, 30)))] * 2)
    pieces = [passage("d", (i, i + 5), tokens=1) for i in range(0, 40, 5)]
    contexts = [context(passage("d", (0, 40), tokens=8)), context(*pieces)]
    assert assembled_recall(evidence, contexts).tolist() == [1, 1]
    assert relevant_tokens(evidence, contexts).tolist() == [0.5, 0.5]


def test_relevant_tokens_by_hand() -> None:
    """10 tokens half in gold, 30 tokens of another document: 5 / 40. A gold document is relevant as a whole."""
    questions = [any_of(GoldSpan("d", (0, 10)), GoldSpan("d", (5, 10))), any_of(GoldSpan("w")), any_of(GoldSpan("w"))]
    contexts = [
        context(passage("d", (0, 20), 10), passage("x", (0, 60), 30)),
        context(passage("w", (0, 5), 5), passage("x", (0, 15), 15)),
        context(),
    ]
    assert relevant_tokens(Evidence.of(questions), contexts).tolist() == pytest.approx([5 / 40, 5 / 20, 0])


def test_relevant_tokens_without_token_counts_go_by_characters() -> None:
    contexts = [context(passage("w", (0, 5)), passage("x", (0, 15), 99))]
    assert relevant_tokens(Evidence.of([any_of(GoldSpan("w"))]), contexts).tolist() == [0.25]


@pytest.mark.parametrize("span", [(5, 5), (6, 5), (-1, 5), (0, 99)])
def test_gold_span_outside_of_its_text(span: Span) -> None:
    with pytest.raises(
        RagLabError, match=r"question 'q': gold span .* of document 'd' is empty or outside of its text"
    ):
        Evidence.of([any_of(GoldSpan("d", span))], {"d": "ten chars."})


def test_gold_span_of_white_space() -> None:
    with pytest.raises(RagLabError, match="is white space"):
        Evidence.of([any_of(GoldSpan("d", (3, 4)))], {"d": "ten chars."})


def test_context_scores_of_all_questions() -> None:
    """Without gold, and unanswerable: not about them. No context: missing, and 0."""
    questions = [
        any_of(GoldSpan("d")),
        any_of(GoldSpan("d")),
        any_of(),
        Question("q", "?", answerable=False, gold=(GoldSpan("d"),)),
    ]
    contexts = [context(passage("d", (0, 4))), None, context(), context()]
    found = evaluate(["AssembledRecall", "RelevantTokens"], Observation(questions, contexts=contexts))
    assert found["AssembledRecall"].value == 0.5
    assert found["AssembledRecall"].missing.tolist() == [False, True, False, False]
    assert found["RelevantTokens"].eligible.tolist() == [True, True, False, False]


def test_citations_by_hand() -> None:
    """Gold a[0:10] and b, both needed. Four answers, an abstention that cites, a failure."""
    gold = (GoldSpan("a", (0, 10)), GoldSpan("b"))
    outcomes = [
        answer(("a", (8, 20)), ("a", (10, 20)), ("b", (0, 1)), ("c", (0, 1))),
        answer(("a", (0, 3)), ("a", (0, 3))),
        answer(),
        answer(("a", (0, 3)), upcoming=(("b", (0, 5)), ("x", (0, 5)))),
        Abstention("q", Reason.INSUFFICIENT, sources=(Source("a", "1", "c", (0, 3), ""),)),
        Failure("q", "generate", "boom"),
    ]
    found = evaluate(["CitationPrecision", "CitationRecall"], Observation([all_of(*gold)] * 6, outcomes=outcomes))
    assert found["CitationPrecision"].values.tolist() == [0.5, 1, 0, 1, 0, 0]
    assert found["CitationRecall"].values.tolist() == [1, 0.5, 0, 1, 0, 0]
    assert found["CitationRecall"].missing.tolist() == [False] * 5 + [True]
    assert found["CitationRecall"].notes == (
        "1 answers cite nothing and score 0",
        "1 abstentions score 0",
        "1 failures score 0",
    )


def test_one_cited_piece_is_enough_for_any() -> None:
    found = evaluate(
        ["CitationRecall"], Observation([any_of(GoldSpan("a"), GoldSpan("b"))], outcomes=[answer(("b", (0, 1)))])
    )
    assert found["CitationRecall"].value == 1


def test_no_evidence_at_all() -> None:
    evidence = Evidence.of([any_of()])
    assert not evidence.has.any()
    assert assembled_recall(evidence, [context(passage("d", (0, 4)))]).tolist() == [0]
    assert np.array_equal(relevant_tokens(evidence, [context(passage("d", (0, 4)))]), [0])
