"""What holds for every chunker: offsets, coverage, sizes, versions, and errors that name the field."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
from cutting import CHARACTERS, WORDS, check, pieces, texts
from hypothesis import given
from hypothesis import strategies as st

from rag_lab.contracts import Document, RagLabError
from rag_lab.corpus.chunking import (
    CHUNKERS,
    Blocks,
    Chunker,
    ParentChild,
    Recursive,
    Semantic,
    Whole,
    Window,
    load_chunker,
    settings_of,
)

SMALL: list[Chunker] = [
    Whole(),
    Window(8, 3),
    Recursive(8, 3),
    Blocks(8),
    Semantic(8, 2),
    ParentChild(8, 20),
    ParentChild(8, 20, "window"),
]
WITHIN = [chunker for chunker in SMALL if not isinstance(chunker, Whole)]


def by_version(chunker: Chunker) -> str:
    return chunker.version


@pytest.mark.parametrize("text", ["No. No. No. Yes. No. No.", "😀 ok.\r\n\r\nok. ok."])
@pytest.mark.parametrize("encoder", [WORDS, CHARACTERS], ids=["words", "characters"])
@pytest.mark.parametrize("chunker", SMALL, ids=by_version)
def test_s06_offsets_hold_when_text_repeats(chunker: Chunker, text: str, encoder) -> None:
    check(text, pieces(chunker, text, encoder))


def test_s06_offsets_count_code_points() -> None:
    text = "😀 ok.\r\n\r\nok. ok."
    assert len(text) == 16
    for chunker in (Blocks(8), Recursive(10)):
        assert texts(chunker, text, CHARACTERS) == ["😀 ok.", "ok. ok."]
        assert pieces(chunker, text, CHARACTERS)[1].span == (9, 16)


@pytest.mark.parametrize("chunker", [Window(200), Recursive(200), Blocks(200), Semantic(200)], ids=by_version)
def test_s08_text_without_spaces_is_cut(chunker: Chunker) -> None:
    found = texts(chunker, "学" * 3000, CHARACTERS)
    assert len(found) == 15
    assert max(map(len, found)) == 200
    assert "".join(found) == "学" * 3000


@pytest.mark.parametrize("chunker", [Recursive(8), Blocks(8), Semantic(8, 1, threshold=1)], ids=by_version)
def test_s08_chinese_sentences_end_at_their_marks(chunker: Chunker) -> None:
    assert texts(chunker, "今天开会。明天放假！后天上班？", CHARACTERS) == ["今天开会。", "明天放假！", "后天上班？"]


@pytest.mark.parametrize("chunker", [Window(30, 29), Recursive(30, 29)], ids=by_version)
def test_s08_large_overlap_advances(chunker: Chunker) -> None:
    found = pieces(chunker, "ok\n" * 40, CHARACTERS)
    check("ok\n" * 40, found)
    assert len(found) <= 120


@pytest.mark.parametrize("name", ["window", "recursive"])
def test_s08_an_overlap_that_cannot_advance_is_refused(name: str) -> None:
    with pytest.raises(RagLabError, match=r"snapshot\.chunker\.overlap: size 30 and overlap 30 cannot advance"):
        load_chunker(name, size=30, overlap=30)


@given(st.integers(0, 200), st.integers(1, 40), st.integers(0, 39))
def test_number_of_windows_equals_the_formula(tokens: int, size: int, overlap: int) -> None:
    if overlap >= size:
        return
    found = pieces(Window(size, overlap), "x" * tokens, CHARACTERS)
    expected = 0 if tokens == 0 else max(1, math.ceil((tokens - overlap) / (size - overlap)))
    assert len(found) == expected
    assert all(piece.span[1] - piece.span[0] <= size for piece in found)


@given(st.text(alphabet=st.sampled_from("ab 。.\n#|`->学\r\t\f：:"), max_size=120), st.sampled_from(SMALL))
def test_nothing_is_lost_and_no_piece_is_over_its_size(text: str, chunker: Chunker) -> None:
    for encoder in (WORDS, CHARACTERS):
        found = pieces(chunker, text, encoder)
        check(text, found)
        if chunker in WITHIN:
            assert all(len(encoder.token_spans(text[slice(*piece.span)])) <= 8 for piece in found)
        for piece in found:
            shown = piece.shown or piece.span
            assert shown[0] <= piece.span[0] and piece.span[1] <= shown[1]  # noqa: PT018 - one fact


@pytest.mark.parametrize("chunker", SMALL, ids=by_version)
def test_a_document_is_cut_the_same_in_any_company(chunker: Chunker) -> None:
    batch = [Document("d", "a one. b two. a three. b four. c five."), Document("e", ""), Document("f", "b six.\n\na.")]
    together = chunker.cut(batch, WORDS)
    assert together == [chunker.cut([document], WORDS)[0] for document in batch]
    assert together[1] == []


@pytest.mark.parametrize("chunker", SMALL, ids=by_version)
def test_an_empty_document_has_no_chunk_and_one_word_has_one(chunker: Chunker) -> None:
    assert pieces(chunker, " \n\t ") == []
    assert [text.strip() for text in texts(chunker, " word\n")] == ["word"]


@pytest.mark.parametrize("chunker", WITHIN, ids=by_version)
def test_without_an_encoder_there_are_no_tokens_to_count(chunker: Chunker) -> None:
    with pytest.raises(RagLabError, match=r"counts tokens and needs snapshot\.encoder"):
        chunker.cut([Document("d", "text")], None)


OTHER = {"size": 77, "overlap": 5, "least": 3, "window": 5, "percentile": 9.0, "threshold": 0.5, "parent_size": 999}


@pytest.mark.parametrize("name", CHUNKERS)
def test_the_version_changes_with_every_setting(name: str) -> None:
    plain = load_chunker(name)
    versions = {plain.version}
    for setting in fields(plain):
        value = "window" if setting.name == "parent" else OTHER[setting.name]
        versions.add(replace(plain, **{setting.name: value}).version)
    assert len(versions) == 1 + len(fields(plain))


@pytest.mark.parametrize("chunker", SMALL, ids=by_version)
def test_settings_make_the_same_chunker_again(chunker: Chunker) -> None:
    assert load_chunker(**settings_of(chunker)) == chunker


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"name": "sentences"},
            r"snapshot\.chunker\.name: 'sentences' is unknown; use one of whole, window, recursive",
        ),
        ({"name": ["whole"]}, r"snapshot\.chunker\.name: \['whole'\] is unknown"),
        (
            {"name": "whole", "size": 3},
            r"snapshot\.chunker\.size: unknown field of chunker 'whole'; it has no settings",
        ),
        (
            {"name": "window", "sise": 3},
            r"snapshot\.chunker\.sise: unknown field of chunker 'window'; use size or over",
        ),
        ({"name": "blocks", "size": 7}, r"snapshot\.chunker\.size: input should be greater than or equal to 8 \(fou"),
        ({"name": "semantic", "size": 50, "least": 30}, r"snapshot\.chunker\.least: at least 30 and at most 50 tokens"),
        ({"name": "semantic", "percentile": 101}, r"snapshot\.chunker\.percentile: .*100"),
        ({"name": "parent_child", "parent_size": 50}, r"snapshot\.chunker\.parent_size: parents of 50 .* of 60"),
        ({"name": "parent_child", "parent": "page"}, r"snapshot\.chunker\.parent: .*'section' or 'window'"),
    ],
)
def test_errors_name_the_field(settings: dict, said: str) -> None:
    with pytest.raises(RagLabError, match=said):
        load_chunker(**settings)
